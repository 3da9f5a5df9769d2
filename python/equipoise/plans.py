"""The steps of a run: what is known before the first collective, and the plans that follow, agreed by all ranks."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import equipoise as eq
from equipoise import agreement
from equipoise.checkpoint import Position
from equipoise.corpus import Corpus
from equipoise.faults import Place, RunError
from equipoise.options import Options
from equipoise.ranks import World

PLACES = ("corpus", "hardware", "out", "resume")


class Run(NamedTuple):
    """What is known before the first collective."""

    options: Options
    world: World
    corpus: Corpus
    start: Position


def planned_steps(run: Run, inputs: Any, place: Place) -> Iterator[tuple[Position, Any]]:
    """Plans of this rank, agreed with all others, each with the position after it."""
    options, done = run.options, run.start.steps
    if is_done(options, done):
        return
    for epoch in range(run.start.epoch, options.epochs):
        state = run.start.sampler if epoch == run.start.epoch else None
        sampler = make_sampler(run, inputs, epoch, state)
        agree(place, f"before step {done}", lambda sampler=sampler: agreement.check(sampler))
        for step in steps_of(sampler):
            agree(place, f"on step {done}", lambda sampler=sampler, step=step: agreement.check_step(sampler, step))
            place.doing = f"step {done}"
            done += 1
            yield Position(done, epoch, step.state_after), step
            if is_done(options, done):
                return


def steps_of(sampler: Any) -> Iterator[Any]:
    """Errors: RunError for a step that the planner refuses, such as one whose exchange passes --exchange-bytes."""
    steps = iter(sampler)
    while True:
        try:
            step = next(steps)
        except StopIteration:
            return
        except ValueError as error:
            raise RunError(str(error)) from error
        yield step


def is_done(options: Options, steps: int) -> bool:
    return options.steps is not None and steps >= options.steps


def early_end(run: Run, done: int) -> str | None:
    """Why the run ended at this step, where that is not what was asked for."""
    if is_done(run.options, run.start.steps):
        return f"nothing to train: the checkpoint is at step {run.start.steps} and --steps is {run.options.steps}"
    if run.options.steps is not None and done < run.options.steps:
        return f"the epochs ended at step {done} of {run.options.steps}"
    return f"nothing to train: the epochs ended at step {done}" if done == run.start.steps else None


def agree_on_run(run: Run, place: Place) -> None:
    """Compares the flags of all ranks, and what is read from places, whose names may be others. Errors: RunError."""
    fields = [(name, str(value)) for name, value in asdict(run.options).items() if name not in PLACES]
    fields += [("corpus", run.corpus.hash), ("resume", f"at step {run.start.steps}")]
    agree(place, "before step 0", lambda: agreement.explain(agreement.gather_objects(fields, None)))


def agree(place: Place, when: str, compare: Callable[[], None]) -> None:
    """Runs a comparison that all ranks make together; where it fails, says which rank this is. Errors: RunError."""
    place.doing = f"the agreement {when}"
    try:
        compare()
    except ValueError as error:
        found, _, remedy = str(error).rpartition(": ")
        raise RunError(f"{found}, rank {place.rank} in the all_gather of {place.doing}: {remedy}") from error


def check_start(run: Run, inputs: Any) -> None:
    """Whether the run can go on from where it stood with these arguments. Errors: ValueError."""
    state = run.start.sampler
    try:
        next(iter(make_sampler(run, inputs, run.start.epoch, state)), None)
    except (TypeError, OverflowError, KeyError, IndexError) as error:
        raise ValueError(f"the state is broken, --resume {run.options.resume}: give another one ({error})") from error


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
