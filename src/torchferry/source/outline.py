"""What a Python file imports and whether it is started as a program, judged by its text alone.

Every file of a project is read once for this; only those that speak of CUDA are parsed.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from bisect import bisect_right
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.lazy_packages import MAY_BE_LAZY
from torchferry.source.lines import line_matches
from torchferry.source.nodes import nodes_in
from torchferry.source.text import in_utf8

_STATEMENT = (
    rb"(?:from[ \t]+(?P<module>[\w.\x80-\xff]+)(?:[ \t]+|(?<=\.))import\b[ \t]*(?:\\\r?\n[ \t]*)?"
    rb"(?:\((?P<many>[^()#]*(?:#[^\n]*\n[^()#]*)*)\)|(?P<names>(?=[\w*\x80-\xff])(?:[^\r\n#;(\\]+|\\\r?\n)+))"
    rb"|import[ \t]+(?P<modules>(?:[\w., \t\x80-\xff]+|\\\r?\n)+))"
)
"""An import, in UTF-8: modules and names may have any letters, `网络` as well as `net`."""

_BEFORE = rb"(?:(?=[tefiw])(?:(?:try|else|finally)[ \t]*|(?:if|elif|except|with)\b[^\n:#]*):[ \t]*)?"
_IMPORT = lazy_regex(rb"^\f?(?P<indent>[ \t]*" + _BEFORE + rb")" + _STATEMENT, re.MULTILINE)
_BEHIND = lazy_regex(rb"[ \t]*;(?P<indent>[ \t]*)" + _STATEMENT)
_LINE_ENDS = (b"\n", b"\r", b"")
_NAME = lazy_regex(rb"(?:^|,)[\s\\]*([\w.*\x80-\xff]+)")
_MAIN = lazy_regex(
    rb"^(?:if\b[^:#]{1,200}?\b__(?:name__\b[^:#]{1,100}?\b__main|main__\b[^:#]{1,100}?\b__name)__"
    rb"|@(?:\w+\.)*(?:automain|call_parse)\b)",
    re.MULTILINE,
)
_DOES = lazy_regex(
    rb"^(?:(?:for|while|with|if|try|raise)\b|@\w+\.\w|# ?(?:%%|In\[)"
    rb"|[A-Za-z_\x80-\xff][\w.\x80-\xff]*[ \t]*(?:[(\[]|=[ \t]*[\w.\x80-\xff]+\())",
    re.MULTILINE,
)
_TEST = lazy_regex(rb"^[ \t]*(?:async )?def test_", re.MULTILINE)
_RUNS_TESTS = frozenset({"pytest", "unittest"})
_COMMENT = lazy_regex(rb"#[^\r\n]*")
_TRIPLE = lazy_regex(rb"\"\"\"|'''")


class Import(NamedTuple):
    """One import.

    Attributes:
        module: The module as written, relative ones with dots.
        names: The names taken from it.
        line: The line that it begins on, counted from 1.
        indented: Whether it is inside of something: a function, a condition, a `try`.
    """

    module: str
    names: tuple[str, ...]
    line: int = 0
    indented: bool = False


class Outline(NamedTuple):
    """The outline of one Python file.

    Attributes:
        path: Path relative to the root.
        imports: Its imports, wherever they stand.
        is_program: Whether it has an `if __name__ == "__main__"` part, or a decorator that reaches the same.
        is_dynamic: Whether it imports modules by names that are computed.
        does_things: Whether a line at its left margin may do work: a call, a loop, a condition around one.
        has_tests: Whether it defines tests for a tool that runs them.
        may_be_lazy: Whether it is that of a package, and may import parts of it when these are requested.
    """

    path: str
    imports: tuple[Import, ...]
    is_program: bool
    is_dynamic: bool = False
    does_things: bool = False
    has_tests: bool = False
    may_be_lazy: bool = False

    @property
    def packages(self) -> set[str]:
        """The top-level packages that it imports from, its own relative imports left out."""
        return {imported.module.partition(".")[0] for imported in self.imports}


def outline(path: str, data: bytes) -> Outline:
    """Read the outline of a file from its bytes."""
    data = in_utf8(data)
    imports: list[Import] = []
    line, counted = 1, 0
    quoted: list[int] | None = None
    doubted: set[int] = set()
    for first in line_matches(_IMPORT, b"import", data):
        indented = bool(first["indent"])
        match: re.Match[bytes] | None = first
        quoted = _quoted(data) if quoted is None else quoted
        is_doubted = bisect_right(quoted, first.start()) % 2 == 1
        while match is not None:
            line += data.count(b"\n", counted, match.start())
            counted = match.start()
            imports += _imports(match, line, indented)
            if is_doubted:
                doubted.add(line)
            at = match.end()
            match = None if data[at : at + 1] in _LINE_ENDS else _BEHIND.match(data, at)
    if doubted:
        real = _import_lines(data)
        imports = [each for each in imports if real is None or each.line not in doubted or each.line in real]
    return Outline(
        path,
        tuple(imports),
        _MAIN.search(data) is not None,
        any(word in data for word in _IMPORTS_BY_NAME),
        _DOES.search(data) is not None,
        _has_tests(imports, data),
        path.endswith("__init__.py") and any(word in data for word in MAY_BE_LAZY),
    )


_IMPORTS_BY_NAME = (
    b"import_module", b"__import__", b"pydoc", b"resolve_name(", b"hydra.utils", b"hub.load(", b"lazy_loader",
    b"lazy_import", b"LazyLoader(", b"optional_import", b"safe_import", b"module_from_spec(",
    b"spec_from_file_location", b"SourceFileLoader", b"load_source",
)  # fmt: skip
"""The content of a file that may import by a name: functions of importlib, pydoc, pkgutil and hydra, and those that
import lazily or where the module is there."""


def _has_tests(imports: list[Import], data: bytes) -> bool:
    """Whether a file defines tests; in a program that parses arguments `def test_epoch(net)` evaluates."""
    packages = {imported.module.partition(".")[0] for imported in imports}
    if not packages.isdisjoint(_RUNS_TESTS):
        return True
    return "argparse" not in packages and b"def test_" in data and _TEST.search(data) is not None


def _quoted(data: bytes) -> list[int]:
    """Return where texts in triple quotes seem to begin and end, in turn; quotes in other texts may mislead."""
    places: list[int] = []
    opening = _TRIPLE.search(data)
    while opening is not None:
        end = data.find(opening[0], opening.end())
        places += [opening.start(), end if end >= 0 else len(data)]
        opening = _TRIPLE.search(data, end + 3) if end >= 0 else None
    return places


def _import_lines(data: bytes) -> set[int] | None:
    """Return the lines on which imports really stand; None where this interpreter cannot parse the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return {node.lineno for node in nodes_in(tree) if isinstance(node, (ast.Import, ast.ImportFrom))}


def _imports(match: re.Match[bytes], line: int, indented: bool) -> Iterator[Import]:
    """Yield the imports of one statement."""
    module = match["module"]
    if module is None:
        for name in _NAME.findall(match["modules"]):
            yield Import(_text(name), (), line, indented)
    else:
        names = match["many"] if match["many"] is not None else match["names"]
        yield Import(_text(module), tuple(map(_text, _NAME.findall(_COMMENT.sub(b"", names)))), line, indented)


def _text(name: bytes) -> str:
    text = name.decode("utf-8", "replace")
    return text if text.isascii() else unicodedata.normalize("NFKC", text)  # as Python reads names
