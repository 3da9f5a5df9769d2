"""Runs a function on N ranks: processes on this machine, one thread each, forked from a server that has already
imported torch, so that starting them costs little.
"""

import multiprocessing
import pickle
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["pytest", "torch.distributed.fsdp", "equipoise.attention", "equipoise.groups"])


def run_ranks(world, function, *arguments, timeout=120, dying=(), backend="gloo"):
    """function(*arguments) on each of `world` ranks; returns their results by rank.

    function must be importable by name, arguments and results must pickle. A rank that raises fails the test with its
    traceback; one in `dying` is not waited for and its result is None. No process outlives the call. With the backend
    nccl each rank has the GPU of its number.
    """
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(world):
            ours, theirs = _context.Pipe(duplex=False)
            place = (rank, world, folder, timeout, not dying, backend)
            process = _context.Process(target=_rank, args=(theirs, place, function, arguments), daemon=True)
            process.start()
            theirs.close()
            started.append((process, ours))
        try:
            living = {rank: pipe for rank, (_, pipe) in enumerate(started) if rank not in dying}
            results = {rank: _result(rank, pipe, deadline) for rank, pipe in living.items()}
            return [results.get(rank) for rank in range(world)]
        finally:
            for process, _ in started:
                process.kill()
                process.join()


def _result(rank, pipe, deadline):
    if not pipe.poll(max(0.0, deadline - time.monotonic())):
        raise TimeoutError(f"rank {rank} has not ended in time: a collective hangs, or the machine is overloaded")
    try:
        outcome, value = pickle.loads(pipe.recv_bytes())
    except EOFError:
        raise RuntimeError(f"rank {rank} ended without a result") from None
    if outcome == "error":
        raise AssertionError(f"on rank {rank}:\n{value}")
    return value


def _rank(pipe, place, function, arguments):
    rank, world, folder, timeout, all_live, backend = place
    torch.set_num_threads(1)
    try:
        if backend == "nccl":
            torch.cuda.set_device(rank)
        store = dist.FileStore(str(Path(folder) / "store"), world)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout))
        result = ("value", function(*arguments))
        if all_live:
            dist.barrier()  # or a rank that is done would cut the connections of one that is not
    except Exception:
        result = ("error", traceback.format_exc())
    pipe.send_bytes(pickle.dumps(result))
    pipe.close()
