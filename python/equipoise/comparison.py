"""The same documents under several strategies: what each is predicted to cost, and how long tokens wait for it.

Times and bytes are predictions of the cost model; only planning is measured, on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from equipoise import _core
from equipoise.arguments import integer, items
from equipoise.inputs import PlanInputs
from equipoise.sampler import StepSampler


@dataclass(frozen=True)
class StepMeasures:
    """One planned step. The time of a sequence is that of its segments through the whole model on one rank."""

    step: int
    ending: bool  # no document is left to arrive: it packs what remained
    documents: int  # that arrived
    sequences: int
    heaviest_ns: int  # time of the heaviest sequence
    total_ns: int  # time of all sequences
    bound_ns: int  # no packing of these segments has a lighter heaviest sequence
    tokens: int  # trained
    delays: list[tuple[int, int]]  # (steps since their arrival, tokens), by rising steps
    held_tokens: int  # that wait after the step
    held_steps: int  # the least delay that is left to the oldest of them
    truncated_tokens: int
    dropped_tokens: int
    step_ns: int  # predicted time on the whole mesh
    mean_sent_bytes: int  # by a rank, forward
    max_sent_bytes: int


@dataclass(frozen=True)
class RunMeasures:
    """Steps of one strategy together. Those that end the corpus are counted apart, unless there are no others."""

    steps: int
    imbalance_ppm: int  # heaviest over mean sequence, mean of the steps
    imbalance_p95_ppm: int  # that 95 of 100 steps do not exceed
    weighted_imbalance_ppm: int  # sum of heaviest over sum of means: the time really lost
    bound_ppm: int
    gap_ppm: int  # imbalance less bound
    tokens: int  # trained
    delayed_tokens: int
    mean_delay_ppm: int  # of a token, in millionths of a step
    worst_delay_steps: int  # of any piece in any step; of those still held the least left
    delays: list[tuple[int, int]]
    time_ns: int  # predicted
    token_ps: int  # predicted time of a trained token, picoseconds
    token_work_ps: int  # time of all sequences per token: cut documents and held ones change it
    mean_sent_bytes: int
    max_sent_bytes: int
    ending_steps: int
    ending_tokens: int
    documents: int  # that arrived, all steps, as for all that follow
    held_tokens: int  # after the last step
    truncated_tokens: int
    dropped_tokens: int


@dataclass(frozen=True)
class Compared:
    """One strategy of a comparison."""

    inputs: PlanInputs
    steps: list[StepMeasures]
    planning_ms: list[float]  # packing and placement of each step, measured
    run: RunMeasures  # of all steps
    speed_up_ppm: int  # predicted time of a token under the first strategy over that under this one


def compare(  # noqa: PLR0913 - what the command's flags say
    lengths: Sequence[int] | np.ndarray,
    inputs: Sequence[PlanInputs],
    steps: int | None = None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
) -> list[Compared]:
    """Plans at most `steps` steps (None: all) of the same documents under each of the inputs, and measures them.

    lengths: tokens of each document, by id. Strategies that share no attention are compared with
    pools of 1. To leave out a warm-up: measure_run(compared.steps[40:]).
    Errors: ValueError for wrong arguments, and as plan_step.
    """
    if steps is not None and integer("steps", steps) < 0:
        raise ValueError(f"steps {steps} is too small, field steps: give at least 0")
    samplers = [
        StepSampler(lengths, fair(one), shuffle=shuffle, seed=seed, epoch=epoch)
        for one in items("inputs", inputs, "PlanInputs")
    ]
    measured = [list(measured_steps(sampler, steps)) for sampler in samplers]
    runs = [_core.measure_run([step for step, _ in pairs]) for pairs in measured]
    return [
        Compared(
            inputs=sampler.inputs,
            steps=[from_core(StepMeasures, step) for step, _ in pairs],
            planning_ms=[milliseconds for _, milliseconds in pairs],
            run=from_core(RunMeasures, run),
            speed_up_ppm=_core.speed_up_ppm(runs[0], run),
        )
        for sampler, pairs, run in zip(samplers, measured, runs, strict=True)
    ]


def fair(inputs: PlanInputs) -> PlanInputs:
    if not isinstance(inputs, PlanInputs) or _core.shares_attention(inputs.core):
        return inputs
    return replace(inputs, pool=1)


def measure_run(steps: Sequence[StepMeasures]) -> RunMeasures:
    """Sums up steps of one strategy that follow one another."""
    return from_core(RunMeasures, _core.measure_run([to_core(step) for step in steps]))


def measured_steps(sampler: StepSampler, most: int | None) -> Iterator[tuple[_core.StepMeasures, float]]:
    """Each step with the milliseconds that planning it took."""
    state = sampler.start
    while not _core.is_finished(sampler.corpus, state) and (most is None or state.step < most):
        began = time.perf_counter()
        plan = _core.plan_step(sampler.core, sampler.corpus, state)
        took = (time.perf_counter() - began) * 1e3
        yield _core.measure_step(sampler.core, sampler.corpus, state, plan), took
        state = plan.state_after


def from_core(kind: type, core: Any) -> Any:
    """The planner's struct as a dataclass of the same fields."""
    return kind(**{field.name: getattr(core, field.name) for field in fields(kind)})


def to_core(step: StepMeasures) -> _core.StepMeasures:
    """Errors: ValueError for what no step measures."""
    if not isinstance(step, StepMeasures):
        raise ValueError(f"{step!r} is no StepMeasures, field steps: give what compare returned")
    core = _core.StepMeasures()
    for field in fields(StepMeasures):
        setattr(core, field.name, measured(field.name, getattr(step, field.name)))
    return core


def measured(name: str, value: Any) -> Any:
    if name == "ending":
        return bool(value)
    if name == "delays":
        return [(measured("delay", steps), measured("delay", tokens)) for steps, tokens in items(name, value, "pairs")]
    if integer(name, value) < (least := 1 if name == "sequences" else 0):
        raise ValueError(f"{name} {value} is too small, field {name}: give at least {least}")
    return value
