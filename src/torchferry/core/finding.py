"""What a rule reports: a place, a message, and how the text there should change."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from torchferry.core.messages import Message


class Grade(str, Enum):
    """How sure a finding's fix is, and who applies it."""

    SAFE = "safe"
    """The fix is what the user wants; applied by default."""

    UNSAFE = "unsafe"
    """The fix is likely right but rests on something not proven; applied with `--unsafe-fixes`."""

    MANUAL = "manual"
    """Nothing can be rewritten without a decision; the message says what to do."""

    NOTE = "note"
    """Left as it is on purpose, or worth knowing; never counts as work left to do."""


class Edit(NamedTuple):
    """Replace the characters `start` to `end` of the decoded text by `text`."""

    start: int
    end: int
    text: str


class Location(NamedTuple):
    """A span in a file: a path relative to the root with `/`, lines and columns from 1, end exclusive.

    `cell` is the number of the notebook cell (from 1) that the lines count in; 0 outside notebooks.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int = 0

    @property
    def order(self) -> tuple[str, int, int, int, int, int]:
        """What locations are sorted by: the cells of a notebook come one behind the other."""
        return self.path, self.cell, self.line, self.column, self.end_line, self.end_column

    def __str__(self) -> str:
        cell = f":cell {self.cell}" if self.cell else ""
        return f"{self.path}{cell}:{self.line}:{self.column}"


class Finding(NamedTuple):
    """One thing a rule found.

    Attributes:
        code: The rule's code, such as `DEV101`.
        location: Where it is.
        message: What it is, why on this target, and what to do.
        grade: How sure the fix is; `MANUAL` and `NOTE` have no edits.
        edits: What to change, in the file's decoded text.
        imports: Modules that the rewritten code needs imported, such as `ptex`.
        group: Findings of one file with the same non-empty group change together or not at all.
        needs: Groups that must change for this finding to change; they do not need this one.
        blocker: The project cannot run on the target before this is settled.
        snippet: The source text at the location, at most one line.
        lacks: What the target does not have and the place cannot run without, such as a package; empty for none.
        installs: Another build of a package, under the same name, with which the place runs; empty for none.
        when: What the expression at the place must be for the finding to hold, as the right side of a comparison in
            Python (`> 1`), or `true`; empty where it always holds.
    """

    code: str
    location: Location
    message: Message
    grade: Grade
    edits: tuple[Edit, ...] = ()
    imports: tuple[str, ...] = ()
    group: str = ""
    needs: tuple[str, ...] = ()
    blocker: bool = False
    snippet: str = ""
    lacks: str = ""
    installs: str = ""
    when: str = ""


LINK = Message("")
"""Message of a finding that only ties groups together and is not shown: a use that changes with its import."""
