"""What is published: the source distribution has what its Makefile calls and its documents name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fnmatch import fnmatch
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
