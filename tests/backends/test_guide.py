"""CONTRIBUTING's steps for a new vendor, followed word by word in a copy of the repository."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import HANGS
from torchferry.core.env import cache_folder

ROOT = Path(__file__).parent.parent.parent
COPIED = ("src", "tests", "tools", "docs", "examples", "pyproject.toml", "CONTRIBUTING.md", "CONTRIBUTING.zh-CN.md")
PRINTS = {
    "torchferry backend list": ["zeta   Zeta Cards  (torch_zeta; -)", "Huawei Ascend"],
    "torchferry backend show zeta": ["COLLECTIVE = zccl", "source: torch-zeta 1.2.0 wheel (PyPI)", "SMI = UNKNOWN"],
    "torchferry api torch.cuda.empty_cache --target zeta": ["torch.zeta.release_cache"],
    "torchferry scan examples/cuda-training --target zeta": ["Zeta Cards"],
    "torchferry migrate examples/cuda-training --target zeta --diff": ['backend="zccl"', "torch.zeta.is_available()"],
    "pytest -q tests/backends -k zeta": [" passed"],
    "torchferry rehearse -t zeta": ["tensor([1., 1.], device='zeta:0')", "REHEARSAL on the CPU: 1 x Zeta Z1"],
    "torchferry doctor --target zeta": ["Zeta Cards", "zeta-smi"],
    "tools/generate_docs.py": [" documents, "],
}
"""What a command of the guide, which begins or ends so, has to print."""

FINDS_SOMETHING = ("torchferry scan", "torchferry migrate", "torchferry doctor")
"""Commands that end with 1, as they do for every vendor: the example lacks something, and this machine has no card."""


class Step(NamedTuple):
    """One block of the guide: a file to write where it has a path, else commands."""

    path: str
    text: str


def section(document: str, heading: str) -> str:
    """Return what stands below a heading, up to the next of its level."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.split(r"^## .*\n", text.partition(f"## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def steps(text: str) -> Iterator[Step]:
    for kind, body in re.findall(r"^ *```(\w+)\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL):
        block = textwrap.dedent(body)
        first, _, rest = block.partition("\n")
        yield Step("", block) if kind == "bash" else Step(first.removeprefix("# "), rest)


GUIDE = list(steps(section("CONTRIBUTING.md", "Add a vendor")))


def test_both_languages_have_the_same_steps() -> None:
    assert list(steps(section("CONTRIBUTING.zh-CN.md", "新增厂商"))) == GUIDE
    assert sum(bool(step.path) for step in GUIDE) == 5


def test_a_guide_speaks_of_tables_and_formats_that_are_there() -> None:
    text = section("CONTRIBUTING.md", "Add a vendor")
    formats = set(re.findall(r"`(backends/\w+\.py)`", text))
    assert [name for name in formats if not (ROOT / "src" / "torchferry" / name).is_file()] == []
    vendors = ROOT / "src" / "torchferry" / "vendors"
    tables = {path.name for path in vendors.glob("*/*.toml")}
    assert tables <= set(re.findall(r"`(\w+\.toml)`", text))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "data", "*.so"))
        else:
            shutil.copy(ROOT / name, root / name)
    data = Path("src", "torchferry", "backends", "data")
    shutil.copytree(ROOT / data, root / data)
    return root


def run(command: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of the guide with the Python of this process, on the modules of the copy."""
    words = shlex.split(command)
    assert words[0] in (".venv/bin/torchferry", ".venv/bin/python"), command
    python = [sys.executable, *([] if words[0].endswith("python") else ["-m", "torchferry"])]
    environment = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME") if name in os.environ} | {
        "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}",
        "TORCHFERRY_CACHE": str(cache_folder()),
        "LC_ALL": "C.UTF-8",
        "HOME": "/nonexistent",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [*python, *words[1:]], cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=HANGS
    )


@pytest.mark.rehearsal
def test_the_steps_lead_to_a_vendor(repository: Path) -> None:
    """In order: each command works with what the steps before it have written, and no table more."""
    pytest.importorskip("torch")
    pytest.importorskip("babel")  # a step writes the generated pages
    seen = set()
    for step in GUIDE:
        if step.path:
            path = repository / step.path
            assert path.is_relative_to(repository / "src" / "torchferry" / "vendors" / "zeta"), step.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text, encoding="utf-8")
            continue
        for command in step.text.splitlines():
            key = next(key for key in PRINTS if key in command)
            seen.add(key)
            done = run(command, repository)
            said = done.stdout + done.stderr
            assert done.returncode == (1 if any(name in command for name in FINDS_SOMETHING) else 0), said
            assert "Traceback" not in said, said
            assert [text for text in PRINTS[key] if text not in said] == [], f"{command}\n{said}"
    assert seen == set(PRINTS)
    page = (repository / "docs" / "zh" / "targets" / "zeta.md").read_text(encoding="utf-8")
    assert "泽塔加速卡" in page
