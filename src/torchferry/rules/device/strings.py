"""Where the word to change stands inside a string literal, and what it becomes on the target."""

from __future__ import annotations

import ast
import re

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.cut_off import also_cut_off, cutting_call, is_cut_off_too
from torchferry.rules.device.expressions import portable_imports, quoted_for
from torchferry.source.flow.assembled import begun_by
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.python import PythonFile

_PLAIN_LITERAL = lazy_regex(r"(?:[rRuUfF]|[rR][fF]|[fF][rR])?([\"'])[^\"'\\]*\1\Z")
_FIRST_ARGUMENT = frozenset({"startswith", "autocast", "GradScaler", "get_autocast_dtype", "is_autocast_enabled"})
"""Functions whose first argument asks for the type of an accelerator, or names it where the CPU is not meant."""

_BY_KEY = frozenset({"get", "pop", "setdefault"})
"""Methods of a table whose first argument is a key; with keys of a device each, two must not become one."""

_TYPE_NAME = lazy_regex(r"(?:\A|_)device_?type\Z", re.IGNORECASE)
"""Names of variables, arguments and settings that hold the type of a device."""

_MOST_DIGITS = 9
"""Digits of the number of a device; Python reads no number of thousands of digits."""

_DEPTH = 4


def word_edits(context: PythonContext, node: ast.Constant, word: str, replacement: str) -> list[Edit]:
    """Return edits that replace `word` inside a string literal, or inside a literal part of an f-string.

    Raises:
        ValueError: the source of the literal does not spell the word as often as its value does.
    """
    start, end = context.file.literal_span(node)
    offsets = [match.start() for match in re.finditer(re.escape(word), context.text[start:end])]
    if not isinstance(node.value, str) or len(offsets) != node.value.count(word):
        raise ValueError(f"the literal spells `{word}` in another form")
    return [Edit(start + at, start + at + len(word), replacement) for at in offsets]


class WrittenDevice(NamedTuple):
    """What a device string becomes: how messages show it, and the edits; none where it is to be changed by hand."""

    shown: str
    edits: list[Edit]


def written_device(context: PythonContext, node: ast.Constant) -> WrittenDevice:
    """Return the device of the target that a device string becomes, or that of every device in portable code."""
    cut = _cut_off(context, node)
    if cut is not None:
        return WrittenDevice(cut.text.strip("\"'"), also_cut_off(context, cut.call, cut.text))
    if not context.target.module:
        word, own = cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE
        shown = str(node.value).replace(word, own)
        try:
            return WrittenDevice(shown, word_edits(context, node, word, own))
        except ValueError:
            return WrittenDevice(shown, _in_one_piece(context, node, shown))
    text = f"{context.target.module}.device_string()"
    try:
        whole, text = _portable_device(context, node)
        return WrittenDevice(text, call_edits(context, whole, text))
    except ValueError:
        return WrittenDevice(text, [])


def _in_one_piece(context: PythonContext, node: ast.Constant, text: str) -> list[Edit]:
    """Return the edit that writes a literal in one piece: `"cu" "da"`; none where more than quotes stands there."""
    start, end = context.file.literal_span(node)
    match = _PIECES.match(context.text[start:end])
    return [Edit(start, end, f"{match[1]}{text}{match[1]}")] if match is not None else []


_PIECES = lazy_regex(r"(?:([\"'])[\w:]*\1[ \t]*)+(?<![ \t])\Z")
"""Plain literals beside each other in one line."""


class _CutOff(NamedTuple):
    """A call that cuts a device off a text, and the expression of the target's device that has to be cut off too."""

    call: ast.Call
    text: str


def _cut_off(context: PythonContext, node: ast.Constant) -> _CutOff | None:
    call = cutting_call(context, node)
    source = context.file.text(node)
    if call is None or node.value not in _CUT_OFF or not _PLAIN_LITERAL.match(source) or context.file.fstring_of(node):
        return None
    if not context.target.module:
        return _CutOff(call, source.replace(cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE))
    asked = f"{context.target.module}.ACCELERATOR_TYPE"
    return _CutOff(call, f'f"{{{asked}}}:"' if str(node.value).endswith(":") else asked)


_CUT_OFF = (cuda.DEVICE_TYPE, f"{cuda.DEVICE_TYPE}:")


