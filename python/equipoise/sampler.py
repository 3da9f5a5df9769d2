"""The sampler: one optimizer step of this rank at a time, planned from lengths alone.

Every rank plans the global part of each step by itself and gets the same; its own bucket it plans alone with the other
members of its pool. What a step holds for this rank are its rows in the order of its tensors. While the caller runs a
step, a thread plans the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equipoise import _core
from equipoise.ahead import Planning, planned_ahead
from equipoise.arguments import integer, integers, items
from equipoise.inputs import PlanInputs
from equipoise.micro_step import MicroStep, Place

STATE_VERSION = 1
LARGEST_STEP = 2**40  # of a state: sums stay far from 64 bits
HELD_NUMBERS = 5  # document, first token, tokens, step of arrival, queue


class Step:
    """One optimizer step of this rank. Pickles, so that loader workers can read its rows.

    segments: int64 [segments, 3]: document, first token and tokens of each segment of the whole step, all ranks, in the
    order of the plan's sequences. delays: int64 [segments]: the steps that each waited, step - step of arrival. What
    waits after the step is state_after["held"], rows of document, first token, tokens, step of arrival and queue; a
    strategy that holds no documents leaves only the rest of one that is longer than the step. equipoise.delays counts
    both. planning: the seconds that planning it took, and those that the caller waited for it.
    """

    planning: Planning  # known when the step is handed out

    def __init__(self, plan: _core.StepPlan, sampler: StepSampler, before: _core.PackerState) -> None:
        self.step: int = plan.step
        self.loss_tokens: int = plan.loss_tokens  # planned targets of the whole step, all ranks
        self.pool: int = sampler.inputs.pool
        self.hash: int = plan.hash()  # of inputs and plan: equal on all ranks
        self.untrained = {"dropped": plan.dropped, "truncated": plan.truncated}
        self.balance = {
            level: {"imbalance_ppm": imbalance, "lower_bound_ppm": bound}
            for level, (imbalance, bound) in (("micro_batches", plan.micro_batches), ("pools", plan.pools))
        }
        self.segments: np.ndarray = plan.segments
        self.delays = delays_of(plan, before)
        self.state_after = sampler.save(plan.state_after)
        self.pool_index: int = sampler.place.replica // self.pool
        buckets = _core.plan_pool(sampler.core, plan, self.pool_index)  # one for each micro-step
        self.micro_steps = [
            MicroStep(sampler.core, sampler.corpus, sampler.place, bucket, plan.step) for bucket in buckets
        ]
        self.pool_hash: int = _core.hash_text(",".join(str(bucket.hash()) for bucket in buckets))  # equal in the pool


class StepSampler:
    """Plans the optimizer steps of one rank: `for step in StepSampler(lengths, inputs, replica=r, cp_rank=c)`.

    lengths: tokens of each document, by id; loss_tokens: real targets of each, None: one less than its length.
    The order of documents is the input's, or with shuffle follows from seed + epoch alone. state: the state_after of
    the last finished step of another sampler with equal arguments, to go on exactly after it; replicas, pools and cp
    may be others then, except where whole documents are packed.
    Serves as `batch_sampler` of a DataLoader over a PackedDataset. Errors: ValueError for wrong arguments and states.
    """

    def __init__(  # noqa: PLR0913 - the arguments of one rank's whole run
        self,
        lengths: Sequence[int] | np.ndarray,
        inputs: PlanInputs,
        *,
        replica: int = 0,
        cp_rank: int = 0,
        shuffle: bool = True,
        seed: int = 0,
        epoch: int = 0,
        state: dict[str, Any] | None = None,
        loss_tokens: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        if not isinstance(inputs, PlanInputs):
            raise ValueError(f"inputs {inputs!r} are no PlanInputs, field inputs: give equipoise.PlanInputs")
        self.inputs = inputs
        self.core = _core.PlanInputs(inputs.core)
        self.core.arrival.seed = integer("seed", seed)
        self.core.arrival.epoch = integer("epoch", epoch)
        self.core.arrival.shuffle = bool(shuffle)
        _core.validate(self.core)
        self.place = Place(
            within("replica", replica, inputs.mesh.dp), within("cp_rank", cp_rank, inputs.mesh.cp), inputs.mesh.cp
        )
        self.corpus = make_corpus(self.core, lengths, loss_tokens)
        self.corpus_hash: int = self.corpus.hash()
        self.state = state
        self.start = _core.make_state(0, 0, 0, []) if state is None else self.load(state)

    def __iter__(self) -> Iterator[Step]:
        for step, planning in planned_ahead(self.plan_steps()):
            step.planning = planning
            yield step

    def plan_steps(self) -> Iterator[Step]:
        """One after another, each when it is asked for."""
        state = self.start
        while not _core.is_finished(self.corpus, state):
            plan = _core.plan_step(self.core, self.corpus, state)
            yield Step(plan, self, state)
            state = plan.state_after

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Every input as (name, value): what ranks compare before the first step."""
        return [
            *_core.input_fields(self.core),
            ("documents", str(self.corpus.documents)),
            ("lengths", f"{self.corpus_hash:016x}"),
            ("start", f"step {self.start.step}, position {self.start.position}, held {self.start.held}"),
        ]

    @property
    def hash(self) -> int:
        """64 bits over all fields: equal on all ranks of a run."""
        return _core.hash_text("\x1e".join(f"{name}\x1f{value}" for name, value in self.fields))

    def save(self, state: _core.PackerState) -> dict[str, Any]:
        """A state as small integers: JSON can hold it, and it does not depend on cp or on loader workers."""
        return {
            "version": STATE_VERSION,
            "step": state.step,
            "position": state.position,
            "arrived_tokens": state.arrived_tokens,
            "held": [list(held) for held in state.held],
            **self.identity(),
        }

    def identity(self) -> dict[str, Any]:
        """What must be equal where a state is used again."""
        arrival = self.core.arrival
        same = {"seed": arrival.seed, "epoch": arrival.epoch, "shuffle": arrival.shuffle}
        same |= {"lengths": self.corpus_hash, "window": self.inputs.window, "overlong": self.inputs.overlong}
        if keeps_whole(self.inputs):
            # How many documents have arrived depends on the tokens of each step, and where they wait on its sequences.
            delay = self.core.delay
            same["sequences"] = self.inputs.mesh.dp * self.inputs.micro_steps
            same["waiting"] = [self.inputs.strategy, delay.repack_window_steps, *delay.queue_tokens]
            # What waits was let in because these surely suffice to train it in time.
            same |= {"max_tokens": int(self.inputs.max_tokens), "max_delay": delay.max_delay_steps}
        return same

    def load(self, state: dict[str, Any]) -> _core.PackerState:
        if not isinstance(state, dict):
            raise ValueError(f"{state!r} is no state, sampler state: give the state_after of a step, or None")
        for name, value in ({"version": STATE_VERSION} | self.identity()).items():
            if name not in state or state[name] != value:
                raise ValueError(
                    f"{name} was {state.get(name)} when the state was saved and is {value} now, sampler state: "
                    "give the arguments with which it was saved, or begin without a state"
                )
        if missing := [name for name in ("step", "position", "arrived_tokens", "held") if name not in state]:
            raise ValueError(f"it lacks {', '.join(missing)}, sampler state: give one that a sampler made")
        step, *progress = (integer(f"state.{name}", state[name]) for name in ("step", "position", "arrived_tokens"))
        if not 0 <= step <= LARGEST_STEP:
            raise ValueError(f"step {step} is absurd, sampler state: give one that a sampler made")
        held = [held_row(row) for row in items("state.held", state["held"], "rows")]
        made = _core.make_state(step, *progress, held)
        _core.check_state(self.core, self.corpus, made)
        return made


