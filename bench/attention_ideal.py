"""How close pooled attention comes to the ideal, on two ranks of this machine with one thread each.

Protocol: fp32, 8 query and 4 KV heads of 64. Rank 0 holds one document of 8192 tokens and rank 1 64 documents of 128;
the same with 16384 tokens a rank; and two ranks with equal documents, where pooling has nothing to win. A sample is one
forward and backward of one layer, started together on both ranks; the slower one counts. `ideal` is half the time that
the ranks take when each, at the same time, runs the stock kernels of the whole bucket and exchanges nothing.
All are measured in turn, in one run; the first turn is not counted, medians are printed.

Usage: attention_ideal.py [--hardware NAME|FILE] [--turns N]. Without --hardware this machine is measured first.
"""

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import equipoise as eq

GIANT = [8192] + [128] * 64
INSTANCES = {
    "giant of 8192": GIANT,
    "giant of 16384": [16384] + [128] * 128,
    "level, 8192 a rank": ([4096] + [1024] * 4) * 2,
}
QUERY, KV, SIZE = 8, 4, 64
STRATEGIES = ["plain", "libra", "equipoise"]


def plan(strategy, hardware, rank, lengths=GIANT):
    """The micro-step of this rank."""
    model = eq.ModelShape("bench", 1, QUERY * SIZE, QUERY, KV, SIZE, 4 * QUERY * SIZE, 1, 256)
    mesh, window = eq.Mesh(dp=2), sum(lengths) // 2
    inputs = eq.PlanInputs(mesh=mesh, pool=2, window=window, model=model, hardware=hardware, strategy=strategy)
    sampler = eq.StepSampler(lengths, inputs, replica=rank, cp_rank=0, shuffle=False)
    return next(iter(sampler)).micro_steps[0]


def pooled(attention, rows, exchange):
    """A function that runs one forward and backward of a planned micro-step of so many rows."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(rows, heads, SIZE, requires_grad=True) for heads in (QUERY, KV, KV))
    grad_out = torch.randn(rows, QUERY, SIZE)
    return lambda: torch.autograd.grad(attention(q, k, v, exchange), (q, k, v), grad_out)


def kernels(lengths):
    """A function that calls the stock kernels, forward and backward, for every document."""
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    torch.manual_seed(0)
    documents = [
        [torch.randn(length, heads, SIZE).transpose(0, 1).unsqueeze(0) for heads in (QUERY, KV, KV, QUERY)]
        for length in lengths
    ]

    def run():
        for q, k, v, grad_out in documents:
            out, lse = forward(q, k, v, 0.0, True)
            backward(grad_out, q, k, v, out, lse, 0.0, True)

    return run


def slowest_ms(run):
    """Milliseconds of one run on the slower rank, both started together."""
    dist.barrier()
    begin = time.perf_counter()
    run()
    taken = torch.tensor(1000 * (time.perf_counter() - begin))
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return float(taken)


def measure(rank, folder, options, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=rank, world_size=2)
    attention = eq.PooledAttention(eq.pool_groups(eq.Mesh(dp=2), pool=2))
    found = {name: measure_instance(rank, attention, lengths, options) for name, lengths in INSTANCES.items()}
    if rank == 0:
        results.put(found)
    dist.barrier()
    dist.destroy_process_group()


def measure_instance(rank, attention, lengths, options):
    """Milliseconds of each turn, by name."""
    micros = {name: plan(name, options.hardware, rank, lengths) for name in STRATEGIES}
    runs = {name: pooled(attention, micro.rows, micro.exchange(mask=0)) for name, micro in micros.items()}
    runs["ideal"] = kernels(lengths)
    samples = {name: [] for name in runs}
    for turn in range(options.turns + 1):
        for name, run in runs.items():
            taken = slowest_ms(run) / (2 if name == "ideal" else 1)
            if turn > 0:
                samples[name].append(taken)
    return samples


def show(found, _hardware):
    print(f"{'':<20}{'':<12}{'median ms':>10}{'of ideal':>10}{'of plain':>10}")
    for instance, samples in found.items():
        medians = {name: statistics.median(values) for name, values in samples.items()}
        for name in ("ideal", *STRATEGIES):
            ratios = medians[name] / medians["ideal"], medians[name] / medians["plain"]
            print(f"{instance:<20}{name:<12}{medians[name]:>10.0f}{ratios[0]:>10.3f}{ratios[1]:>10.3f}")
    print("targets: of ideal 1.08 with the giant of 8192, 1.05 with that of 16384; of plain 1.03 where ranks are level")


def run_on_two_ranks(description, turns, measure, show):
    """Reads the flags, has two processes measure, and shows what rank 0 found. Without --hardware the machine is
    measured first. measure(rank, folder, options, results); show(samples, hardware), hardware by name or file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", help="name or file of the cost description that plans use")
    parser.add_argument("--turns", type=int, default=turns, help="counted turns")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        if options.hardware is None:
            options.hardware = f"{folder}/this-machine.json"
            subprocess.run([sys.executable, "-m", "equipoise.calibrate", "--out", options.hardware], check=True)
        arguments = (folder, options, results)
        ranks = [context.Process(target=measure, args=(rank, *arguments), daemon=True) for rank in range(2)]
        for process in ranks:
            process.start()
        show(results.get(), options.hardware)
        for process in ranks:
            process.join()


if __name__ == "__main__":
    run_on_two_ranks(__doc__, 5, measure, show)
