"""Strategies compared from Python: what the command says, and what can be done with single steps."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import equipoise as eq
from sampler_cases import LENGTHS

DATA = Path(__file__).parents[1] / "cli" / "data"
SHAPE = eq.ModelShape("small", layers=4, hidden=32, query_heads=4, kv_heads=2, head_size=8, ffn=64, vocabulary=256)


def inputs_for(**changes) -> eq.PlanInputs:
    sound = {"mesh": eq.Mesh(dp=4, cp=2), "pool": 2, "window": 512, "max_tokens": 768, "model": SHAPE}
    return eq.PlanInputs(**(sound | {"hardware": str(DATA / "hardware.json")} | changes))


STRATEGIES = [
    inputs_for(strategy="plain"),
    inputs_for(strategy="fixed", repack_window=2),
    inputs_for(strategy="wlb", queues=[128, 256], max_delay=3),
    inputs_for(strategy="equipoise", max_delay=3),
]


def command_says(lengths: list[int], *flags: str) -> dict:
    beside = shutil.which("equipoise", path=str(Path(sys.executable).parent))
    program = os.environ.get("EQUIPOISE_BIN") or beside or "equipoise"
    files = ["--hardware", str(DATA / "hardware.json"), "--model", str(DATA / "model.json")]
    command = [program, "compare", "-", *files, *flags, "--json"]
    done = subprocess.run(command, input="\n".join(map(str, lengths)), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_python_says_what_the_command_says() -> None:
    flags = "--mesh dp=4,cp=2 --pool 2 --window 512 --max-tokens 768 --steps 6 --shuffle --seed 3"
    waiting = "--queues 128,256 --max-delay 3 --repack-window 2"
    said = command_says(LENGTHS, *flags.split(), *waiting.split())["strategies"]
    found = eq.compare(LENGTHS, STRATEGIES, steps=6, shuffle=True, seed=3)
    for ours, theirs in zip(found, said, strict=True):
        run = {name: json.loads(json.dumps(value)) for name, value in asdict(ours.run).items()}
        assert run == theirs["run"]
        assert ours.speed_up_ppm == theirs["speed_up_ppm"]
        assert ours.inputs.strategy == theirs["strategy"]
        assert len(ours.planning_ms) == len(ours.steps) == len(theirs["steps"]) == 6
        for step, line in zip(ours.steps, theirs["steps"], strict=True):
            assert json.loads(json.dumps(asdict(step))) == {k: v for k, v in line.items() if k != "planning_ns"}


def test_a_warm_up_is_left_out_by_measuring_the_other_steps() -> None:
    (plain,) = eq.compare(LENGTHS, STRATEGIES[:1])
    assert eq.measure_run(plain.steps) == plain.run
    later = eq.measure_run(plain.steps[2:])
    assert later.steps == plain.run.steps - 2
    assert later.tokens == plain.run.tokens - plain.steps[0].tokens - plain.steps[1].tokens
    assert eq.measure_run([]).steps == 0


def test_all_tokens_are_trained_when_no_limit_is_given() -> None:
    for one in eq.compare(LENGTHS, STRATEGIES):
        assert one.run.tokens + one.run.ending_tokens == sum(LENGTHS)
        assert (one.run.held_tokens, one.run.documents) == (0, len(LENGTHS))
        assert one.run.ending_steps > 0


def test_what_is_compared_pickles() -> None:
    (one,) = eq.compare(LENGTHS, STRATEGIES[:1], steps=2)
    again = pickle.loads(pickle.dumps(one))
    assert (again.steps, again.run, again.planning_ms) == (one.steps, one.run, one.planning_ms)


def test_replicas_that_share_no_attention_do_not_wait_within_a_step() -> None:
    alone, pooled, shared = eq.compare(LENGTHS, [inputs_for(strategy="plain", pool=1), *STRATEGIES[::3]], steps=3)
    assert (pooled.inputs.pool, shared.inputs.pool) == (1, 2)
    assert pooled.steps == alone.steps


def test_wrong_arguments_are_named() -> None:
    assert eq.compare(LENGTHS, []) == []
    with pytest.raises(ValueError, match="inputs 'plain' is no sequence, field inputs: give a list of PlanInputs"):
        eq.compare(LENGTHS, "plain")
    with pytest.raises(ValueError, match="inputs 'plain' are no PlanInputs"):
        eq.compare(LENGTHS, ["plain"])
    with pytest.raises(ValueError, match="steps -1 is too small, field steps: give at least 0"):
        eq.compare(LENGTHS, STRATEGIES, steps=-1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_ns": -1}, "step_ns -1 is too small"),
        ({"sequences": 0}, "sequences 0 is too small"),
        ({"delays": [(0, -5)]}, "delay -5 is too small"),
        ({"tokens": "many"}, "tokens"),
    ],
)
def test_measures_that_no_step_has_are_value_errors(change: dict, message: str) -> None:
    (plain,) = eq.compare(LENGTHS, STRATEGIES[:1])
    with pytest.raises(ValueError, match=message):
        eq.measure_run([replace(plain.steps[0], **change)])
    with pytest.raises(ValueError, match="is no StepMeasures"):
        eq.measure_run([3])
    assert eq.measure_run([]).imbalance_ppm == 1_000_000