def keeps_whole(inputs: PlanInputs) -> bool:
    """Whether documents are packed whole, and so into other steps and segments than those of plain."""
    return inputs.strategy in ("fixed", "wlb") or inputs.core.delay.max_delay_steps > 0


def delays_of(plan: _core.StepPlan, before: _core.PackerState) -> np.ndarray:
    """By segment; the pieces of one document arrive together."""
    since = {document: step for document, _, _, step, _ in before.held}
    documents = plan.segments[:, 0].tolist()
    return np.array([plan.step - since.get(document, plan.step) for document in documents], np.int64)


def held_row(row: Any) -> tuple[int, ...]:
    numbers = tuple(integers("state.held", row))
    if len(numbers) != HELD_NUMBERS:
        raise ValueError(
            f"state.held has the row {list(numbers)}, sampler state: "
            "give rows of document, first token, tokens, step of arrival and queue"
        )
    return numbers


def plan_step(  # noqa: PLR0913 - what the command's flags say
    inputs: PlanInputs,
    lengths: Sequence[int] | np.ndarray,
    state: dict[str, Any] | None = None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One step with all of its buckets, as a line of the plan file holds it, and the state after it."""
    import json

    sampler = StepSampler(lengths, inputs, shuffle=shuffle, seed=seed, epoch=epoch, state=state)
    line, after = _core.plan_line(sampler.core, sampler.corpus, sampler.start)
    return json.loads(line), sampler.save(after)


def make_corpus(core: _core.PlanInputs, lengths: Any, loss_tokens: Any) -> _core.Corpus:
    tokens = as_integers("lengths", lengths)
    targets = np.empty(0, np.int64) if loss_tokens is None else as_integers("loss_tokens", loss_tokens)
    if loss_tokens is not None and len(targets) != len(tokens):
        raise ValueError(
            f"{len(targets)} loss_tokens for {len(tokens)} documents, field loss_tokens: give one for each document"
        )
    corpus = _core.make_corpus(tokens, targets, core.arrival)
    _core.check_corpus(corpus, core)
    return corpus


def as_integers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} of shape {array.shape} and type {array.dtype}, field {name}: give whole numbers, one a document"
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} {array.max()} is absurd, document {array.argmax()}: give lengths of less than 2^40")
    return np.ascontiguousarray(array, np.int64)


def within(name: str, value: int, size: int) -> int:
    if not 0 <= integer(name, value) < size:
        raise ValueError(f"{name} {value} is outside of the mesh, field {name}: give a value from 0 to {size - 1}")
    return integer(name, value)
