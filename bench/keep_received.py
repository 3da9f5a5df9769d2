"""What keeping received rows saves in the backward, and what memory it takes, on two ranks with one thread each.

Protocol: as attention_ideal.py, `libra` with and without keep_received, in turn and in one run; forward and backward
are timed apart, both ranks started together, the slower one counts. The first turn is not counted, medians are printed.
Memory is that of the fuller rank in one layer: buffers of a pass, and what a forward keeps for its backward.

Usage: keep_received.py [--hardware NAME|FILE] [--turns N]. Without --hardware this machine is measured first.
"""

import statistics

import torch
import torch.distributed as dist

import equipoise as eq
from attention_ideal import GIANT, KV, QUERY, SIZE, run_on_two_ranks, slowest_ms


def plan(keep, hardware, rank):
    """The exchange of this rank's only micro-step."""
    model = eq.ModelShape("bench", 1, QUERY * SIZE, QUERY, KV, SIZE, 4 * QUERY * SIZE, 1, 256)
    inputs = eq.PlanInputs(
        mesh=eq.Mesh(dp=2), window=8192, model=model, hardware=hardware, strategy="libra", keep_received=keep
    )
    return next(iter(eq.StepSampler(GIANT, inputs, replica=rank, cp_rank=0, shuffle=False))).micro_steps[0]


def passes(attention, micro):
    """Functions that run a forward, and the backward of the last one."""
    torch.manual_seed(0)
    qkv = [torch.randn(micro.rows, heads, SIZE, requires_grad=True) for heads in (QUERY, KV, KV)]
    grad_out, out = torch.randn(micro.rows, QUERY, SIZE), []

    def forward():
        out[:] = [attention(*qkv, micro.exchange(mask=0))]

    return {"forward": forward, "backward": lambda: torch.autograd.grad(out[0], qkv, grad_out)}


def measure(rank, folder, options, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=rank, world_size=2)
    attention = eq.PooledAttention(eq.pool_groups(eq.Mesh(dp=2), pool=2))
    micros = {keep: plan(keep, options.hardware, rank) for keep in (False, True)}
    runs = {keep: passes(attention, micro) for keep, micro in micros.items()}
    samples = {(keep, name): [] for keep in runs for name in runs[keep]}
    for turn in range(options.turns + 1):
        for keep, name in samples:
            taken = slowest_ms(runs[keep][name])
            if turn > 0:
                samples[keep, name].append(taken)
    memory = torch.tensor([[m.exchange().buffer_bytes, m.exchange().kept_bytes] for m in micros.values()])
    dist.all_reduce(memory, dist.ReduceOp.MAX)
    if rank == 0:
        results.put((samples, memory.tolist()))
    dist.barrier()
    dist.destroy_process_group()


def show(found, _hardware):
    samples, memory = found
    print(f"{'':<14}{'forward ms':>11}{'backward ms':>12}{'buffers MB':>11}{'kept MB':>9}")
    for keep, sizes in zip((False, True), memory, strict=True):
        times = [statistics.median(samples[keep, name]) for name in ("forward", "backward")]
        print(
            f"{'kept' if keep else 'sent again':<14}{times[0]:>11.0f}{times[1]:>12.0f}"
            f"{sizes[0] / 1e6:>11.1f}{sizes[1] / 1e6:>9.1f}"
        )
    again, kept = (statistics.median(samples[keep, "backward"]) for keep in (False, True))
    print(f"the backward takes {kept / again:.3f}x where received rows are kept")


if __name__ == "__main__":
    run_on_two_ranks(__doc__, 5, measure, show)
