"""`compare`: the same documents under several strategies, one row each."""

import re
from pathlib import Path

import pytest

from plans import MESH
from program import SMALL, answer, check_golden, heavy_tail, refusal, run, write_lengths

WAITING = ["--max-tokens", "192", "--queues", "40,80", "--max-delay", "2", "--repack-window", "2"]


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    return write_lengths(tmp_path / "lengths.txt", [*heavy_tail(1, 120, 150), 0])


def without_planning_times(text: str) -> str:
    """Planning time is the last column, and the only one that is measured: what stands there is no part of the test."""
    return re.sub(r" +[\d.]+ (ns|us|ms|s)$", lambda time: "~".rjust(len(time[0])), text, flags=re.MULTILINE)


def test_compare_reads_as_it_should(lengths: Path) -> None:
    flags = [*WAITING, "--overlong", "truncate", "--strategies", "plain,fixed,wlb,libra"]
    done = run("compare", lengths, *SMALL, *MESH, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    check_golden("compare.txt", without_planning_times(done.stdout))


def test_compare_predicts_what_plan_predicts(lengths: Path, tmp_path: Path) -> None:
    found = answer("compare", lengths, *SMALL, *MESH, "--strategies", "allgather,ulysses,libra", "--steps", "3")
    pools = {"allgather": 1, "ulysses": 1, "libra": 2}  # replicas that share nothing do not wait within a step
    assert [one["strategy"] for one in found["strategies"]] == ["allgather", "ulysses", "libra"]
    for one in found["strategies"]:
        flags = ["--strategy", one["strategy"], "--pool", pools[one["strategy"]], "--steps", "3"]
        mesh = [*MESH[:2], *MESH[4:]]
        planned = answer("plan", lengths, *SMALL, *mesh, *flags, "--out", tmp_path / "plan.jsonl")
        assert one["inputs"] == planned["inputs"]
        for key in ["step", "documents", "sequences", "tokens", "held_tokens", "step_ns", "max_sent_bytes"]:
            assert [step[key] for step in one["steps"]] == [step[key] for step in planned["steps"]], key


def test_a_run_is_the_sum_of_its_steps(lengths: Path) -> None:
    found = answer("compare", lengths, *SMALL, *MESH, *WAITING)
    assert [one["strategy"] for one in found["strategies"]] == ["plain", "fixed", "wlb", "equipoise"]
    first = found["strategies"][0]["run"]
    for one in found["strategies"]:
        steps = [step for step in one["steps"] if not step["ending"]]
        total = sum(step["total_ns"] for step in steps)
        tokens = sum(step["tokens"] for step in steps)
        time = sum(step["step_ns"] for step in steps)
        ratios = [1e6 * step["heaviest_ns"] * step["sequences"] / step["total_ns"] for step in steps]
        wanted = {
            "imbalance_ppm": sum(ratios) / len(steps),
            "weighted_imbalance_ppm": 1e6 * sum(step["heaviest_ns"] * step["sequences"] for step in steps) / total,
            "mean_delay_ppm": 1e6 * sum(d * count for step in steps for d, count in step["delays"]) / tokens,
            "token_ps": 1e3 * time / tokens,
            "token_work_ps": 1e3 * total / tokens,
        }
        assert {key: one["run"][key] for key in wanted} == pytest.approx(wanted, abs=2)  # rounded down twice
        assert one["run"]["tokens"] == tokens
        assert one["speed_up_ppm"] == 10**6 * first["token_ps"] // one["run"]["token_ps"]
        planning = [step["planning_ns"] for step in one["steps"]]
        assert one["mean_planning_ns"] == sum(planning) // len(planning)
        assert min(planning) > 0
        assert one["run"]["tokens"] + one["run"]["ending_tokens"] == sum(s["tokens"] for s in one["steps"])


def test_options_go_to_the_strategies_that_have_them(lengths: Path) -> None:
    found = answer("compare", lengths, *SMALL, *MESH, *WAITING, "--strategies", "libra,equipoise,wlb,fixed")
    inputs = {one["strategy"]: one["inputs"] for one in found["strategies"]}
    assert [one["max_delay"] for one in inputs.values()] == [0, 2, 2, 0]
    assert [one["queues"] for one in inputs.values()] == [[], [], [40, 80], []]
    assert [one["repack_window"] for one in inputs.values()] == [1, 1, 1, 2]
    unbounded = answer("compare", lengths, *SMALL, "--strategies", "wlb")
    assert unbounded["strategies"][0]["inputs"]["max_delay"] is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--strategies plain,fixed --queues 8", "no strategy of plain,fixed has --queues, option --queues: leave it "),
        ("--strategies plain,fixed --max-delay 2", "no strategy of plain,fixed has --max-delay, option --max-delay: "),
        ("--strategies plain,wlb --pool 2", "no strategy of plain,wlb has --pool, option --pool: "),
        ("--strategies wlb --repack-window 2", "no strategy of wlb has --repack-window, option --repack-window: "),
        ("--strategies plain,best", "strategy 'best' is not known, "),
        ("--strategies wlb,plain,wlb", "strategy wlb is given twice, option --strategies: give each once"),
        ("--strategies plain,", "strategy '' is not known, "),
        ("--max-delay -1", "--max-delay -1 is too small, option --max-delay: give at least 0"),
        ("--steps -1", "--steps -1 is too small, option --steps: give at least 0"),
        ("--strategy plain", "The following arguments were not expected: "),
    ],
)
def test_what_cannot_be_compared_is_refused(lengths: Path, flags: str, message: str) -> None:
    assert refusal("compare", lengths, *flags.split()).startswith(message)


def test_the_default_hardware_is_said(lengths: Path) -> None:
    flags = ["--steps", "1", "--strategies", "plain"]
    assert "h100 (nobody said which: --hardware names another)" in run("compare", lengths, *flags).stdout
    assert answer("compare", lengths, *flags)["default_hardware"]
    assert not answer("compare", lengths, *flags, *SMALL)["default_hardware"]
