"""Plan files: what the command `verify` says, as plain values."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from equipoise import _core

COUNTS = ("steps", "documents", "tokens", "sequences", "buckets", "programs", "replanned", "held")


def verify_plan(path_or_text: str | os.PathLike[str]) -> dict[str, Any]:
    """Runs every independent checker on a plan file, given by its path or as its text (a str that begins with a brace).

    Returns counts, `violations` [{rule, where, what}] and `unchecked` (what was not checked, in words).
    Errors: ValueError for a file that cannot be read or is broken.
    """
    if not isinstance(path_or_text, str | os.PathLike):
        raise ValueError(f"{path_or_text!r} is no plan file, equipoise.verify_plan: give its path or its text")
    if isinstance(path_or_text, os.PathLike) or not path_or_text.lstrip().startswith("{"):
        return as_dict(_core.verify_plan_file(os.fsdecode(path_or_text)))
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(path_or_text)
        file.flush()
        return as_dict(_core.verify_plan_file(file.name))


def as_dict(verdict: Any) -> dict[str, Any]:
    violations = [{"rule": v.rule, "where": v.where, "what": v.what} for v in verdict.violations]
    counts = {name: getattr(verdict, name) for name in COUNTS}
    return counts | {"violations": violations, "unchecked": verdict.unchecked}
