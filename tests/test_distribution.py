"""What is published: the source distribution has what its Makefile calls and its documents name."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from torchferry.core import toml

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
