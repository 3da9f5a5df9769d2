"""Checks the sizes of CONTRIBUTING.md: lines of a file, lines of a function.

Usage: check_sizes.py. Prints `file:line: what: remedy` for each that is too long and exits with 1 if there is one.
scripts/size_exceptions.txt lists those that may be longer, each with its reason.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ["equipoise", "io", "cli", "bindings", "torch_ext", "python", "tests", "bench", "scripts", "examples"]
FILE_LINES = {".cc": 400, ".h": 250, ".py": 250}
FUNCTION_LINES = 60
EXCEPTIONS = "scripts/size_exceptions.txt"

# What is no function, though it starts at the left margin.
OTHER = re.compile(r"(namespace|struct|class|enum|union|using|extern|#|//|/\*|\};)")


def cc_functions(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(first line, number of lines) of each function at namespace level, lines counted from 1.

    clang-format starts and ends these at the left margin, so no parser is needed to see them.
    """
    start = 0
    for number, line in enumerate(lines, 1):
        if start and line.startswith("}") and not line.startswith("};"):
            yield start, number - start + 1
        if line and not line[0].isspace():
            start = 0 if OTHER.match(line) or line.endswith((";", "}")) else number


def py_functions(text: str) -> Iterator[tuple[int, int]]:
    """The same for Python, methods and nested functions included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1


def read_exceptions() -> set[str]:
    """Paths before the colon; a line without a reason does not count."""
    lines = (ROOT / EXCEPTIONS).read_text(encoding="utf-8").splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))
    return {path.strip() for path, reason in pairs if reason.strip()}


def check_file(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    name = path.relative_to(ROOT)
    limit = FILE_LINES[path.suffix]
    remedy = f"split it by what it does, or list it in {EXCEPTIONS} with a reason"
    if len(lines) > limit:
        yield f"{name}:{limit}: {len(lines)} lines where {limit} are allowed: {remedy}"
    for start, length in py_functions(text) if path.suffix == ".py" else cc_functions(lines):
        if length > FUNCTION_LINES:
            yield f"{name}:{start}: a function of {length} lines where {FUNCTION_LINES} are allowed: {remedy}"


def main() -> int:
    files = sorted(path for top in FOLDERS for path in (ROOT / top).rglob("*") if path.suffix in FILE_LINES)
    excepted = read_exceptions()
    missing = excepted - {str(path.relative_to(ROOT)) for path in files}
    errors = [f"{EXCEPTIONS}:1: {path} does not exist: remove it from the list" for path in sorted(missing)]
    for path in files:
        if str(path.relative_to(ROOT)) not in excepted:
            errors += check_file(path)
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
