"""A Jupyter notebook as Python and shell text, and edits carried back into the JSON it is kept in.

The code cells stand one behind the other in a `script` of one line more than their text. What is not Python in them
(magics, `!commands`, whole cells of another language) is masked in the Python view by code of the same length, and
is alone in the shell view where it is a command; so one offset means the same place in all three. An edit changes
only the characters of the JSON string that it is about: outputs, metadata and layout keep every byte.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from torchferry.core.finding import Edit, Location
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.jsontext import JsonValue, RawString, values
from torchferry.source.text import SourceText

_PYTHON_CELLS = frozenset({"capture", "prun", "python", "python3", "time", "timeit"})
"""Cell magics (`%%time`) whose cell is Python all the same."""

_SHELL_CELLS = frozenset({"bash", "ksh", "script", "sh", "shell", "system", "zsh", "!"})

_WRITE_CELLS = frozenset({"writefile", "file", "writetemplate"})
"""Cell magics whose cell is the text of a file that they write."""

_OWN_FILE_CELLS = {"cu": "cell.cu", "cuda": "cell.cu", "nvcc": "cell.cu", "pypy": "cell.py", "python2": "cell.py"}
"""Cell magics that give their cell to a program of its own, and the name of a file with such a text."""

_HOLDS_FILES = lazy_regex(
    rb"%%[ \t]*(?:" + "|".join(sorted({*_WRITE_CELLS, *_OWN_FILE_CELLS, "script"})).encode() + rb")\b"
)
_MAGIC = lazy_regex(r"(?P<indent>[ \t]*)(?P<mark>%%?|!!?|\?\??|,|;|/)")
_TIMED = lazy_regex(r"([ \t]*)%(?:time|timeit)[ \t]+(?=[A-Za-z_(])")
_ASSIGNED = lazy_regex(r"([ \t]*)[\w,][\w, \t]*=[ \t]*(?P<mark>!|%)")
_ASSIGNED_BY_BLANK = lazy_regex(r"(?P<name>[A-Za-z_]\w*)[ \t](?P<value>[^ \t=].*)\Z")
_HEREDOC = lazy_regex(r"<<-?[ \t]*[\"']?(?P<end>\w+)")
_COMPUTED = lazy_regex(r"[{$]")
_IMPORTS = lazy_regex(r"^[ \t]*(?:import|from)[ \t]+\w", re.MULTILINE)
_HELP = lazy_regex(r"[ \t]*[\w.*%]+\?\??[ \t]*\Z")


class Piece(NamedTuple):
    """One JSON string of a cell's source: where its text is in the script and in the JSON.

    Attributes:
        start: Offset in the script.
        text: Its text.
        quote: Offset of the opening quote in the JSON.
        end: Offset behind the closing quote in the JSON.
        in_list: Whether it is one line of a list, as notebooks are written, rather than all of the source.
    """

    start: int
    text: str
    quote: int
    end: int
    in_list: bool


class Cell(NamedTuple):
    """One code cell: its number among all cells (from 1), its place in the script, and its pieces."""

    number: int
    start: int
    text: str
    pieces: tuple[Piece, ...]


class WrittenFile(NamedTuple):
    """A file that a cell writes (`%%writefile train.py`), or gives to another program as it is (`%%cu`).

    Attributes:
        name: Its path, as the cell says it; one with the right suffix for a text that has none.
        cell: The number of the cell.
        start: Offset in the script at which its text begins, the start of a line.
        line: The line of the cell that is its first.
        text: Its text.
    """

    name: str
    cell: int
    start: int
    line: int
    text: str


@lru_cache(maxsize=16)
def cell_source(text: str) -> SourceText:
    """Return the text of a cell with its lines, which are asked for each place in it."""
    return SourceText(text)


class Notebook:
    """The code cells of a notebook.

    Args:
        text: The notebook's JSON.

    Raises:
        NotJsonError: the text is not JSON.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.cells = tuple(_code_cells(text))
        self.script = "".join(cell.text + "\n" for cell in self.cells)
        self._starts = [cell.start for cell in self.cells]
        self._raw: dict[int, RawString] = {}

    @cached_property
    def python(self) -> SourceText:
        """The script with everything masked that is not Python; parses where each cell does."""
        return SourceText("".join(_python_view(cell.text) + "\n" for cell in self.cells))

    @cached_property
    def shell(self) -> SourceText:
        """The script with everything blank that is not a shell command."""
        return SourceText("".join(_shell_view(cell.text) + "\n" for cell in self.cells))

    @property
    def unparsable(self) -> list[Cell]:
        """The cells whose Python view does not parse; they are masked whole."""
        return [cell for cell in self.cells if _masked_lines(cell.text) is None]

    @property
    def files(self) -> list[WrittenFile]:
        """The files that cells write, each a text of its own."""
        return [file for cell in self.cells if (file := _written_file(cell)) is not None]

    def location(self, path: str, start: int, end: int) -> Location:
        """Return the location of a span of the script: the cell's number, lines and columns in the cell."""
        cell = self._cell(start)
        source = cell_source(cell.text)
        first, last = start - cell.start, min(end - cell.start, len(cell.text))
        return Location(path, *source.position(first), *source.position(max(first, last)), cell.number)

    def _cell(self, offset: int) -> Cell:
        return self.cells[max(0, bisect_right(self._starts, offset) - 1)]

    def edits(self, edits: Iterable[Edit]) -> list[Edit]:
        """Return edits of the script as edits of the JSON.

        Raises:
            ValueError: an edit reaches over the end of a cell.
        """
        translated: list[Edit] = []
        for edit in edits:
            translated += self._edit(edit)
        return translated

    def _edit(self, edit: Edit) -> Iterator[Edit]:
        cell = self._cell(edit.start)
        if edit.start == edit.end == cell.start and edit.text.endswith("\n") and cell is not self.cells[0]:
            # Whole lines put behind the statement before belong to that statement's cell.
            cell = self.cells[self.cells.index(cell) - 1]
            at = cell.start + len(cell.text)
            edit = Edit(at, at, "\n" + edit.text.removesuffix("\n"))
        if edit.end > cell.start + len(cell.text):
            raise ValueError(f"edit {edit} reaches over the end of cell {cell.number}")
        if not cell.pieces:
            raise ValueError(f"cell {cell.number} has no text")
        index = max(bisect_right(cell.pieces, edit.start, key=lambda piece: piece.start) - 1, 0)
        piece = cell.pieces[index]
        piece_end = piece.start + len(piece.text)
        last = min(edit.end, piece_end)
        rest = piece.text[last - piece.start :]
        yield Edit(
            self._raw_offset(piece, edit.start - piece.start),
            self._raw_offset(piece, last - piece.start),
            self._escaped(edit.text, cell, index, bool(rest)),
        )
        for following in cell.pieces[index + 1 :]:  # what an edit over several lines takes away from the lines below
            if following.start >= edit.end:
                break
            until = min(edit.end - following.start, len(following.text))
            yield Edit(following.quote + 1, self._raw_offset(following, until), "")

    def _raw_offset(self, piece: Piece, index: int) -> int:
        """Return where a character of a piece is in the JSON."""
        if piece.quote not in self._raw:
            self._raw[piece.quote] = RawString(self.text, piece.quote)
        return self._raw[piece.quote].offset(index)

    def _escaped(self, text: str, cell: Cell, index: int, more: bool) -> str:
        """Return text as it is in a JSON string; in a list of lines each line becomes a string of its own."""
        ascii_only = self.text.isascii()
        piece = cell.pieces[index]
        lines = text.split("\n")
        written = [json.dumps(line, ensure_ascii=ascii_only)[1:-1] for line in lines]
        if not piece.in_list:
            return "\\n".join(written)
        separator = self._separator(cell, index)
        result = written[0]
        for number, line in enumerate(written[1:], 2):
            if line or more or number < len(written):
                result += '\\n"' + separator + '"' + line
            else:
                result += "\\n"
        return result

    def _separator(self, cell: Cell, index: int) -> str:
        """Return the text between two lines of a list: the comma and the layout."""
        if len(cell.pieces) > 1:
            first = min(index, len(cell.pieces) - 2)
            return self.text[cell.pieces[first].end : cell.pieces[first + 1].quote]
        before = self.text[: cell.pieces[0].quote]
        return "," + before[len(before.rstrip(" \t\r\n")) :]


