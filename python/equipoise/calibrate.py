"""Measures this machine and writes a hardware file: `python -m equipoise.calibrate --out FILE`, less than a minute.

Two processes of one thread each measure at the same time, as two ranks train: they share memory bandwidth, and the
numbers should know it. Times become integers, so that every rank plans from the same table; fitted is what a plan
reads.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from equipoise import ModelShape
from equipoise.allocator import keep_freed_memory
from equipoise.model import Block, rotary_table

RANKS = 2
TILE = 64  # query rows and keys of a tile: fine enough to follow the kernel's own blocks, which depend on the length
HEAD_SIZE = 64
HEADS, KV_HEADS = 2, 1
LENGTHS = (16, 32, 64, 128, 191, 192, 256, 384, 512, 767, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
ROWS = (64, 256, 1024, 4096, 8192)
SHOWN = (128, 512, 2048, 8192)
KILOBYTES = (4, 64, 512, 2048, 8192)
SHAPE = ModelShape(
    name="calibration", layers=1, hidden=256, query_heads=4, kv_heads=2, head_size=HEAD_SIZE, ffn=512, vocabulary=256
)
BUDGET_NS = 250_000_000  # for the repetitions of one measurement
PPM = 1_000_000

# (forward, backward) in nanoseconds
Pass = tuple[float, float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m equipoise.calibrate", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("this-machine.json"), help="hardware file to write")
    parser.add_argument("--longest", type=int, default=8192, metavar="TOKENS", help="longest document to measure")
    arguments = parser.parse_args()
    out, longest = arguments.out, arguments.longest
    if longest < LENGTHS[1]:
        print(f"equipoise: error: {longest} tokens are too few, --longest: give {LENGTHS[1]} or more", file=sys.stderr)
        return 2
    began = time.monotonic()
    hardware = fit(measure_together(longest))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(hardware) + "\n")
    except OSError as error:
        print(f"equipoise: error: {error.strerror}, {out}: give a file that can be written", file=sys.stderr)
        return 2
    print(describe(hardware))
    print(f"{out} written in {time.monotonic() - began:.0f} s")
    return 0


def measure_together(longest: int) -> dict[str, Any]:
    """Starts the processes and returns what the first has gathered from all."""
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/meeting"
        torch.multiprocessing.spawn(measure, args=(meeting, queue, longest), nprocs=RANKS)
    return queue.get()


def measure(rank: int, meeting: str, queue: Any, longest: int) -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", meeting, timedelta(minutes=2), RANKS, rank)
    result = {
        "attention": [(length, time_attention(length)) for length in up_to(longest, LENGTHS)],
        "linear": [(rows, time_linear(rows)) for rows in up_to(longest, ROWS)],
        "link": [(size, time_exchange(size << 10)) for size in KILOBYTES],
    }
    if rank == 0:
        queue.put(result)
    dist.destroy_process_group()


def up_to(longest: int, sizes: tuple[int, ...]) -> list[int]:
    """Those of the sizes that are no longer, twice the last as often as it fits, and at least the first."""
    chosen = [size for size in sizes if size <= longest] or [sizes[0]]
    while chosen[-1] >= sizes[-1] and 2 * chosen[-1] <= longest:
        chosen.append(2 * chosen[-1])
    return chosen


def time_attention(length: int) -> Pass:
    """One causal document, tensors as the operator has them: [rows, heads, D] seen as [1, heads, rows, D]."""
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    q, k, v, grad = (
        torch.randn(length, n, HEAD_SIZE).transpose(0, 1)[None] for n in (HEADS, KV_HEADS, KV_HEADS, HEADS)
    )
    out, lse = forward(q, k, v, 0.0, True)
    forward_ns = time_together(lambda: forward(q, k, v, 0.0, True))
    return forward_ns, time_together(lambda: backward(grad, q, k, v, out, lse, 0.0, True))


def time_linear(rows: int) -> Pass:
    """A layer of the model with its attention left out."""
    block = Block(SHAPE, lambda q, k, v, _: q)
    x = torch.randn(rows, SHAPE.hidden, requires_grad=True)
    rotary = rotary_table(torch.arange(rows), HEAD_SIZE, x.dtype)
    forward_ns = time_together(lambda: block(x, rotary, None))
    both_ns = time_together(lambda: block(x, rotary, None).backward(x))
    return forward_ns, both_ns - forward_ns


def time_exchange(size_bytes: int) -> float:
    """Each process sends that much to the other. The fastest counts: the clock of the wall sees other programs too."""
    sent = torch.zeros(size_bytes, dtype=torch.uint8)
    received = torch.empty_like(sent)
    split = [0] * RANKS
    split[1 - dist.get_rank()] = size_bytes
    return time_together(lambda: dist.all_to_all_single(received, sent, split, split), time.perf_counter_ns, choose=min)


def time_together(
    work: Callable[[], Any],
    clock: Callable[[], int] = time.thread_time_ns,
    choose: Callable[[list[float]], float] = statistics.median,
) -> float:
    """Nanoseconds of one call, the mean of both processes. Repetitions start on both at once.

    Arithmetic is timed by what its thread ran, so that a third program on the machine does not pass for a slow kernel.
    """
    work()
    samples: list[float] = []
    more = torch.ones(1)
    while more.item():
        dist.barrier()
        begin = clock()
        work()
        samples.append(float(clock() - begin))
        more = torch.tensor([float(len(samples) < 3 or (sum(samples) < BUDGET_NS and len(samples) < 40))])
        dist.all_reduce(more, dist.ReduceOp.MIN)
    chosen = torch.tensor([choose(samples)], dtype=torch.float64)
    dist.all_reduce(chosen)
    return chosen.item() / RANKS


def fit(measured: dict[str, Any]) -> dict[str, Any]:
    """Measured nanoseconds -> the hardware description, integers only."""
    return {
        "format": "equipoise.hardware",
        "version": 1,
        "name": "this-machine",
        "reference_head_size": HEAD_SIZE,
        "element_bytes": 4,
        "attention": fit_attention(measured["attention"]),
        **fit_linear(measured["linear"]),
        "node": fit_link(measured["link"]),
        "network": fit_link(measured["link"]),  # one machine has no other link
    }


def fit_attention(times: list[tuple[int, Pass]]) -> dict[str, Any]:
    """What the shortest document takes beyond its share of the next is the price of a call; the rest is tiles."""
    (_, (first, _)), (_, (second, _)) = times[0], times[1]
    entry_ns = max(0, round(2 * first - second))
    tile_ps = [[n, round(1000 * max(1.0, forward - entry_ns) / (HEADS * tiles(n)))] for n, (forward, _) in times]
    return {
        "tile_rows": TILE,
        "tile_keys": TILE,
        "call_ns": 0,
        "entry_ns": entry_ns,
        "block_ps": 0,
        "tile_ps": tile_ps,
        "kilobyte_ps": 0,
        "backward_ppm": [[keys, round(PPM * backward / forward)] for keys, (forward, backward) in times],
    }


def tiles(length: int) -> int:
    """Tiles of one head of a causal document, partly used ones whole."""
    blocks = -(-length // TILE)
    return blocks * (blocks + 1) // 2


def fit_linear(times: list[tuple[int, Pass]]) -> dict[str, Any]:
    weights = sum(weight.numel() for weight in Block(SHAPE, lambda *_: None).parameters() if weight.dim() == 2)
    forward_ns, backward_ns = times[-1][1]
    return {
        "linear_mflops": [[rows, max(1, round(2 * weights * rows / forward))] for rows, (forward, _) in times],
        "linear_backward_ppm": round(PPM * backward_ns / forward_ns),
    }


def fit_link(times: list[tuple[int, float]]) -> dict[str, int]:
    """The line through the shortest and the longest exchange."""
    (small, small_ns), (large, large_ns) = times[0], times[-1]
    kilobyte_ns = max(0.0, (large_ns - small_ns) / (large - small))
    return {"latency_ns": round(max(0.0, small_ns - small * kilobyte_ns)), "kilobyte_ps": round(1000 * kilobyte_ns)}


def describe(hardware: dict[str, Any]) -> str:
    tile_flops = 4 * HEAD_SIZE * TILE * TILE
    attention = {keys: 1000 * tile_flops / ps for keys, ps in hardware["attention"]["tile_ps"]}
    linear = dict(hardware["linear_mflops"])
    link = hardware["node"]
    return "\n".join(
        [
            "attention  "
            + ", ".join(f"{attention[keys]:.0f} GFLOP/s at {keys} tokens" for keys in SHOWN if keys in attention),
            f"linear     {max(linear.values())} GFLOP/s",
            f"link       {1024e3 / max(1, link['kilobyte_ps']):.1f} GB/s, {link['latency_ns'] // 1000} us",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
