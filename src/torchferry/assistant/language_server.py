"""A server of the Language Server Protocol: findings while one types, fixes as code actions, rules on hover."""

from __future__ import annotations

import asyncio
import difflib
import io
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from torchferry import __version__
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.finding import LINK, Edit, Finding, Grade
from torchferry.core.messages import say, say_plural
from torchferry.report.pages import page
from torchferry.rules.analysis import FileExaminer, Request
from torchferry.rules.engine import all_edits
from torchferry.rules.groups import without_overlaps
from torchferry.source.document import Document
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.text import UndecodableError
from torchferry.source.tree import Entry

_PAUSE = 0.25
"""Seconds without a key before the text is examined."""

_LONG = 2000
"""Lines of a text above which its lines are no longer compared one by one."""

_LONGEST = 1 << 28
"""Bytes of a message: the text of a file of 128 MiB, twice."""

_LONGEST_HEADER = 8192
"""Bytes of a line before the message itself; those of the protocol have less than 100."""

_SOURCE = "torchferry"

_FIX_ALL = "source.fixAll.torchferry"

_SEVERITY = {
    Grade.SAFE: types.DiagnosticSeverity.Information,
    Grade.UNSAFE: types.DiagnosticSeverity.Warning,
    Grade.MANUAL: types.DiagnosticSeverity.Warning,
    Grade.NOTE: types.DiagnosticSeverity.Hint,
}


@dataclass(frozen=True)
class Examined:
    """A text with what was found in it."""

    text: str
    document: Document
    findings: tuple[Finding, ...]

    @cached_property
    def _lines(self) -> tuple[list[str], list[int]]:
        """The lines of the text as pygls counts them, and where each begins."""
        lines = self.text.splitlines(keepends=True)
        return lines, [0, *accumulate(map(len, lines))]

    def place(self, document: TextDocument, offset: int) -> types.Position:
        """Return the position of a character in the client's units; pygls would split the text for each anew."""
        lines, starts = self._lines
        line = bisect_right(starts, offset) - 1
        if line >= len(lines):
            return types.Position(len(lines), 0)
        return types.Position(line, document.position_codec.client_num_units(lines[line][: offset - starts[line]]))


@dataclass
class OpenProject:
    """One folder of the workspace.

    Attributes:
        root: The folder, links followed.
        request: What to examine it for.
        examiner: Examines its files.
    """

    root: Path
    request: Request
    examiner: FileExaminer = field(init=False)

    def __post_init__(self) -> None:
        """Make the examiner."""
        self.examiner = FileExaminer(self.request)

    def examine(self, path: Path, text: str) -> Examined | None:
        """Examine the text of a file; None for a kind that is not examined here."""
        name = path.relative_to(self.root).as_posix()
        kind = kind_of(name)
        if kind is None or kind is Kind.NOTEBOOK:
            return None
        data = _as_bytes(text, kind)
        try:
            document = Document.read(name, kind, data)
        except (UndecodableError, NotJsonError):
            return None
        if document.source.text != text:  # no position would be right
            return None
        item = self.examiner.examine(Entry(name, kind), data)
        return Examined(text, document, tuple(each for each in item.findings if each.message is not LINK))

    def fixed(self, examined: Examined) -> tuple[int, str]:
        """Return how many safe fixes a text gets, and what they make of it, as `migrate` does."""
        document = examined.document
        entry = Entry(document.path, document.kind)
        item = self.examiner.examine(entry, document.data(), rewrite=True)
        if item.after is None:
            return 0, examined.text
        return len(item.fixed), Document.read(document.path, document.kind, item.after).source.text


def _as_bytes(text: str, kind: Kind) -> bytes:
    """Return a text in the encoding that its first lines declare, so that it is read as the text it is."""
    data = text.encode("utf-8", "surrogatepass")
    if kind is Kind.PYTHON:
        try:
            return text.encode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
        except (SyntaxError, UnicodeError):
            return data
    return data


