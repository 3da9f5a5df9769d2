"""Inputs and lengths that the tests of the sampler share."""

import hashlib
from collections.abc import Iterator
from itertools import islice

import numpy as np

import equipoise as eq

TINY = eq.ModelShape("tiny", layers=3, hidden=64, query_heads=8, kv_heads=2, head_size=16, ffn=128, vocabulary=100)
LENGTHS = [min(1500, int(n)) for n in np.random.default_rng(1).pareto(0.9, 300) * 30 + 1] + [0, 5000]
MANY_LENGTHS = [min(600, int(n)) for n in np.random.default_rng(4).pareto(1.1, 2200) * 30 + 1]

# Strategies that hold documents, each with a long queue.
WAITING = {
    "wlb": {"strategy": "wlb", "queues": [60, 100], "max_tokens": 192},
    "fixed": {"strategy": "fixed", "repack_window": 4},
    "equipoise": {"strategy": "equipoise", "max_delay": 4, "max_tokens": 192},
}


def inputs_for(**changes) -> eq.PlanInputs:
    sound = {"mesh": eq.Mesh(dp=4, cp=2), "pool": 2, "window": 512, "micro_steps": 2, "model": TINY}
    return eq.PlanInputs(**(sound | changes))


def waiting_sampler(name: str, state: dict | None = None) -> eq.StepSampler:
    """Of one rank, over documents of which many are as long as the window or longer."""
    return eq.StepSampler(
        MANY_LENGTHS, inputs_for(window=128, **WAITING[name]), replica=3, cp_rank=1, seed=7, state=state
    )


def ranks_of(inputs: eq.PlanInputs, **arguments) -> list[list]:
    """All steps of all ranks of dp x cp."""
    places = [(replica, cp_rank) for replica in range(inputs.mesh.dp) for cp_rank in range(inputs.mesh.cp)]
    return [list(eq.StepSampler(LENGTHS, inputs, replica=r, cp_rank=c, **arguments)) for r, c in places]


def as_bytes(step) -> bytes:
    """Everything of a step that a rank reads."""
    parts = [step.hash, step.pool_hash, step.loss_tokens, step.state_after, step.segments.tobytes()]
    parts += [step.delays.tobytes()]
    for micro in step.micro_steps:
        rows = (micro.documents, micro.tokens, micro.positions, micro.label_tokens, micro.cu_seqlens)
        parts += [[array.tobytes() for array in rows], micro.items, micro.exchange().program.tobytes(), micro.loads()]
    return repr(parts).encode()


class ManyDocuments:
    """Token t of document d is d + t."""

    def __len__(self) -> int:
        return len(MANY_LENGTHS)

    def __getitem__(self, document: int) -> np.ndarray:
        return document + np.arange(MANY_LENGTHS[document])


def loaded_hashes(sampler: eq.StepSampler, workers: int, steps: int) -> Iterator[str]:
    """A hash of all that a DataLoader gives of each step: the plan and its rows."""
    from torch.utils.data import DataLoader

    loader = DataLoader(eq.PackedDataset(ManyDocuments()), batch_sampler=sampler, num_workers=workers)
    for batch in islice(loader, steps):
        content = hashlib.sha256(as_bytes(batch.plan))
        for rows in (rows for micro in batch.micro_batches for rows in micro):
            content.update(rows.numpy().tobytes())
        yield content.hexdigest()
