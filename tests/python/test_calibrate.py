"""Times that a known machine would take give that machine back, and the real ones give a file that plans can use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.calibrate import HEADS, fit_attention, fit_link, tiles, up_to

ENTRY_NS, TILE_NS = 20_000, 11_000


def test_tiles_are_counted_whole() -> None:
    assert [tiles(length) for length in (1, 64, 65, 128, 1024)] == [1, 1, 3, 3, 136]


def test_attention_of_one_rate_gives_one_rate() -> None:
    times = [(length, (ENTRY_NS + HEADS * tiles(length) * TILE_NS, 7.0)) for length in (64, 256, 8192)]
    times.insert(
        0, (1, (ENTRY_NS + HEADS * TILE_NS / 2, 7.0))
    )  # half of the next: all of it beyond the price of a call
    fitted = fit_attention(times)
    assert fitted["entry_ns"] == pytest.approx(ENTRY_NS, rel=1e-6)
    assert [rate for _, rate in fitted["tile_ps"][1:]] == pytest.approx([1000 * TILE_NS] * 3, rel=1e-6)


def test_a_link_is_the_line_through_its_ends() -> None:
    assert fit_link([(4, 100_000 + 4 * 900), (8192, 100_000 + 8192 * 900)]) == {
        "latency_ns": 100_000,
        "kilobyte_ps": 900_000,
    }


def test_noise_gives_no_negative_prices() -> None:
    assert fit_link([(4, 500.0), (8192, 400.0)]) == {"latency_ns": 500, "kilobyte_ps": 0}
    assert fit_attention([(16, (5.0, 5.0)), (32, (50.0, 5.0))])["entry_ns"] == 0


def test_a_measured_hardware_file_predicts_and_is_integers_throughout(tmp_path: Path) -> None:
    path = tmp_path / "hardware" / "this-machine.json"
    command = [sys.executable, "-m", "equipoise.calibrate", "--out", str(path), "--longest", "1024"]
    subprocess.run(command, check=True, timeout=240, capture_output=True)
    hardware = json.loads(path.read_text())
    assert not any(isinstance(value, float) for value in flatten(hardware))
    shape = eq.ModelShape(
        name="tiny", layers=1, hidden=256, query_heads=4, kv_heads=2, head_size=64, ffn=512, vocabulary=256
    )
    inputs = eq.PlanInputs(mesh=eq.Mesh(), window=1024, model=shape, hardware=str(path), strategy="plain")
    [load] = next(iter(eq.StepSampler([1024], inputs, replica=0, cp_rank=0))).micro_steps[0].loads(mask=0)
    forward_ns, backward_ns = load["attention_ns"]
    measured = dict(hardware["attention"]["tile_ps"])[1024] * 4 * tiles(1024) / 1000
    assert forward_ns == pytest.approx(measured, rel=0.02)
    assert 1.2 * forward_ns < backward_ns < 6 * forward_ns


def test_sizes_end_at_the_longest_and_double_beyond_the_last() -> None:
    assert up_to(64, (16, 32, 128)) == [16, 32]
    assert up_to(600, (16, 32, 128)) == [16, 32, 128, 256, 512]
    assert up_to(8, (16, 32)) == [16]


def flatten(value) -> list:
    if isinstance(value, dict):
        return [leaf for child in value.values() for leaf in flatten(child)]
    if isinstance(value, list):
        return [leaf for child in value for leaf in flatten(child)]
    return [value]
