"""The layer check passes on this tree, and speaks where a break is planted in a copy of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ["equipoise", "io", "cli", "bindings", "torch_ext", "python", "tests", "bench"]


def run_check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tests/layers/check_layers.py"), str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        if (ROOT / folder).exists():
            shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def plant(tree: Path, file: str, line: str) -> None:
    path = tree / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n", encoding="utf-8")


def test_this_tree_keeps_the_layers() -> None:
    result = run_check(ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("equipoise/model/bad.h", '#include "equipoise/packing/packing.h"', "model may not include packing"),
        ("equipoise/packing/bad.h", '#include "equipoise/placement/placement.h"', "packing may not include placement"),
        ("equipoise/simulate/bad.cc", '#include "equipoise/packing/packing.h"', "simulate may not include packing"),
        ("equipoise/verify/bad.cc", '#include "equipoise/cost/cost.h"', "verify may not include cost"),
        ("equipoise/planner/bad.cc", '#include "equipoise/study/study.h"', "planner may not include study"),
        ("equipoise/study/bad.cc", '#include "equipoise/tiling/tiling.h"', "study may not include tiling"),
        ("torch_ext/bad.cc", '#include "equipoise/exchange/program.h"', "torch_ext may not include exchange"),
        ("equipoise/base/bad.cc", '#include "io/plan_file.h"', "base may not include io"),
        ("equipoise/utils/bad.h", '#include "equipoise/base/ids.h"', "utils is no layer"),
        ("equipoise/model/bad.h", '#include "mesh.h"', '"mesh.h" is in no layer'),
        ("equipoise/model/bad.h", "#include <unistd.h>", "<unistd.h> in the core"),
        ("equipoise/model/bad.h", "#  include <nlohmann/json.hpp>", "<nlohmann/json.hpp> in the core"),
        ("cli/bad.cc", "#include <nlohmann/json.hpp>", "only io may include it"),
        ("io/bad.cc", "#include <CLI/CLI.hpp>", "only cli may include it"),
        ("bindings/bad.cc", "#include <ATen/ATen.h>", "only torch_ext may include it"),
        ("cli/bad.cc", "#include <boost/any.hpp>", "is no library of this project"),
    ],
)
def test_a_planted_include_is_found(tree: Path, file: str, line: str, message: str) -> None:
    plant(tree, file, line)
    result = run_check(tree)
    assert result.returncode == 1
    assert f"{file}:1: " in result.stderr
    assert message in result.stderr


def test_a_planted_cycle_is_found(tree: Path) -> None:
    plant(tree, "equipoise/base/bad.h", '#include "equipoise/model/bad.h"')
    plant(tree, "equipoise/model/bad.h", '#include "equipoise/base/bad.h"')
    result = run_check(tree)
    assert result.returncode == 1
    assert "base -> model -> base form a cycle" in result.stderr
    assert "equipoise/base/bad.h:1: " in result.stderr


def test_a_cycle_over_three_folders_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "equipoise/base/a.h", '#include "equipoise/cost/a.h"')
    plant(tmp_path, "equipoise/model/a.h", '#include "equipoise/base/a.h"')
    plant(tmp_path, "equipoise/cost/a.h", '#include "equipoise/model/a.h"')
    assert "base -> cost -> model -> base form a cycle" in run_check(tmp_path).stderr


def test_collectives_stay_in_one_file(tmp_path: Path) -> None:
    plant(tmp_path, "torch_ext/a.cc", "#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>")
    assert run_check(tmp_path).returncode == 0
    plant(tmp_path, "torch_ext/b.cc", "#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>")
    result = run_check(tmp_path)
    assert result.returncode == 1
    assert "torch_ext/b.cc:1: " in result.stderr
    assert "leave collectives to torch_ext/a.cc" in result.stderr


@pytest.mark.parametrize(
    "text",
    ["import torch", "from torch import nn", "try:\n    import torch.nn\nexcept ImportError:\n    pass"],
)
def test_import_equipoise_may_not_reach_torch(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "python/equipoise/__init__.py", "from .sampler import Sampler")
    plant(tmp_path, "python/equipoise/sampler.py", text)
    result = run_check(tmp_path)
    assert result.returncode == 1
    assert "python/equipoise/sampler.py:" in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "def attend():\n    import torch",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
    ],
)
def test_torch_on_first_use_is_fine(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "python/equipoise/__init__.py", text)
    plant(tmp_path, "python/equipoise/train.py", "import torch")
    result = run_check(tmp_path)
    assert result.returncode == 0, result.stderr
