"""What a user sees when something is wrong: one line that says what, where and what to do, and an end in time."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from launch import TINY, finish, start, write_corpus

FORM = re.compile(r"^equipoise: error: \S.*, .*: .+$")


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("faults")
    corpus = write_corpus(folder / "text")
    return [*TINY, "--corpus", str(corpus), "--out", str(folder), "--timeout", "20", "--epochs", "1000"]


def error_lines(stderr: str) -> list[str]:
    """Lines of ours; torch's own warnings are none."""
    assert "Traceback" not in stderr, stderr
    return [line for line in stderr.splitlines() if "error" in line]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (["--steps", "x"], "--steps"),
        (["--steps", "0"], "0 is out of range, --steps"),
        (["--learning-rate", "nan"], "nan is out of range, --learning-rate"),
        (["--timeout", "-1"], "-1.0 is out of range, --timeout"),
        (["--timeout", "1e15"], "above 0 and of at most 86400"),
        (["--nonsense"], "--nonsense"),
        (["--mesh", "dp=2,cp=-1"], "'cp=-1'"),
        (["--mesh", "tp=2"], "'tp=2'"),
        (["--mesh", "dp=2,cp=2"], "1 ranks were started, mesh dp=2,cp=2"),
        (["--pool", "3"], "pool"),
        (["--window", "-5"], "window"),
        (["--window", "0"], "window"),
        (["--strategy", "best"], "best"),
        (["--overlong", "maybe"], "maybe"),
        (["--model", "layers=two"], "layers=two"),
        (["--model", "query_heads=3"], "3"),
        (["--model", "head_size=7"], "head_size 7 is odd"),
        (["--mesh", "cp=0"], "cp=0"),
        (["--corpus", "/no/such/corpus"], "/no/such/corpus"),
        (["--hardware", "/no/such/hardware.json"], "/no/such/hardware.json"),
        (["--resume", "/no/such/run"], "/no/such/run"),
        (["--out", "/dev/null/run"], "/dev/null/run"),
        (["--demo", "--steps", "2"], "more than 3 steps"),
    ],
)
def test_wrong_use_ends_with_exit_code_2_and_one_line(arguments: list[str], wrong: list[str], what: str) -> None:
    [(code, _, stderr)] = finish(start(1, [*arguments, *wrong]))
    lines = error_lines(stderr)
    assert code == 2, stderr
    assert len(lines) == 1
    assert FORM.match(lines[0]), lines[0]
    assert what in lines[0]


def test_all_ranks_refuse_a_mesh_of_another_size(arguments: list[str]) -> None:
    for code, _, stderr in finish(start(2, [*arguments, "--mesh", "dp=3,cp=1"])):
        assert code == 2
        assert "2 ranks were started, mesh dp=3,cp=1" in error_lines(stderr)[0]


def test_all_ranks_of_a_pool_refuse_a_plan_above_its_memory_with_the_reason(arguments: list[str]) -> None:
    limited = ["--mesh", "dp=1,cp=2", "--strategy", "allgather", "--exchange-bytes", "1000"]
    for code, _, stderr in finish(start(2, [*arguments, *limited])):
        [line] = error_lines(stderr)
        assert code == 1
        assert FORM.match(line), line
        assert "exchange_bytes 1000 is too small, micro-step 0, pool 0, where a member needs " in line


def test_a_killed_rank_ends_the_others_with_rank_step_collective_and_peer(arguments: list[str]) -> None:
    processes = start(2, arguments)
    assert "loss" in processes[0].stdout.readline()  # in the middle of training
    processes[1].send_signal(signal.SIGKILL)
    (code, _, stderr), _ = finish(processes, timeout=30)
    check_survivor(code, stderr, rank=0, peer=1)


