"""What the commands print: tables for the eye, JSON for programs, help."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from plans import MESH
from program import SMALL, answer, check_golden, find_program, heavy_tail, run, write_lengths

COMMANDS = ["inspect", "plan", "compare", "advise", "verify", "calibrate"]


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    return write_lengths(tmp_path / "lengths.txt", [*heavy_tail(1, 60, 150), 0])


def words_of_help(text: str) -> str:
    """Names and descriptions of a help text, whatever the layout of the library's version."""
    lines = [line.strip() for line in text.splitlines()]
    entry = re.compile(r"(-h,--help|--?[\w-]+|[A-Z]+|[a-z]+)(?: (?:TEXT|INT|REQUIRED))*\s{2,}(\S.*)")
    found = [entry.fullmatch(line) for line in lines]
    footer = " ".join(text.partition("\nColumns of the table:")[2].split())
    return "".join(f"{match[1]}  {match[2]}\n" for match in found if match) + (footer and footer + "\n")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_lists_every_flag(command: str) -> None:
    done = run(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    check_golden(f"help_{command or 'equipoise'}.txt", words_of_help(done.stdout))


def test_the_version_is_a_number() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", run("--version").stdout)


def test_inspect_reads_as_it_should(lengths: Path) -> None:
    done = run("inspect", lengths, *SMALL, *MESH)
    assert (done.returncode, done.stderr) == (0, "")
    check_golden("inspect.txt", done.stdout)


def test_plan_reads_as_it_should(lengths: Path, tmp_path: Path) -> None:
    flags = ["--strategy", "ulysses", "--align", "4", "--out", tmp_path / "plan.jsonl"]
    done = run("plan", lengths, *SMALL, *MESH, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    check_golden("plan.txt", done.stdout.replace(str(tmp_path), "."))


def test_inspect_counts_what_python_counts(tmp_path: Path) -> None:
    values = heavy_tail(2, 500, 10_000)
    window = 1024
    found = answer("inspect", write_lengths(tmp_path / "lengths.txt", values), "--window", window, *SMALL)

    def work(length: int) -> int:
        return sum(piece * (piece + 1) // 2 for piece in [window] * (length // window) + [length % window])

    assert found["documents"] == 500
    assert found["tokens"] == sum(values)
    assert found["overlong_documents"] == sum(value > window for value in values)
    assert found["quantiles"][-1] == {"thousandths": 1000, "length_tokens": max(values)}
    for one in found["bins"]:
        inside = [value for value in values if one["least_tokens"] <= value <= one["most_tokens"]]
        assert one["documents"] == len(inside)
        assert one["tokens"] == sum(inside)
        assert one["work_ppm"] == 1_000_000 * sum(map(work, inside)) // sum(map(work, values))
    assert sum(one["documents"] for one in found["bins"]) == 500


def test_plan_says_in_json_what_the_file_holds(lengths: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.jsonl"
    found = answer("plan", lengths, *SMALL, *MESH, "--out", out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert found["inputs"] == lines[0]["inputs"]
    assert len(found["steps"]) == len(lines)
    for step, line in zip(found["steps"], lines, strict=True):
        assert step["step"] == line["step"]
        assert {key: step[key] for key in line["summary"]} == line["summary"]
    assert (found["documents"], found["left_documents"], found["default_hardware"]) == (61, 0, False)


def test_the_default_hardware_is_said(lengths: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "plan.jsonl", "--steps", "1"]
    assert "h100 (nobody said which: --hardware names another)" in run("plan", lengths, *out).stdout
    found = answer("plan", lengths, *out)
    assert (found["hardware"], found["default_hardware"]) == ("h100", True)
    assert "nobody said" not in run("plan", lengths, *out, "--hardware", "h100").stdout


def test_integers_are_decimal_up_to_their_last_bit(lengths: Path, tmp_path: Path) -> None:
    flags = ["--window", "0400", "--seed", 2**63 - 1, "--out", tmp_path / "plan.jsonl"]
    inputs = answer("plan", lengths, *SMALL, *flags)["inputs"]
    assert (inputs["limits"]["window"], inputs["seed"]) == (400, 2**63 - 1)


def test_steps_limits_what_is_planned(lengths: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.jsonl"
    for steps in [0, 1, 2]:
        found = answer("plan", lengths, *SMALL, "--mesh", "dp=2", "--window", "160", "--steps", steps, "--out", out)
        assert len(found["steps"]) == len(out.read_text().splitlines()) == steps
        assert found["left_documents"] == 61 - sum(step["documents"] for step in found["steps"])


def test_all_formats_of_lengths_give_the_same_plan(lengths: Path, tmp_path: Path) -> None:
    values = [int(line) for line in lengths.read_text().splitlines()]
    objects = tmp_path / "lengths.jsonl"
    objects.write_text("".join(json.dumps({"id": n, "length": value}) + "\n" for n, value in enumerate(values)))
    array = tmp_path / "lengths.npy"
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({len(values)},), }}\n".encode()
    data = b"".join(value.to_bytes(4, "little") for value in values)
    array.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)
    plans = []
    for path in [lengths, objects, array]:
        assert run("plan", path, *SMALL, *MESH, "--out", tmp_path / "plan.jsonl").returncode == 0
        plans.append((tmp_path / "plan.jsonl").read_bytes())
    piped = run("plan", "-", *SMALL, *MESH, "--out", tmp_path / "plan.jsonl", text=lengths.read_text())
    assert piped.returncode == 0
    assert [*plans, (tmp_path / "plan.jsonl").read_bytes()] == [plans[0]] * 4


def test_a_terminal_gets_the_same_table_in_colour(lengths: Path) -> None:
    command = [find_program(), "inspect", str(lengths), *SMALL, *MESH]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def on_terminal(**environment: str) -> str:
        ours, theirs = pty.openpty()
        subprocess.run(command, stdout=theirs, check=True, env={**os.environ, "TERM": "xterm", **environment})
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:  # the terminal's other end is closed
            pass
        os.close(ours)
        return text.decode().replace("\r\n", "\n")

    coloured = on_terminal()
    assert "\033[1m" in coloured
    assert re.sub(r"\033\[\d*m", "", coloured) == piped
    assert on_terminal(NO_COLOR="1") == piped


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", heavy_tail(1, 20_000, 150))
    process = subprocess.Popen(
        [find_program(), "inspect", str(lengths), *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_calibrate_only_says_who_measures() -> None:
    assert "python -m equipoise.calibrate --out this-machine.json" in run("calibrate").stdout
    assert answer("calibrate") == {"command": "python -m equipoise.calibrate --out this-machine.json"}
