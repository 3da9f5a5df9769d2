"""The steps of a run: what is known before the first collective, and the plans that follow, agreed by all ranks."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equipoise as eq
from equipoise.checkpoint import Position
from equipoise.corpus import Corpus
from equipoise.faults import Place
from equipoise.options import Options
from equipoise.ranks import World


class Run(NamedTuple):
    """What is known before the first collective."""

    options: Options
    world: World
    corpus: Corpus
    start: Position


def planned_steps(run: Run, inputs: Any, place: Place) -> Iterator[tuple[Position, Any]]:
    """Plans of this rank, agreed with all others, each with the position after it."""
    options, done = run.options, run.start.steps
    for epoch in range(run.start.epoch, options.epochs):
        state = run.start.sampler if epoch == run.start.epoch else None
        sampler = make_sampler(run, inputs, epoch, state)
        place.doing = "the agreement before the first step"
        eq.agreement.check(sampler)
        for step in sampler:
            if options.steps is not None and done == options.steps:
                return
            place.doing = f"step {done}"
            eq.agreement.check_step(sampler, step)
            done += 1
            yield Position(done, epoch, step.state_after), step


def make_sampler(run: Run, inputs: Any, epoch: int, state: dict[str, Any] | None) -> "eq.StepSampler":
    return eq.StepSampler(
        run.corpus.lengths,
        inputs,
        replica=run.world.replica,
        cp_rank=run.world.cp_rank,
        shuffle=True,
        seed=run.options.seed,
        epoch=epoch,
        state=state,
    )
