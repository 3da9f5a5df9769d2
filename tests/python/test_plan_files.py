"""Steps as lines of a plan file, and the checkers from Python."""

import json

import pytest

import equipoise as eq
from sampler_cases import LENGTHS, inputs_for


def test_planned_steps_pass_the_checkers_as_lines_of_a_plan_file(tmp_path, monkeypatch) -> None:
    inputs = inputs_for(strategy="libra")
    documents = LENGTHS[:60]
    lines, state = [], None
    while state is None or state["held"] or state["position"] < len(documents):
        line, state = eq.plan_step(inputs, documents, state)
        lines.append(json.dumps(line))
    assert [json.loads(line)["step"] for line in lines] == list(range(len(lines)))
    verdict = eq.verify_plan("\n".join(lines))
    assert (verdict["violations"], verdict["unchecked"]) == ([], [])
    assert (verdict["steps"], verdict["tokens"]) == (len(lines), sum(documents))
    path = tmp_path / "plan.jsonl"
    first = json.loads(lines[0])
    first["placement"][0], first["placement"][1] = first["placement"][1], first["placement"][1]  # a slot used twice
    path.write_text(json.dumps(first))
    assert "slot used once" in [violation["rule"] for violation in eq.verify_plan(path)["violations"]]
    with pytest.raises(ValueError, match="/no/such/plan"):
        eq.verify_plan("/no/such/plan")
    odd = path.rename(tmp_path / "{odd.jsonl")
    monkeypatch.chdir(tmp_path)
    assert eq.verify_plan(odd.relative_to(tmp_path))["violations"]
    with pytest.raises(ValueError, match="None is no plan file, equipoise.verify_plan: give its path or its text"):
        eq.verify_plan(None)
