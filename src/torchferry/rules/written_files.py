"""The files that a notebook's cells write, examined as files of their own: `%%writefile train.py`.

What such a cell holds is no code of the notebook: it has imports, names and its own language. So it is examined as
a file, and what is found there is told at its place in the cell; its edits change the lines of the cell that they are
about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher

from torchferry.core.finding import Edit, Finding, Location
from torchferry.rules.file_result import FileResult
from torchferry.rules.mentions import WordAccount
from torchferry.source.document import Document
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.notebook import WrittenFile


def with_written_files(
    examined: FileResult, document: Document, examine: Callable[[str, Kind, bytes], FileResult]
) -> FileResult:
    """Return the result of a notebook with what is found, and was rewritten, in the files that its cells write.

    Args:
        examined: The notebook, examined, and rewritten where that was asked.
        document: The notebook as it was.
        examine: Examines, and rewrites where that is asked, a file with this path, of this kind, with these bytes.
    """
    assert document.notebook is not None
    results: list[tuple[WrittenFile, FileResult]] = []
    for file in document.notebook.files:
        kind = kind_of(file.name)
        if kind is not None and kind is not Kind.NOTEBOOK:
            data = file.text.encode("utf-8", "surrogatepass")
            results.append((file, examine(examined.path, kind, data)))
    findings, fixed, remaining = list(examined.findings), list(examined.fixed), list(examined.remaining)
    words = [examined.words]
    written: Counter[str] = Counter()
    for file, inner in results:
        written[file.name] += 1
        known_as = f"{file.name}:{written[file.name]}"  # neither a number nor a symbol behind it has a colon
        findings += _placed(file, inner.findings, known_as)
        fixed += _placed(file, inner.fixed, known_as)
        remaining += _placed(file, inner.remaining, known_as)
        mentions = (mention._replace(location=_at(file, mention.location)) for mention in inner.words.staying)
        words.append(inner.words._replace(staying=tuple(mentions)))
    examined = examined._replace(
        findings=_in_order(findings),
        fixed=tuple(fixed),
        remaining=_in_order(remaining),
        words=WordAccount.together(words),
    )
    return _written(examined, document, {file.cell: inner.after for file, inner in results if inner.after is not None})


def _written(examined: FileResult, document: Document, texts: dict[int, bytes]) -> FileResult:
    """Return the result with new texts of files, by the numbers of their cells."""
    if not texts:
        return examined
    current = document if examined.after is None else Document.read(examined.path, examined.kind, examined.after)
    assert current.notebook is not None
    edits = [
        edit
        for file in current.notebook.files
        if file.cell in texts
        for edit in _changes(file.text, texts[file.cell].decode("utf-8", "surrogatepass"), file.start)
    ]
    before = document.data() if examined.before is None else examined.before
    return examined._replace(before=before, after=current.edited(edits).data())


def _changes(before: str, after: str, start: int) -> Iterator[Edit]:
    """Yield the edits that make one text of another, which begins at `start`: a changed line keeps what it can."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    at = [start]
    for line in old:
        at.append(at[-1] + len(line))
    for _, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if last - first == new_last - new_first:
            for number, line in enumerate(old[first:last]):
                if line != new[new_first + number]:
                    yield _change(line, new[new_first + number], at[first + number])
        else:
            yield Edit(at[first], at[last], "".join(new[new_first:new_last]))


def _change(before: str, after: str, start: int) -> Edit:
    ahead = 0
    while before[ahead : ahead + 1] == after[ahead : ahead + 1]:
        ahead += 1
    behind = 0
    while behind < min(len(before), len(after)) - ahead and before[-1 - behind] == after[-1 - behind]:
        behind += 1
    return Edit(start + ahead, start + len(before) - behind, after[ahead : len(after) - behind])


def _placed(file: WrittenFile, findings: tuple[Finding, ...], known_as: str) -> Iterator[Finding]:
    for finding in findings:
        edits = tuple(edit._replace(start=edit.start + file.start, end=edit.end + file.start) for edit in finding.edits)
        yield finding._replace(
            location=_at(file, finding.location),
            edits=edits,
            origin=None if finding.origin is None else _at(file, finding.origin),
            anchor=finding.anchor._replace(symbol=f"{known_as}:{finding.anchor.symbol}"),
        )


def _at(file: WrittenFile, location: Location) -> Location:
    """Return a location in a written file as one in the notebook's cell."""
    lines = file.line - 1
    return location._replace(line=location.line + lines, end_line=location.end_line + lines, cell=file.cell)


def _in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.location.order))