class ClientInput(io.BufferedReader):
    """Standard input, as far as it is messages of the protocol.

    pygls passes over a line that it does not know, and waits for ever; of a length that is out of reach, or of an
    input that ends within a message, it dies with a traceback. Here each of these ends the server with a message.
    """

    def __init__(self, descriptor: int = 0) -> None:
        super().__init__(io.FileIO(descriptor, closefd=False))

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line of a header, the length of the message as pygls reads it; empty at the end.

        Raises:
            UsageError: the line is none of a header, or the length is none that a message can have.
        """
        line = super().readline(_LONGEST_HEADER)
        name, colon, value = line.partition(b":")
        if not line.strip():
            return line
        if not colon or not name.strip().replace(b"-", b"").isalpha() or not line.endswith(b"\n"):
            raise UsageError(
                say("standard input is not the Language Server Protocol: {line}", line=_shown(line)),
                say("an editor starts `torchferry lsp`; to see findings yourself, use `torchferry scan`"),
            )
        if name.strip().lower() != b"content-length":
            return line
        text = value.strip()
        if not text.isdigit() or len(text) > len(str(_LONGEST)) or not 0 < int(text) <= _LONGEST:
            raise UsageError(
                say(
                    "a message of the editor states its length in bytes as {length}; at least: 1, at most: {limit}",
                    length=_shown(text),
                    limit=_LONGEST,
                ),
                say("report it to the makers of the editor's client"),
            )
        return b"Content-Length: %d\r\n" % int(text)

    def read(self, size: int | None = -1) -> bytes:
        """Return the body of a message.

        Raises:
            UsageError: the input ends before it.
        """
        body = super().read(size)
        if size is not None and 0 <= len(body) < size:
            raise UsageError(
                say("the editor's input ended within a message, at byte {got} of {size}", got=len(body), size=size)
            )
        return body


def _shown(data: bytes) -> str:
    """Return what a client wrote, short and on one line."""
    return repr(data[:60])[1:] + ("..." if len(data) > 60 else "")


class FindingServer(LanguageServer):
    """Examines the files that an editor has open.

    Args:
        request_of: Returns what to examine a folder for, by its settings; raises `TorchferryError`.
        lang: Language of the messages.
    """

    def __init__(self, request_of: Callable[[Path], Request], lang: str) -> None:
        super().__init__("torchferry", __version__)
        self.lang = lang
        self._request_of = request_of
        self._projects: dict[Path, OpenProject | None] = {}
        self._examined: dict[str, Examined] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        # pygls marks a function that it registers, which a method does not let it
        self.feature(types.TEXT_DOCUMENT_DID_OPEN)(partial(self._opened))
        self.feature(types.TEXT_DOCUMENT_DID_CHANGE)(partial(self._changed))
        self.feature(types.TEXT_DOCUMENT_DID_SAVE)(partial(self._saved))
        self.feature(types.TEXT_DOCUMENT_DID_CLOSE)(partial(self._closed))
        self.feature(types.TEXT_DOCUMENT_HOVER)(partial(self._hover))
        self.feature(
            types.TEXT_DOCUMENT_CODE_ACTION,
            types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, _FIX_ALL]),
        )(partial(self._actions))

    async def _opened(self, parameters: types.DidOpenTextDocumentParams) -> None:
        self._examine(parameters.text_document.uri)

    async def _changed(self, parameters: types.DidChangeTextDocumentParams) -> None:
        uri = parameters.text_document.uri
        self._forget(uri)
        self._waiting[uri] = asyncio.create_task(self._examine_after_a_pause(uri))

    async def _saved(self, parameters: types.DidSaveTextDocumentParams) -> None:
        self._projects.clear()  # a file of settings, or one that others import, may have changed
        for uri in {**self.workspace.text_documents, parameters.text_document.uri: None}:  # also what was not examined
            self._examine(uri)

    async def _closed(self, parameters: types.DidCloseTextDocumentParams) -> None:
        uri = parameters.text_document.uri
        self._forget(uri)
        self._examined.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _forget(self, uri: str) -> None:
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
            waiting.cancel()

    async def _examine_after_a_pause(self, uri: str) -> None:
        await asyncio.sleep(_PAUSE)
        self._waiting.pop(uri, None)
        self._examine(uri)

    def _examine(self, uri: str) -> None:
        document = self.workspace.get_text_document(uri)
        examined = self._examination(document)
        if examined is None:
            self._examined.pop(uri, None)
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))
            return
        self._examined[uri] = examined
        diagnostics = [self._diagnostic(document, examined, finding) for finding in examined.findings]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, diagnostics, version=document.version)
        )

    def _examination(self, document: TextDocument) -> Examined | None:
        project = self._project_of(document)
        text = None if project is None else _text(document)
        if project is None or text is None:
            return None
        return project.examine(Path(document.path).resolve(), text)

    def _project_of(self, document: TextDocument) -> OpenProject | None:
        """Return the folder of the workspace that a document lies in; None for one that is no file of it."""
        if not document.uri.startswith("file:") or "\0" in document.path:
            return None
        return self._project(Path(document.path).resolve())

    def _project(self, path: Path) -> OpenProject | None:
        """Return the folder of the workspace that a file lies in; None for none, or one whose settings are wrong."""
        roots = [Path(name).resolve() for folder in self.workspace.folders if (name := to_fs_path(folder)) is not None]
        if not roots and self.workspace.root_path is not None:
            roots = [Path(self.workspace.root_path).resolve()]
        around = [root for root in roots if path.is_relative_to(root)]
        root = max(around, key=lambda each: len(each.parts), default=None)
        if root is None:
            return None
        if root not in self._projects:
            try:
                self._projects[root] = OpenProject(root, self._request_of(root))
            except TorchferryError as error:
                self._projects[root] = None
                texts = (text.render(self.lang) for text in (error.message, error.advice) if text is not None)
                shown = types.ShowMessageParams(types.MessageType.Error, f"torchferry: {'; '.join(texts)}")
                self.window_show_message(shown)
        return self._projects[root]

    def _diagnostic(self, document: TextDocument, examined: Examined, finding: Finding) -> types.Diagnostic:
        grade = finding.grade
        return types.Diagnostic(
            range=_range(document, examined, finding),
            message=finding.message.render(self.lang),
            severity=types.DiagnosticSeverity.Error if finding.blocker else _SEVERITY[grade],
            code=finding.code,
            source=_SOURCE,
        )

    async def _hover(self, parameters: types.HoverParams) -> types.Hover | None:
        """Show the rule of the finding below the cursor."""
        uri = parameters.text_document.uri
        document, examined = self._current(uri)
        if examined is None:
            return None
        at = document.offset_at_position(parameters.position)
        for finding in examined.findings:
            start, end = examined.document.source.span(finding.location)
            if start <= at < end:
                told = page(finding.code, self.lang)
                text = f"**{told.code} {told.name}**: {told.title}\n\n{told.body}\n\n{told.why}"
                return types.Hover(
                    types.MarkupContent(types.MarkupKind.Markdown, text), _range(document, examined, finding)
                )
        return None

    async def _actions(self, parameters: types.CodeActionParams) -> list[types.CodeAction]:
        """Offer the fixes of the findings in a range, and one for all safe fixes of the file."""
        uri = parameters.text_document.uri
        document, examined = self._current(uri)
        if examined is None:
            return []
        first = document.offset_at_position(parameters.range.start)
        last = document.offset_at_position(parameters.range.end)
        only = parameters.context.only
        actions: list[types.CodeAction] = []
        if _is_wanted(types.CodeActionKind.QuickFix, only):
            for finding in examined.findings:
                start, end = examined.document.source.span(finding.location)
                if finding.edits and start <= last and first <= end:
                    actions.append(self._quick_fix(document, examined, finding))
        if _is_wanted(_FIX_ALL, only):
            actions += self._fix_all(document, examined)
        return actions

    def _quick_fix(self, document: TextDocument, examined: Examined, finding: Finding) -> types.CodeAction:
        """Return the action that fixes one place, with all that has to change with it."""
        together = without_overlaps(_changing_together(finding, examined.findings))
        project = self._project_of(document)
        assert project is not None  # it was examined
        edits = all_edits(together, examined.document, project.request.target)
        title = finding.message.render(self.lang)
        if finding.grade is Grade.UNSAFE:
            title = say("{fix} (read it first)", fix=title).render(self.lang)
        diagnostic = self._diagnostic(document, examined, finding)
        is_safe = finding.grade is Grade.SAFE
        return self._action(document, examined, edits, title, types.CodeActionKind.QuickFix, diagnostic, is_safe)

    def _fix_all(self, document: TextDocument, examined: Examined) -> list[types.CodeAction]:
        """Return the action that makes of the text what `migrate` makes of the file; none where that is the same."""
        project = self._project_of(document)
        count, after = project.fixed(examined) if project is not None else (0, examined.text)
        if after == examined.text:
            return []
        title = say_plural(
            "torchferry: apply {count} safe fix", "torchferry: apply {count} safe fixes", count=count
        ).render(self.lang)
        return [self._action(document, examined, _differences(examined.text, after), title, _FIX_ALL)]

    def _action(
        self,
        document: TextDocument,
        examined: Examined,
        edits: Iterable[Edit],
        title: str,
        kind: types.CodeActionKind | str,
        diagnostic: types.Diagnostic | None = None,
        preferred: bool | None = None,
    ) -> types.CodeAction:
        """Return an action with edits that count the characters of the text."""
        place = partial(examined.place, document)
        changes = [types.TextEdit(types.Range(place(edit.start), place(edit.end)), edit.text) for edit in sorted(edits)]
        identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
        return types.CodeAction(
            title=title,
            kind=kind,
            edit=types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, changes)]),
            diagnostics=[diagnostic] if diagnostic is not None else None,
            is_preferred=preferred,
        )

    def _current(self, uri: str) -> tuple[TextDocument, Examined | None]:
        """Return a document with what was found in it, if that was found in the text that it has now."""
        document = self.workspace.get_text_document(uri)
        examined = self._examined.get(uri)
        if examined is None or examined.text != _text(document):
            self._forget(uri)
            self._examine(uri)
            examined = self._examined.get(uri)
        return document, examined


def _text(document: TextDocument) -> str | None:
    """Return the text of a document; None for one that the editor has not open and that cannot be read."""
    try:
        return document.source
    except (OSError, ValueError):
        return None


def _is_wanted(kind: types.CodeActionKind | str, only: Iterable[types.CodeActionKind | str] | None) -> bool:
    """Whether a client that names kinds of actions, which represent all below them, wants this one."""
    name = str(getattr(kind, "value", kind))
    return only is None or any(
        name == wanted or name.startswith(f"{wanted}.")
        for wanted in (str(getattr(each, "value", each)) for each in only)
    )


def _differences(before: str, after: str) -> list[Edit]:
    """Return the edits that make one text of another, line by line: an editor keeps its place in the others.

    Of a long text everything from the first changed line to the last is one edit: to compare lines costs their square.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, old))]
    if len(old) > _LONG:
        shorter = min(len(old), len(new))
        head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
        tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
        return [Edit(starts[head], starts[len(old) - tail], "".join(new[head : len(new) - tail]))]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        Edit(starts[first], starts[last], "".join(new[begin:end]))
        for what, first, last, begin, end in matcher.get_opcodes()
        if what != "equal"
    ]


def _changing_together(finding: Finding, findings: Iterable[Finding]) -> list[Finding]:
    """Return a finding with all that change with it or that it needs."""
    groups = {finding.group, *finding.needs} - {""}
    chosen = [finding]
    found = list(findings)
    for _ in found:
        more = [each for each in found if each not in chosen and each.edits and each.group in groups]
        if not more:
            break
        chosen += more
        groups |= {need for each in more for need in each.needs}
    return chosen


def _range(document: TextDocument, examined: Examined, finding: Finding) -> types.Range:
    start, end = examined.document.source.span(finding.location)
    return types.Range(examined.place(document, start), examined.place(document, end))
