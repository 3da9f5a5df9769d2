"""`advise --pool-size`: the same steps in pools of every size, and the size to take."""

import math
from pathlib import Path

import pytest

from program import SMALL, answer, check_golden, heavy_tail, refusal, run, write_lengths

ASKED = ["--pool-size", "--mesh", "dp=4,cp=2", "--window", "128"]


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    return write_lengths(tmp_path / "lengths.txt", [*heavy_tail(1, 120, 150), 0])


def test_advice_reads_as_it_should(lengths: Path) -> None:
    done = run("advise", lengths, *SMALL, *ASKED, "--ranks-per-node", "4")
    assert (done.returncode, done.stderr) == (0, "")
    check_golden("advise.txt", done.stdout)


def test_advice_predicts_what_plan_predicts(lengths: Path, tmp_path: Path) -> None:
    found = answer("advise", lengths, *SMALL, *ASKED, "--steps", "1")
    assert [one["pool"] for one in found["pools"]] == [1, 2, 4]
    for one in found["pools"]:
        flags = ["--pool", one["pool"], "--steps", "1", "--out", tmp_path / "plan.jsonl"]
        planned = answer("plan", lengths, *SMALL, *ASKED[1:], *flags)
        (step,) = planned["steps"]
        assert one["imbalance_ppm"] == step["pools"]["imbalance_ppm"]
        for key in ["tokens", "mean_sent_bytes", "max_sent_bytes", "exchange_ns", "step_ns"]:
            assert one[key] == step[key], key
        if one["pool"] == found["chosen_pool"]:
            assert found["inputs"] == planned["inputs"]


def test_chance_is_the_law_of_the_largest_of_many(lengths: Path) -> None:
    flags = ["--pool-size", "--mesh", "dp=12", "--window", "64", "--micro-steps", "2", "--steps", "1"]
    found = answer("advise", lengths, *SMALL, *flags)
    assert [one["pool"] for one in found["pools"]] == [1, 2, 3, 4, 6, 12]
    for one in found["pools"]:
        spread = math.sqrt(2 * math.log(12 / one["pool"]) / (2 * one["pool"]))
        assert one["chance_ppm"] == pytest.approx(1e6 + one["variation_ppm"] * spread, abs=2)
        assert one["variation_ppm"] == found["pools"][0]["variation_ppm"] > 0


@pytest.mark.parametrize("per_node", [2, 4, 8])
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_follows_from_the_rows(tmp_path: Path, seed: int, per_node: int) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", heavy_tail(seed, 100, 150))
    found = answer("advise", lengths, *SMALL, *ASKED, "--ranks-per-node", per_node, "--steps", "3")
    times = {one["pool"]: one["token_ps"] for one in found["pools"]}
    best = min(times.values())
    assert found["fastest_pool"] == min(pool for pool, time in times.items() if time == best)
    assert found["chosen_pool"] == min(pool for pool, time in times.items() if 100 * time <= 101 * best)
    assert found["reason"].startswith(f"pools of {found['chosen_pool']}: ")
    smaller = "but their exchange stays in a smaller domain" in found["reason"]
    assert smaller == (found["chosen_pool"] < found["fastest_pool"])
    leaving = [pool for pool in times if 2 * pool > per_node]
    assert [one["pool"] for one in found["pools"] if one["leaves_node"]] == leaving
    named = f"; pools of {', '.join(map(str, leaving))} leave a node of {per_node} ranks"
    assert found["reason"].endswith(named) if leaving else "node" not in found["reason"]


def test_a_size_that_gains_next_to_nothing_is_not_chosen(tmp_path: Path) -> None:
    for seed in range(60):
        lengths = write_lengths(tmp_path / "lengths.txt", heavy_tail(seed, 100, 150))
        found = answer("advise", lengths, *SMALL, *ASKED, "--steps", "3")
        chosen, fastest = found["chosen_pool"], found["fastest_pool"]
        if chosen < fastest:
            break
    times = {one["pool"]: one["token_ps"] for one in found["pools"]}
    assert times[chosen] > times[fastest] == min(times.values())
    slower = f"pools of {chosen}: {100 * times[chosen] / times[fastest] - 100:.1f} % slower than the fastest, "
    assert found["reason"] == f"{slower}pools of {fastest}, but their exchange stays in a smaller domain"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "it was not said what to advise on, command line: give --pool-size, the one question that is answered"),
        ("--pool-size --pool 2", "The following arguments were not expected: "),
        ("--pool-size --queues 8", "The following arguments were not expected: "),
        ("--pool-size --mean-delay 1", "The following arguments were not expected: "),
        ("--pool-size --repack-window 2", "The following arguments were not expected: "),
        ("--pool-size --strategy plain", "The following arguments were not expected: "),
        ("--pool-size --mesh dp=0", "axis dp has 0 ranks, option --mesh: "),
        ("--pool-size --steps -1", "--steps -1 is too small, option --steps: give at least 0"),
        ("--pool-size --exchange-bytes -1", "exchange_bytes -1 is out of range, "),
    ],
)
def test_what_cannot_be_advised_is_refused(lengths: Path, flags: str, message: str) -> None:
    assert refusal("advise", lengths, *flags.split()).startswith(message)


def test_advice_needs_a_step(lengths: Path, tmp_path: Path) -> None:
    none = write_lengths(tmp_path / "none.txt", [])
    asked = [*SMALL, *ASKED]
    message = "there is no step to plan, {}: give at least one document and one step"
    assert refusal("advise", none, *asked) == message.format(none)
    assert refusal("advise", lengths, *asked, "--steps", "0") == message.format(lengths)


def test_eight_steps_are_planned_unless_told(tmp_path: Path) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [64] * 40)
    flags = [*SMALL, "--pool-size", "--mesh", "dp=2", "--window", "64"]
    assert [one["steps"] for one in answer("advise", lengths, *flags)["pools"]] == [8, 8]
    assert [one["steps"] for one in answer("advise", lengths, *flags, "--steps", "11")["pools"]] == [11, 11]
