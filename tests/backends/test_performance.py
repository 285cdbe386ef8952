"""What is published about speed, and the reader of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.performance import SUBJECTS, performance_facts, read

HEAD = '[sources]\nS = "a source"\n\n[[fact]]\nabout = "attention"\n'


@pytest.mark.parametrize("name", registry.built_in())
def test_every_fact_can_be_read_and_has_a_source(name: str) -> None:
    facts = performance_facts(registry.load(name))
    assert {fact.about for fact in facts} <= SUBJECTS
    assert all(fact.source for fact in facts)
    assert all(fact.measured.en and fact.measured.zh for fact in facts if fact.speed is not None)
    assert all(fact.note.zh for fact in facts if fact.note.en)
    replaced = [name for fact in facts for name in fact.replaces]
    assert len(replaced) == len(set(replaced))


@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        ('source = "T"', "source `T` is not in"),
        ('source = "S"\nspeed = [2.0, 1.0]\nmeasured = "m"', "the least and the most"),
        ('source = "S"\nspeed = [1.0, 2.0]', "what was measured is missing"),
        ('source = "S"\nup_to = "much"\nmeasured = "m"', "the least and the most"),
        ('source = "S"\nfaster = true', "`faster` is none of"),
        ('source = "S"\n\n[[fact]]\nabout = "luck"\nsource = "S"', "`luck` is none of"),
    ],
)
def test_a_wrong_table_says_what_is_wrong(rest: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "performance.toml"
    path.write_text(f"{HEAD}{rest}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=problem):
        read(path)
