"""What a migration would write, from what was examined."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from torchferry.core.finding import Finding
from torchferry.core.messages import say_plural
from torchferry.core.record import NamedTuple
from torchferry.migration.transaction import Write
from torchferry.rules.analysis import Analysis
from torchferry.rules.file.write_protected_file import WriteProtectedFile
from torchferry.rules.file_result import FileResult


class Plan(NamedTuple):
    """The writes of a migration.

    Attributes:
        analysis: What was examined.
        writes: The files to write, in order of their paths.
        fixed: The findings whose fixes these writes apply.
        remaining: What is left to do afterwards, notes included.
        findings: What there is to do now: what the writes fix, and what remains.
        maintained: The files among them that no path has to name: torchferry makes them in the project, and no other
            content than its own is replaced, such as the file with the portable names and those of the kit.
    """

    analysis: Analysis
    writes: list[Write]
    fixed: list[Finding]
    remaining: list[Finding]
    findings: list[Finding] = []  # noqa: RUF012 - a NamedTuple default, never mutated
    maintained: tuple[str, ...] = ()


def plan(root: Path, analysis: Analysis) -> Plan:
    """Return what to write in place; write-protected files are left alone and reported."""
    writes: list[Write] = []
    fixed: list[Finding] = []
    remaining: list[Finding] = list(analysis.skipped)
    protected: list[Finding] = []
    for item in analysis.examined:
        if item.before is None or item.after is None:
            remaining += item.remaining
        elif _write_protected(root, item):
            message = say_plural(
                "{count} fix, not applied: the file is write-protected",
                "{count} fixes, not applied: the file is write-protected",
                count=len(item.fixed),
            )
            protected.append(WriteProtectedFile.at(item.path, message))
            remaining += item.findings
        else:
            writes.append(Write(item.path, item.before, item.after))
            fixed += item.fixed
            remaining += item.remaining
    return Plan(analysis, writes, fixed, remaining + protected, analysis.findings + protected)


def _write_protected(root: Path, item: FileResult) -> bool:
    """Whether nobody may write the file; root could, but somebody meant it to stay."""
    try:
        mode = os.stat(root / item.path).st_mode
    except OSError:
        return False  # it has gone since it was read: who writes finds that, and says it
    return not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
