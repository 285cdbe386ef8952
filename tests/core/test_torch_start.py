"""What begins with `import torch` where torch itself loads no backend: torch before 2.5, played by a module of ours."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import HANGS
from torchferry.core import torch_start

ENTRY = "[torch.backends]\n{name} = {module}:start\n"


def run(tmp_path: Path, torch: str, code: str = "import torch; print('done')", *, hidden: str = "") -> list[str]:
    """Run a program beside a module `torch` and two packages with entry points for it, and return what it printed."""
    (tmp_path / "torch.py").write_text(torch, encoding="utf-8")
    for name in ("torchferry_one", "somebody"):
        (tmp_path / f"{name}_start.py").write_text(f"def start(): print('{name} began')\n", encoding="utf-8")
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(ENTRY.format(name=name, module=f"{name}_start"), encoding="utf-8")
    if hidden:
        (tmp_path / "sitecustomize.py").write_text(hidden, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(torch_start.SITE), str(tmp_path)])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


OLD = "print('torch is imported')\n"
NEW = OLD + "def _import_device_backends(): pass\n"


@pytest.mark.parametrize(
    ("torch", "printed"),
    [
        (OLD, ["torch is imported", "torchferry_one began", "done"]),
        (NEW, ["torch is imported", "done"]),
    ],
    ids=["before 2.5", "from 2.5 on"],
)
def test_ours_begin_where_torch_does_not_load_them(tmp_path: Path, torch: str, printed: list[str]) -> None:
    assert run(tmp_path, torch) == printed


def test_the_import_is_followed_once_and_torch_is_as_it_would_be(tmp_path: Path) -> None:
    code = (
        "import torch, sys; import torch; print(vars(torch.__loader__).keys() & {'exec_module'}, torch.__file__[-8:])"
    )
    assert run(tmp_path, OLD, code) == ["torch is imported", "torchferry_one began", "set() torch.py"]


def test_an_import_that_fails_is_followed_when_it_succeeds(tmp_path: Path) -> None:
    torch = "import os\nif 'AGAIN' not in os.environ: raise ImportError('not now')\n" + OLD
    code = (
        "import os\ntry:\n    import torch\nexcept ImportError as error:\n    print(error)\n"
        "os.environ['AGAIN'] = '1'\nimport torch\n"
    )
    assert run(tmp_path, torch, code) == ["not now", "torch is imported", "torchferry_one began"]


def test_the_sitecustomize_that_it_hides_runs(tmp_path: Path) -> None:
    printed = run(
        tmp_path, OLD, "import sitecustomize; print(sitecustomize.theirs)", hidden="print('theirs')\ntheirs = 1\n"
    )
    assert printed == ["theirs", "1"]


def test_a_program_without_torch_notices_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, OLD, "import json, sys; print('importlib.metadata' in sys.modules)") == ["False"]


@pytest.mark.parametrize(
    "path",
    [
        *sorted(Path(torch_start.__file__).parent.parent.glob("**/site/*.py")),
        *sorted(Path(torch_start.__file__).parent.parent.glob("doctor/probes/*.py")),
    ],
    ids=lambda path: path.name,
)
def test_what_any_python_may_run_is_read_by_3_8(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_search_path_begins_with_the_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "theirs")
    assert torch_start.search_path(tmp_path).split(os.pathsep) == [str(tmp_path), str(torch_start.SITE), "theirs"]
    monkeypatch.delenv("PYTHONPATH")
    assert torch_start.search_path(tmp_path).split(os.pathsep) == [str(tmp_path), str(torch_start.SITE)]
