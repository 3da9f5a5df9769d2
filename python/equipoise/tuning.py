"""Outlier queues for strategy wlb, found on a sample of a user's own lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise import _core
from equipoise.arguments import integer
from equipoise.inputs import PlanInputs
from equipoise.sampler import StepSampler

MOST_QUEUES = 4


@dataclass(frozen=True)
class QueueTrial:
    """Thresholds that were tried, and what wlb makes of the sample with them."""

    queues: tuple[int, ...]  # tokens, rising
    weighted_imbalance_ppm: int  # sum of the heaviest sequences over the sum of means: the time really lost
    mean_delay_ppm: int  # of a token, in millionths of a step


@dataclass(frozen=True)
class TunedQueues:
    """The best trial, and all that nothing tried beats in both delay and imbalance.

    best: within the wanted delay, and of the least delay that costs at most 1/1000 of time. Where nothing waits as
    little as wanted, meets_goal is False and best is what waits least.
    """

    best: QueueTrial
    meets_goal: bool
    frontier: tuple[QueueTrial, ...]  # by rising delay
    steps: int  # measured in each trial
    trials: int


def tune_queues(  # noqa: PLR0913 - what the command's flags say
    lengths: Sequence[int] | np.ndarray,
    inputs: PlanInputs,
    mean_delay: float = 0.5,
    most_queues: int = 3,
    *,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
) -> TunedQueues:
    """Thresholds that level steps best at a mean delay of at most `mean_delay` steps: PlanInputs(queues=best.queues).

    lengths: tokens of each document, by id; the sample is the first steps, 100 of up to 16 sequences or 20 of many, and
    the first fifth of them only fills the queues. inputs: of strategy wlb; their own queues do not matter.
    Errors: ValueError for wrong arguments, and as plan_step.
    """
    if not isinstance(inputs, PlanInputs) or inputs.strategy != "wlb":
        raise ValueError(f"inputs {inputs!r} have no queues, field inputs: give PlanInputs of strategy wlb")
    if not isinstance(mean_delay, (int, float)) or not 0 <= mean_delay <= 1e6:
        raise ValueError(f"mean delay {mean_delay!r} is out of range, field mean_delay: give steps from 0 to 1000000")
    if not 1 <= integer("most_queues", most_queues) <= MOST_QUEUES:
        raise ValueError(f"{most_queues} queues, field most_queues: give a number from 1 to {MOST_QUEUES}")
    sampler = StepSampler(lengths, inputs, shuffle=shuffle, seed=seed, epoch=epoch)
    found = _core.tune_queues(sampler.core, sampler.corpus, round(mean_delay * 1e6), most_queues)
    return TunedQueues(
        trial(found.best), found.meets_goal, tuple(trial(one) for one in found.frontier), found.steps, found.trials
    )


def trial(core: _core.QueueTrial) -> QueueTrial:
    return QueueTrial(tuple(core.queue_tokens), core.weighted_imbalance_ppm, core.mean_delay_ppm)
