"""Training under plain and under each other strategy, step by step in turn on two ranks of this machine.

Two corpora: the trainer's own (sources of the standard library), and one in which every step holds a giant document:
7168 tokens beside documents of 128. Prints for each strategy what `--demo` measured: time of a token over plain's
in all steps, measured and predicted; that of attention; medians of the imbalance of attention and of a step, before and
after; losses.

Predicted are the layers only: a step also gathers weights, reduces gradients, and runs the optimizer.

Usage: training.py [--hardware NAME|FILE] [--steps N]. Without --hardware this machine is measured first.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import equipoise as eq
from equipoise.corpus import standard_library
from equipoise.summary import summarise

RANKS, WINDOW = 2, 8192
GIANT, SHORT = 7168, 128
STRATEGIES = {
    "libra": ["--strategy", "libra"],
    "equipoise": ["--strategy", "equipoise"],
    "wlb": ["--strategy", "wlb", "--queues", "2048,4096", "--max-tokens", "12288"],
    # The sources hold documents of dozens of windows, which no short delay can train whole.
    "equipoise, delay 2": [
        *("--strategy", "equipoise", "--max-delay", "2", "--max-tokens", "12288", "--overlong", "truncate")
    ],
}


def write_giants(folder: Path, steps: int) -> None:
    """Files of which every step that packs in order takes one giant first, then short ones, and is full."""
    lengths = ([GIANT] + [SHORT] * ((RANKS * WINDOW - GIANT) // SHORT)) * steps
    text = standard_library().text
    width = len(str(len(lengths)))
    begins = [0]
    for length in lengths:
        begins.append(begins[-1] + length)
    for document, (begin, end) in zip(arrival_order(len(lengths)), pairwise(begins), strict=True):
        (folder / f"{document:0{width}}.txt").write_bytes(text[begin:end].tobytes())


def arrival_order(documents: int) -> list[int]:
    """In which order the trainer's first epoch reads that many documents, with its default seed."""
    shape = eq.ModelShape("order", 1, 64, 1, 1, 64, 64, 1, 256)
    inputs = eq.PlanInputs(mesh=eq.Mesh(dp=1), window=documents, model=shape, strategy="plain")
    step = next(iter(eq.StepSampler([1] * documents, inputs, shuffle=True, seed=0)))
    return step.segments[:, 0].tolist()


def train(out: Path, flags: list[str]) -> dict:
    """The record of one comparison with plain."""
    here = ["--local-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", *here, "--nproc-per-node", str(RANKS)]
    trainer = ["-m", "equipoise.train", "--demo", "--window", str(WINDOW), "--out", str(out), *flags]
    alone = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*torchrun, *trainer], env=alone, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return json.loads((out / "record.json").read_text())


def show(corpus: str, strategy: str, record: dict) -> None:
    summary = summarise(record)
    plain, other = summary["plain"], summary["balanced"]
    losses = (
        f"differ by {summary['loss_difference']:.1e}"
        if record["same_segments"]
        else f"mean {plain['mean_loss']:.4f} -> {other['mean_loss']:.4f}"
    )
    ms = f"{1e3 * plain['step_s']:.0f} -> {1e3 * other['step_s']:.0f}"
    print(
        f"{corpus:<9}{strategy:<20}{summary['step_ratio']:>8.3f}{summary['predicted_ratio']:>10.3f}"
        f"{summary['attention_ratio']:>11.3f}"
        f"{plain['measured_imbalance']:>8.2f} -> {other['measured_imbalance']:.2f}{ms:>16}  {losses}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", help="name or file of the cost description that plans use")
    parser.add_argument("--steps", type=int, default=33, help="of each comparison, the first 3 not counted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.hardware is None:
            options.hardware = str(folder / "this-machine.json")
            subprocess.run([sys.executable, "-m", "equipoise.calibrate", "--out", options.hardware], check=True)
        (folder / "giants").mkdir()
        write_giants(folder / "giants", options.steps + 2)  # strategies that hold documents begin with fewer
        columns = f"{'step':>8}{'predicted':>10}{'attention':>11}{'imbalance':>16}{'step, ms':>16}"
        print(f"{'corpus':<9}{'strategy':<20}{columns}  losses")
        for corpus, source in (("default", []), ("giants", ["--corpus", str(folder / "giants")])):
            for strategy, flags in STRATEGIES.items():
                common = ["--hardware", options.hardware, "--steps", str(options.steps)]
                show(corpus, strategy, train(folder / "out", [*flags, *source, *common]))


if __name__ == "__main__":
    main()
