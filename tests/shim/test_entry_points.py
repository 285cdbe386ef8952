"""What torch and pytest load from every environment that has torchferry cannot fail where torchferry has gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchferry.core import env, toml

ROOT = Path(__file__).parent.parent.parent
PROJECT = toml.load(ROOT / "pyproject.toml")
GROUPS: dict[str, dict[str, str]] = PROJECT["project"]["entry-points"]
INSTALLED: dict[str, str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
"""What is installed as files of its own, also by an editable installation."""

WITHOUT = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def found(finder, name, path=None, target=None):
    return None if name.partition(".")[0] == "torchferry" else find(name, path, target)
PathFinder.find_spec = classmethod(found)  # which pytest asks too, past sys.meta_path
"""
"""An editable installation whose clone was moved or removed: the package cannot be imported."""

IMPORTS = """
import torch
print("torch", torch.ones(2).sum().item())
import os
from importlib.metadata import entry_points
os.environ["TORCHFERRY_SHIM"] = "1"
[ours] = [point for point in entry_points(group="torch.backends") if point.name == "torchferry_shim"]
ours.load()()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a process that finds what an installation leaves beside the package."""
    site = tmp_path / "site"
    for source, name in INSTALLED.items():
        shutil.copytree(ROOT / source, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = site / "torchferry-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torchferry\nVersion: 0\n", encoding="utf-8")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in GROUPS.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "LC_ALL": "C.UTF-8"}


def run(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_every_entry_point_is_in_a_module_that_each_installation_has() -> None:
    assert set(GROUPS) == {"torch.backends", "pytest11"}
    for points in GROUPS.values():
        for value in points.values():
            package, _, module = value.partition(":")[0].partition(".")
            assert package in INSTALLED.values()
            assert (ROOT / "src" / package / f"{module}.py").is_file()


def test_torch_is_imported_where_torchferry_has_gone(environment: dict[str, str]) -> None:
    pytest.importorskip("torch")
    done = run(IMPORTS, environment)
    assert done.stdout == "torch 2.0\n", done.stderr
    assert env.SHIM == "TORCHFERRY_SHIM"
    assert done.returncode == 1
    assert done.stderr.startswith(
        "torchferry: TORCHFERRY_SHIM asks for the redirect, and torchferry cannot be imported"
    )
    assert "Traceback" not in done.stderr


def test_pytest_runs_where_torchferry_has_gone(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n", encoding="utf-8")
    done = run(f"import pytest; sys.exit(pytest.main(['-q', {str(tmp_path)!r}]))", environment)
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stdout
    done = run(f"import pytest; sys.exit(pytest.main(['--rehearse', 'npu', {str(tmp_path)!r}]))", environment)
    assert "unrecognized arguments: --rehearse" in done.stderr