def is_cut_off_already(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a device is cut off a text, and that of the target too, as `written_device` would have it."""
    cut = _cut_off(context, node)
    return cut is not None and is_cut_off_too(context, cut.call, cut.text)


def _portable_device(context: PythonContext, node: ast.Constant) -> tuple[ast.expr, str]:
    """Return the whole expression that a device string begins, and what takes its place in portable code.

    Raises:
        ValueError: it is put together in a way that has no portable form.
    """
    asked = f"{context.target.module}.ACCELERATOR_TYPE"
    indexed = _made_with_index(context, node)
    if indexed is not None:
        call, index_of = indexed
        place = f"{context.target.module}.device_string({context.file.text(index_of)})"
        return call, f"{context.file.text(call.func)}({place})"
    if (
        node.value == f"{cuda.DEVICE_TYPE}:"
        and context.file.fstring_of(node) is None
        and not _is_added_to(context, node)
    ):
        return node, f'f"{{{asked}}}:"'  # looked for in a text, or cut off it
    if begun_by(context.file, node) is not None:
        return node, asked
    whole, index = _with_index(context, node)
    if is_load_location(context, whole):
        return whole, f"{context.target.module}.load_location({index})"
    if not is_question(context, whole):
        return whole, f"{context.target.module}.device_string({index})"
    if index:
        return whole, f'f"{{{asked}}}:{index if index.isdigit() else "{" + index + "}"}"'
    return whole, asked


def call_edits(context: PythonContext, node: ast.expr, text: str) -> list[Edit]:
    """Return the edits that put an expression in the place of a string.

    In the place of a default, they let the function ask when it is called.

    Raises:
        ValueError: the string stands where no expression can, or in a form that is not understood.
    """
    node = _whole_literal(context, node)
    written_alone = isinstance(node, ast.Constant) or (isinstance(node, ast.JoinedStr) and len(node.values) == 1)
    if written_alone and not _PLAIN_LITERAL.match(context.file.text(node)):
        raise ValueError("the literal is written in pieces, or with a prefix or an escape")
    when_called = default_edits(context, node, text)
    if when_called:
        return when_called
    if _only_literals_stand(context, node):
        raise ValueError("only a literal can stand here")
    written = quoted_for(context, node, text)
    if written is None:
        raise ValueError("the f-string around it leaves no quotes")
    start, end = context.file.span(node)
    glued = start > 0 and context.text[start - 1].isalnum()  # `return"cuda"`
    return [Edit(start, end, f" {written}" if glued else written)]


def default_edits(context: PythonContext, node: ast.expr, text: str) -> list[Edit]:
    """Return the edits that ask for a device when a function is called, rather than when its default is evaluated.

    The default becomes None, and the function begins with the question. Nothing where the default is more than `node`,
    or a device of it: such an expression was evaluated with the import before.
    """
    file = context.file
    default: ast.AST = node
    parent = file.parents.get(default)
    if (
        isinstance(parent, ast.Call)
        and context.names.qualified(parent.func) == "torch.device"
        and len(parent.args) == 1
    ):
        start, end = file.span(parent)
        inner = file.span(node)
        text = context.text[start : inner[0]] + text + context.text[inner[1] : end]
        default, parent = parent, file.parents.get(parent)
    function = file.parents.get(parent) if isinstance(parent, ast.arguments) else None
    if not isinstance(parent, ast.arguments) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    name = argument_of(parent, default)
    body = [item for item in function.body if not _is_constant(item)]
    if not name or not body or _SCRIPTED.search(context.text) or "\n" in text:
        return []
    first, _ = file.span(body[0])
    decorators = getattr(body[0], "decorator_list", ())
    if decorators:
        first = file.span(decorators[0])[0] - 1
    line = context.text.rfind("\n", 0, first) + 1
    indent = context.text[line:first]
    if indent.strip() or line <= file.span(parent.args[-1] if parent.args else default)[0]:
        return []
    newline, step = context.source.newline, "\t" if "\t" in indent else "    "
    question = f"{indent}if {name} is None:{newline}{indent}{step}{name} = {text}{newline}"
    return [Edit(*file.span(default), "None"), Edit(line, line, question)]


_SCRIPTED = lazy_regex(r"\bjit\.script|\bjit_script|\boverload\b")
"""Functions that torch compiles from their source cannot ask a module of the project."""


def _is_constant(statement: ast.stmt) -> bool:
    """Whether a statement is a text, an ellipsis or `pass`."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def asked_when_run(
    rule: Rule, context: PythonContext, node: ast.Constant, use: str, message: Message, grade: Grade = Grade.SAFE
) -> Finding:
    """Build the finding that puts a portable expression in the place of a string; by hand where it cannot stand."""
    try:
        edits = call_edits(context, node, use)
    except ValueError:
        edits, grade = [], Grade.MANUAL
    return rule.finding(context, literal_span(context, node), message, grade, edits, imports=portable_imports(context))


