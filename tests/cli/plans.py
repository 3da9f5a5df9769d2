"""Plan files for the tests: made, read as JSON, changed and written again."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from program import SMALL, heavy_tail, run, write_lengths

MESH = ["--mesh", "dp=4,cp=2", "--pool", "2", "--window", "128"]


def make_plan(folder: Path, *flags: object, lengths: list[int] | None = None) -> Path:
    path = write_lengths(folder / "lengths.txt", heavy_tail(1, 60, 100) if lengths is None else lengths)
    out = folder / "plan.jsonl"
    done = run("plan", path, "--out", out, *SMALL, *(flags or MESH))
    assert done.returncode == 0, done.stderr
    return out


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def change(line: dict[str, Any], key: str, value: Callable[[Any], Any]) -> dict[str, Any]:
    changed = copy.deepcopy(line)
    changed[key] = value(changed[key])
    return changed


def replaced(rows: list[Any], index: int, row: Any) -> list[Any]:
    return [*rows[:index], row, *rows[index + 1 :]]


def numbers(value: Any, trail: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every integer."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield trail
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from numbers(entry, (*trail, index))
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from numbers(entry, (*trail, key))


def keys(value: Any, trail: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every key of an object."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, entry in entries:
        if isinstance(value, dict):
            yield (*trail, key)
        yield from keys(entry, (*trail, key))


def edited(line: dict[str, Any], trail: tuple[Any, ...], edit: Callable[[Any, Any], None]) -> dict[str, Any]:
    """A copy in which edit(container, key) has been called for one place."""
    line = copy.deepcopy(line)
    place = line
    for key in trail[:-1]:
        place = place[key]
    edit(place, trail[-1])
    return line
