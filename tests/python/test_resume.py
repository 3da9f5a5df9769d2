"""A run that goes on from a saved state is the run that was not stopped."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import equipoise as eq
from sampler_cases import LENGTHS, as_bytes, inputs_for, ranks_of

RESUME = """
import hashlib, itertools, json, sys
sys.path.insert(0, sys.argv[1])
import equipoise as eq
import sampler_cases as t
inputs = t.inputs_for(strategy=sys.argv[2], overlong="split", window=128)
sampler = eq.StepSampler(t.LENGTHS, inputs, replica=3, cp_rank=1, seed=7, state=json.loads(sys.argv[3]))
print([hashlib.sha256(t.as_bytes(step)).hexdigest() for step in itertools.islice(sampler, 50)])
"""


@pytest.mark.parametrize("strategy", ["equipoise", "fixed"])
def test_a_new_process_goes_on_from_a_saved_state_byte_for_byte(strategy: str) -> None:
    """The case P14: documents are held when the state is saved; every following step is the same."""
    inputs = inputs_for(strategy=strategy, overlong="split", window=128)
    steps = list(eq.StepSampler(LENGTHS, inputs, replica=3, cp_rank=1, seed=7))
    assert len(steps) > 12
    hashes = [hashlib.sha256(as_bytes(step)).hexdigest() for step in steps]
    with_held = [n for n, step in enumerate(steps) if step.state_after["held"]]
    assert with_held
    for stop in (0, with_held[0], with_held[-1], len(steps) - 2):
        arguments = [str(Path(__file__).parent), strategy, json.dumps(steps[stop].state_after)]
        result = subprocess.run([sys.executable, "-c", RESUME, *arguments], capture_output=True, text=True, timeout=60)
        assert result.stdout.strip() == str(hashes[stop + 1 : stop + 51]), result.stderr


def test_every_step_can_be_resumed_after() -> None:
    inputs = inputs_for(strategy="equipoise", window=128)
    steps = list(eq.StepSampler(LENGTHS, inputs, seed=7))
    for stop, step in enumerate(steps):
        rest = eq.StepSampler(LENGTHS, inputs, seed=7, state=json.loads(json.dumps(step.state_after)))
        assert [later.hash for later in rest] == [later.hash for later in steps[stop + 1 :]]


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


@pytest.mark.parametrize("change", [{"version": 2}, {"position": "x"}, {"held": 3}, {"held": [[1, 2]]}, {"step": -1}])
def test_a_broken_state_is_a_value_error(change: dict) -> None:
    state = next(iter(eq.StepSampler(LENGTHS, inputs_for()))).state_after
    with pytest.raises(ValueError, match="state"):
        list(eq.StepSampler(LENGTHS, inputs_for(), state=state | change))
    with pytest.raises(ValueError, match="state"):
        eq.StepSampler(LENGTHS, inputs_for(), state={name: state[name] for name in state if name not in change})
    with pytest.raises(ValueError, match="lengths was"):
        eq.StepSampler(LENGTHS[:-1], inputs_for(), state=state)