def test_a_silent_rank_ends_the_others_when_the_time_out_is_over(arguments: list[str]) -> None:
    processes = start(2, [*arguments, "--timeout", "5"])
    assert "loss" in processes[0].stdout.readline()
    processes[1].send_signal(signal.SIGSTOP)
    code = processes[0].wait(30)
    processes[1].send_signal(signal.SIGKILL)
    _, stderr = processes[0].communicate()
    finish(processes)
    check_survivor(code, stderr, rank=0, peer=1)


def check_survivor(code: int, stderr: str, rank: int, peer: int) -> None:
    lines = error_lines(stderr)
    assert code not in (0, None), stderr
    assert len(lines) == 1
    assert FORM.match(lines[0]), lines[0]
    assert re.search(rf"\brank {rank}\b", lines[0])
    assert re.search(rf"\b(rank|peer) {peer}\b", lines[0])
    assert re.search(r"\bstep \d+", lines[0])
    assert re.search(r"all_?gather|reduce_scatter|all_?reduce|all_?to_?all|dispatch|return|barrier|agreement", lines[0])


def test_ranks_with_different_seeds_end_before_the_first_step(arguments: list[str]) -> None:
    results = finish(start(2, arguments, {1: ["--seed", "1"]}))
    for rank, (code, stdout, stderr) in enumerate(results):
        lines = error_lines(stderr)
        assert code not in (0, None)
        assert "loss" not in stdout
        assert len(lines) == 1
        assert FORM.match(lines[0]), lines[0]
        assert re.search(rf"\brank {rank}\b", lines[0])
        assert re.search(rf"\brank {1 - rank}\b", lines[0])
        assert "seed" in lines[0]
        assert "step 0" in lines[0]


def test_ranks_with_other_texts_of_equal_lengths_end_before_the_first_step(
    arguments: list[str], tmp_path: Path
) -> None:
    text = Path(arguments[arguments.index("--corpus") + 1]).read_text()
    other = tmp_path / "other"
    other.write_text(text.replace("question", "quesTion"))
    for code, stdout, stderr in finish(start(2, arguments, {1: ["--corpus", str(other)]})):
        [line] = error_lines(stderr)
        assert (code, "loss" in stdout) == (1, False)
        assert FORM.match(line)
        assert "field corpus" in line


def test_a_rank_that_never_starts_is_named_as_missing(arguments: list[str]) -> None:
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    command = [sys.executable, "-m", "equipoise.train", *arguments, "--timeout", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    [line] = error_lines(done.stderr)
    assert done.returncode == 1
    assert FORM.match(line), line
    assert "rank 0" in line


@pytest.mark.parametrize("bad", [0, 1])
def test_a_rank_that_ends_before_the_others_meet_it_is_waited_for_no_longer_than_said(
    arguments: list[str], bad: int
) -> None:
    results = finish(start(2, [*arguments, "--timeout", "4"], {bad: ["--nonsense"]}), timeout=30)
    code, _, stderr = results[1 - bad]
    [line] = [line for line in stderr.splitlines() if line.startswith("equipoise: ")]
    assert (results[bad][0], code) == (2, 1)
    assert FORM.match(line), line
    assert f"rank {1 - bad} of 2 could not meet at 127.0.0.1:" in line
    assert "Exception raised" not in line


def test_a_lone_rank_that_cannot_listen_names_the_address(arguments: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        command = [sys.executable, "-m", "equipoise.train", *arguments]
        done = subprocess.run(command, env={**os.environ, **where}, capture_output=True, text=True, timeout=60)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("equipoise: ")]
    assert done.returncode == 1
    assert FORM.match(line), line
    assert f"could not meet at 127.0.0.1:{where['MASTER_PORT']}" in line


def test_torchrun_shows_the_line_of_the_rank_that_failed(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "equipoise.train"]
    wrong = [*arguments, "--corpus", str(tmp_path / "missing")]
    done = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    shown = [line for line in done.stderr.splitlines() if FORM.match(line)]
    assert shown
    assert str(tmp_path / "missing") in shown[0]
