"""Plain against balanced, step by step in turn on two copies of one model, so that whatever else the machine does
hits both.

Where both pack the same segments they must have the same losses; where the other strategy packs documents whole, its
steps hold other documents, and how long these wait is counted. Prints medians and writes a report.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import equipoise as eq
from equipoise.checkpoint import Position
from equipoise.delays import count_delays, sentences
from equipoise.faults import Place, RunError
from equipoise.options import Options
from equipoise.plans import Run, planned_steps
from equipoise.progress import Progress
from equipoise.ranks import World, make_inputs, share_hardware
from equipoise.report import make_report
from equipoise.sampler import keeps_whole
from equipoise.steps import Trainer, make_trainer, train_step
from equipoise.summary import LOSS_LIMIT, delays_of, summarise
from equipoise.timing import imbalance

STEPS, UNCOUNTED = 33, 3


class Side(NamedTuple):
    inputs: eq.PlanInputs
    trainer: Trainer
    plans: Iterator[tuple[Position, Any]]


def check_demo(options: Options, world: World) -> Options:
    """The options with the number of steps. Errors: ValueError for what the comparison cannot show."""
    steps = STEPS if options.steps is None else options.steps
    if world.cp != 1:
        raise ValueError(f"cp={world.cp}, --demo: compare with cp=1, the report draws one rank a sequence")
    if options.resume:
        raise ValueError(
            f"a checkpoint is given, --resume {options.resume}: --demo begins with new weights, leave it out"
        )
    if steps <= UNCOUNTED:
        raise ValueError(
            f"{steps} steps where the first {UNCOUNTED} are not counted, --demo: give more than {UNCOUNTED} steps"
        )
    return replace(options, steps=steps)


def compare(run: Run, mesh: DeviceMesh, place: Place) -> int:
    """Exit code 1 if the losses differ by more than rounding."""
    hardware = share_hardware(run.options)
    plain = replace(run.options, strategy="plain", max_delay=None, queues=(), repack_window=1)
    sides = {
        "plain": make_side(run._replace(options=plain), mesh, hardware, place),
        "balanced": make_side(run, mesh, hardware, place),
    }
    progress = Progress(run.options.steps) if run.world.rank == 0 else None
    steps, drawings = [], []
    for row, drawing in take_turns(sides, run):
        steps.append(row)
        drawings.append(drawing)
        if progress:
            progress.show(len(steps), describe(row))
    if progress is None:
        return 0
    progress.close()
    return conclude(run, steps, drawings, same_segments=not keeps_whole(sides["balanced"].inputs))


def make_side(run: Run, mesh: DeviceMesh, hardware: str, place: Place) -> Side:
    inputs = make_inputs(run.options, run.world, hardware)
    groups = eq.pool_groups(mesh, inputs.pool, timedelta(seconds=run.options.timeout))
    attention = eq.PooledAttention(groups)
    return Side(inputs, make_trainer(run.options, mesh, attention, run.corpus), planned_steps(run, inputs, place))


def take_turns(sides: dict[str, Side], run: Run) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """One step of each side, and a drawing of the last one's, until a side has no more.

    A side is asked for its step when its turn comes, so that it is its own next plan that is made beside it."""
    while True:
        row = {}
        for name, side in sides.items():
            if (planned := next(side.plans, None)) is None:
                return
            step = planned[1]
            dist.barrier()  # both strategies begin with all ranks ready
            row[name] = measure(side.trainer, step, run)
        yield row, step.micro_steps[0].drawing()


def measure(trainer: Trainer, step: Any, run: Run) -> dict[str, Any]:
    """One step and what was predicted of it. Lists are by rank."""
    cost = train_step(trainer, step)
    layers = run.options.model["layers"]
    loads = [micro.loads(mask=0)[run.world.replica % step.pool] for micro in step.micro_steps]
    predicted = layers * sum(sum(load["attention_ns"]) for load in loads)
    moved = layers * sum(load["sent_bytes"] for load in loads)
    own = torch.tensor([predicted, moved, sum(micro.time_ns() for micro in step.micro_steps)])
    by_rank = [torch.empty_like(own) for _ in range(run.world.size)]
    dist.all_gather(by_rank, own)
    predicted_ns, moved_bytes, times_ns = torch.stack(by_rank, dim=1).tolist()
    return {
        "loss": cost.loss,
        "tokens": cost.tokens,
        "targets": cost.targets,
        "step_s": max(cost.step_s),
        "attention_s": max(cost.attention_s),
        "work_s": cost.work_s,
        "planning_s": max(cost.planning_s),
        "exposed_s": max(cost.exposed_s),
        "predicted_ns": predicted_ns,
        "predicted_step_ns": max(times_ns),
        "moved_bytes": sum(moved_bytes),  # forward
        "lower_bound": step.balance["pools"]["lower_bound_ppm"] / 1e6,
        "delay": count_delays(step),
    }


def describe(row: dict[str, Any]) -> str:
    plain, balanced = row["plain"], row["balanced"]
    return (
        f"loss {balanced['loss']:.3f}, {balanced['tokens'] / balanced['step_s']:,.0f} tokens/s, imbalance "
        f"{imbalance(plain['work_s']):.2f} -> {imbalance(balanced['work_s']):.2f}, step {plain['step_s']:.2f} s -> "
        f"{balanced['step_s']:.2f} s"
    )


def conclude(run: Run, steps: list[dict[str, Any]], drawings: list[dict[str, Any]], same_segments: bool) -> int:
    """Prints the result and writes the record and the report; on rank 0."""
    if len(steps) <= UNCOUNTED:
        raise RunError(f"{len(steps)} steps of which {UNCOUNTED} are not counted, --demo: give more steps or documents")
    record = {
        "strategy": run.options.strategy,
        "ranks": run.world.size,
        "uncounted": UNCOUNTED,
        "same_segments": same_segments,
        "steps": steps,
        "drawing": choose_drawing(run, steps, drawings),
        "settings": settings(run),
    }
    summary = summarise(record)
    (run.options.out / "record.json").write_text(json.dumps(record))
    (run.options.out / "report.html").write_text(make_report(record))
    print("\n".join([result_table(record["strategy"], summary, same_segments), *sentences(delays_of(record))]))
    difference = summary["loss_difference"]
    if same_segments and run.options.dtype == "fp32" and not difference <= LOSS_LIMIT:
        raise RunError(
            f"losses differ by {difference:.1e}, limit {LOSS_LIMIT:.0e}: see {run.options.out / 'report.html'}"
        )
    return 0


def choose_drawing(run: Run, steps: list[dict[str, Any]], drawings: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the step in which a rank waits the longest under plain."""
    waits = [max(step["plain"]["work_s"]) - min(step["plain"]["work_s"]) for step in steps]
    worst = waits.index(max(waits))
    heads = {name: run.options.model[name] for name in ("query_heads", "kv_heads")}
    return {"step": worst, **heads, **drawings[worst]}


