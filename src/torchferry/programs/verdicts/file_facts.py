"""What judging takes down of each file while the scan has it parsed, so that fewer files are parsed a second time.

Files are examined by several processes, and what one has parsed another does not have. What is noted is what judging
would find in the file itself: without a note it looks there, and reaches the same.
"""

from __future__ import annotations

from torchferry.core.record import NamedTuple
from torchferry.programs.entry_points.finder import StartCommands, may_call_starter, start_calls
from torchferry.programs.entry_points.written_commands import READ_FOR_COMMANDS, WrittenCommand, may_start, written_in
from torchferry.programs.imports.sources import LONGEST
from torchferry.programs.options.switches import Switch, may_define, switches_of
from torchferry.programs.references.uses import LookupFacts, lookup_facts
from torchferry.rules.base import Context, PythonContext
from torchferry.rules.file_result import Afterwards
from torchferry.source.document import Document
from torchferry.source.kinds import Kind
from torchferry.source.outline import Outline, outline
from torchferry.source.roles import ASIDE
from torchferry.source.text import is_plain


class FileFacts(NamedTuple):
    """What is noted of a file; None where it was not looked for.

    Attributes:
        switches: The options and fields that a Python file or a notebook defines, by their names.
        commands: The commands in a file that may start one of the project's.
        start_calls: The calls in a Python file or a notebook that may start one.
        uses: What one says that is asked for where functions and classes are used.
        text: The code of a notebook.
        outline: What a notebook imports.
        names: The words of a Python file, each once, with blanks between them.
    """

    switches: dict[str, list[Switch]] | None = None
    commands: tuple[WrittenCommand, ...] | None = None
    start_calls: tuple[StartCommands, ...] | None = None
    uses: LookupFacts | None = None
    text: str | None = None
    outline: Outline | None = None
    names: bytes | None = None


def extract_facts(data: bytes, names: bytes | None, document: Document, context: Context) -> FileFacts:
    """Return what judging will ask of a file.

    Args:
        data: The file's bytes.
        names: The names in them, of a Python file.
        document: The file.
        context: The same as rules see it.
    """
    names = names if is_plain(data) else None
    noted = FileFacts(names=names)
    if isinstance(context, PythonContext) and len(context.text) <= LONGEST:
        switches = switches_of(context.file) if may_define(context.text, names) else {}
        calls = start_calls(context.file, context.names) if may_call_starter(context.text, names) else ()
        noted = noted._replace(
            switches=switches,
            start_calls=calls,
            uses=lookup_facts(context.file, context.names),
        )
    if document.kind is Kind.NOTEBOOK:
        read = outline(document.path, context.text.encode("utf-8", "replace"))
        noted = noted._replace(text=context.text, outline=read)
    if document.kind in READ_FOR_COMMANDS:
        noted = noted._replace(commands=written_in(document, context) if may_start(document.kind, data) else ())
    return noted


def quick_facts(kind: Kind, data: bytes, names: bytes | None) -> FileFacts | None:
    """Return what the bytes of a file that no rule asks for say at once."""
    if kind is Kind.PYTHON:
        if names is None or not is_plain(data):
            return None
        text = data.decode("ascii")
        return FileFacts(
            names=names,
            switches=None if may_define(text, names) else {},
            start_calls=None if may_call_starter(text, names) else (),
        )
    return FileFacts(commands=()) if kind in READ_FOR_COMMANDS and not may_start(kind, data) else None


FACTS_FOR_JUDGING = Afterwards(asks=lambda path: not ASIDE.search(path), note=extract_facts, glance=quick_facts)
"""For an examination that ends with the judging of the programs."""
