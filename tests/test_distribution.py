"""What is published: the source distribution has what its Makefile calls and its documents name."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

from torchferry.core import toml

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import lock

ROOT = Path(__file__).parent.parent


def test_the_source_distribution_has_what_it_names() -> None:
    settings = toml.load(ROOT / "pyproject.toml")
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    named = set(re.findall(r"\b([\w-]+)/[\w./-]+", (ROOT / "Makefile").read_text(encoding="utf-8")))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*/*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)[)#]", path.read_text(encoding="utf-8")):
            place = (path.parent / link).resolve()
            if place.is_relative_to(ROOT) and place.exists():
                named.add(place.relative_to(ROOT).parts[0])
    named = {name for name in named if (ROOT / name).exists()} - {".venv"}
    assert {"tools", "benchmarks", "tests"} <= named
    assert sorted(name for name in named if not any(fnmatch(name, pattern) for pattern in included)) == []
    tracked = {"CHANGELOG.md", "LICENSE", "README.md", "CONTRIBUTING.md", "action.yml", ".ci", ".pre-commit-hooks.yaml"}
    assert sorted(name for name in tracked if not any(fnmatch(name, pattern) for pattern in included)) == []


def test_what_is_installed_is_locked_by_hash() -> None:
    """The files of requirements fit pyproject.toml, and each version in them has the hashes of its files."""
    assert [problem for name in lock.LOCKS for problem in lock.problems(name)] == []
    assert {path.stem for path in lock.FOLDER.glob("*.txt")} == set(lock.LOCKS)
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installing = [line.strip() for line in text.splitlines() if "pip install" in line or "pip download" in line]
    allowed = ("--require-hashes", " torch==2.13.0", "--no-build-isolation --editable .")
    assert [line for line in installing if not any(word in line for word in allowed)] == []
    assert f"torch=={'2.13.0'}" in lock.wanted("rehearsal"), "the version that the Makefile names"


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("lock", lambda text: re.sub(r"\(\w+\)", "(0)", text, count=1), "lock.txt is stale"),
        (
            "lock",
            lambda text: re.sub(r"    --hash=[^\n]*\n", "", text),
            "lock.txt: uv==0.13.9 has no hash, or not one version",
        ),
        ("plugin", lambda text: text.replace("==2.13.0", ">=2.13.0"), "has no hash, or not one version"),
        ("plugin", lambda text: text.partition("\n")[0] + "\n", "plugin.txt: torch-npu==2.13.0 is not in it"),
    ],
)
def test_a_lock_that_does_not_fit_is_named(
    name: str, change: Callable[[str], str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = change((lock.FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    assert any(said.replace("0.13.9", "") in problem.replace("0.13.9", "") for problem in lock.problems(name))


def copied(folder: Path, mode: int) -> Path:
    """Copy what a distribution is built from, with other times and permissions, in another order."""
    settings = toml.load(ROOT / "pyproject.toml")
    included = [*settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], "pyproject.toml", ".gitignore"]
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", ".torchferry")
    folder.mkdir(mode=0o755)
    for path in sorted((path for name in included for path in ROOT.glob(name)), reverse=bool(mode & 0o1)):
        if path.is_dir():
            shutil.copytree(path, folder / path.name, symlinks=True, ignore=leave)
        else:
            shutil.copy(path, folder / path.name)
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            executable = os.access(path, os.X_OK)
            path.chmod((0o755 if executable else 0o644) & mode)
            os.utime(path, (mode, mode))
    return folder


def built(source: Path, form: str, umask: str, **variables: str) -> bytes:
    """Build a distribution and return it."""
    out = source.parent / f"{source.name}-{form}"
    environment = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "1700000000", **variables}
    command = f'umask {umask}; exec "$0" -I -m hatchling build -t {form} -d "$1"'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(out)],
        cwd=source, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (file,) = out.iterdir()
    return file.read_bytes()


@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling: `make` installs it")
def test_a_distribution_can_be_built_again(tmp_path: Path) -> None:
    """The same bytes in another folder, with other times, permissions and settings, and a wheel from the sources."""
    first = copied(tmp_path / "first", 0o755)
    second = copied(tmp_path / "elsewhere", 0o700)
    sources = built(first, "sdist", "022", TZ="UTC", LC_ALL="C", PYTHONHASHSEED="1")
    assert built(second, "sdist", "077", TZ="Asia/Shanghai", LC_ALL="C.UTF-8", PYTHONHASHSEED="2") == sources
    wheel = built(first, "wheel", "022", PYTHONHASHSEED="3")
    with tarfile.open(fileobj=io.BytesIO(sources)) as archive:
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert built(unpacked, "wheel", "077", PYTHONHASHSEED="4") == wheel
    with zipfile.ZipFile(io.BytesIO(wheel)) as packed:
        names = packed.namelist()
        assert {item.date_time for item in packed.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    assert "torchferry/core/start/own_program.py" in names
    assert [name for name in names if name.endswith(".pyc") or name.startswith(("tests/", "requirements/"))] == []
