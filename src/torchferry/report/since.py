"""What a change brings: the findings of a tree that an earlier state of it did not have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher
from itertools import product
from typing import AnyStr

from torchferry.core.finding import Anchor, Finding, Grade
from torchferry.core.record import NamedTuple

_Identity = tuple[str, str, Grade, bool, Anchor, str]


class Since(NamedTuple):
    """What a report is compared with.

    Attributes:
        revision: The name that the user gave.
        commit: The commit that it was compared with, in full.
        changed: Files that differ, those that are new or gone included.
        gone: How many findings that are work the earlier state had, and the present one has not.
    """

    revision: str
    commit: str
    changed: tuple[str, ...]
    gone: int


class Brought(NamedTuple):
    """The findings of a tree by what an earlier state had: those that are new, and those that have gone."""

    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]

    @property
    def work_less(self) -> int:
        """How many of those that have gone were work."""
        return sum(finding.grade is not Grade.NOTE for finding in self.gone)


def brought(
    before: Iterable[Finding],
    now: Iterable[Finding],
    added_lines: Mapping[str, Collection[int]],
    renamed: Mapping[str, str],
) -> Brought:
    """Compare the findings of two states of a tree.

    A finding is known by its file, its rule and its anchor, so that lines that move bring nothing. Of several that are
    known alike, as two equal lines of one function, those on lines that were added are the new ones.

    Args:
        before: The findings of the earlier state.
        now: Those of the present one.
        added_lines: The numbers of the lines of a file, from 1, that the earlier state did not have.
        renamed: The present names of files by their earlier ones, where those differ.
    """
    left: defaultdict[_Identity, list[Finding]] = defaultdict(list)
    for finding in before:
        left[_identity(finding, renamed)].append(finding)
    present: defaultdict[_Identity, list[Finding]] = defaultdict(list)
    for finding in now:
        present[_identity(finding, {})].append(finding)
    new: set[int] = set()
    for identity, findings in present.items():
        before_it = left.get(identity, [])
        if len(findings) > len(before_it):
            added = added_lines.get(findings[0].location.path, ())
            in_order = sorted(findings, key=lambda each: (each.location.line in added, each.location.order))
            new.update(map(id, in_order[len(before_it) :]))
        del before_it[: len(findings)]
    return Brought(
        tuple(finding for findings in present.values() for finding in findings if id(finding) in new),
        tuple(finding for findings in left.values() for finding in findings),
    )


def _identity(finding: Finding, renamed: Mapping[str, str]) -> _Identity:
    path, anchor = finding.location.path, finding.anchor
    # what became work is brought, and which of several equal places it is changes where one is added before it
    of_file = "" if anchor.text else finding.message.template
    return renamed.get(path, path), finding.code, finding.grade, finding.blocker, anchor._replace(ordinal=1), of_file


def added_lines(before: AnyStr, now: AnyStr) -> frozenset[int]:
    """Return the numbers of the lines, from 1, that a text has and an earlier one had not."""
    matcher = SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=True)
    added: set[int] = set()
    for kind, _, _, first, end in matcher.get_opcodes():
        if kind != "equal":
            added.update(range(first + 1, end + 1))
    return frozenset(added)


def renames(gone: Mapping[str, AnyStr], new: Mapping[str, AnyStr]) -> dict[str, str]:
    """Return the present names of files that were given another one, by their earlier names.

    A file counts as renamed where at least half of the lines of both are equal, as `git diff` has it; of several the
    one that is most alike.

    Args:
        gone: The texts of the files that are no longer there.
        new: Those of the files that were not there.
    """
    texts = (*gone.items(), *new.items())
    lines = {path: Counter(line.strip() for line in text.splitlines() if line.strip()) for path, text in texts}
    sizes = {path: counts.total() for path, counts in lines.items()}
    alike: list[tuple[float, str, str]] = []
    for earlier, present in product(gone, new):
        shorter, longer = sorted((sizes[earlier], sizes[present]))
        if 2 * shorter < longer or not longer or earlier.rpartition(".")[2] != present.rpartition(".")[2]:
            continue
        share = (lines[earlier] & lines[present]).total() / longer
        if share >= 0.5:
            alike.append((-share, earlier, present))
    names: dict[str, str] = {}
    taken: set[str] = set()
    for _, earlier, present in sorted(alike):
        if earlier not in names and present not in taken:
            names[earlier] = present
            taken.add(present)
    return names
