"""Lay what a run saw beside what the rules found: what only the run saw becomes a finding."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from torchferry.backends import cuda
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.finding import Finding, Location
from torchferry.core.messages import Message, say, say_plural
from torchferry.rules.engine import Engine
from torchferry.rules.examined import Examined, Selection
from torchferry.rules.run.only_seen_at_run_time import OnlySeenAtRunTime
from torchferry.rules.run.origins import Known, Origins, devices_asked
from torchferry.rules.run.sightings import Sighting, Sightings
from torchferry.rules.run.spans import Span, own_nodes, spans
from torchferry.source.kinds import Kind
from torchferry.source.python import PythonFile
from torchferry.source.suppress import Suppression, suppressions
from torchferry.source.text import SourceText, UndecodableError, decode_python
from torchferry.source.tree import Entry

_OTHER_MATTERS = ("DEP", "DTY", "FIL", "PTH", "SUP")
"""Families whose findings say nothing of the device of a line."""


class Beside(NamedTuple):
    """The files with what only the run saw among their findings, and what there is to know about the run."""

    examined: list[Examined]
    remarks: list[Message]


class _Seen(NamedTuple):
    item: Examined
    source: SourceText
    sightings: tuple[Sighting, ...]


def lay_beside(engine: Engine, selection: Selection, examined: list[Examined], sightings: Sightings) -> Beside:
    """Return the files with a finding for each line that the run saw and no rule.

    Args:
        engine: An engine with every rule, whatever the user selected: a finding that is not shown is a finding.
        selection: What the user wants to see.
        examined: The files as examined.
        sightings: What the run saw.

    Raises:
        TorchferryError: a line of the report lies behind the end of its file.
    """
    remarks: list[Message] = []
    items = {item.path: item for item in examined}
    seen: dict[str, _Seen] = {}
    apart: list[str] = []
    for path, of_file in sightings.lines.items():
        item = items.get(path)
        changed = _changed(engine.root, path, sightings.hashes[path])
        if changed is not None:
            remarks.append(changed)
        elif item is None or item.kind is not Kind.PYTHON:
            apart.append(path)
        elif (source := _text(engine.root, path)) is not None:
            _check_lines(sightings.source, path, source, of_file)
            seen[path] = _Seen(item, source, of_file)
    if apart:
        remarks.append(
            say_plural(
                "The run went through {count} file that is not examined, such as {path}; its lines are left out.",
                "The run went through {count} files that are not examined, such as {path}; its lines are left out.",
                count=len(apart),
                path=apart[0],
            )
        )
    if not sightings.lines:
        remarks.append(
            say("{path} contains no files below {root}.", path=sightings.source, root=engine.root.resolve().name)
        )
    new = _findings(engine, selection, examined, seen)
    return Beside([_with(item, new.get(item.path, ()), selection) for item in examined], remarks)


def _changed(root: Path, path: str, expected: str) -> Message | None:
    """Return the remark on a file that is not what ran, or None."""
    file = root / path
    try:
        if not file.resolve().is_relative_to(root.resolve()) or not file.is_file():
            return say("{path} ran but does not exist here; what the run saw there is left out.", path=path)
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


def _check_lines(file: Path, path: str, source: SourceText, of_file: Iterable[Sighting]) -> None:
    for sighting in of_file:
        if sighting.line > len(source.starts):
            raise TorchferryError(
                say(
                    "{file} names line {line} of {path}, which has {count}",
                    file=file,
                    line=sighting.line,
                    path=path,
                    count=len(source.starts),
                ),
                say("write it again: `torchferry run --report FILE -- COMMAND`"),
            )


def _findings(
    engine: Engine, selection: Selection, examined: list[Examined], seen: dict[str, _Seen]
) -> dict[str, list[Finding]]:
    """Return what only the run saw, by file."""
    assert engine.project is not None
    spoken: dict[str, set[int]] = {}
    hidden = bool(selection.select or selection.ignore or selection.per_file)
    for item in examined:
        if item.kind is Kind.PYTHON and (item.path in seen or item.findings or hidden):
            found = engine.examine(Entry(item.path, item.kind), whole=True).findings
            spoken[item.path] = set(_lines(found))
    known: dict[str, Known] = {}
    for path, lines in spoken.items():
        loaded = engine.project.file(path)
        if loaded is not None:
            settled = {comment.line for comment in suppressions(loaded[0].source) if comment.line}
            known[path] = Known(loaded[0], loaded[1], frozenset(lines | settled))
    origins = Origins(known, engine.project)
    return {
        path: list(_of_file(engine, one, spoken[path], known.get(path), origins)) for path, one in sorted(seen.items())
    }


def _lines(findings: Iterable[Finding]) -> Iterator[int]:
    for finding in findings:
        if not finding.code.startswith(_OTHER_MATTERS):
            yield from range(finding.location.line, finding.location.end_line + 1)


def _of_file(engine: Engine, seen: _Seen, spoken: set[int], known: Known | None, origins: Origins) -> Iterator[Finding]:
    comments = suppressions(seen.source)
    by_line = spans(known.file.tree) if known is not None else {}
    times: dict[tuple[Span, str], int] = defaultdict(int)
    for sighting in seen.sightings:
        span = by_line.get(sighting.line) or Span(sighting.line, sighting.line, None)
        times[span, sighting.name] += sighting.times
    for (span, name), count in times.items():
        lines = range(span.first, span.last + 1)
        if spoken.isdisjoint(lines) and not any(_settles(comment, lines) for comment in comments):
            finding = _finding(engine, seen, span, name, count, known, origins)
            if finding is not None:
                yield finding


def _settles(comment: Suppression, lines: range) -> bool:
    """Whether a comment says that the user has looked at these lines, whatever rule it names."""
    if comment.line:
        return comment.line in lines
    return comment.covers(OnlySeenAtRunTime.CODE, lines[0], lines[-1])


def _finding(
    engine: Engine, seen: _Seen, span: Span, name: str, times: int, known: Known | None, origins: Origins
) -> Finding | None:
    """Return what there is to say of a statement that no finding speaks of; None where its device comes from one."""
    rule, target = OnlySeenAtRunTime(), engine.target
    line = seen.source.text[seen.source.starts[span.first - 1] :].split("\n", 1)[0].rstrip("\r")
    column = len(line) - len(line.lstrip()) + 1
    place = Location(seen.item.path, span.first, column, span.first, len(line) + 1)
    snippet = line.strip()[:120]
    if known is None or span.statement is None:
        return rule.name(place, name, times, target, snippet)
    if isinstance(span.statement, (ast.Import, ast.ImportFrom)):
        return None  # what a module asks when it is imported is that module's own matter
    nodes = list(own_nodes(span.statement))
    if name == cuda.DEVICE_TYPE:
        asked = devices_asked(nodes, known.names)
        if any(origins.explained(seen.item.path, node) for node in asked):
            return None
        if asked:
            return rule.device(place, _shown(known.file, asked), times, target, snippet)
        return rule.library(place, name, times, target, snippet)
    if any(origins.explained(seen.item.path, node) for node in nodes if isinstance(node, ast.Name)):
        return None
    if _is_named(nodes, name.rpartition(".")[2]):
        return rule.name(place, name, times, target, snippet)
    if any(isinstance(node, ast.Call) and _is_torch(known, node.func) for node in nodes):
        return None  # `torch.manual_seed` seeds the cards by itself, the target's too
    return rule.library(place, name, times, target, snippet)


def _shown(file: PythonFile, asked: list[ast.expr]) -> str:
    """Return the source of the expression that is most likely the device: one that is no plain number or text."""
    best = next((node for node in asked if not isinstance(node, ast.Constant)), asked[0])
    try:
        return file.text(best).split("\n", 1)[0].rstrip("\r")[:80]
    except ValueError:
        return "..."


def _is_torch(known: Known, node: ast.expr) -> bool:
    return (known.names.qualified(node) or "").startswith("torch.")


def _is_named(nodes: Iterable[ast.AST], name: str) -> bool:
    """Whether a statement spells a name, or computes one."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == name)
        or (isinstance(node, ast.Name) and node.id in {name, "getattr"})
        or (isinstance(node, ast.Constant) and node.value == name)
        for node in nodes
    )


def _with(item: Examined, new: Iterable[Finding], selection: Selection) -> Examined:
    wanted = [finding for finding in new if selection.wants(finding.code, item.path)]
    if not wanted:
        return item
    moved = _moved(item, wanted)
    return item._replace(
        findings=tuple(sorted((*item.findings, *wanted), key=lambda found: found.location.order)),
        remaining=tuple(sorted((*item.remaining, *moved), key=lambda found: found.location.order)),
    )


def _moved(item: Examined, findings: list[Finding]) -> list[Finding]:
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
