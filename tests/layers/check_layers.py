"""Checks the layers of ARCHITECTURE.md: who may include whom, and that no folders form a cycle.

Usage: check_layers.py [ROOT]. Prints `file:line: what: remedy` for each break and exits with 1 if there is one.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NOUNS = {"base", "model"}
STAGES = {"packing", "placement", "sharding", "tiling", "exchange", "simulate"}
CORE = NOUNS | STAGES | {"cost", "verify", "planner", "study"}

# Folder -> folders that it may include besides itself. A stage never includes another stage.
EDGES: dict[str, set[str]] = {
    "base": set(),
    "model": {"base"},
    "cost": NOUNS,
    "verify": NOUNS,
    **{stage: NOUNS | {"cost"} for stage in STAGES},
    "planner": NOUNS | STAGES | {"cost", "verify"},
    "study": NOUNS | {"cost", "simulate", "verify", "planner"},
    "io": CORE,
    "cli": CORE | {"io"},
    "bindings": CORE | {"io"},
    "torch_ext": NOUNS | {"verify"},
    "tests": CORE | {"io"},
    "bench": CORE | {"io"},
}

# Prefix of a third-party header -> the folders that may include it.
LIBRARIES: dict[str, set[str]] = {
    "nlohmann/": {"io"},
    "CLI/": {"cli"},
    "nanobind/": {"bindings"},
    "torch/": {"torch_ext"},
    "ATen/": {"torch_ext"},
    "c10/": {"torch_ext"},
    "gtest/": {"tests"},
    "gmock/": {"tests"},
    "benchmark/": {"bench"},
}
POSIX = re.compile(r"(sys/|unistd\.h|fcntl\.h|signal\.h)")  # terminals and files; outside of the core
COLLECTIVES = re.compile(r"(torch/csrc/distributed/|.*c10d)")  # of these one file of torch_ext holds all

INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
STANDARD_HEADERS = """
    algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
    clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream
    functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
    memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view
    syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray
    variant vector version
"""
STANDARD = set(STANDARD_HEADERS.split())


class Include(NamedTuple):
    """One #include line: where it stands, and what it names."""

    file: str
    line: int
    folder: str
    quoted: bool
    header: str

    @property
    def target(self) -> str | None:
        """The folder of ours that the header lies in."""
        return folder_of(self.header) if self.quoted else None

    def error(self, what: str, remedy: str) -> str:
        return f"{self.file}:{self.line}: {what}: {remedy}"


def folder_of(path: str) -> str | None:
    """The folder in the sense of the layers: 'equipoise/model/mesh.h' is in 'model', 'io/plan.h' in 'io'."""
    parts = path.split("/")
    if parts[0] == "equipoise" and len(parts) > 2:
        return parts[1]
    return parts[0] if len(parts) > 1 and parts[0] in EDGES.keys() - CORE else None


def includes(root: Path) -> Iterator[Include]:
    """Every #include of every C++ file, in order of path and line."""
    tops = ["equipoise", *sorted(EDGES.keys() - CORE)]
    files = sorted(path for top in tops for suffix in ("h", "cc") for path in (root / top).rglob(f"*.{suffix}"))
    for path in files:
        file = path.relative_to(root).as_posix()
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := INCLUDE.match(text):
                yield Include(file, number, folder_of(file) or "equipoise", match[1] == '"', match[2])


def check_ours(include: Include) -> str | None:
    """The break of the rules by an include of a header of ours, if it is one."""
    if include.folder not in EDGES:
        remedy = "put the file into a layer, or add the folder to ARCHITECTURE.md and to EDGES"
        return include.error(f"{include.folder} is no layer", remedy)
    if include.target is None or include.target not in EDGES:
        remedy = 'name our headers from the root, as "equipoise/model/mesh.h", and others in <>'
        return include.error(f'"{include.header}" is in no layer', remedy)
    if include.target == include.folder or include.target in EDGES[include.folder]:
        return None
    allowed = ", ".join(sorted(EDGES[include.folder])) or "nothing"
    what = f"{include.folder} may not include {include.target} (it may include {allowed})"
    return include.error(what, "move what both need into a lower layer, or take it as an argument")


def check_library(include: Include) -> str | None:
    """The break of the rules by an include in <>, if it is one."""
    if include.header in STANDARD:
        return None
    if include.folder in CORE:
        return include.error(f"<{include.header}> in the core", "use the C++20 standard library only")
    if POSIX.match(include.header):
        return None
    prefix = next((prefix for prefix in LIBRARIES if include.header.startswith(prefix)), None)
    if prefix is None:
        remedy = "use what is there, or add a paragraph to docs/dependencies.md and the header to LIBRARIES"
        return include.error(f"<{include.header}> is no library of this project", remedy)
    if include.folder in LIBRARIES[prefix]:
        return None
    where = ", ".join(sorted(LIBRARIES[prefix]))
    return include.error(f"<{include.header}> in {include.folder}", f"only {where} may include it")


def check_collectives(found: list[Include]) -> list[str]:
    """c10d stands behind one file of torch_ext, so that a backend is one file."""
    users = [include for include in found if include.folder == "torch_ext" and COLLECTIVES.match(include.header)]
    home = users[0].file if users else ""
    return [
        include.error(f"<{include.header}> in a second file", f"leave collectives to {home}")
        for include in users
        if include.file != home
    ]


def check_cycles(found: list[Include]) -> list[str]:
    """The first cycle between folders, with the include that makes each step of it."""
    edges: dict[str, dict[str, Include]] = {}
    for include in found:
        if include.target and include.target != include.folder:
            edges.setdefault(include.folder, {}).setdefault(include.target, include)

    done: set[str] = set()

    def walk(folder: str, trail: list[str]) -> list[str]:
        if folder in trail:
            return [*trail[trail.index(folder) :], folder]
        if folder in done:
            return []
        done.add(folder)
        return next((cycle for to in sorted(edges.get(folder, {})) if (cycle := walk(to, [*trail, folder]))), [])

    cycle = next((cycle for folder in sorted(edges) if (cycle := walk(folder, []))), [])
    steps = [edges[here][to] for here, to in zip(cycle, cycle[1:], strict=False)]
    what = "the folders " + " -> ".join(cycle) + " form a cycle"
    return [step.error(what, f"remove one of its includes, as this of {step.target}") for step in steps]


def imports(path: Path, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """What a Python file imports while it is imported itself: not inside functions, not for type checkers."""
    pending = list(ast.parse(path.read_text(encoding="utf-8")).body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from ((node.lineno, [*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending = node.orelse + pending
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending = [*ast.iter_child_nodes(node), *pending]


def check_python(root: Path) -> list[str]:
    """`import equipoise` never needs torch: nothing that it imports on the way may import torch."""
    pending, seen, errors = [["equipoise"]], set(), []
    while pending:
        name = pending.pop()
        path = root.joinpath("python", *name)
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for line, imported in imports(path, name if path.stem == "__init__" else name[:-1]):
            if imported[0] == "equipoise":  # a.b.c: the packages a and a.b too
                pending += [imported[:end] for end in range(1, len(imported) + 1)]
            elif imported[0] == "torch":
                remedy = "import it inside the function that needs it, or load this module on first use"
                errors.append(f"{path.relative_to(root)}:{line}: `import equipoise` imports torch: {remedy}")
    return errors


def check(root: Path) -> list[str]:
    """All breaks of the layers in the tree at root; empty where it is well."""
    found = list(includes(root))
    errors = [(check_ours if include.quoted else check_library)(include) for include in found]
    return [error for error in errors if error] + check_collectives(found) + check_cycles(found) + check_python(root)


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    errors = check(root)
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
