"""The form of a plan file: which keys a line has, and what a reader refuses."""

import re
from pathlib import Path
from typing import Any

import pytest

from plans import edited, keys, make_plan, read, write
from program import refusal, run


def test_a_line_has_the_keys_that_readers_rely_on(tmp_path: Path) -> None:
    line = read(make_plan(tmp_path))[0]
    head = ["format", "version", "step", "inputs", "inputs_hash", "arrived", "documents"]
    packing = ["sequences", "placement", "sharding", "shards", "tiles"]
    state = ["arrived_tokens", "held", "untrained", "summary"]
    assert list(line) == head + packing + state
    assert (line["format"], line["version"], line["step"]) == ("equipoise.plan", 1, 0)
    assert line["inputs"]["mesh"] == {
        "dp": 4, "pp": 1, "cp": 2, "tp": 1, "ranks_per_node": 8, "order": ["pp", "dp", "cp", "tp"]
    }  # fmt: skip
    assert line["inputs"]["heads"] == {"query": 4, "kv": 2, "size": 8}
    assert line["inputs"]["masks"] == [{"kind": "causal", "window": 0, "layers": 4}]
    assert line["inputs"]["limits"]["exchange_bytes"] is None
    assert line["inputs"]["max_delay"] == 0
    others = ["strategy", "seed", "epoch", "shuffle", "pool", "micro_steps", "dp_sync", "overlong", "speeds", "cost"]
    assert line["inputs"]["effort"] == "normal"
    assert set(others) < set(line["inputs"])


@pytest.mark.parametrize(("mesh", "tp", "total"), [("dp=2,cp=2,tp=4", 4, 8), ("dp=2,cp=3,tp=2", 2, 6)])
def test_case_p10_sequences_are_padded_to_what_tensor_parallel_ranks_share(
    mesh: str, tp: int, total: int, tmp_path: Path
) -> None:
    path = make_plan(tmp_path, "--mesh", mesh, "--window", "96", "--strategy", "plain")
    for line in read(path):
        tokens = [sum(length for _, _, length in segments) for segments in line["sequences"]]
        assert line["inputs"]["limits"]["align"] == tp
        assert line["summary"]["padding_rows"] == sum(-count % total for count in tokens)
    assert run("verify", path).returncode == 0


def test_a_missing_or_unknown_key_is_refused_by_its_name(tmp_path: Path) -> None:
    path = make_plan(tmp_path, "--mesh", "dp=1", "--window", "80", "--strategy", "plain", lengths=[9, 30])
    line = read(path)[0]
    for trail in keys(line):
        if trail in [("shards",), ("tiles",)]:
            continue

        def remove(place: Any, key: Any) -> None:
            del place[key]

        def rename(place: Any, key: Any) -> None:
            place["surprise"] = 1

        write(path, [edited(line, trail, remove)])
        assert f'{trail[-1]}" is missing, line 1 of {path}: give all keys' in refusal("verify", path), trail
        write(path, [edited(line, trail, rename)])
        assert f'surprise" is not known, line 1 of {path}: remove it' in refusal("verify", path), trail


def test_a_value_of_the_wrong_type_is_refused_by_its_key(tmp_path: Path) -> None:
    path = make_plan(tmp_path, "--mesh", "dp=1", "--window", "80", "--strategy", "plain", lengths=[9, 30])
    line = read(path)[0]
    wrongs = [None, "x", 1.5, [[]], {}, 2**64]
    limits = ("exchange_bytes", "activation_bytes", "max_documents", "max_tiles", "max_message_rows")
    for n, trail in enumerate(keys(line)):
        for wrong in wrongs[n % 3 :: 3]:
            if wrong is None and trail[-1] in ("max_delay", *limits):
                continue
            if wrong == "x" and trail[-1] in ("model", "hardware"):
                continue

            def put(place: Any, key: Any, wrong: Any = wrong) -> None:
                place[key] = wrong

            write(path, [edited(line, trail, put)])
            done = run("verify", path)
            assert done.returncode in (1, 2), (trail, wrong)
            if done.returncode == 2:
                assert done.stderr.startswith("equipoise: error: "), (trail, wrong)
                assert f"line 1 of {path}: " in done.stderr or "inputs" in done.stderr, (trail, wrong)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = make_plan(tmp_path)
    whole = path.read_bytes()
    for size in [1, 100, len(whole) // 2, len(whole) - 2]:
        path.write_bytes(whole[:size])
        assert "no valid JSON at character" in refusal("verify", path)


def test_a_newer_version_says_so_and_another_file_too(tmp_path: Path) -> None:
    path = make_plan(tmp_path)
    line = read(path)[0]
    write(path, [{**line, "version": 2}])
    assert refusal("verify", path) == (
        f"version 2 is newer than the 1 this program reads, line 1 of {path}: "
        "use the equipoise that wrote it, or a newer one"
    )
    write(path, [{**line, "format": "equipoise.trace"}])
    assert refusal("verify", path).startswith('this is a file of format "equipoise.trace", line 1 of')
    path.write_text("7\n8\n")
    assert refusal("verify", path) == f"this is 7, line 1 of {path}: give a JSON object"
    assert refusal("verify", tmp_path / "none").startswith("the file cannot be opened (No such file or directory), ")


def test_the_document_has_every_key(tmp_path: Path) -> None:
    line = read(make_plan(tmp_path))[0]
    text = (Path(__file__).parents[2] / "docs" / "plan-file.md").read_text()
    rows = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
    documented = [key for row in rows for key in re.findall(r"`(\w+)`", row)]
    assert sorted(documented) == sorted([*line, *line["inputs"], *line["summary"]])
