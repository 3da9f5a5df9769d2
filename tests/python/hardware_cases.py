"""A hardware file for tests of training."""

import json
from pathlib import Path

# A machine on which moving attention always pays.
HARDWARE = {
    "format": "equipoise.hardware",
    "version": 1,
    "name": "test",
    "reference_head_size": 8,
    "element_bytes": 4,
    "attention": {
        "tile_rows": 16,
        "tile_keys": 16,
        "call_ns": 0,
        "entry_ns": 1000,
        "block_ps": 0,
        "tile_ps": [[0, 100_000_000]],
        "kilobyte_ps": 0,
        "backward_ppm": [[0, 2_500_000]],
    },
    "linear_mflops": [[0, 100]],
    "linear_backward_ppm": 2_000_000,
    "node": {"latency_ns": 1, "kilobyte_ps": 1},
    "network": {"latency_ns": 1, "kilobyte_ps": 1},
}


def write_hardware(path: Path) -> None:
    path.write_text(json.dumps(HARDWARE))
