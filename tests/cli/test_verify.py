"""`verify` finds what is wrong with a plan file, and nothing where nothing is wrong."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plans import MESH, change, edited, make_plan, numbers, read, replaced, write
from program import answer, check_golden, heavy_tail, run

TILE_CP_RANK = 8  # of the numbers of a tile
STRATEGIES = ["plain", "allgather", "ulysses", "fixed", "libra", "equipoise"]


def rules(path: Path) -> set[str]:
    return {violation["rule"] for violation in answer("verify", path)["violations"]}


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plans_of_every_preset_are_valid(tmp_path: Path, strategy: str, brief: bool) -> None:
    extra = ["--brief"] if brief else []
    for n, flags in enumerate(
        [
            ["--mesh", "dp=4,cp=2", "--pool", "2", "--window", "128"],
            ["--mesh", "dp=3,cp=1", "--window", "64", "--micro-steps", "2", "--shuffle", "--seed", "7", "--align", "4"],
            ["--mesh", "dp=2,cp=3,tp=2", "--window", "90", "--masks", "full:1,sliding_window=9:2,causal:1"],
            ["--mesh", "dp=1", "--window", "32", "--overlong", "truncate", "--ranks-per-node", "1"],
            ["--mesh", "dp=4,cp=2", "--pool", "4", "--window", "64", "--overlong", "drop", "--dp-sync", "micro_step"],
            ["--mesh", "dp=4,cp=2", "--pool", "2", "--window", "1024", "--gradient-sum", "invariant"],
        ]
    ):
        path = make_plan(tmp_path, *flags, "--strategy", strategy, *extra, lengths=[*heavy_tail(n, 80, 150), 0, 0])
        verdict = answer("verify", path)
        assert verdict["violations"] == []
        assert verdict["documents"] == 82
        assert verdict["held"] == 0
        assert verdict["replanned"] == (verdict["steps"] if brief else 0)
        assert verdict["buckets"] == sum(len(line["sequences"]) // line["inputs"]["pool"] for line in read(path)), (
            "every bucket was checked"
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_inputs_give_equal_bytes(tmp_path: Path, strategy: str) -> None:
    first = make_plan(tmp_path, *MESH, "--strategy", strategy).read_bytes()
    assert make_plan(tmp_path, *MESH, "--strategy", strategy).read_bytes() == first


def test_presets_with_the_same_promise_train_the_same_segments(tmp_path: Path) -> None:
    def segments(strategy: str) -> list[list[list[int]]]:
        lines = read(make_plan(tmp_path, *MESH, "--strategy", strategy))
        return [sorted(segment for sequence in line["sequences"] for segment in sequence) for line in lines]

    plain = segments("plain")
    for strategy in ["allgather", "ulysses", "libra", "equipoise"]:
        assert segments(strategy) == plain, strategy


def test_every_token_of_every_document_stands_in_the_file_once(tmp_path: Path) -> None:
    lengths = [*heavy_tail(3, 80, 300), 0]
    lines = read(make_plan(tmp_path, *MESH, "--strategy", "libra", lengths=lengths))
    seen = [
        (document, begin + token)
        for line in lines
        for sequence in line["sequences"]
        for document, begin, length in sequence
        for token in range(length)
    ]
    assert sorted(seen) == [(document, token) for document, length in enumerate(lengths) for token in range(length)]


def test_what_is_truncated_or_dropped_is_named(tmp_path: Path) -> None:
    for policy, untrained in [("truncate", {0: 1}), ("drop", {0: 5}), ("split", {})]:
        flags = ["--mesh", "dp=1", "--window", "4", "--overlong", policy]
        lines = read(make_plan(tmp_path, *flags, lengths=[5, 2, 3, 1]))
        named = [pair for line in lines for list_ in line["untrained"].values() for pair in list_]
        assert dict(named) == untrained, policy


@pytest.mark.parametrize("lengths", [[], [5], [0, 0, 0]])
def test_none_one_and_only_empty_documents_are_plans_too(tmp_path: Path, lengths: list[int]) -> None:
    path = make_plan(tmp_path, *MESH, lengths=lengths)
    verdict = answer("verify", path)
    assert verdict["valid"]
    assert verdict["documents"] == len(lengths)
    assert verdict["steps"] == (1 if lengths else 0)
    if lengths:
        empty = 4 if sum(lengths) == 0 else 3
        assert read(path)[0]["summary"]["empty_sequences"] == empty


LEVEL = {"imbalance_ppm": 10**6, "lower_bound_ppm": 10**6}

# The key, what becomes of its value, and the rule that must be named.
BREAKS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("step", lambda step: step + 1, "steps in order"),
    ("inputs_hash", lambda text: text[::-1], "inputs hash"),
    ("inputs", lambda inputs: {**inputs, "seed": 1}, "inputs hash"),
    ("arrived", lambda ends: [ends[0], ends[1] + 1], "documents listed"),
    ("documents", lambda rows: rows[1:], "documents listed"),
    ("sequences", lambda rows: replaced(rows, 0, rows[0][1:]), "token trained once"),
    ("sequences", lambda rows: replaced(rows, 0, [rows[0][0], *rows[0]]), "token trained once"),
    ("placement", lambda rows: replaced(rows, 0, rows[1]), "slot used once"),
    ("placement", lambda rows: replaced(rows, 0, [5, 0]), "slot in mesh"),
    ("shards", lambda rows: replaced(rows, 0, rows[0][1:]), "token owned once"),
    ("shards", lambda rows: replaced(rows, 0, [[*rows[0][0][:3], 7], *rows[0][1:]]), "rank in group"),
    ("tiles", lambda rows: [*rows, rows[0]], "tiles overlap"),
    ("tiles", lambda rows: [[*rows[0][:9], 10**12], *rows[1:]], "round in range"),
    ("tiles", lambda rows: [[*rows[0][:3], 10**6, *rows[0][4:]], *rows[1:]], "tile in segment"),
    ("tiles", lambda rows: rows[1:], "summary agrees"),
    ("held", lambda rows: [*rows, [0, 0, 1, 0, -1]], "token trained once"),
    ("untrained", lambda lists: {**lists, "dropped": [[0, 1]]}, "untrained counted"),
    ("summary", lambda summary: {**summary, "step_ns": 1}, "summary agrees"),
    (
        "summary",
        lambda summary: {**summary, "pools": {"imbalance_ppm": 10**6, "lower_bound_ppm": 10**6}},
        "summary agrees",
    ),
    (
        "summary",
        lambda summary: {**summary, "ranks": {"imbalance_ppm": 10**6, "lower_bound_ppm": 10**6}},
        "summary agrees",
    ),
    ("summary", lambda summary: {**summary, "loss_tokens": 1}, "loss tokens counted"),
]


@pytest.mark.parametrize(("key", "value", "rule"), BREAKS, ids=[f"{key}: {rule}" for key, _, rule in BREAKS])
def test_a_broken_plan_is_answered_no_with_the_rule(
    tmp_path: Path, key: str, value: Callable[[Any], Any], rule: str
) -> None:
    path = make_plan(tmp_path, *MESH, "--strategy", "ulysses")
    lines = read(path)
    write(path, [change(lines[0], key, value), *lines[1:]])
    done = run("verify", path)
    assert done.returncode == 1
    assert done.stderr == ""
    assert f"{rule}, line 1" in done.stdout
    assert rule in rules(path)


@pytest.mark.parametrize(
    ("rearrange", "rule"),
    [
        (lambda lines: lines[1:], "steps in order"),
        (lambda lines: [lines[0], *lines[2:]], "steps in order"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "document arrives once"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "steps in order"),
        (lambda lines: [lines[0], change(lines[1], "inputs", lambda inputs: {**inputs, "epoch": 3})], "inputs equal"),
        (
            lambda lines: [
                lines[0],
                change(lines[1], "documents", lambda rows: replaced(rows, 0, lines[0]["documents"][0])),
            ],
            "document arrives once",
        ),
    ],
)
def test_lines_that_do_not_belong_together_are_found(
    tmp_path: Path, rearrange: Callable[[list[Any]], list[Any]], rule: str
) -> None:
    path = make_plan(tmp_path, "--mesh", "dp=2", "--window", "128")
    lines = read(path)
    assert len(lines) > 2
    write(path, rearrange(lines))
    assert run("verify", path).returncode == 1
    assert rule in rules(path)


def test_no_number_of_a_plan_can_be_changed_unseen(tmp_path: Path) -> None:
    lengths = [300, 0, *[10] * 30, 200]
    path = make_plan(tmp_path, "--mesh", "dp=2,cp=2", "--window", "300", "--strategy", "libra", lengths=lengths)
    lines = read(path)
    assert lines[0]["tiles"], "the plan moves work"
    source = random.Random(0)
    # A bound that no solution beats cannot be counted again; that it lies below the imbalance is checked. And two ranks
    # of a context group may compute a tile equally well.
    places = [
        trail
        for trail in numbers(lines[0])
        if trail[-1] != "lower_bound_ppm" and (trail[0], trail[-1]) != ("tiles", TILE_CP_RANK)
    ]
    for trail in source.sample(places, 150):
        change = source.choice([-1, 1, 2])

        def add(place: Any, key: Any, change: int = change) -> None:
            place[key] += change

        write(path, [edited(lines[0], trail, add), *lines[1:]])
        assert run("verify", path).returncode in (1, 2), trail


def test_a_plan_is_read_from_standard_input(tmp_path: Path) -> None:
    text = make_plan(tmp_path).read_text()
    assert answer("verify", "-", text=text)["file"] == "standard input"


def test_a_missing_end_cannot_be_known_and_that_is_said(tmp_path: Path) -> None:
    path = make_plan(tmp_path)
    whole = read(path)
    for count in [0, 1, len(whole)]:
        verdict = answer("verify", write(path, whole[:count]))
        assert (verdict["steps"], verdict["valid"]) == (count, True)
        assert verdict["unchecked"][-1].startswith("whether lines are missing at the end: ")


def test_what_was_not_checked_is_said(tmp_path: Path) -> None:
    flags = ["--mesh", "dp=2", "--window", "64", "--strategy", "fixed", "--shuffle", "--steps", "1"]
    path = make_plan(tmp_path, *flags)
    verdict = answer("verify", path)
    assert verdict["valid"]
    assert verdict["unchecked"][0].startswith("the order of arrival: ")
    if verdict["held"]:
        assert "held after the last step" in verdict["unchecked"][1]
    lines = read(path)
    write(path, [change(lines[0], "documents", lambda rows: rows[1:])])
    assert "shards, tiles, messages and summary of line 1" in answer("verify", path)["unchecked"][0]


def test_the_verdict_reads_as_it_should(tmp_path: Path) -> None:
    path = make_plan(tmp_path, *MESH, "--strategy", "ulysses")
    done = run("verify", path)
    check_golden("verify_valid.txt", done.stdout.replace(str(path), "plan.jsonl"))
    lines = read(path)
    write(path, [change(lines[0], "placement", lambda rows: replaced(rows, 0, rows[1])), *lines[1:]])
    done = run("verify", path)
    check_golden("verify_broken.txt", done.stdout.replace(str(path), "plan.jsonl"))
