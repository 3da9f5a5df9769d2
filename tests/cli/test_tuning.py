"""--queues auto: thresholds found on the lengths themselves, and what else could have been had."""

import random
from pathlib import Path

import pytest

from program import SMALL, answer, refusal, run, write_lengths

MESH = ["--mesh", "dp=1", "--micro-steps", "4", "--window", "4096", "--max-tokens", "6144", "--steps", "40"]


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    """Mostly short documents; one in forty is at least half a window."""
    rng = random.Random(3)
    documents = [rng.randint(2048, 4000) if rng.random() < 1 / 40 else rng.randint(10, 300) for _ in range(8000)]
    return write_lengths(tmp_path / "lengths.txt", documents)


def test_compare_takes_the_best_of_the_frontier_within_the_delay(lengths: Path) -> None:
    auto = ["--strategies", "plain,wlb", "--queues", "auto", "--mean-delay", "1.0"]
    found = answer("compare", lengths, *SMALL, *MESH, *auto)
    tuned = found["tuned_queues"]
    plain, wlb = found["strategies"]
    assert wlb["inputs"]["queues"] == tuned["best"]["queue_tokens"] != []
    assert tuned["best"] in tuned["frontier"]
    within = [trial for trial in tuned["frontier"] if trial["mean_delay_ppm"] <= 1_000_000]
    least = min(trial["weighted_imbalance_ppm"] for trial in within)
    assert tuned["best"] == next(trial for trial in within if trial["weighted_imbalance_ppm"] <= least + 1000)
    assert tuned["meets_goal"]
    assert wlb["run"]["weighted_imbalance_ppm"] < plain["run"]["weighted_imbalance_ppm"]


def test_plan_shows_the_frontier_and_marks_what_it_took(lengths: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.jsonl"
    done = run("plan", lengths, *SMALL, *MESH, "--strategy", "wlb", "--queues", "auto", "--out", out)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("taken")]
    assert len(rows) == 1
    assert run("verify", out).returncode == 0


def test_equal_lengths_give_equal_queues(lengths: Path) -> None:
    auto = ["--strategies", "wlb", "--queues", "auto"]
    first, second = (answer("compare", lengths, *SMALL, *MESH, *auto)["tuned_queues"] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--strategies", "plain", "--queues", "auto"], "no strategy of plain has --queues"),
        (["--strategies", "plain", "--mean-delay", "1"], "no strategy of plain has --mean-delay"),
        (["--strategies", "wlb", "--mean-delay", "1"], "nothing is tuned for a mean delay"),
        (["--strategies", "wlb", "--queues", "auto", "--mean-delay", "-1"], "out of range, option --mean-delay"),
        (["--strategies", "wlb", "--queues", "auto,5"], "option --queues"),
    ],
)
def test_wrong_use_is_named(lengths: Path, flags: list[str], message: str) -> None:
    assert message in refusal("compare", lengths, *SMALL, *MESH, *flags)


def test_a_strategy_without_queues_is_not_tuned(lengths: Path, tmp_path: Path) -> None:
    said = refusal("plan", lengths, *SMALL, *MESH, "--queues", "auto", "--out", tmp_path / "plan.jsonl")
    assert "strategy 'equipoise' has no outlier queues" in said
