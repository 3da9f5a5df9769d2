"""Runs the command line as a user does."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
GOLDEN = Path(__file__).parent / "golden"
ERROR = re.compile(r"equipoise: error: [^\n]+, [^\n]+: [^\n]+\n")
TIME_OUT_S = 60

# A machine and a model of round numbers, so that golden files do not change with those that are built in.
SMALL = ["--hardware", str(DATA / "hardware.json"), "--model", str(DATA / "model.json")]


def find_program() -> str:
    """EQUIPOISE_BIN, else the program beside this Python, else the one in PATH."""
    beside = shutil.which("equipoise", path=str(Path(sys.executable).parent))
    found = os.environ.get("EQUIPOISE_BIN") or beside or shutil.which("equipoise")
    assert found, "no program equipoise: run make build, or set EQUIPOISE_BIN"
    return found


def run(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command with these arguments; `text` goes to its standard input."""
    command = [find_program(), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIME_OUT_S, check=False)


def answer(*arguments: object, text: str | None = None) -> Any:
    """What the command says with --json."""
    done = run(*arguments, "--json", text=text)
    assert done.stderr == ""
    return json.loads(done.stdout)


def refusal(*arguments: object, text: str | None = None) -> str:
    """The one line of a command that refuses, without its head; nothing else may have been printed."""
    done = run(*arguments, text=text)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert ERROR.fullmatch(done.stderr), done.stderr
    return done.stderr.removeprefix("equipoise: error: ").rstrip("\n")


def heavy_tail(seed: int, count: int, longest: int) -> list[int]:
    """Lengths like those of a corpus: most of them short, a few long, some empty."""
    source = random.Random(seed)
    return [min(longest, int(source.lognormvariate(3.0, 1.5))) for _ in range(count)]


def write_lengths(path: Path, lengths: list[int]) -> Path:
    path.write_text("".join(f"{length}\n" for length in lengths))
    return path


def check_golden(name: str, text: str) -> None:
    """Equal to the committed file. EQUIPOISE_WRITE_GOLDEN=1 writes it: read the difference then."""
    path = GOLDEN / name
    if os.environ.get("EQUIPOISE_WRITE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs"
