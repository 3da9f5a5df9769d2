"""A run that goes on from a saved state is the run that was not stopped."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import equipoise as eq
from sampler_cases import LENGTHS, WAITING, as_bytes, inputs_for, loaded_hashes, ranks_of, waiting_sampler

AFTER = 100
RESUME = """
import json, sys
sys.path.insert(0, sys.argv[1])
from sampler_cases import loaded_hashes, waiting_sampler
for name, states in json.load(sys.stdin).items():
    for workers, state in enumerate(states):
        print(*loaded_hashes(waiting_sampler(name, state), workers, int(sys.argv[2])), flush=True)
"""


def test_a_new_process_with_other_loader_workers_goes_on_byte_for_byte() -> None:
    """The case P14: documents wait when the state is saved; the next 100 steps are the same, plans and rows."""
    states, expected = {}, []
    for name in WAITING:
        steps = list(waiting_sampler(name))
        stops = [n for n, step in enumerate(steps[: -AFTER - 1]) if len(step.state_after["held"]) > 3]
        stops = [stops[0], stops[len(stops) // 2], stops[-1]]
        states[name] = [steps[stop].state_after for stop in stops]
        hashes = list(loaded_hashes(waiting_sampler(name), 2, stops[-1] + 1 + AFTER))
        assert len(hashes) == stops[-1] + 1 + AFTER
        expected += [" ".join(hashes[stop + 1 : stop + 1 + AFTER]) for stop in stops]
    arguments = [str(Path(__file__).parent), str(AFTER)]
    given = {"input": json.dumps(states), "capture_output": True, "text": True, "timeout": 120}
    result = subprocess.run([sys.executable, "-c", RESUME, *arguments], **given)
    assert result.stdout.splitlines() == expected, result.stderr


@pytest.mark.parametrize("name", WAITING)
def test_every_step_can_be_resumed_after(name: str) -> None:
    """Step after step, so that by induction all that follow are the same too."""
    steps = list(waiting_sampler(name))
    assert sum(bool(step.state_after["held"]) for step in steps) > 0.5 * len(steps)
    for step, following in zip(steps, steps[1:], strict=False):
        saved = json.dumps(step.state_after)
        assert len(saved) < 10_000
        resumed = next(iter(waiting_sampler(name, json.loads(saved))))
        assert as_bytes(resumed) == as_bytes(following)


def test_another_mesh_goes_on_with_the_documents_that_are_left() -> None:
    before = inputs_for(strategy="equipoise", window=128)
    after = inputs_for(strategy="equipoise", window=128, mesh=eq.Mesh(dp=2, cp=1), micro_steps=1)
    done = [steps[0] for steps in ranks_of(before)]
    state = done[0].state_after
    rest = [step for r in (0, 1) for step in eq.StepSampler(LENGTHS, after, replica=r, state=state)]
    rows = sum(micro.owned_rows for s in rest + done for micro in s.micro_steps)
    assert rows == sum(LENGTHS)
    with pytest.raises(ValueError, match="sequences was 8 when the state was saved and is 2 now"):
        fixed = next(iter(eq.StepSampler(LENGTHS, replace(before, strategy="fixed")))).state_after
        eq.StepSampler(LENGTHS, replace(after, strategy="fixed"), state=fixed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed was 0 when the state was saved and is 1 now, sampler state: "),
        ({"epoch": 1}, "epoch was 0 when the state was saved and is 1 now"),
        ({"shuffle": False}, "shuffle was True when the state was saved and is False now"),
    ],
)
def test_a_state_of_another_run_is_refused(change: dict, message: str) -> None:
    state = next(iter(eq.StepSampler(LENGTHS, inputs_for()))).state_after
    with pytest.raises(ValueError, match=message):
        eq.StepSampler(LENGTHS, inputs_for(), state=state, **change)


OTHER_WAITING = [
    ("wlb", {"queues": [60, 101]}, "waiting was"),
    ("wlb", {"max_delay": 9}, "max_delay was -1 when the state was saved and is 9 now"),
    ("fixed", {"repack_window": 2}, "waiting was"),
    ("equipoise", {"max_delay": 2}, "max_delay was 4 when the state was saved and is 2 now"),
    ("equipoise", {"max_tokens": 128}, "max_tokens was 192 when the state was saved and is 128 now"),
    ("equipoise", {"micro_steps": 1}, "sequences was 8 when the state was saved and is 4 now"),
]


@pytest.mark.parametrize(("name", "change", "message"), OTHER_WAITING)
def test_what_waits_is_refused_where_it_would_wait_otherwise(name: str, change: dict, message: str) -> None:
    saved = WAITING[name]
    lengths = [min(length, 512) for length in LENGTHS]  # none too long for the shorter delay
    state = next(iter(eq.StepSampler(lengths, inputs_for(window=128, **saved)))).state_after
    with pytest.raises(ValueError, match=f"^{message}.*, sampler state: give the arguments with which it was saved"):
        eq.StepSampler(lengths, inputs_for(**({"window": 128} | saved | change)), state=state)


@pytest.mark.parametrize("change", [{"version": 2}, {"position": "x"}, {"held": 3}, {"held": [[1, 2]]}, {"step": -1}])
def test_a_broken_state_is_a_value_error(change: dict) -> None:
    state = next(iter(eq.StepSampler(LENGTHS, inputs_for()))).state_after
    with pytest.raises(ValueError, match="state"):
        list(eq.StepSampler(LENGTHS, inputs_for(), state=state | change))
    with pytest.raises(ValueError, match="state"):
        eq.StepSampler(LENGTHS, inputs_for(), state={name: state[name] for name in state if name not in change})
    with pytest.raises(ValueError, match="lengths was"):
        eq.StepSampler(LENGTHS[:-1], inputs_for(), state=state)
