"""A plan, tensors for it, and its attention run by the ranks of a pool or densely: shared by tests of the operator."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import torch.distributed as dist

import equipoise as eq
from dense import dense_attention, visible, with_gradients

EAGER = str(Path(__file__).with_name("eager_hardware.json"))  # where moving the smallest tile pays
NAMES = ("out", "dq", "dk", "dv")


@dataclass(frozen=True)
class Case:
    """One optimizer step to plan, and the tensors to run it with."""

    lengths: tuple[int, ...]
    strategy: str = "plain"
    dp: int = 1
    cp: int = 1
    pool: int | None = None
    heads: tuple[int, int, int] = (4, 2, 16)  # query, kv, size
    masks: tuple[tuple[str, int], ...] = (("causal", 0),)
    window: int | None = None  # None: what the lengths need
    options: dict = field(default_factory=dict)  # further fields of PlanInputs
    dtype: torch.dtype = torch.float64
    seed: int = 0

    def inputs(self):
        query, kv, size = self.heads
        model = eq.ModelShape("tiny", len(self.masks), query * size, query, kv, size, 4 * query * size, 1, 256)
        slots = self.dp * self.options.get("micro_steps", 1)
        window = self.window or max(1, self.cp, -(-sum(self.lengths) // slots))
        return eq.PlanInputs(
            mesh=eq.Mesh(dp=self.dp, cp=self.cp),
            pool=self.pool_size,
            window=window,
            model=model,
            strategy=self.strategy,
            masks=[eq.Mask(kind, width, 1) for kind, width in self.masks],
            **({"hardware": EAGER} | self.options),
        )

    @property
    def pool_size(self):
        return self.pool or max(size for size in range(1, 9) if self.dp % size == 0)

    def micro_steps(self, replica, cp_rank):
        sampler = eq.StepSampler(list(self.lengths), self.inputs(), replica=replica, cp_rank=cp_rank, shuffle=False)
        return next(iter(sampler)).micro_steps


def plan(case):
    """The micro-steps of all ranks: [dp * cp][micro_steps]."""
    return [case.micro_steps(replica, cp_rank) for replica in range(case.dp) for cp_rank in range(case.cp)]


def make_tensors(case, micro, rank):
    """q, k, v, grad_out of a rank's rows. Padding rows are NaN: they must reach nobody."""
    query, kv, size = case.heads
    generator = torch.Generator().manual_seed(1000 * case.seed + rank)
    padding = torch.from_numpy(micro.documents) < 0
    tensors = []
    for heads in (query, kv, kv, query):
        tensor = torch.randn(micro.rows, heads, size, generator=generator, dtype=torch.float64)
        tensors.append(tensor.masked_fill(padding[:, None, None], torch.nan).to(case.dtype))
    return tensors


def run_case(case):
    """On a rank: [micro_steps][masks] of (out, dq, dk, dv)."""
    groups = eq.pool_groups(eq.Mesh(dp=case.dp, cp=case.cp), case.pool_size)
    attention = eq.PooledAttention(groups, replica=groups.replica, cp_rank=groups.cp_rank)
    results = []
    for index, micro in enumerate(case.micro_steps(groups.replica, groups.cp_rank)):
        tensors = make_tensors(replace(case, seed=case.seed + index), micro, dist.get_rank())
        exchanges = [micro.exchange(mask=mask) for mask in range(len(case.masks))]
        results.append(
            [with_gradients(lambda q, k, v, e=exchange: attention(q, k, v, e), *tensors) for exchange in exchanges]
        )
    return results


def run_cases(cases):
    return [run_case(case) for case in cases]


def seen_by(micros, mask, window):
    """[T, T] over the rows of all given ranks of a micro-step, in rank order: same segment, and visible by position."""
    documents, tokens, positions = (
        torch.cat([torch.from_numpy(getattr(micro, name)) for micro in micros])
        for name in ("documents", "tokens", "positions")
    )
    begins = tokens - positions
    same = (documents[:, None] == documents) & (begins[:, None] == begins) & (documents >= 0)
    return same & visible(mask, window, positions, positions)


def dense_results(tensors, seen):
    """(out, dq, dk, dv) of q, k, v, grad_out."""
    return with_gradients(lambda q, k, v: dense_attention(q, k, v, seen)[0], *tensors)


def dense_case(case):
    """The exact results, as run_case gives them on each rank, from the same tensors: [rank][micro_step][mask]."""
    ranks = plan(case)
    results = [[] for _ in ranks]
    for index in range(len(ranks[0])):
        micros = [micro_steps[index] for micro_steps in ranks]
        shaped = replace(case, seed=case.seed + index)
        parts = [make_tensors(shaped, micro, rank) for rank, micro in enumerate(micros)]
        tensors = [torch.cat(part).double().nan_to_num() for part in zip(*parts, strict=True)]
        by_mask = [dense_results(tensors, seen_by(micros, *mask)) for mask in case.masks]
        splits = [[tensor.split([micro.rows for micro in micros]) for tensor in four] for four in by_mask]
        for rank, result in enumerate(results):
            result.append([tuple(tensor[rank] for tensor in four) for four in splits])
    return results
