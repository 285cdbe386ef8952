"""The names that a program gives to objects out of settings: `for k, v in settings.items(): setattr(args, k, v)`."""

from __future__ import annotations

import re
from collections.abc import Collection

from torchferry.core.lazy_regex import lazy_regex
from torchferry.programs.object_kinds import SettingsObject
from torchferry.programs.program_facts import ProgramFacts

LOADS_SETTINGS = lazy_regex(r"\b(?:safe_load|full_load|unsafe_load|load|loads|read_yaml|load_yaml)\(")
"""What a file says that reads settings; where it is given them, nobody can tell which file they are of."""

WHOLE = "\n"
"""Stands behind a name that is told as a whole, where others are told by what they begin with."""


def names_in(facts: ProgramFacts, tables: Collection[object]) -> list[str] | None:
    """Return the keys of settings files, each as a whole; None where a table is another one or cannot be read.

    Args:
        facts: What depends on the program.
        tables: What the table may be.
    """
    told: set[str] = set()
    for table in tables:
        if not isinstance(table, SettingsObject) or table.by_hydra or not table.files:
            return None
        for path, package in table.files:
            below = None if package else facts.config.keys_below(path, table.keys)
            if below is None:
                return None
            told |= below
    return [f"{name}{WHOLE}" for name in sorted(told)] if tables else None


def may_be_merged(facts: ProgramFacts, name: str) -> bool:
    """Whether settings that are taken in may say a name: those of the command, or any where it names none."""
    if facts.said(name) is not None:
        return True
    paths = facts.settings() or sorted(facts.config.files.documents)
    said = re.compile(rf"(?m)^[ \t-]*[\"']?{re.escape(name)}[\"']?[ \t]*:")
    return any(said.search(facts.config.files.text(path)) for path in paths)
