"""How long documents wait: by segment of a step, counted for a step, added up over a run, said in words."""

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.delays import Delays, Wait, add_step, count_delays, sentences
from sampler_cases import LENGTHS, TINY, inputs_for

# Two sequences of at most 100 tokens a step; documents of at least 60 wait until there are two of them.
QUEUE = eq.PlanInputs(mesh=eq.Mesh(dp=2), window=100, model=TINY, strategy="wlb", queues=[60])
QUEUED = [70, 30, 30, 30, 30, 80, 40, 40, 30, 60, 10]


def steps_of(lengths: list[int], inputs: eq.PlanInputs) -> list:
    return list(eq.StepSampler(lengths, inputs, shuffle=False))


def run_of(steps: list) -> Delays:
    delays = Delays()
    for index, step in enumerate(steps):
        delays = add_step(delays, index, count_delays(step))
    return delays


def test_a_segment_says_how_long_it_waited() -> None:
    """Documents 0 and 5 are trained together in step 1; 6 and 7 are left over there for step 2."""
    rows = [(s.segments.tolist(), s.delays.tolist()) for s in steps_of(QUEUED, QUEUE)]
    assert rows == [
        ([[1, 0, 30], [3, 0, 30], [2, 0, 30], [4, 0, 30]], [0, 0, 0, 0]),
        ([[5, 0, 80], [0, 0, 70], [8, 0, 30]], [0, 1, 0]),
        ([[6, 0, 40], [9, 0, 60], [7, 0, 40], [10, 0, 10]], [1, 0, 1, 0]),
    ]


def test_a_step_counts_its_tokens_by_delay_and_names_who_waits_longest() -> None:
    assert [count_delays(step) for step in steps_of(QUEUED, QUEUE)] == [
        {"by_delay": [[0, 120]], "longest": None, "held": [1, 70], "oldest": [0, 70, 1]},
        {"by_delay": [[0, 110], [1, 70]], "longest": [0, 70, 1], "held": [2, 80], "oldest": [6, 40, 1]},
        {"by_delay": [[0, 70], [1, 80]], "longest": [6, 40, 1], "held": [0, 0], "oldest": None},
    ]


def test_a_run_adds_its_steps_up() -> None:
    delays = run_of(steps_of(QUEUED, QUEUE))
    assert delays == Delays({0: 300, 1: 150}, Wait(0, 70, 1, since=0))
    assert (delays.tokens, delays.delayed_tokens, delays.mean_steps) == (450, 150, pytest.approx(1 / 3))
    assert sentences(delays) == [
        "150 of 450 tokens trained were delayed (33.3%), 0.33 steps in the mean of all",
        "longest wait: document 0 (70 tokens) since step 0, 1 steps",
    ]


def test_a_run_that_ends_early_says_what_it_did_not_train() -> None:
    delays = run_of(steps_of(QUEUED, QUEUE)[:2])
    assert (delays.held_documents, delays.held_tokens, delays.oldest) == (2, 80, Wait(6, 40, 1, since=1))
    assert sentences(delays)[-1] == (
        "not trained: 80 tokens of 2 documents held at the end, the oldest document 6 (40 tokens) since step 1"
    )


def test_a_document_still_held_may_be_the_one_that_waits_longest() -> None:
    counts = {"by_delay": [[0, 9], [2, 5]], "longest": [3, 5, 2], "held": [2, 11], "oldest": [8, 4, 6]}
    assert add_step(Delays(), 10, counts).longest == Wait(8, 4, 6, since=5)


def test_pieces_of_a_split_document_are_counted_together() -> None:
    """A document of five windows where a step takes two: three wait, then one."""
    steps = steps_of([500], eq.PlanInputs(mesh=eq.Mesh(dp=2), window=100, model=TINY, strategy="plain"))
    counts = [count_delays(step) for step in steps]
    assert [(c["held"], c["oldest"]) for c in counts] == [
        ([1, 300], [0, 300, 1]),
        ([1, 100], [0, 100, 2]),
        ([0, 0], None),
    ]
    assert run_of(steps) == Delays({0: 200, 1: 200, 2: 100}, Wait(0, 100, 2, since=0))


@pytest.mark.parametrize("strategy", ["plain", "allgather", "ulysses", "libra", "equipoise"])
def test_where_documents_are_trained_as_they_come_nothing_is_said(strategy: str) -> None:
    steps = steps_of(LENGTHS[:-1], inputs_for(strategy=strategy))  # the last is longer than a step
    assert not any(step.delays.any() for step in steps)
    assert sentences(run_of(steps)) == []


WAITING = {"wlb": {"queues": [300]}, "fixed": {"repack_window": 3}, "equipoise": {"max_delay": 3}}


@pytest.mark.parametrize("strategy", WAITING)
def test_delays_follow_from_the_step_in_which_a_document_arrived(strategy: str) -> None:
    """Arrivals are told by the cursor alone; no held row is read."""
    inputs = inputs_for(strategy=strategy, overlong="truncate", **WAITING[strategy])
    steps = steps_of(LENGTHS, inputs)
    arrived = np.searchsorted([step.state_after["position"] for step in steps], np.arange(len(LENGTHS)), side="right")
    trained = np.zeros(len(LENGTHS), np.int64)
    for step in steps:
        assert (step.delays == step.step - arrived[step.segments[:, 0]]).all()
        trained[step.segments[:, 0]] += step.segments[:, 2]
        json.dumps(count_delays(step))
    assert trained.tolist() == [min(length, 512) for length in LENGTHS]
    assert run_of(steps).delayed_tokens > 0


def test_a_comparison_of_strategies_counts_the_same() -> None:
    inputs = [inputs_for(strategy=strategy, **options) for strategy, options in WAITING.items()]
    for run, planned in zip(eq.compare(LENGTHS, inputs), inputs, strict=True):
        counts = [count_delays(step) for step in steps_of(LENGTHS, planned)]
        assert [c["by_delay"] for c in counts] == [[list(pair) for pair in step.delays] for step in run.steps]
        assert [c["held"][1] for c in counts] == [step.held_tokens for step in run.steps]
        assert [c["oldest"][2] if c["oldest"] else 0 for c in counts] == [step.held_steps for step in run.steps]


def test_a_run_that_goes_on_from_a_state_counts_the_same_delays() -> None:
    inputs = inputs_for(strategy="wlb", queues=[300])
    steps = list(eq.StepSampler(LENGTHS, inputs))
    rest = list(eq.StepSampler(LENGTHS, inputs, state=steps[3].state_after))
    assert [count_delays(step) for step in rest] == [count_delays(step) for step in steps[4:]]
