"""What rounds hide of the exchange, on two ranks of this machine with one thread each.

The first bucket of attention_ideal.py: rank 0 holds one document of 8192 tokens, rank 1 has 64 of 128. `rounds` runs
the plan as it is: work at home is computed while the first rows travel. `one after another` runs the same plan with all
work in its last round, so that nothing is computed while rows travel. Exposed is the time that a rank's own thread
spends packing, starting and waiting for exchanges, forward and backward, most of both ranks; from the operator's spans
in torch.profiler. Both in turn, in one run; the first turn is not counted, medians are printed.

Usage: overlap.py [--hardware NAME|FILE] [--turns N]. Without --hardware this machine is measured first. The last turn
of `rounds`, both ranks in one trace, is written to build/overlap-trace.json for ui.perfetto.dev.
"""

import json
import statistics
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

import equipoise as eq
from attention_ideal import plan, pooled, run_on_two_ranks, slowest_ms

TRACE = Path("build/overlap-trace.json")
HEADER, ROUND_FLAGS = 19, 3
OWN_KEYS, LISTS = 6, (6, 3, 6, 6, 12)  # words of an item; send and receive queries, send and receive keys, entries


def take_list(words, at, size):
    """The words of a list with its length in front, and where the next thing begins."""
    end = at + 1 + size * int(words[at])
    return words[at + 1 : end], end


def all_work_last(program):
    """A rank program whose entries are all in its last round."""
    _, at = take_list(program, HEADER, OWN_KEYS)
    head, rounds = program[: at + 1].tolist(), int(program[at])
    at, entries, before = at + 1, [], []
    for _ in range(rounds):
        flags, at = program[at : at + ROUND_FLAGS].tolist(), at + ROUND_FLAGS
        lists = []
        for size in LISTS:
            items, at = take_list(program, at, size)
            lists.append((len(items) // size, items.tolist()))
        entries.append(lists.pop())
        before.append(flags + [word for count, items in lists for word in (count, *items)])
    count, work = sum(count for count, _ in entries), [word for _, items in entries for word in items]
    for part in before[:-1]:
        head += [*part, 0]
    return torch.tensor([*head, *before[-1], count, *work])


def run_profiled(run, path):
    """Milliseconds of the slower rank, and the most that a rank's operator spent on exchanges; writes this rank's
    trace."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        taken = slowest_ms(run)
    profiler.export_chrome_trace(str(path))
    spans = [event for event in json.loads(path.read_text())["traceEvents"] if is_span(event)]
    exposed = sum(span["dur"] for span in spans if "compute" not in span["name"]) / 1000
    most = torch.tensor(exposed)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return taken, float(most)


def is_span(event):
    return event.get("ph") == "X" and event["name"].startswith("equipoise::") and " round " in event["name"]


def measure(rank, folder, options, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", 2), rank=rank, world_size=2)
    attention = eq.PooledAttention(eq.pool_groups(eq.Mesh(dp=2), pool=2))
    micro = plan("equipoise", options.hardware, rank)
    program = torch.from_numpy(micro.exchange(mask=0).program)
    runs = {
        "rounds": pooled(attention, micro.rows, program),
        "one after another": pooled(attention, micro.rows, all_work_last(program)),
    }
    samples = {name: [] for name in runs}
    for turn in range(options.turns + 1):
        for name, run in runs.items():
            path = Path(folder) / f"{name.replace(' ', '-')}-{rank}.json"
            sample = run_profiled(run, path)
            if turn > 0:
                samples[name].append(sample)
    dist.barrier()  # both traces are written
    if rank == 0:
        merge_traces(folder)
        results.put(samples)
    dist.destroy_process_group()


def merge_traces(folder):
    """The last turn's spans of both ranks, one process each."""
    events = []
    for rank in range(2):
        trace = json.loads((Path(folder) / f"rounds-{rank}.json").read_text())
        events.append({"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}})
        since_us = trace.get("baseTimeNanoseconds", 0) / 1000
        for event in trace["traceEvents"]:
            if is_span(event) or (event.get("ph") == "X" and "flash_attention" in event["name"]):
                events.append(event | {"pid": rank, "tid": 0, "ts": event["ts"] + since_us})
    TRACE.parent.mkdir(exist_ok=True)
    TRACE.write_text(json.dumps({"traceEvents": events}))


def show(samples, _hardware):
    print(f"{'':<20}{'median ms':>10}{'exposed ms':>12}")
    for name, values in samples.items():
        taken, exposed = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"{name:<20}{taken:>10.1f}{exposed:>12.1f}")
    print(f"trace of the last turn: {TRACE}")


if __name__ == "__main__":
    run_on_two_ranks(__doc__, 5, measure, show)
