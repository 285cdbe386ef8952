"""`migrate --kit`: the files beside a migrated project, written in the same transaction as its code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchferry.cli.settings import RunSettings
from torchferry.core.files import read_regular
from torchferry.core.messages import say
from torchferry.core.progress import counted
from torchferry.core.terminal import print_notice
from torchferry.kit.documents import ChangedFile
from torchferry.kit.plan import CodeOutcome, Kit, kit_of, kit_writes
from torchferry.migration.journal import first_contents, known_journals, suffixed
from torchferry.migration.plan import Plan
from torchferry.migration.transaction import Write
from torchferry.rules.analysis import FileExaminer, Request, programs_of
from torchferry.rules.file_result import FileResult
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.tree import Entry


def kit_for(setting: RunSettings, suffix: str, lang: str, to_be: Mapping[str, bytes] | None = None) -> Kit:
    """Return what the kit of a project is made from.

    Args:
        setting: What the command was asked.
        suffix: The suffix of new files; empty where files are changed in place.
        lang: Language of the files.
        to_be: The contents of files that are about to be written in place.
    """
    target = setting.target
    listing = setting.request.listing
    return kit_of(setting.root, setting.name, listing, target, suffix or f"_{target.name}", setting.style, lang, to_be)


def with_kit(
    setting: RunSettings, planned: Plan, kit: Kit, way: str, suffix: str = "", new_files: Iterable[Write] = ()
) -> Plan:
    """Add the files of a kit to a plan.

    Args:
        setting: What the command was asked.
        planned: The plan of the code, whose writes are in place.
        kit: What the kit is made from.
        way: `beside` the originals, `in place`, in a `copy`, or as a `patch`.
        suffix: The suffix of new files; empty where files are changed in place.
        new_files: The writes of the code beside the originals, where a suffix is given.

    Raises:
        TorchferryError: a file of the kit is somebody's own.
    """
    writes = list(new_files) if suffix else list(planned.writes)
    back = {suffixed(item.path, suffix): item.path for item in planned.analysis.examined} if suffix else {}
    moved = {
        back.get(write.path, write.path): write.path
        for write in writes
        if write.before is not None or write.path in back
    }
    earlier = {} if suffix else _earlier(setting.root, setting.request, kit)
    changed = [file for file, _ in earlier.values()]
    results = {path: result for path, (_, result) in earlier.items()}
    programs = programs_of(setting.request, planned.analysis, results)
    fixed = [*(finding for result in results.values() for finding in result.fixed), *planned.fixed]
    after = {write.path: write.after for write in writes}
    changed += [ChangedFile(path, read_regular(setting.root / path), after[moved[path]]) for path in moved]
    outcome = CodeOutcome(
        tuple(writes),
        moved,
        tuple(changed),
        tuple(path for path in programs if path not in kit.made and kind_of(path) is Kind.PYTHON),
        tuple(finding for finding in fixed if finding.location.path not in kit.made),
        tuple(finding for finding in planned.remaining if finding.location.path not in kit.made),
        way,
    )
    own = {write.path: write for write in writes}
    of_kit, edited = kit_writes(kit, outcome)
    for path in edited:
        print_notice(say("kept `{path}`, which was edited after torchferry wrote it", path=path).render(kit.lang))
    for write in of_kit:
        own[write.path] = write
    maintained = (*planned.maintained, *(write.path for write in of_kit))
    return planned._replace(writes=[own[path] for path in sorted(own)], maintained=maintained)


def _earlier(root: Path, request: Request, kit: Kit) -> dict[str, tuple[ChangedFile, FileResult]]:
    """Return what earlier migrations changed in place, and what was found in it.

    The documents speak of the whole migration, of which a run after an edit is only the last part.
    """
    entries = {entry.path: entry for entry in request.listing.entries}
    unsafe = request._replace(selection=request.selection._replace(unsafe=True))
    examiners = [FileExaminer(request), FileExaminer(unsafe)]  # each reads once who imports whom
    in_place = [journal for journal in known_journals(root) if not journal.suffix]
    contents = first_contents(root, in_place) if in_place else {}
    earlier: dict[str, tuple[ChangedFile, FileResult]] = {}
    for path, (before, left) in counted(say("examining files"), sorted(contents.items())):
        if path in entries and path not in kit.made:
            result = _examined(examiners, entries[path], before, left)
            present = read_regular(root / path)
            written = hashlib.sha256(present).hexdigest() == left
            earlier[path] = ChangedFile(path, before, present if written else result.after or before), result
    return earlier


def _examined(examiners: Iterable[FileExaminer], entry: Entry, before: bytes, left: str) -> FileResult:
    """Return what became of a file: by the first that comes to what was left of it, else by the first of all."""
    results: list[FileResult] = []
    for examiner in examiners:
        result = examiner.examine(entry, before, rewrite=True)
        if hashlib.sha256(result.after or before).hexdigest() == left:
            return result
        results.append(result)
    return results[0]
