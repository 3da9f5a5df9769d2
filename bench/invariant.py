"""What invariant gradient sums cost, on two ranks with one thread each.

Protocol: 8192 tokens a rank, as in attention_ideal.py: one document against 64, and level ranks; `libra` with fast and
with invariant sums in float32 and bfloat16, in turn and in one run. A sample is one forward and backward of one layer,
started together on both ranks, the slower one counts. The first turn is not counted, medians are printed. Bytes are
what both ranks send in a forward and a backward.

Usage: invariant.py [--hardware NAME|FILE] [--turns N]. Without --hardware this machine is measured first.
"""

import statistics

import torch
import torch.distributed as dist

import equipoise as eq
from attention_ideal import INSTANCES, KV, QUERY, SIZE, run_on_two_ranks, slowest_ms

NAMES = ("giant of 8192", "level, 8192 a rank")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SUMS = ("fast", "invariant")
WORD_BYTES = 8


def plan(lengths, sums, dtype, options, rank):
    """The micro-step of this rank."""
    model = eq.ModelShape("bench", 1, QUERY * SIZE, QUERY, KV, SIZE, 4 * QUERY * SIZE, 1, 256)
    inputs = eq.PlanInputs(
        mesh=eq.Mesh(dp=2),
        window=sum(lengths) // 2,
        model=model,
        hardware=options.hardware,
        strategy="libra",
        gradient_sum=sums,
        element_bytes=dtype.itemsize,
    )
    return next(iter(eq.StepSampler(lengths, inputs, replica=rank, cp_rank=0, shuffle=False))).micro_steps[0]


def attention_run(attention, micro, dtype):
    """A function that runs one forward and backward of a micro-step."""
    torch.manual_seed(0)
    qkv = [torch.randn(micro.rows, heads, SIZE).to(dtype).requires_grad_() for heads in (QUERY, KV, KV)]
    grad_out, exchange = torch.randn(micro.rows, QUERY, SIZE).to(dtype), micro.exchange(mask=0)
    return lambda: torch.autograd.grad(attention(*qkv, exchange), qkv, grad_out)


def sent_bytes(micro, sums, dtype):
    """By both ranks in both passes: tiles lie on a rank that has none of their keys, which are a prefix."""
    queries, keys = 0, {}
    for _, replica, segment, begin, length, head, heads, member, _ in micro.drawing()["tiles"]:
        queries += length * heads
        for kv_head in range(head * KV // QUERY, ((head + heads) * KV - 1) // QUERY + 1):
            place = (replica, segment, kv_head, member)
            keys[place] = max(keys.get(place, 0), begin + length)
    number, statistic = SIZE * dtype.itemsize, 4
    gradient = number if sums == "fast" else WORD_BYTES * (2 * SIZE + -(-SIZE // 8))
    forward = queries * (2 * number + statistic) + sum(keys.values()) * 2 * number
    return forward + queries * (4 * number + statistic) + sum(keys.values()) * 2 * (number + gradient)


def measure(rank, folder, options, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=rank, world_size=2)
    attention = eq.PooledAttention(eq.pool_groups(eq.Mesh(dp=2), pool=2))
    found = {}
    for name in NAMES:
        lengths = INSTANCES[name]
        for type_name, dtype in DTYPES.items():
            plans = {sums: plan(lengths, sums, dtype, options, rank) for sums in SUMS}
            runs = {sums: attention_run(attention, micro, dtype) for sums, micro in plans.items()}
            samples = {sums: [] for sums in SUMS}
            for turn in range(options.turns + 1):
                for sums, run in runs.items():
                    taken = slowest_ms(run)
                    if turn > 0:
                        samples[sums].append(taken)
            sent = {sums: sent_bytes(micro, sums, dtype) for sums, micro in plans.items()}
            found[name, type_name] = {sums: (statistics.median(samples[sums]), sent[sums]) for sums in SUMS}
    if rank == 0:
        results.put(found)
    dist.barrier()
    dist.destroy_process_group()


def show(found, _hardware):
    print(f"{'':<34}{'fast ms':>10}{'invariant':>10}{'price':>8}{'fast MB':>10}{'invariant':>10}{'price':>8}")
    for (name, type_name), both in found.items():
        (fast_ms, fast_bytes), (ms, sent) = both["fast"], both["invariant"]
        times = f"{fast_ms:>10.0f}{ms:>10.0f}{ms / fast_ms:>8.2f}"
        megabytes = f"{fast_bytes / 1e6:>10.1f}{sent / 1e6:>10.1f}{sent / max(1, fast_bytes):>8.2f}"
        print(f"{name:<24}{type_name:<10}{times}{megabytes}")


if __name__ == "__main__":
    run_on_two_ranks(__doc__, 5, measure, show)
