"""Examine one file with every rule that may have something to say, and rewrite it when asked to."""

from __future__ import annotations

import codecs
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from torchferry.backends.target import Target
from torchferry.core.finding import LINK, Edit, Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.rules.file.oversized_file import OversizedFile
from torchferry.rules.file.undecodable_file import UndecodableFile
from torchferry.rules.file.unparsable_file import UnparsableFile
from torchferry.rules.file.unreadable_file import UnreadableFile
from torchferry.rules.file.unused_suppression import UnusedSuppression
from torchferry.source.insertion import import_edit, imports_module
from torchferry.source.kinds import Kind
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.suppress import Suppression, suppressions
from torchferry.source.text import SourceText, UndecodableError, apply_edits, decode_python, decode_text
from torchferry.source.tree import Entry

_PASSES = 5
"""How often a file may be rewritten until nothing changes; more means that two rules undo each other."""

_WORSE = {Grade.NOTE: 0, Grade.SAFE: 1, Grade.UNSAFE: 2, Grade.MANUAL: 3}


class Selection(NamedTuple):
    """Which findings are reported and which fixes are applied.

    Attributes:
        select: Codes or families to keep; empty for all.
        ignore: Codes or families to leave out.
        unsafe: Whether unsafe fixes are applied too.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool = False

    def wants(self, code: str) -> bool:
        """Whether findings with this code are reported."""
        return (not self.select or code.startswith(self.select)) and not (self.ignore and code.startswith(self.ignore))

    def applies(self, finding: Finding) -> bool:
        """Whether the finding's fix is applied."""
        return bool(finding.edits) and (finding.grade is Grade.SAFE or (self.unsafe and finding.grade is Grade.UNSAFE))


class Failure(NamedTuple):
    """A fault of torchferry itself on one file; the file is left alone and the run goes on."""

    path: str
    what: str


class Examined(NamedTuple):
    """What is known of one file after it was examined, and after it was rewritten if that was asked.

    Attributes:
        path: Path relative to the root.
        kind: What the file is.
        findings: What was found in the file as it was, in order of position.
        fixed: The findings whose fixes were applied.
        remaining: What is found in the file as it is written; equal to `findings` when nothing was applied.
        before: The file's bytes; None when nothing was applied.
        after: Its new bytes; None when nothing was applied.
        failure: A fault of torchferry's own, or None.
    """

    path: str
    kind: Kind
    findings: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    remaining: tuple[Finding, ...] = ()
    before: bytes | None = None
    after: bytes | None = None
    failure: Failure | None = None


class Engine:
    """Runs the rules over files of one project for one target."""

    def __init__(
        self,
        root: Path,
        target: Target,
        rules: Sequence[Rule],
        *,
        options: Options = Options(),  # noqa: B008 - immutable
        selection: Selection = Selection(),  # noqa: B008 - immutable
        project: Project | None = None,
    ) -> None:
        self.root = root
        self.target = target
        self.options = options
        self.selection = selection
        self.project = project
        self._words: dict[Kind, dict[bytes, list[Rule]]] = {}
        for rule in rules:
            for word in rule.words(target, options):
                for kind in rule.KINDS:
                    self._words.setdefault(kind, {}).setdefault(word.encode(), []).append(rule)

    def examine(self, entry: Entry, rewrite: bool = False) -> Examined:
        """Examine a file, and rewrite it (in memory) when `rewrite` is set."""
        try:
            return self._examine(entry, rewrite)
        except Exception:
            return Examined(entry.path, entry.kind, failure=Failure(entry.path, traceback.format_exc()))

    def _examine(self, entry: Entry, rewrite: bool) -> Examined:
        try:
            data = (self.root / entry.path).read_bytes()
        except OSError as error:
            return self._problem(entry, UnreadableFile.at(entry.path, say("cannot be read: {e}", e=error.strerror)))
        rules = self._interested(entry.kind, data)
        if not rules:
            return Examined(entry.path, entry.kind)
        if len(data) > self.options.max_file_size:
            message = say(
                "{size} bytes are above the limit of {limit}; it names CUDA, look at it by hand or raise max-file-size",
                size=len(data),
                limit=self.options.max_file_size,
            )
            return self._problem(entry, OversizedFile.at(entry.path, message))
        try:
            source = decode_python(data) if entry.kind is Kind.PYTHON else decode_text(data)
            findings = self.check(entry, source, rules)
        except UndecodableError as error:
            return self._problem(entry, UndecodableFile.at(entry.path, error.message))
        except UnparsableError as error:
            return self._problem(entry, UnparsableFile.at(entry.path, error.message, error.line))
        if not rewrite:
            return Examined(entry.path, entry.kind, findings, remaining=findings)
        return self._rewrite(entry, data, source, findings)

    def _problem(self, entry: Entry, finding: Finding) -> Examined:
        findings = (finding,) if self.selection.wants(finding.code) else ()
        return Examined(entry.path, entry.kind, findings, remaining=findings)

    def _interested(self, kind: Kind, data: bytes) -> list[Rule]:
        """Return the rules that have a word in the file, in order of their codes."""
        if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            data = data.decode("utf-16", "replace").encode()
        found = {
            rule.CODE: rule for word, of_word in self._words.get(kind, {}).items() if word in data for rule in of_word
        }
        return [found[code] for code in sorted(found)]

    def check(self, entry: Entry, source: SourceText, rules: Iterable[Rule]) -> tuple[Finding, ...]:
        """Return what the rules find in a text, groups settled and suppressed findings left out."""
        context: Context
        if entry.kind is Kind.PYTHON:
            file = PythonFile(entry.path, source)
            names = Names(file, self.project)
            if self.project is not None:
                self.project.add(file, names)
            context = PythonContext(file, names, self.target, self.options, self.project)
            found = [finding for rule in rules for finding in rule.check_python(context)]
        else:
            context = Context(entry.path, entry.kind, source, self.target, self.options)
            found = [finding for rule in rules for finding in rule.check(context)]
        comments = suppressions(source)
        unused = [UnusedSuppression().at(context, comment) for comment in comments if not _covers_any(comment, found)]
        found = settle_groups(found + unused, comments, self.selection)
        return tuple(sorted(found, key=_order))

    def _rewrite(self, entry: Entry, data: bytes, source: SourceText, findings: tuple[Finding, ...]) -> Examined:
        fixed: list[Finding] = []
        remaining = findings
        current = source
        for _ in range(_PASSES):
            chosen = without_overlaps(finding for finding in remaining if self.selection.applies(finding))
            if not chosen:
                break
            fixed += chosen
            text = apply_edits(current.text, all_edits(chosen, current, entry.kind))
            after = source.encode(text)
            current = SourceText(text, source.encoding, source.bom)
            remaining = self.check(entry, current, self._interested(entry.kind, after))
        else:
            raise RuntimeError(f"{entry.path}: rules undo each other: {[finding.code for finding in remaining]}")
        if not fixed:
            return Examined(entry.path, entry.kind, findings, remaining=findings)
        return Examined(entry.path, entry.kind, findings, tuple(fixed), remaining, data, source.encode(current.text))


