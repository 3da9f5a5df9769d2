"""Ranks that plan alone must have the same plan, or they hang or train wrong in silence.

Before the first step, and with each step, ranks compare 64-bit hashes on a CPU group. Every rank sees all hashes, so
where they differ every rank goes on to exchange what differs and raises the same error: none is left waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from equipoise.sampler import Step, StepSampler


def check(sampler: StepSampler, group: dist.ProcessGroup | None = None) -> None:
    """Compares all inputs, documents and the start. Every rank of the group must call it; alone it does nothing.

    group: of CPU tensors, e.g. dist.new_group(backend="gloo"); None: all ranks. Raises ValueError, the same on every
    rank, naming the first input that differs and both values.
    """
    if len(set(gather([sampler.hash], group))) > 1:
        explain(gather_objects(sampler.fields, group))


def check_step(sampler: StepSampler, step: Step, group: dist.ProcessGroup | None = None) -> None:
    """Compares one step's plan, and within each pool its buckets. As check()."""
    plans = gather([step.step, step.hash, step.pool_index, step.pool_hash], group)
    if len({plan[:2] for plan in plans}) == 1 and len({plan[2:] for plan in plans}) == len({plan[2] for plan in plans}):
        return
    explain(gather_objects(sampler.fields, group))
    for rank, plan in enumerate(plans):
        others = [other for other, theirs in enumerate(plans) if differ(plan, theirs)]
        if others:
            raise ValueError(
                f"ranks {rank} and {others[0]} have different plans from equal inputs, step {plan[0]} and step "
                f"{plans[others[0]][0]}: run the same build of equipoise on all ranks"
            )


def differ(plan: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return plan[:2] != other[:2] or (plan[2] == other[2] and plan[3] != other[3])


def explain(by_rank: list[list[tuple[str, str]]]) -> None:
    """Raises for the first field that differs from rank 0's; returns where none does."""
    for index, (name, value) in enumerate(by_rank[0]):
        for rank, fields in enumerate(by_rank):
            if fields[index : index + 1] != [(name, value)]:
                theirs = dict(fields).get(name, "not given")
                raise ValueError(
                    f"{name} is {value} on rank 0 and {theirs} on rank {rank}, field {name}: "
                    "start all ranks with the same arguments"
                )


def gather(words: list[int], group: dist.ProcessGroup | None) -> list[tuple[int, ...]]:
    """Unsigned 64-bit words of all ranks, by rank."""
    if not dist.is_initialized():
        return [tuple(words)]
    if "gloo" not in dist.get_backend_config(group) and "mpi" not in dist.get_backend_config(group):
        raise ValueError(
            f"the group has no CPU backend ({dist.get_backend_config(group)}), equipoise.agreement: "
            'give group=dist.new_group(backend="gloo"), made once on all ranks'
        )
    own = torch.tensor([signed(word) for word in words])
    all_words = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(all_words, own, group)
    return [tuple(row.tolist()) for row in all_words]


def gather_objects(value: Any, group: dist.ProcessGroup | None) -> list[Any]:
    if not dist.is_initialized():
        return [value]
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group)
    return values


def signed(word: int) -> int:
    """The 64 bits of a word as torch holds them."""
    return word - 2**64 if word >= 2**63 else word
