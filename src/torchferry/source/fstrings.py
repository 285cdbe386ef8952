"""Positions inside f-strings.

Before Python 3.12 an f-string is one token, and `ast` gives every literal part the position of the whole
string and places expressions only roughly (PEP 701 mended both). Here the parts are found in the text
itself, which also serves newer Pythons, where literal parts joined from several strings have one position.
"""

from __future__ import annotations

import ast
import warnings

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.nodes import children_of
from torchferry.source.text import SourceText

_PREFIX = lazy_regex(r"[rRbBuUfFtT]{0,3}(?:'''|\"\"\"|'|\")")
_DEBUG = lazy_regex(r"\s*[}:!]")
_BETWEEN = lazy_regex(r"(?:\s|\\\r?\n|#[^\r\n]*)*")


class _Field(NamedTuple):
    """One replacement field: offsets of its braces, of the expression and the format in it, and the format's fields."""

    start: int
    end: int
    expression: tuple[int, int]
    format_spec: tuple[int, int]
    nested: tuple[_Field, ...]


def spans_in_fstring(joined: ast.JoinedStr, text: str, offset: int) -> dict[ast.AST, tuple[int, int]]:
    """Return where the parts of an f-string are in the file, on any Python.

    The span of a literal part is the raw text between its neighbours. Parts whose expression cannot be read by
    itself are left out.

    Args:
        joined: The node of an outermost f-string.
        text: Its source text (with the plain strings joined to it), quotes and prefixes included.
        offset: Offset of `text` in the file.

    Raises:
        ValueError: the replacement fields found in the text are not those of the node.
    """
    spans: dict[ast.AST, tuple[int, int]] = {}
    waiting = [(joined, text, offset)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file has been parsed: what Python warns of is no news
        while waiting:
            node, own_text, start = waiting.pop()
            try:
                fields = _Scanner(own_text).fields()
            except IndexError:
                raise ValueError("an f-string has no end") from None
            inner = _place_parts(node, fields, (0, len(own_text)), own_text, start, spans)
            waiting += ((nested, own_text[first:last], start + first) for nested, (first, last) in inner)
    return spans


_Nested = list[tuple[ast.JoinedStr, tuple[int, int]]]
"""F-strings inside the expressions of another, with their spans in its text."""


def _place_parts(
    joined: ast.JoinedStr,
    fields: list[_Field],
    within: tuple[int, int],
    text: str,
    offset: int,
    spans: dict[ast.AST, tuple[int, int]],
) -> _Nested:
    """Add the parts of an f-string, or of a format specification, to `spans`; return the f-strings inside of it.

    Raises:
        ValueError: `fields` are not those of the node.
    """
    if len(fields) != sum(isinstance(value, ast.FormattedValue) for value in joined.values):
        raise ValueError("the parts of an f-string could not be told apart")
    nested: _Nested = []
    following = iter(fields)
    at = within[0]
    field = next(following, None)
    for value in joined.values:
        if not isinstance(value, ast.FormattedValue):
            spans[value] = (offset + at, offset + (within[1] if field is None else field.start))
            continue
        assert field is not None
        spans[value] = (offset + field.start, offset + field.end)
        nested += _place_expression(value.value, field.expression, text, offset, spans)
        spec = value.format_spec
        if isinstance(spec, ast.JoinedStr):
            spans[spec] = (offset + field.format_spec[0], offset + field.format_spec[1])
            nested += _place_parts(spec, list(field.nested), field.format_spec, text, offset, spans)
        at = field.end
        field = next(following, None)
    return nested


def _place_expression(
    expression: ast.expr, within: tuple[int, int], text: str, offset: int, spans: dict[ast.AST, tuple[int, int]]
) -> _Nested:
    """Add an expression of a field, and what it is made of, to `spans`, from a reading of its text by itself."""
    start, end = within
    wrapped = SourceText(f"({text[start:end]})")
    try:
        read = ast.parse(wrapped.text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    placed: dict[ast.AST, tuple[int, int]] = {}
    nested: _Nested = []
    waiting: list[tuple[ast.AST, ast.AST]] = [(expression, read)]
    while waiting:
        node, twin = waiting.pop()
        children, of_twin = children_of(node), children_of(twin)
        if node.__class__ is not twin.__class__ or len(children) != len(of_twin):
            return []
        if isinstance(twin, (ast.expr, ast.keyword, ast.arg)):
            assert twin.end_lineno is not None
            assert twin.end_col_offset is not None
            # One parenthesis was added; a tuple without any would otherwise take it for its own.
            first = max(start, start - 1 + wrapped.offset(twin.lineno, twin.col_offset))
            last = min(end, start - 1 + wrapped.offset(twin.end_lineno, twin.end_col_offset))
            placed[node] = (offset + first, offset + last)
            if isinstance(node, ast.JoinedStr):
                nested.append((node, (first, last)))
                continue
        waiting += zip(children, of_twin, strict=True)
    spans |= placed
    return nested


class _Scanner:
    """Finds replacement fields in the text of an f-string and the strings joined to it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fields(self) -> list[_Field]:
        fields: list[_Field] = []
        at = 0
        while at < len(self.text):
            match = _PREFIX.match(self.text, at)
            if match is None:
                raise ValueError("the strings joined to an f-string could not be told apart")
            at = self._string(match.end(), match.group(), fields)
            between = _BETWEEN.match(self.text, at)
            at = between.end() if between else at
        return fields

    def _string(self, at: int, opening: str, fields: list[_Field] | None) -> int:
        """Scan one string from behind its opening quote; return the offset behind its closing quote."""
        quote = opening.lstrip("rRbBuUfFtT")
        prefix = opening[: -len(quote)].lower()
        raw = "r" in prefix
        formatted = "f" in prefix or "t" in prefix
        text = self.text
        while at < len(text):
            if text.startswith(quote, at):
                return at + len(quote)
            char = text[at]
            if char == "\\" and not raw:
                at += 2
                if formatted and text.startswith("N{", at - 1):
                    at = text.index("}", at) + 1
            elif char == "\\":
                at += 1 if formatted and text[at + 1 : at + 2] in "{}" else 2
            elif formatted and char in "{}" and text[at + 1 : at + 2] == char:
                at += 2
            elif formatted and char == "{":
                field = self._field(at)
                if fields is not None:
                    fields.append(field)
                at = field.end
            else:
                at += 1
        raise ValueError("an f-string has no end")

    def _field(self, start: int) -> _Field:
        text = self.text
        at = self._expression_end(start + 1)
        expression = (start + 1, at)
        nested: list[_Field] = []
        if text[at] == "=":
            at += 1
            while text[at].isspace():
                at += 1
        if text[at] == "!":
            at += 2
            while text[at].isspace():
                at += 1
        spec = at
        if text[at] == ":":
            at += 1
            spec = at
            while text[at] != "}":
                if text[at] == "{":
                    nested.append(self._field(at))
                    at = nested[-1].end
                else:
                    at += 1
        if text[at] != "}":
            raise ValueError("a field of an f-string has no end")
        return _Field(start, at + 1, expression, (spec, at), tuple(nested))

    def _expression_end(self, at: int) -> int:
        """Return where the expression of a field ends: at `}`, `:`, `!r` or a debugging `=`."""
        text = self.text
        depth = 0
        while at < len(text):
            char = text[at]
            match = _PREFIX.match(text, at)
            if match is not None and not (at and text[at - 1].isidentifier() and char.isalpha()):
                at = self._string(match.end(), match.group(), None)
                continue
            if char in "([{":
                depth += 1
            elif char in ")]}":
                if depth == 0:
                    return at
                depth -= 1
            elif depth == 0 and (
                char == ":"
                or (char == "!" and text[at + 1] != "=")
                or (char == "=" and text[at + 1] != "=" and text[at - 1] not in "=!<>" and _DEBUG.match(text, at + 1))
            ):
                return at
            elif char == "#":
                while text[at] not in "\r\n":
                    at += 1
            at += 1
        raise ValueError("a field of an f-string has no end")