def _covers_any(comment: Suppression, findings: list[Finding]) -> bool:
    return any(comment.covers(finding.code, finding.location.line, finding.location.end_line) for finding in findings)


def all_edits(findings: Iterable[Finding], source: SourceText, kind: Kind) -> list[Edit]:
    """Return the edits of some findings and the one that imports the modules these need."""
    edits: list[Edit] = []
    modules: list[str] = []
    for finding in findings:
        edits += finding.edits
        modules += [module for module in finding.imports if module not in modules]
    absent = [module for module in modules if not imports_module(source.text, module)]
    if absent and kind is Kind.PYTHON:
        insertion = import_edit(source.text, absent, source.newline)
        if insertion is not None:
            edits.append(insertion)
    return list(dict.fromkeys(edits))


def without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings whose edits do not touch one another; the rest is found again in the next pass."""
    taken: list[Edit] = []
    chosen = []
    for finding in findings:
        if all(_apart(edit, other) or edit == other for edit in finding.edits for other in taken):
            taken += finding.edits
            chosen.append(finding)
    return chosen


def _apart(one: Edit, other: Edit) -> bool:
    return one.end <= other.start or other.end <= one.start


def _order(finding: Finding) -> tuple[Location, str]:
    return finding.location, finding.code


def settle_groups(findings: list[Finding], comments: list[Suppression], selection: Selection) -> list[Finding]:
    """Leave out what the user does not want to hear of, and make each group as cautious as its worst member.

    A group with a member that cannot be changed, or that the user keeps from being changed, is not changed at
    all; nor is what needs it.
    """
    blocked: dict[str, Message] = {}
    grades: dict[str, Grade] = {}
    wanted: list[Finding] = []
    for finding in findings:
        kept = not selection.wants(finding.code) or any(
            comment.covers(finding.code, finding.location.line, finding.location.end_line) for comment in comments
        )
        if not kept:
            wanted.append(finding)
        if finding.group and (kept or finding.grade is Grade.MANUAL):
            blocked.setdefault(finding.group, _blocking(finding, kept))
        if finding.group and _WORSE[finding.grade] > _WORSE[grades.get(finding.group, Grade.NOTE)]:
            grades[finding.group] = finding.grade
    for _ in range(len(findings)):  # what needs a blocked group blocks its own, until nothing more is blocked
        spread = {
            finding.group: blocked[need]
            for finding in findings
            for need in finding.needs
            if finding.group and finding.group not in blocked and need in blocked
        }
        if not spread:
            break
        blocked |= spread
    return [_settled(finding, blocked, grades) for finding in wanted if finding.message is not LINK]


def _blocking(finding: Finding, kept: bool) -> Message:
    line = finding.location.line
    if kept:
        return say("line {line} changes with it and is to be kept", line=line)
    return say("line {line} changes with it and cannot", line=line)


def _settled(finding: Finding, blocked: dict[str, Message], grades: dict[str, Grade]) -> Finding:
    if not finding.edits:
        return finding
    groups = (finding.group, *finding.needs)
    for group in groups:
        if group in blocked:
            message = say("{message} ({reason})", message=finding.message, reason=blocked[group])
            return finding._replace(grade=Grade.MANUAL, edits=(), imports=(), message=message)
    worst = max((grades[group] for group in groups if group in grades), key=_WORSE.__getitem__, default=finding.grade)
    return finding._replace(grade=max(finding.grade, worst, key=_WORSE.__getitem__))
