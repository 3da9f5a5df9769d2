"""Trains a small decoder-only transformer on local documents: `torchrun --nproc-per-node 2 -m equipoise.train`.

Every rank plans alone, checks that all have the same plan, and trains its own rows of it.
"""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import equipoise as eq
from equipoise import checkpoint
from equipoise.allocator import keep_freed_memory
from equipoise.checkpoint import Position
from equipoise.corpus import Corpus, read_corpus, standard_library
from equipoise.faults import FAILED, WRONG_USE, Place, RunError, end, end_after
from equipoise.options import Options, parse_options
from equipoise.progress import Progress
from equipoise.ranks import World, connect, make_inputs, read_world, share_hardware
from equipoise.steps import StepCost, make_trainer, train_step


class Run(NamedTuple):
    """What is known before the first collective."""

    options: Options
    world: World
    corpus: Corpus
    start: Position


def main() -> int:
    keep_freed_memory()
    try:
        run = prepare(parse_options())
    except ValueError as error:
        end(str(error), WRONG_USE)
    place = Place(run.world.rank, [rank for rank in range(run.world.size) if rank != run.world.rank])
    try:
        code = start(run, place)
    except RunError as error:
        end(str(error), FAILED)
    except Exception as error:
        end_after(error, place)
    dist.destroy_process_group()
    return code


def prepare(options: Options) -> Run:
    """Checks all that can be checked alone. Errors: ValueError."""
    world = read_world(options)
    corpus = read_corpus(options.corpus) if options.corpus else standard_library()
    # Only rank 0 need have the hardware file; the others check the rest.
    make_inputs(options, world, options.hardware if world.rank == 0 else "h100")
    position = Position()
    if options.resume:
        folder = checkpoint.find_checkpoint(options.resume)
        position = checkpoint.read_position(folder, checkpoint.identity(options, corpus))
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{error.strerror}, --out {options.out}: give a folder that can be written") from error
    return Run(options, world, corpus, position)


def start(run: Run, place: Place) -> int:
    mesh = connect(run.world, run.options.timeout)
    if run.options.demo:
        from equipoise.demo import compare

        return compare(run, mesh, place)
    return train(run, mesh, place)


def train(run: Run, mesh: DeviceMesh, place: Place) -> int:
    options, world = run.options, run.world
    inputs = make_inputs(options, world, share_hardware(options.hardware))
    groups = eq.pool_groups(mesh, inputs.pool)
    trainer = make_trainer(options, mesh, eq.PooledAttention(groups), run.corpus)
    if options.resume:
        checkpoint.restore(checkpoint.find_checkpoint(options.resume), trainer)
    progress = Progress(options.steps) if world.rank == 0 else None
    for position, step in planned_steps(run, inputs, place):
        cost = train_step(trainer, step)
        if progress:
            progress.show(position.steps, describe(cost))
        if options.checkpoint_every and position.steps % options.checkpoint_every == 0:
            checkpoint.save(options.out, trainer, position, checkpoint.identity(options, run.corpus))
    if progress:
        progress.close()
    return 0


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


def describe(cost: StepCost) -> str:
    return f"loss {cost.loss:.4f}, {cost.tokens / max(cost.step_s):,.0f} tokens/s, imbalance {cost.imbalance:.2f}"


if __name__ == "__main__":
    sys.exit(main())
