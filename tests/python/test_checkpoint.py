"""A run that goes on from a checkpoint is the run that was not stopped, bit for bit."""

import json
import os
import shutil
from pathlib import Path

import pytest

from equipoise.checkpoint import Position, find_checkpoint, identity, read_position
from equipoise.corpus import build_corpus
from equipoise.options import parse_options
from equipoise.train import prepare
from launch import TINY, finish, start, write_corpus


def run(folder: Path, corpus: Path, *more: str) -> list[dict]:
    """Trains on two ranks to step 8, through two epochs; the lines of the log."""
    arguments = [
        *TINY,
        "--corpus",
        str(corpus),
        "--out",
        str(folder),
        "--epochs",
        "3",
        "--steps",
        "8",
        "--micro-steps",
        "2",
    ]
    results = finish(start(2, [*arguments, *more]))
    assert [code for code, _, _ in results] == [0, 0], [stderr for _, _, stderr in results]
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


def test_resumed_losses_are_bit_identical_across_epochs(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "text", paragraphs=8)
    whole = run(tmp_path / "whole", corpus, "--checkpoint-every", "3")
    assert [line["steps"] for line in whole] == list(range(1, 9))
    assert whole[0]["epoch"] < whole[-1]["epoch"]
    for name in ("step-000003", "step-000006"):
        rest = run(tmp_path / name, corpus, "--resume", str(tmp_path / "whole" / name))
        first = int(name[-1])
        assert [line["steps"] for line in rest] == list(range(first + 1, 9))
        for resumed, straight in zip(rest, whole[first:], strict=True):
            assert (resumed["epoch"], resumed["targets"]) == (straight["epoch"], straight["targets"])
            assert resumed["loss"] == straight["loss"]


def write_checkpoint(folder: Path, **changes) -> dict:
    """A record without weights, of the default options on two documents; returns what a run expects of it."""
    corpus = build_corpus([b"ab", b"cd"])
    expected = identity(parse_options([]), corpus)
    position = {"steps": 3, "epoch": 1, "sampler": {"step": 4}}
    record = {"format": "equipoise.checkpoint", "version": 1, **expected, "position": position, **changes}
    folder.mkdir(parents=True)
    (folder / "position.json").write_text(json.dumps(record))
    return expected


def test_the_last_whole_checkpoint_of_a_run_is_found(tmp_path: Path) -> None:
    for name in ("step-000002", "step-000010", "step-000012.partial"):
        write_checkpoint(tmp_path / name)
    assert find_checkpoint(tmp_path).name == "step-000010"
    assert find_checkpoint(tmp_path / "step-000002").name == "step-000002"


def test_a_position_is_read_as_it_was_written(tmp_path: Path) -> None:
    expected = write_checkpoint(tmp_path / "a")
    assert read_position(tmp_path / "a", expected) == Position(3, 1, {"step": 4})


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 2}, "version 2 where 1 is read"),
        ({"seed": 5}, "seed is 5 there and 0 here"),
        ({"corpus": "0"}, "corpus is 0 there and [0-9a-f]{16} here"),
        ({"documents": 9}, "documents is 9 there and 2 here"),
        ({"position": {"step": 1}}, "not a checkpoint of this program"),
        ({"position": None}, "not a checkpoint of this program"),
    ],
)
def test_a_checkpoint_of_another_run_or_version_is_refused(tmp_path: Path, changes: dict, what: str) -> None:
    expected = write_checkpoint(tmp_path / "a", **changes)
    with pytest.raises(ValueError, match=rf"^{what}, {tmp_path}/a/position.json: "):
        read_position(tmp_path / "a", expected)


def test_a_broken_record_is_refused(tmp_path: Path) -> None:
    expected = write_checkpoint(tmp_path / "a")
    (tmp_path / "a" / "position.json").write_text("{")
    with pytest.raises(ValueError, match="not a checkpoint of this program"):
        read_position(tmp_path / "a", expected)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"^no checkpoint, --resume {tmp_path}: give "):
        find_checkpoint(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one rank that saved its step 2."""
    folder = tmp_path_factory.mktemp("saved")
    corpus = write_corpus(folder / "text", paragraphs=40)
    arguments = ["--corpus", str(corpus), "--out", str(folder), "--steps", "2", "--checkpoint-every", "2"]
    [(code, _, stderr)] = finish(start(1, [*TINY, *arguments]))
    assert code == 0, stderr
    return folder


def change_json(path: Path, **changes) -> None:
    record = json.loads(path.read_text())
    record["position"] |= changes
    path.write_text(json.dumps(record))


BROKEN = {
    "steps is a text": lambda folder: change_json(folder / "position.json", steps="2"),
    "epoch below 0": lambda folder: change_json(folder / "position.json", epoch=-1),
    "state is a list": lambda folder: change_json(folder / "position.json", sampler=[1]),
    "state is empty": lambda folder: change_json(folder / "position.json", sampler={}),
    "no record": lambda folder: (folder / "position.json").write_bytes(b"\xff["),
    "no weights": lambda folder: (folder / "__0_0.distcp").unlink(),
    "weights cut": lambda folder: os.truncate(folder / "__0_0.distcp", 2000),
    "no metadata": lambda folder: (folder / ".metadata").unlink(),
    "metadata cut": lambda folder: os.truncate(folder / ".metadata", 100),
}
OTHER = (["--overlong", "drop"], ["--strategy", "fixed"], ["--demo"])


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_checkpoint_is_refused_before_ranks_meet(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    shutil.copytree(saved / "step-000002", tmp_path / "step-000002")
    BROKEN[broken](tmp_path / "step-000002")
    refuse(saved, tmp_path, monkeypatch, [])


@pytest.mark.parametrize("other", OTHER)
def test_a_checkpoint_is_refused_with_other_arguments(
    saved: Path, monkeypatch: pytest.MonkeyPatch, other: list[str]
) -> None:
    refuse(saved, saved, monkeypatch, other)


def refuse(saved: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    arguments = ["--corpus", str(saved / "text"), "--out", str(saved), "--steps", "9", "--resume", str(checkpoint)]
    prepare(parse_options([*TINY, *arguments[:-1], str(saved)]))  # what is whole is taken
    with pytest.raises(ValueError, match=r"^\S.*, .*: .+$"):
        prepare(parse_options([*TINY, *arguments, *more]))


def test_weights_that_only_torch_finds_broken_end_without_a_traceback(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "step-000002", tmp_path / "step-000002")
    weights = tmp_path / "step-000002" / "__0_0.distcp"
    weights.write_bytes(b"x" * weights.stat().st_size)
    arguments = ["--corpus", str(saved / "text"), "--out", str(tmp_path), "--steps", "9", "--resume", str(tmp_path)]
    [(code, _, stderr)] = finish(start(1, [*TINY, *arguments]))
    assert code == 1
    assert "Traceback" not in stderr
    assert "equipoise: error: cannot be read, checkpoint" in stderr
