"""What each sharding makes of the same packed sequences, measured on two context ranks of this machine.

Protocol: fp32, 8 query and 4 KV heads of 64, four sequences of drawn documents for each window. A sample is one forward
and backward of one layer for each sequence, exchange included, started together on both ranks; the slower one counts.
`ideal` is half the time of the stock kernels of all documents whole, without an exchange, run by both ranks at once.
All are measured in turn, in one run; the first turn is not counted, medians are compared. `predicted` is the same ratio
from the cost description that the plans use: slowest kernel and slowest exchange, over half the kernels of whole
documents.

Usage: sharding_measured.py [--hardware NAME|FILE] [--turns N]. Without --hardware this machine is measured first.
"""

import math
import random
import statistics

import torch
import torch.distributed as dist

import equipoise as eq
from attention_ideal import KV, QUERY, SIZE, kernels, pooled, run_on_two_ranks, slowest_ms

WINDOWS = (4096, 8192)
SEQUENCES = 4
WAYS = {"sequence_zigzag": "plain", "document_zigzag": "allgather", "adaptive": "wlb"}  # strategies that shard so
RANKS = 2


def draw_sequences(window):
    """Documents of each sequence, heavy-tailed, that fill the window."""
    source = random.Random(window)
    sequences = []
    for _ in range(SEQUENCES):
        lengths = []
        while (room := window - sum(lengths)) > 0:
            lengths.append(min(room, max(1, int(source.lognormvariate(math.log(window / 16), 1.2)))))
        sequences.append(lengths)
    return sequences


def plan(lengths, strategy, hardware, cp, rank):
    """The micro-step of a rank for one sequence of these documents."""
    model = eq.ModelShape("bench", 1, QUERY * SIZE, QUERY, KV, SIZE, 4 * QUERY * SIZE, 1, 256)
    inputs = eq.PlanInputs(mesh=eq.Mesh(cp=cp), window=sum(lengths), model=model, hardware=hardware, strategy=strategy)
    [step] = eq.StepSampler(lengths, inputs, cp_rank=rank, shuffle=False)
    [micro] = step.micro_steps
    return micro


def slowest_ns(micro, part):
    return max(sum(load[part]) for load in micro.loads(mask=0))


def predicted_ratio(sequences, strategy, hardware):
    micros = [plan(lengths, strategy, hardware, RANKS, 0) for lengths in sequences]
    whole = [plan(lengths, "plain", hardware, 1, 0) for lengths in sequences]
    taken = sum(slowest_ns(micro, "attention_ns") + slowest_ns(micro, "exchange_ns") for micro in micros)
    return taken * RANKS / sum(slowest_ns(micro, "attention_ns") for micro in whole)


def measure_window(attention, window, options, rank):
    """Milliseconds of all sequences by turn, of each way and of the ideal."""
    sequences = draw_sequences(window)
    runs = {"ideal": [kernels(lengths) for lengths in sequences]}
    for way, strategy in WAYS.items():
        micros = [plan(lengths, strategy, options.hardware, RANKS, rank) for lengths in sequences]
        runs[way] = [pooled(attention, micro.rows, micro.exchange(mask=0)) for micro in micros]
    samples = {name: [] for name in runs}
    for turn in range(options.turns + 1):
        for name, each in runs.items():
            taken = sum(slowest_ms(run) for run in each) / (RANKS if name == "ideal" else 1)
            if turn > 0:
                samples[name].append(taken)
    return samples


def measure(rank, folder, options, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", RANKS), rank=rank, world_size=RANKS)
    attention = eq.PooledAttention(eq.pool_groups(eq.Mesh(cp=RANKS), pool=1))
    samples = {window: measure_window(attention, window, options, rank) for window in WINDOWS}
    if rank == 0:
        results.put(samples)
    dist.barrier()
    dist.destroy_process_group()


def show(by_window, hardware):
    print(f"{'window':>7}  {'sharding':<16}{'median ms':>10}{'of ideal':>10}{'predicted':>11}")
    for window, samples in by_window.items():
        medians = {name: statistics.median(values) for name, values in samples.items()}
        print(f"{window:>7}  {'ideal':<16}{medians['ideal']:>10.1f}{1:>10.3f}{1:>11.3f}")
        for way, strategy in WAYS.items():
            predicted = predicted_ratio(draw_sequences(window), strategy, hardware)
            measured = medians[way] / medians["ideal"]
            print(f"{window:>7}  {way:<16}{medians[way]:>10.1f}{measured:>10.3f}{predicted:>11.3f}")


if __name__ == "__main__":
    run_on_two_ranks(__doc__, 9, measure, show)
