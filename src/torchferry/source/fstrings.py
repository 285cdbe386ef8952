"""Positions inside f-strings.

Before Python 3.12 an f-string is one token, and `ast` gives every literal part the position of the whole
string and places expressions only roughly (PEP 701 mended both). Here the parts are found in the text
itself, which also serves newer Pythons, where literal parts joined from several strings have one position.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import NamedTuple

from torchferry.source.text import SourceText

_EXACT = sys.version_info >= (3, 12)
_PREFIX = re.compile(r"[rRbBuUfFtT]{0,3}(?:'''|\"\"\"|'|\")")
_BETWEEN = re.compile(r"(?:\s|\\\r?\n|#[^\r\n]*)*")


class Field(NamedTuple):
    """One replacement field: offsets of the braces, of the expression in them, and fields of its format."""

    start: int
    end: int
    expression: tuple[int, int]
    nested: tuple[Field, ...]


class FString:
    """An f-string (with the plain strings joined to it) and where its parts stand in the file.

    Attributes:
        joined: The node.
        text: Its source text, quotes and prefixes included.
        offset: Offset of `text` in the file.
    """

    def __init__(self, joined: ast.JoinedStr, text: str, offset: int) -> None:
        self.joined = joined
        self.text = text
        self.offset = offset
        self._fields: list[Field] | None = None

    @property
    def fields(self) -> list[Field]:
        """The replacement fields in order, offsets counted in `text`.

        Raises:
            ValueError: the fields found in the text are not those of the node.
        """
        if self._fields is None:
            found = _Scanner(self.text).fields()
            values = [value for value in self.joined.values if isinstance(value, ast.FormattedValue)]
            if len(found) != len(values):
                raise ValueError("the parts of an f-string could not be told apart")
            self._fields = found
        return self._fields

    def literal(self, constant: ast.Constant) -> tuple[int, int]:
        """Return the span in the file of the raw text that holds a literal part: between its neighbours."""
        index = self.joined.values.index(constant)
        before = sum(isinstance(value, ast.FormattedValue) for value in self.joined.values[:index])
        start = self.fields[before - 1].end if before else 0
        end = self.fields[before].start if before < len(self.fields) else len(self.text)
        return self.offset + start, self.offset + end


class _Step(NamedTuple):
    """How to get from a node to one of its children."""

    field: str
    place: int | None


def locate_in_fstring(fstring: FString, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> tuple[int, int]:
    """Return the span in the file of a node inside an f-string, on any Python.

    Raises:
        ValueError: the node could not be found in the text.
    """
    steps: list[_Step] = []
    while node is not fstring.joined:
        parent = parents[node]
        steps.append(_step(parent, node))
        node = parent
    return _follow(fstring, steps[::-1])


def _step(parent: ast.AST, child: ast.AST) -> _Step:
    for name, value in ast.iter_fields(parent):
        if value is child:
            return _Step(name, None)
        if isinstance(value, list):
            for index, item in enumerate(value):
                if item is child:
                    return _Step(name, index)
    raise ValueError("node is not a child of its parent")


def _take(node: ast.AST, step: _Step) -> ast.AST:
    value = getattr(node, step.field)
    child = value if step.place is None else value[step.place]
    assert isinstance(child, ast.AST)
    return child


def _follow(fstring: FString, steps: list[_Step]) -> tuple[int, int]:
    node: ast.AST = fstring.joined
    fields: tuple[Field, ...] = tuple(fstring.fields)
    position = 0
    while True:
        # `node` is a JoinedStr whose fields are `fields`; the next two steps choose one of them.
        choice = steps[position].place
        assert isinstance(node, ast.JoinedStr)
        assert choice is not None
        formatted = node.values[choice]
        if not isinstance(formatted, ast.FormattedValue) or position + 1 == len(steps):
            raise ValueError("a literal part has no position of its own")
        chosen = fields[sum(isinstance(value, ast.FormattedValue) for value in node.values[:choice])]
        if steps[position + 1].field != "format_spec":
            break
        assert formatted.format_spec is not None
        node, fields, position = formatted.format_spec, chosen.nested, position + 2
        if position == len(steps):
            raise ValueError("a format specification has no position of its own")
    return _in_expression(fstring, chosen, steps[position + 2 :])


def _in_expression(fstring: FString, field: Field, steps: list[_Step]) -> tuple[int, int]:
    start, end = field.expression
    wrapped = SourceText(f"({fstring.text[start:end]})")
    try:
        node: ast.AST = ast.parse(wrapped.text, mode="eval").body
    except SyntaxError:
        raise ValueError("the expression in an f-string could not be read") from None
    origin = fstring.offset + start - 1  # one parenthesis was added
    for index, step in enumerate(steps):
        if isinstance(node, ast.JoinedStr):
            first, last = _span(wrapped, node)
            inner = FString(node, wrapped.text[first:last], origin + first)
            return _follow(inner, steps[index:])
        node = _take(node, step)
    first, last = _span(wrapped, node)
    return origin + first, origin + last


def _span(source: SourceText, node: ast.AST) -> tuple[int, int]:
    return (
        source.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
        source.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


class _Scanner:
    """Finds replacement fields in the text of an f-string and the strings joined to it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fields(self) -> list[Field]:
        found: list[Field] = []
        at = 0
        while at < len(self.text):
            match = _PREFIX.match(self.text, at)
            if match is None:
                raise ValueError("the strings joined to an f-string could not be told apart")
            at = self._string(match.end(), match.group(), found)
            between = _BETWEEN.match(self.text, at)
            at = between.end() if between else at
        return found

    def _string(self, at: int, opening: str, found: list[Field] | None) -> int:
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
                if found is not None:
                    found.append(field)
                at = field.end
            else:
                at += 1
        raise ValueError("an f-string has no end")

    def _field(self, start: int) -> Field:
        text = self.text
        at = self._expression_end(start + 1)
        expression = (start + 1, at)
        nested: list[Field] = []
        if text[at] == "=":
            at += 1
            while text[at].isspace():
                at += 1
        if text[at] == "!":
            at += 2
            while text[at].isspace():
                at += 1
        if text[at] == ":":
            at += 1
            while text[at] != "}":
                if text[at] == "{":
                    nested.append(self._field(at))
                    at = nested[-1].end
                else:
                    at += 1
        if text[at] != "}":
            raise ValueError("a field of an f-string has no end")
        return Field(start, at + 1, expression, tuple(nested))

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
                or (
                    char == "="
                    and text[at + 1] != "="
                    and text[at - 1] not in "=!<>"
                    and text[at + 1 :].lstrip()[:1] in ("}", ":", "!")
                )
            ):
                return at
            elif char == "#":
                while text[at] not in "\r\n":
                    at += 1
            at += 1
        raise ValueError("a field of an f-string has no end")
