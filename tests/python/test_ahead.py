"""The next step is planned while one runs, and nothing else is different for that."""

import gc
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import equipoise as eq
from equipoise import _core, ahead
from equipoise.ahead import Planning, planned_ahead
from sampler_cases import LENGTHS, WAITING, as_bytes, inputs_for, waiting_sampler

PATIENCE = 30.0  # seconds after which something hangs


def planners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "equipoise planner"]


def finish_planning() -> None:
    for thread in planners():
        thread.join(PATIENCE)
    assert planners() == []


def test_a_slow_plan_is_made_while_a_slow_step_runs() -> None:
    runs, planned = threading.Event(), threading.Event()

    def slow_plans() -> Iterator[str]:
        yield "first"
        assert runs.wait(PATIENCE)  # it cannot be made before the first one runs
        planned.set()
        yield "second"

    steps = planned_ahead(slow_plans())
    assert next(steps)[0] == "first"
    runs.set()
    assert planned.wait(PATIENCE)  # nobody has asked for it yet
    assert [step for step, _ in steps] == ["second"]


def test_only_one_step_is_planned_ahead_and_none_before_the_first_is_asked_for() -> None:
    begun = []

    def plans() -> Iterator[int]:
        for step in range(5):
            begun.append(step)
            yield step

    steps = planned_ahead(plans())
    assert begun == []
    for step in range(4):
        assert next(steps)[0] == step
        finish_planning()
        assert begun == list(range(step + 2))
    assert [step for step, _ in steps] == [4]


def test_planning_is_timed_and_what_a_step_hides_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(ahead.time, "perf_counter", lambda: now[0])

    def plans() -> Iterator[str]:
        for seconds in (5.0, 3.0):
            now[0] += seconds
            yield f"{seconds:.0f} s"

    steps = planned_ahead(plans())
    assert next(steps) == ("5 s", Planning(took_s=5.0, waited_s=5.0))
    finish_planning()  # while the first step runs
    assert next(steps) == ("3 s", Planning(took_s=3.0, waited_s=0.0))


@pytest.mark.parametrize("name", WAITING)
def test_steps_and_states_are_those_of_a_sampler_that_plans_when_asked(name: str) -> None:
    asked = [as_bytes(step) for step in waiting_sampler(name).plan_steps()]
    assert [as_bytes(step) for step in waiting_sampler(name)] == asked
    assert len(asked) > 100


def test_the_state_is_that_of_the_step_that_was_handed_out() -> None:
    straight = [as_bytes(step) for step in waiting_sampler("wlb")]
    steps = iter(waiting_sampler("wlb"))
    for _ in range(3):
        step = next(steps)
        finish_planning()  # the fourth is planned and lost
    rest = waiting_sampler("wlb", step.state_after)
    assert [as_bytes(step) for step in rest] == straight[3:]


def test_two_loops_over_one_sampler_do_not_meet() -> None:
    sampler = waiting_sampler("equipoise")
    pairs = list(islice(zip(sampler, sampler, strict=True), 20))
    assert len(pairs) == 20
    for one, other in pairs:
        assert one is not other
        assert as_bytes(one) == as_bytes(other)


def test_an_error_is_raised_where_its_step_is_asked_for() -> None:
    def plans() -> Iterator[int]:
        yield 0
        yield 1
        raise ValueError("length -5 is negative, document 3: give lengths of at least 0 tokens")

    steps = planned_ahead(plans())
    for step in (0, 1):
        assert next(steps)[0] == step
        finish_planning()  # with the error, after the last one
    with pytest.raises(ValueError, match=r"^length -5 is negative, document 3: give lengths of at least 0 tokens$"):
        next(steps)
    assert list(steps) == []


def test_a_broken_state_fails_with_the_words_of_a_sampler_that_plans_when_asked() -> None:
    sampler = eq.StepSampler(LENGTHS, inputs_for())
    sampler.start = _core.make_state(1, 10**9, 0, [])  # one that was never checked
    with pytest.raises((ValueError, IndexError)) as asked:
        next(sampler.plan_steps())
    with pytest.raises(asked.type) as planned:
        next(iter(sampler))
    assert str(planned.value) == str(asked.value)


def test_no_thread_is_left_when_the_steps_end_or_the_caller_stops() -> None:
    assert len(list(waiting_sampler("wlb"))) > 100
    finish_planning()
    for _ in waiting_sampler("wlb"):
        break
    gc.collect()
    finish_planning()
    stopped = iter(waiting_sampler("wlb"))
    next(stopped)
    stopped.close()
    finish_planning()


EXIT = """
import sys
sys.path.insert(0, sys.argv[1])
import time
from equipoise.ahead import planned_ahead
from sampler_cases import waiting_sampler
def slow_plans():
    for step in waiting_sampler("wlb").plan_steps():
        yield step
        time.sleep(0.5)
steps = iter(planned_ahead(slow_plans()))
next(steps)
print("end", flush=True)
"""


def test_the_interpreter_ends_while_a_plan_is_made() -> None:
    arguments = [sys.executable, "-c", EXIT, str(Path(__file__).parent)]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (result.returncode, result.stdout, result.stderr) == (0, "end\n", "")


def plan_in_child(steps: Iterator, pipe) -> None:
    """`steps` are the parent's, which this process holds and drops."""
    pipe.send_bytes(as_bytes(next(iter(waiting_sampler("wlb")))))


def test_a_process_that_is_forked_while_a_plan_is_made_can_plan_and_end() -> None:
    forked = threading.Event()

    def slow_plans() -> Iterator[int]:
        yield 0
        assert forked.wait(PATIENCE)
        yield 1

    steps = planned_ahead(slow_plans())
    next(steps)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=plan_in_child, args=(steps, theirs))
    child.start()
    try:
        assert ours.poll(PATIENCE)
        assert ours.recv_bytes() == as_bytes(next(iter(waiting_sampler("wlb"))))
        child.join(PATIENCE)
        assert child.exitcode == 0
    finally:
        child.kill()
        forked.set()
    assert [step for step, _ in steps] == [1]