def settings(run: Run) -> dict[str, Any]:
    options = run.options
    return {
        "model": ", ".join(f"{name} {size}" for name, size in options.model.items()),
        "type": options.dtype,
        "mesh": f"dp {run.world.dp}, cp {run.world.cp}",
        "window": f"{options.window} tokens",
        "micro-steps": options.micro_steps,
        "corpus": str(options.corpus or "the standard library's sources"),
        "documents": f"{len(run.corpus):,} of {len(run.corpus.text):,} bytes together",
        "seed": options.seed,
        "torch": torch.__version__,
    }


def result_table(strategy: str, summary: dict[str, Any], same_segments: bool) -> str:
    plain, balanced = summary["plain"], summary["balanced"]
    each = "" if same_segments else ", for each token"

    def row(name: str, key: str, scale: float = 1.0, form: str = ".3f") -> str:
        return f"{name:34}{scale * plain[key]:>12{form}}{scale * balanced[key]:>12{form}}"

    return "\n".join(
        [
            f"{'medians of a step':34}{'plain':>12}{strategy:>12}",
            row("tokens", "tokens", 1, ".0f"),
            row("step, ms", "step_s", 1e3, ".0f"),
            row("its layers as predicted, ms", "predicted_step_ns", 1e-6, ".0f"),
            row("planning of the slowest rank, ms", "planning_s", 1e3, ".1f"),
            row("waited for plans, % of all time", "exposed_share", 1e2, ".2f"),
            row("attention of the slowest rank, ms", "attention_s", 1e3, ".0f"),
            row("imbalance, measured", "measured_imbalance"),
            row("imbalance, predicted", "predicted_imbalance"),
            row("lower bound of the imbalance", "lower_bound"),
            row("moved in the forward, MB", "moved_bytes", 1e-6, ".1f"),
            f"step {1 / summary['step_ratio']:.2f}x faster ({summary['step_ratio']:.2f}x the time of all steps{each})",
            f"attention {1 / summary['attention_ratio']:.2f}x faster ({summary['attention_ratio']:.2f}x the time{each})"
            f", where perfectly level work would be {summary['most_gain']:.2f}x faster",
            f"predicted and measured work of a rank differ by {summary['prediction_error']:.1%} (median)",
            f"largest relative loss difference {summary['loss_difference']:.1e}, limit {LOSS_LIMIT:.0e}"
            if same_segments
            else f"mean loss of all targets {plain['mean_loss']:.4f} and {balanced['mean_loss']:.4f}, in other steps",
        ]
    )