def is_question(context: PythonContext, node: ast.expr, depth: int = 0) -> bool:
    """Whether a device string is compared with, or names the kind of accelerator, rather than a place for tensors."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Set)) or (
        isinstance(parent, ast.IfExp) and child is not parent.test
    ):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.arguments):
        return _TYPE_NAME.search(argument_of(parent, child)) is not None
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and parent.value is child:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return any(_holds_type(context, target, depth) for target in targets)
    if isinstance(parent, ast.Compare):
        return True
    if isinstance(parent, ast.Dict):
        return child in parent.keys
    if isinstance(parent, ast.Subscript):
        return parent.slice is child
    if isinstance(parent, ast.keyword):
        call = context.file.parents.get(parent)
        return bool(parent.arg and _TYPE_NAME.search(parent.arg)) or (
            isinstance(call, ast.Call) and last_name(call.func) in _FIRST_ARGUMENT
        )
    if not isinstance(parent, ast.Call) or child not in parent.args:
        return False
    if _is_compared_in(context, parent, parent.args.index(child)):
        return True
    if child is not parent.args[0]:
        return False
    by_key = isinstance(parent.func, ast.Attribute) and parent.func.attr in _BY_KEY
    return by_key or last_name(parent.func) in _FIRST_ARGUMENT


def argument_of(arguments: ast.arguments, default: ast.AST) -> str:
    """Return the name of the argument that has a default."""
    ordered = [*arguments.posonlyargs, *arguments.args]
    for argument, value in zip(reversed(ordered), reversed(arguments.defaults)):  # noqa: B905 - fewer have one
        if value is default:
            return argument.arg
    return next(
        (name.arg for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is default),
        "",
    )


def _holds_type(context: PythonContext, target: ast.expr, depth: int) -> bool:
    """Whether a variable holds the type of a device: by its name, or because every use of it means one."""
    if isinstance(target, (ast.Name, ast.Attribute)) and _TYPE_NAME.search(last_name(target)):
        return True
    if not isinstance(target, ast.Name) or depth > _DEPTH:
        return False
    owner = context.file.scope(target)
    if isinstance(owner, ast.ClassDef):
        return _is_told_apart(context, owner, target.id)
    scope = context.names.variable_scope(target.id, owner)
    if scope is None:
        return False
    uses = context.names.uses(target.id, scope)
    if any(_is_compared(context.file, use) for use in uses):
        return True
    if scope is context.file.tree and context.project is not None:
        taken = list(context.project.importers(context.path, target.id))
        if taken:
            return any(
                _is_compared(file, use)
                for file, names, alias in taken
                for use in names.uses(alias.asname or alias.name, file.tree)
            )
    return bool(uses) and all(is_question(context, use, depth + 1) for use in uses)


_ENUMERATION = lazy_regex(r"(?:Enum|Flag)\Z")


def _is_told_apart(context: PythonContext, owner: ast.ClassDef, name: str) -> bool:
    """Whether a constant of a class is one of those of which each has to be another: in an enumeration, or compared."""
    if any(_ENUMERATION.search(last_name(base)) for base in owner.bases):
        return True
    return name.isupper() and any(_is_compared(context.file, use) for use in context.file.attributes.get(name, ()))


def _is_compared(file: PythonFile, use: ast.expr) -> bool:
    """Whether a variable is compared with what is no literal, which names a device wherever this program runs."""
    around = file.parents.get(use)
    if isinstance(around, ast.MatchValue):
        return True
    if not isinstance(around, ast.Compare):
        return False
    return any(operand is not use and string_value(operand) is None for operand in (around.left, *around.comparators))


def _is_compared_in(context: PythonContext, call: ast.Call, position: int) -> bool:
    """Whether a function of the file compares the parameter that an argument is given to with what is no literal."""
    if not isinstance(call.func, ast.Name):
        return False
    bindings = context.names.module_bindings(call.func.id)
    function = bindings[0] if len(bindings) == 1 else None
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    parameters = [*function.args.posonlyargs, *function.args.args]
    return position < len(parameters) and any(
        _is_compared(context.file, use) for use in context.names.uses(parameters[position].arg, function)
    )


def is_load_location(context: PythonContext, node: ast.expr) -> bool:
    """Whether an expression is given as `map_location`."""
    child: ast.AST = node
    given = context.file.parents.get(child)
    while isinstance(given, ast.IfExp) and child is not given.test:
        child, given = given, context.file.parents.get(given)
    if isinstance(given, ast.keyword):
        return given.arg == "map_location"
    return isinstance(given, ast.Call) and given.args[1:2] == [child] and last_name(given.func) == "load"


def _only_literals_stand(context: PythonContext, node: ast.expr) -> bool:
    """Whether a string is a pattern, or one of the values of a type: `Literal["gloo", "nccl"]`."""
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.MatchValue):
        return True
    if isinstance(parent, ast.Tuple):
        parent = context.file.parents.get(parent)
    return isinstance(parent, ast.Subscript) and last_name(parent.value) == "Literal"


def _whole_literal(context: PythonContext, node: ast.expr) -> ast.expr:
    """Return the literal that a string is: the f-string around it where that holds nothing else (`f"cuda"`)."""
    joined = context.file.parents.get(node)
    return joined if isinstance(joined, ast.JoinedStr) and joined.values == [node] else node


def _is_added_to(context: PythonContext, node: ast.expr) -> bool:
    parent = context.file.parents.get(node)
    return isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add) and parent.left is node


def _made_with_index(context: PythonContext, node: ast.Constant) -> tuple[ast.Call, ast.expr] | None:
    """Return the call and the index in `torch.device("cuda", 0)` and in its forms with keywords.

    The CPU is to have no index, for torch tells `cpu:0` from `cpu`.
    """
    parent = context.file.parents.get(node)
    call = context.file.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or node.value != cuda.DEVICE_TYPE:
        return None
    given = dict(zip(("type", "index"), call.args, strict=False))
    given.update((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg)
    if len(call.args) + len(call.keywords) != 2 or given.get("type") is not node or "index" not in given:
        return None
    if isinstance(given["index"], ast.Starred) or context.names.qualified(call.func) != "torch.device":
        return None
    return call, given["index"]


def _with_index(context: PythonContext, node: ast.Constant) -> tuple[ast.expr, str]:
    """Return the whole expression that a literal begins, and the source of its index: empty for none.

    Raises:
        ValueError: it is put together in another way.
    """
    value = str(node.value)
    kind, _, index = value.partition(":")
    whole = _whole_literal(context, node)
    joined = context.file.fstring_of(node)
    if joined is not None and joined is not whole and node in joined.values:
        if value != f"{cuda.DEVICE_TYPE}:" or len(joined.values) != 2:
            raise ValueError("an f-string of another form")
        part = joined.values[1]
        if not isinstance(part, ast.FormattedValue) or part.conversion != -1 or part.format_spec is not None:
            raise ValueError("the index is formatted")
        return joined, context.file.text(part.value)
    if kind != cuda.DEVICE_TYPE:
        raise ValueError("a list of devices")
    if not index and ":" not in value:
        return whole, ""
    if index.isdecimal() and len(index) <= _MOST_DIGITS:
        return whole, str(int(index))
    parent = context.file.parents.get(whole)
    if index in ("%d", "%s", "%i") and isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod):
        right = parent.right
        if isinstance(right, ast.Tuple) and len(right.elts) == 1:
            right = right.elts[0]
        if not isinstance(right, (ast.Tuple, ast.Dict)):
            return parent, context.file.text(right)
    if index == "" and isinstance(parent, ast.BinOp) and _is_added_to(context, whole):
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
