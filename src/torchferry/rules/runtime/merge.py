"""Merge what a run saw with what the rules found: what only the run saw becomes a finding."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.backends import cuda
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.finding import Finding, Location
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.rules.engine import Engine
from torchferry.rules.family import Subject
from torchferry.rules.file_result import FileResult, Selection
from torchferry.rules.registry import rule_facts
from torchferry.rules.runtime.device_origins import DeviceOrigins, ReportedFile, devices_asked
from torchferry.rules.runtime.only_seen_at_run_time import OnlySeenAtRunTime
from torchferry.rules.runtime.report import RuntimeReport, RuntimeUse
from torchferry.source.kinds import Kind
from torchferry.source.nodes import children_of
from torchferry.source.python import PythonFile
from torchferry.source.suppress import Suppression, suppressions
from torchferry.source.text import SourceText, UndecodableError, decode_python
from torchferry.source.tree import Entry

_OTHER_MATTERS = frozenset({Subject.REQUIREMENT, Subject.DTYPE, Subject.FILE, Subject.PATH, Subject.COMMENT})
"""What says nothing of the device of a line."""


class MergedResults(NamedTuple):
    """The files with what only the run saw among their findings, and what there is to know about the run."""

    examined: list[FileResult]
    remarks: list[Message]


class _SeenFile(NamedTuple):
    item: FileResult
    source: SourceText
    uses: tuple[RuntimeUse, ...]


def merge_runtime_report(
    engine: Engine, selection: Selection, examined: list[FileResult], report: RuntimeReport
) -> MergedResults:
    """Return the files with a finding for each line that the run saw and no rule.

    Args:
        engine: An engine with every rule, whatever the user selected: a finding that is not shown is a finding.
        selection: What the user wants to see.
        examined: The files as examined.
        report: What the run saw.

    Raises:
        TorchferryError: a line of the report lies behind the end of its file.
    """
    remarks: list[Message] = []
    items = {item.path: item for item in examined}
    seen: dict[str, _SeenFile] = {}
    apart: list[str] = []
    for path, of_file in report.lines.items():
        item = items.get(path)
        changed = _changed(engine.root, path, report.hashes[path])
        if changed is not None:
            remarks.append(changed)
        elif item is None or item.kind is not Kind.PYTHON:
            apart.append(path)
        elif (source := _text(engine.root, path)) is not None:
            _check_lines(report.source, path, source, of_file)
            seen[path] = _SeenFile(item, source, of_file)
    if apart:
        remarks.append(
            say_plural(
                "The run went through {count} file that is not examined, such as {path}; its lines are left out.",
                "The run went through {count} files that are not examined, such as {path}; its lines are left out.",
                count=len(apart),
                path=apart[0],
            )
        )
    if not report.lines:
        remarks.append(
            say("{path} contains no files below {root}.", path=report.source, root=engine.root.resolve().name)
        )
    new = _findings(engine, selection, examined, seen)
    return MergedResults([_with(item, new.get(item.path, ()), selection) for item in examined], remarks)


def _changed(root: Path, path: str, expected: str) -> Message | None:
    """Return the remark on a file that is not what ran, or None."""
    file = root / path
    try:
        if not file.resolve().is_relative_to(root.resolve()) or not file.is_file():
            return say("{path} ran but does not exist here; what the run saw there is left out.", path=path)
        import hashlib  # imported late: few runs have a run beside them

        digest = hashlib.sha256(read_regular(file)).hexdigest()
    except OSError:
        return say("{path} ran but does not exist here; what the run saw there is left out.", path=path)
    if digest != expected:
        return say("{path} changed since the run; what the run saw there is left out, run it again.", path=path)
    return None


def _text(root: Path, path: str) -> SourceText | None:
    try:
        return decode_python(read_regular(root / path))
    except (OSError, UndecodableError):
        return None  # reported already


def _check_lines(file: Path, path: str, source: SourceText, of_file: Iterable[RuntimeUse]) -> None:
    for use in of_file:
        if use.line > len(source.starts):
            raise TorchferryError(
                say(
                    "{file} names line {line} of {path}, whose last line is {count}",
                    file=file,
                    line=use.line,
                    path=path,
                    count=len(source.starts),
                ),
                say("write it again: `torchferry run --report FILE -- COMMAND`"),
            )


def _findings(
    engine: Engine, selection: Selection, examined: list[FileResult], seen: dict[str, _SeenFile]
) -> dict[str, list[Finding]]:
    """Return what only the run saw, by file."""
    assert engine.project is not None
    spoken: dict[str, set[int]] = {}
    hidden = bool(selection.select or selection.ignore or selection.per_file)
    for item in examined:
        if item.kind is Kind.PYTHON and (item.path in seen or item.findings or hidden):
            findings = engine.examine(Entry(item.path, item.kind), whole=True).findings
            spoken[item.path] = set(_lines(findings))
    reported_files: dict[str, ReportedFile] = {}
    for path, lines in spoken.items():
        loaded = engine.project.file(path)
        if loaded is not None:
            settled = {comment.line for comment in suppressions(loaded[0].source) if comment.line}
            reported_files[path] = ReportedFile(loaded[0], loaded[1], frozenset(lines | settled))
    origins = DeviceOrigins(reported_files, engine.project)
    return {
        path: list(_of_file(engine, file, spoken[path], reported_files.get(path), origins))
        for path, file in sorted(seen.items())
    }


def _lines(findings: Iterable[Finding]) -> Iterator[int]:
    for finding in findings:
        if rule_facts(finding.code).about not in _OTHER_MATTERS:
            yield from range(finding.location.line, finding.location.end_line + 1)


def _of_file(
    engine: Engine, seen: _SeenFile, spoken: set[int], reported: ReportedFile | None, origins: DeviceOrigins
) -> Iterator[Finding]:
    comments = suppressions(seen.source)
    by_line = spans(reported.file.tree) if reported is not None else {}
    times: dict[tuple[Span, str], int] = defaultdict(int)
    for use in seen.uses:
        span = by_line.get(use.line) or Span(use.line, use.line, None)
        times[span, use.name] += use.times
    for (span, name), count in times.items():
        lines = range(span.first, span.last + 1)
        if spoken.isdisjoint(lines) and not any(_settles(comment, lines) for comment in comments):
            finding = _finding(engine, seen, span, name, count, reported, origins)
            if finding is not None:
                yield finding


def _settles(comment: Suppression, lines: range) -> bool:
    """Whether a comment says that the user has looked at these lines, whatever rule it names."""
    if comment.line:
        return comment.line in lines
    return comment.covers(OnlySeenAtRunTime.CODE, lines[0], lines[-1])


def _finding(
    engine: Engine,
    seen: _SeenFile,
    span: Span,
    name: str,
    times: int,
    reported: ReportedFile | None,
    origins: DeviceOrigins,
) -> Finding | None:
    """Return what there is to say of a statement that no finding speaks of; None where its device comes from one."""
    rule, target = OnlySeenAtRunTime(), engine.target
    line = seen.source.text[seen.source.starts[span.first - 1] :].split("\n", 1)[0].rstrip("\r")
    column = len(line) - len(line.lstrip()) + 1
    place = Location(seen.item.path, span.first, column, span.first, len(line) + 1)
    snippet = line.strip()[:120]
    if reported is None or span.statement is None:
        return rule.name(place, name, times, target, snippet)
    if isinstance(span.statement, (ast.Import, ast.ImportFrom)):
        return None  # what a module asks when it is imported is that module's own matter
    nodes = list(own_nodes(span.statement))
    if name == cuda.DEVICE_TYPE:
        asked = devices_asked(nodes, reported.names)
        if any(origins.explained(seen.item.path, node) for node in asked):
            return None
        if asked:
            return rule.device(place, _shown(reported.file, asked), times, target, snippet)
        return rule.library(place, name, times, target, snippet)
    if any(origins.explained(seen.item.path, node) for node in nodes if isinstance(node, ast.Name)):
        return None
    if _is_named(nodes, name.rpartition(".")[2]):
        return rule.name(place, name, times, target, snippet)
    if any(isinstance(node, ast.Call) and _is_torch(reported, node.func) for node in nodes):
        return None  # `torch.manual_seed` seeds the cards by itself, the target's too
    return rule.library(place, name, times, target, snippet)


def _shown(file: PythonFile, asked: list[ast.expr]) -> str:
    """Return the source of the expression that is most likely the device: one that is no plain number or text."""
    best = next((node for node in asked if not isinstance(node, ast.Constant)), asked[0])
    try:
        return file.text(best).split("\n", 1)[0].rstrip("\r")[:80]
    except ValueError:
        return "..."


def _is_torch(reported: ReportedFile, node: ast.expr) -> bool:
    return (reported.names.qualified(node) or "").startswith("torch.")


def _is_named(nodes: Iterable[ast.AST], name: str) -> bool:
    """Whether a statement spells a name, or computes one."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == name)
        or (isinstance(node, ast.Name) and node.id in {name, "getattr"})
        or (isinstance(node, ast.Constant) and node.value == name)
        for node in nodes
    )