def _code_cells(text: str) -> Iterator[Cell]:
    """Yield the code cells; formats 4 (`cells`, `source`) and 3 (`worksheets`, `input`) of notebooks."""
    sources: dict[tuple[str | int, ...], list[JsonValue]] = {}
    kinds: dict[tuple[str | int, ...], str] = {}
    for value in values(text, _may_hold_code):
        path = value.path
        depth = 2 if path[:1] == ("cells",) else 4 if path[:1] == ("worksheets",) and path[2:3] == ("cells",) else 0
        if not depth or len(path) <= depth or not value.is_string:
            continue
        cell, key, below = path[:depth], path[depth], path[depth + 1 :]
        if key == "cell_type" and not below:
            kinds[cell] = value.value
        elif key in ("source", "input") and len(below) <= 1:
            sources.setdefault(cell, []).append(value)
    start = 0
    numbers = {cell: number for number, cell in enumerate(sorted(kinds, key=_cell_order), 1)}
    for cell, number in numbers.items():
        if kinds[cell] != "code" or cell not in sources:
            continue
        pieces = []
        at = start
        for value in sources[cell]:
            pieces.append(Piece(at, value.value, value.start, value.end, isinstance(value.path[-1], int)))
            at += len(value.value)
        yield Cell(number, start, "".join(piece.text for piece in pieces), tuple(pieces))
        start = at + 1


def _may_hold_code(path: list[str | int]) -> bool:
    """Whether an object or array may hold cells or their sources: outputs, which are most of a file, do not."""
    if not path:
        return True
    depth = 2 if path[0] == "cells" else 4 if path[0] == "worksheets" and path[2:3] in ([], ["cells"]) else 0
    return len(path) <= depth or (bool(depth) and path[depth] in ("source", "input") and len(path) == depth + 1)


