"""How many replicas should share attention: the same steps in pools of every size, as `advise --pool-size` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise import _core
from equipoise.arguments import integer
from equipoise.comparison import from_core
from equipoise.inputs import PlanInputs
from equipoise.sampler import StepSampler


@dataclass(frozen=True)
class PoolMeasures:
    """Steps planned with pools of one size. What is of a step is the mean of the steps."""

    pool: int
    leaves_node: bool  # some pool has ranks in several nodes
    steps: int  # measured
    tokens: int  # trained in them
    imbalance_ppm: int  # attention that pools wait for over their mean
    variation_ppm: int  # standard deviation over mean of the attention work of a step's sequences
    chance_ppm: int  # the imbalance to expect if nothing placed the sequences: 1 + CV sqrt(2 ln(pools) / sequences)
    mean_sent_bytes: int  # by a rank in a step, forward
    max_sent_bytes: int  # by any rank in any step
    held_bytes: int  # the most received rows that any rank holds at once, forward
    exchange_ns: int  # exposed exchange of the slowest pool
    step_ns: int  # predicted time of a step on the whole mesh
    token_ps: int  # predicted time of a trained token, picoseconds


@dataclass(frozen=True)
class PoolAdvice:
    sizes: list[PoolMeasures]  # every divisor of dp, rising
    chosen: PoolMeasures  # the smallest that is at most 1 % slower: its exchange stays in a smaller domain
    fastest: PoolMeasures


def advise_pool(  # noqa: PLR0913 - what the command's flags say
    lengths: Sequence[int] | np.ndarray,
    inputs: PlanInputs,
    steps: int = 8,
    *,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
) -> PoolAdvice:
    """The size of pools to take for these documents: PlanInputs(pool=advice.chosen.pool).

    lengths: tokens of each document, by id; at most `steps` steps of them are planned. inputs: of strategy libra or
    equipoise; their own pool does not matter. Errors: ValueError for wrong arguments, for a strategy that shares no
    attention, where there is no step to plan, and as plan_step.
    """
    if not isinstance(inputs, PlanInputs):
        raise ValueError(f"inputs {inputs!r} are no PlanInputs, field inputs: give equipoise.PlanInputs")
    if integer("steps", steps) < 1:
        raise ValueError(f"steps {steps} is too small, field steps: give at least 1")
    measured = []
    for size in _core.pool_sizes(inputs.mesh.dp):
        sampler = StepSampler(lengths, replace(inputs, pool=size), shuffle=shuffle, seed=seed, epoch=epoch)
        measured.append(_core.measure_pool(sampler.core, sampler.corpus, steps))
    if measured[0].steps == 0:
        raise ValueError("there is no step to plan, field lengths: give at least one document")
    chosen, fastest = _core.choose_pool(measured)
    sizes = [from_core(PoolMeasures, one) for one in measured]
    return PoolAdvice(sizes, sizes[chosen], sizes[fastest])
