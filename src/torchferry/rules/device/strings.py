"""Where the word to change stands inside a string literal, and what it becomes on the target."""

from __future__ import annotations

import ast
import re

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import Message
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.expressions import portable_imports, quoted_for
from torchferry.source.flow.syntax import last_name

_PLAIN_LITERAL = re.compile(r"[rRuU]?([\"'])[^\"'\\]*\1\Z")
_FIRST_ARGUMENT = frozenset({"startswith", "autocast", "GradScaler", "get_autocast_dtype", "is_autocast_enabled"})
"""Functions whose first argument asks for the type of an accelerator, or names it where the CPU is not meant."""


def word_edits(context: PythonContext, node: ast.Constant, word: str, replacement: str) -> list[Edit]:
    """Return edits that replace `word` inside a string literal, or inside a literal part of an f-string.

    Raises:
        ValueError: the source of the literal does not spell the word as often as its value does.
    """
    start, end = context.file.literal_span(node)
    found = [match.start() for match in re.finditer(re.escape(word), context.text[start:end])]
    if not isinstance(node.value, str) or len(found) != node.value.count(word):
        raise ValueError(f"the literal spells `{word}` in another form")
    return [Edit(start + at, start + at + len(word), replacement) for at in found]


def device_edits(context: PythonContext, node: ast.Constant) -> list[Edit]:
    """Return edits that make a device string one of the target, or of every device in portable code.

    Raises:
        ValueError: the literal stands, or is written, where that cannot be.
    """
    if not context.target.module:
        return word_edits(context, node, cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE)
    asked = f"{context.target.module}.accelerator_type()"
    if (
        node.value == f"{cuda.DEVICE_TYPE}:"
        and context.file.fstring_of(node) is None
        and not _is_added_to(context, node)
    ):
        return call_edits(context, node, f'f"{{{asked}}}:"')  # looked for in a text, or cut off it
    whole, index = _with_index(context, node)
    if is_load_location(context, whole):
        text = f"{context.target.module}.load_location({index})"
    elif not is_question(context, whole):
        text = f"{context.target.module}.device_string({index})"
    elif index:
        text = f'f"{{{asked}}}:{index if index.isdigit() else "{" + index + "}"}"'
    else:
        text = asked
    return call_edits(context, whole, text)


def call_edits(context: PythonContext, node: ast.expr, text: str) -> list[Edit]:
    """Return the edit that puts an expression in the place of a string.

    Raises:
        ValueError: the string stands where no expression can, or in a form that is not understood.
    """
    if isinstance(node, ast.Constant) and not _PLAIN_LITERAL.match(context.file.text(node)):
        raise ValueError("the literal is written in pieces, or with a prefix or an escape")
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.MatchValue) or (
        isinstance(parent, ast.Subscript) and last_name(parent.value) == "Literal"
    ):
        raise ValueError("only a literal can stand here")
    written = quoted_for(context, node, text)
    if written is None:
        raise ValueError("the f-string around it leaves no quotes")
    start, end = context.file.span(node)
    glued = start > 0 and context.text[start - 1].isalnum()  # `return"cuda"`
    return [Edit(start, end, f" {written}" if glued else written)]


def asked_when_run(
    rule: Rule, context: PythonContext, node: ast.Constant, use: str, message: Message, grade: Grade = Grade.SAFE
) -> Finding:
    """Build the finding that puts a portable expression in the place of a string; by hand where it cannot stand."""
    try:
        edits = call_edits(context, node, use)
    except ValueError:
        edits, grade = [], Grade.MANUAL
    return rule.finding(context, literal_span(context, node), message, grade, edits, imports=portable_imports(context))


def is_question(context: PythonContext, node: ast.expr) -> bool:
    """Whether a device string is compared with, or names the kind of accelerator, rather than a place for tensors."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Set)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, ast.Dict):
        return child in parent.keys
    if isinstance(parent, ast.keyword):
        call = context.file.parents.get(parent)
        return parent.arg == "device_type" or (isinstance(call, ast.Call) and last_name(call.func) in _FIRST_ARGUMENT)
    return isinstance(parent, ast.Call) and child in parent.args[:1] and last_name(parent.func) in _FIRST_ARGUMENT


def is_load_location(context: PythonContext, node: ast.expr) -> bool:
    """Whether an expression is given as `map_location`."""
    child: ast.AST = node
    given = context.file.parents.get(child)
    while isinstance(given, ast.IfExp) and child is not given.test:
        child, given = given, context.file.parents.get(given)
    if isinstance(given, ast.keyword):
        return given.arg == "map_location"
    return isinstance(given, ast.Call) and given.args[1:2] == [child] and last_name(given.func) == "load"


def _is_added_to(context: PythonContext, node: ast.Constant) -> bool:
    parent = context.file.parents.get(node)
    return isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add) and parent.left is node


def _with_index(context: PythonContext, node: ast.Constant) -> tuple[ast.expr, str]:
    """Return the whole expression that a literal begins, and the source of its index: empty for none.

    Raises:
        ValueError: it is put together in another way.
    """
    value = str(node.value)
    kind, _, index = value.partition(":")
    joined = context.file.fstring_of(node)
    if joined is not None and node in joined.values:
        if value != f"{cuda.DEVICE_TYPE}:" or len(joined.values) != 2:
            raise ValueError("an f-string of another form")
        part = joined.values[1]
        if not isinstance(part, ast.FormattedValue) or part.conversion != -1 or part.format_spec is not None:
            raise ValueError("the index is formatted")
        return joined, context.file.text(part.value)
    if kind != cuda.DEVICE_TYPE:
        raise ValueError("a list of devices")
    if not index and ":" not in value:
        return node, ""
    if index.isdigit():
        return node, str(int(index))
    parent = context.file.parents.get(node)
    if index in ("%d", "%s", "%i") and isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod):
        right = parent.right
        if isinstance(right, ast.Tuple) and len(right.elts) == 1:
            right = right.elts[0]
        if not isinstance(right, (ast.Tuple, ast.Dict)):
            return parent, context.file.text(right)
    if index == "" and isinstance(parent, ast.BinOp) and _is_added_to(context, node):
        right = parent.right
        if isinstance(right, ast.Call) and last_name(right.func) == "str" and len(right.args) == 1:
            return parent, context.file.text(right.args[0])
    if index in ("{}", "{0}") and isinstance(parent, ast.Attribute) and parent.attr == "format":
        call = context.file.parents.get(parent)
        if isinstance(call, ast.Call) and call.func is parent and len(call.args) == 1 and not call.keywords:
            return call, context.file.text(call.args[0])
    raise ValueError("the index is put in by other means")


def literal_span(context: PythonContext, node: ast.Constant) -> tuple[int, int]:
    """Return the span to report for a string literal: itself, or the f-string that it is a part of."""
    parent = context.file.parents.get(node)
    return context.file.span(parent if isinstance(parent, ast.JoinedStr) else node)
