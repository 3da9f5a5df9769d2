"""Trains a small decoder-only transformer on local documents: `torchrun --nproc-per-node 2 -m equipoise.train`.

Every rank plans alone, checks that all have the same plan, and trains its own rows of it.
"""

import json
import sys
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import equipoise as eq
from equipoise import checkpoint
from equipoise.allocator import keep_freed_memory
from equipoise.checkpoint import Position
from equipoise.corpus import read_corpus, standard_library
from equipoise.delays import Delays, add_step, count_delays, sentences
from equipoise.demo import check_demo, compare
from equipoise.faults import FAILED, WRONG_USE, Place, RunError, end, end_after
from equipoise.options import Options, parse_options
from equipoise.plans import Run, agree_on_run, check_start, early_end, make_sampler, planned_steps
from equipoise.progress import Progress
from equipoise.ranks import connect, make_inputs, make_mesh, read_world, share_hardware
from equipoise.steps import StepCost, make_trainer, train_step
from equipoise.summary import planning_of
from equipoise.timing import imbalance

LOG = "steps.jsonl"


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
    inputs = make_inputs(options, world, options.hardware if world.rank == 0 else "h100")
    if options.demo:
        options = check_demo(options, world)
    position = Position()
    make_sampler(Run(options, world, corpus, position), inputs, 0, None)  # refuses documents that no step can take
    if options.resume:
        options = replace(options, resume=checkpoint.find_checkpoint(options.resume))
        position = checkpoint.read_position(options.resume, checkpoint.identity(options, corpus))
        checkpoint.check_files(options.resume)
        check_start(Run(options, world, corpus, position), inputs)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{error.strerror}, --out {options.out}: give a folder that can be written") from error
    return Run(options, world, corpus, position)


def start(run: Run, place: Place) -> int:
    connect(run.world, run.options.timeout)
    agree_on_run(run, place)
    mesh = make_mesh(run.world)
    return compare(run, mesh, place) if run.options.demo else train(run, mesh, place)


def train(run: Run, mesh: DeviceMesh, place: Place) -> int:
    options, world = run.options, run.world
    inputs = make_inputs(options, world, share_hardware(options))
    groups = eq.pool_groups(mesh, inputs.pool, timedelta(seconds=options.timeout))
    trainer = make_trainer(options, mesh, eq.PooledAttention(groups), run.corpus)
    if options.resume:
        checkpoint.restore(options.resume, trainer)
    progress = Progress(options.steps) if world.rank == 0 else None
    position, delays, spent = run.start, Delays(), []
    for position, step in planned_steps(run, inputs, place):
        cost = train_step(trainer, step)
        if progress:
            counts = count_delays(step)
            delays = add_step(delays, position.steps - 1, counts)
            spent.append({key: max(getattr(cost, key)) for key in ("step_s", "planning_s", "exposed_s")})
            progress.show(position.steps, describe(cost))
            log_step(options.out / LOG, position, asdict(cost) | {"plan": f"{step.hash:016x}", "delay": counts})
        if options.checkpoint_every and position.steps % options.checkpoint_every == 0:
            checkpoint.save(options.out, trainer, position, checkpoint.identity(options, run.corpus))
    if progress:
        progress.close()
        for line in (early_end(run, position.steps), *sentences(delays), *say_planning(spent)):
            if line:
                print(line, flush=True)
    return 0


def log_step(path: Path, position: Position, what: dict[str, Any]) -> None:
    """A line of JSON for each step: what it cost, the hash of its plan, and what waited (delays.count_delays). A run
    that goes on from a checkpoint adds its own."""
    with path.open("a") as log:
        log.write(json.dumps({"steps": position.steps, "epoch": position.epoch, **what}) + "\n")


def say_planning(spent: list[dict[str, float]]) -> list[str]:
    """Nothing where nothing was trained."""
    if not spent:
        return []
    planning = planning_of(spent)
    return [
        f"planning a step, beside the one before: {1e3 * planning['planning_s']:.1f} ms (median, slowest rank); "
        f"waited for: {planning['exposed_share']:.2%} of all time"
    ]


def describe(cost: StepCost) -> str:
    return (
        f"loss {cost.loss:.4f}, {cost.tokens / max(cost.step_s):,.0f} tokens/s, imbalance {imbalance(cost.work_s):.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
