"""The quick-start pages say what the programs print on the simulated card of each target."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.warm_python import python
from torchferry.backends import registry

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import quick_start  # noqa: E402

pytestmark = pytest.mark.rehearsal

WITH_RANKS = registry.built_in()[0]
"""One target runs the programs of several ranks too; the collectives of the others have tests of their own."""


@pytest.mark.parametrize("target", registry.built_in())
def test_the_page_shows_the_migrated_programs_and_what_they_print(target: str, tmp_path: Path) -> None:
    made = quick_start.programs(target, tmp_path, ranks=target == WITH_RANKS, python=python())
    unsafe = quick_start.needs_unsafe(target, tmp_path)
    assert len(made) == (9 if target == WITH_RANKS else 7)
    for lang in ("en", "zh"):
        page = (ROOT / "docs" / lang / "quick-start" / f"{target}.md").read_text(encoding="utf-8")
        assert page.startswith("\n".join(quick_start.head(target, unsafe, lang)))
        for program in made:
            _, _, section = page.partition(f"\n## {program.name}\n")
            section = section.partition("\n## ")[0]
            assert program.code.partition('"""\n')[2].strip("\n") in section
            assert program.printed.strip("\n") in section
            assert all(f"- {text.render(lang)}" in section for text in program.left)