def _cell_order(cell: tuple[str | int, ...]) -> tuple[int, ...]:
    return tuple(part for part in cell if isinstance(part, int))


@lru_cache(maxsize=256)
def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _python_view(text: str) -> str:
    masked = _masked_lines(text)
    if masked is not None:
        return masked
    return "\n".join("0" + " " * (len(line) - 1) if line else "" for line in text.split("\n"))


def _masked_lines(text: str) -> str | None:
    """Return a cell with its magics masked; None where the rest does not parse, or is another language."""
    if _parses(text):
        return text
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        if not line.startswith("%%"):
            break
        word = line[2:].split(maxsplit=1)
        if not word or word[0] not in _PYTHON_CELLS:
            return None
        lines[index] = _mask(line)
    masked = []
    continued = False
    for line in lines:
        if continued:
            masked.append(" " * len(line))
            continued = line.rstrip().endswith("\\")
            continue
        timed = _TIMED.match(line)
        assigned = _ASSIGNED.match(line)
        if timed is not None:
            width = timed.end() - len(timed.group(1))
            masked.append(timed.group(1) + "0;" + " " * (width - 2) + line[timed.end() :])
        elif _MAGIC.match(line) or _HELP.match(line):
            masked.append(_mask(line))
            continued = line.rstrip().endswith("\\")
        elif assigned is not None:
            at = assigned.start("mark")
            masked.append(line[:at] + "0" + " " * (len(line) - at - 1))
        else:
            masked.append(line)
    result = "\n".join(masked)
    return result if _parses(result) else None


def holds_files(data: bytes) -> bool:
    """Whether a notebook may have a cell that writes a file."""
    return b"%%" in data and _HOLDS_FILES.search(data) is not None


def _written_file(cell: Cell) -> WrittenFile | None:
    at = 0
    for number, line in enumerate(cell.text.splitlines(keepends=True), 1):
        at += len(line)
        if not line.strip():
            continue
        words = line[2:].split() if line.startswith("%%") else []
        if not words:
            return None
        if words[0] in _PYTHON_CELLS:  # `%%capture` above `%%writefile`
            continue
        name = _OWN_FILE_CELLS.get(words[0], "")
        operands = [word.strip("\"'") for word in words[1:] if not word.startswith("-")]
        if words[0] in _WRITE_CELLS and operands:
            name = operands[0]
            text = cell.text[at:]
            if (
                _COMPUTED.search(name)
                and "." not in name.rpartition("/")[2]
                and _IMPORTS.search(text)
                and _parses(text)
            ):
                name += ".py"  # `%%writefile {path}`: what it holds says what it is
        elif words[0] == "script" and any(re.match(r"(?:\S*/)?python[\d.]*\Z", word) for word in operands):
            name = "cell.py"
        return WrittenFile(name, cell.number, cell.start + at, number + 1, cell.text[at:]) if name else None
    return None


def _mask(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return indent + "0" + " " * (len(line) - len(indent) - 1)


def _shell_view(text: str) -> str:
    """Return a cell with everything blank but its shell commands."""
    lines = text.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        word = lines[first][2:].split(maxsplit=1)
        if not word or word[0] not in _SHELL_CELLS or (word[0] == "script" and "python" in word[-1]):
            return _blank(text)
        return _ended("\n".join([_blank(line) for line in lines[: first + 1]] + lines[first + 1 :]))
    if _parses(text):
        return _blank(text)
    shown = []
    continued = False
    for line in lines:
        if continued:
            shown.append(line)
            continued = line.rstrip().endswith("\\")
            continue
        match = re.match(r"(?:[\w, \t]+=)?[ \t]*(?:!!?|%(?:env|set_env|system|sx|run|pip|conda)[ \t])", line)
        if match is None:
            shown.append(_blank(line))
            continue
        command = line[match.end() :]
        head = line[: match.end()]
        named = re.search(r"%(env|set_env|pip|conda)[ \t]\Z", head)
        if named is not None and named.group(1) in ("pip", "conda"):
            # `%pip install x` is the command `pip install x`
            shown.append(_blank(head[: named.start(1)]) + head[named.start(1) :] + command)
        else:
            assigned = named is not None and _ASSIGNED_BY_BLANK.match(command)
            if assigned:  # `%env NAME value`
                command = f"{assigned['name']}={assigned['value']}"
            shown.append(_blank(head) + command)
        continued = line.rstrip().endswith("\\")
    return _ended("\n".join(shown))


def _ended(view: str) -> str:
    """Return a view without here-documents that do not end in the cell: none goes on in the next one."""
    if "<<" not in view:
        return view
    lines = view.split("\n")
    last = {line.strip(): number for number, line in enumerate(lines)}
    for number, line in enumerate(lines):
        for match in reversed(list(_HEREDOC.finditer(line))):
            if last.get(match["end"], 0) <= number:
                line = line[: match.start()] + "  " + line[match.start() + 2 :]
        lines[number] = line
    return "\n".join(lines)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