def _with(item: FileResult, new: Iterable[Finding], selection: Selection) -> FileResult:
    wanted = [finding for finding in new if selection.wants(finding.code, item.path)]
    if not wanted:
        return item
    moved = _moved(item, wanted)
    return item._replace(
        findings=tuple(sorted((*item.findings, *wanted), key=lambda reported: reported.location.order)),
        remaining=tuple(sorted((*item.remaining, *moved), key=lambda reported: reported.location.order)),
    )


def _moved(item: FileResult, findings: list[Finding]) -> list[Finding]:
    """Return findings where their lines stand in the file as it is to be written."""
    if item.before is None or item.after is None:
        return findings
    from difflib import SequenceMatcher  # imported late: few runs have a run beside them

    before, after = item.before.splitlines(), item.after.splitlines()
    lines = {
        block.a + offset + 1: block.b + offset + 1
        for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
        for offset in range(block.size)
    }
    moved = []
    for finding in findings:
        line = lines.get(finding.location.line, finding.location.line)
        moved.append(finding._replace(location=finding.location._replace(line=line, end_line=line)))
    return moved


class Span(NamedTuple):
    """Lines from `first` to `last`, and the statement that they are; of one with a body, its head alone."""

    first: int
    last: int
    statement: ast.stmt | None


def spans(tree: ast.Module) -> dict[int, Span]:
    """Return the innermost statement of each line."""
    by_line: dict[int, Span] = {}
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        children = [child for child in children_of(node) if not isinstance(child, ast.expr)]
        if isinstance(node, ast.stmt):
            span = Span(_first(node), _last(node), node)
            for line in range(span.first, span.last + 1):
                by_line[line] = span
        stack += reversed(children)  # statements before those that they hold, which then have the last word
    return by_line


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without those of the statements in it."""
    stack: list[ast.AST] = [child for child in children_of(statement) if not isinstance(child, ast.stmt)]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for child in children_of(node) if not isinstance(child, ast.stmt)]


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(node.lineno for node in decorators)])


def _last(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None)
    if isinstance(statement, ast.Match):
        return statement.subject.end_lineno or statement.lineno
    if not isinstance(body, list):
        return statement.end_lineno or statement.lineno
    return max(statement.lineno, _first(body[0]) - 1)
