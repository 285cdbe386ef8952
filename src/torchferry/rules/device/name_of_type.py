"""A name that is made of the type of a device: `globals()[f"run_{x.device.type}"]`.

On the target another name is made, and the project has only the one for CUDA; so it is with `getattr(self, "to_" +
device.type)`. Where the code has a default beside it, that is taken in silence. Give what is named a second name, or
choose it by a table that has the target too.

Why: The name is not there on the target: another one is taken without a word, or the code raises.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.conditions import stored_uses
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import LOOKUPS, last_name, string_value

_PART = lazy_regex(r"[A-Za-z0-9_./-]{1,60}\Z")
_FIELD = lazy_regex(r"([A-Za-z0-9_./-]{0,60})(?:%s|\{0?\})([A-Za-z0-9_./-]{0,60})\Z")
"""A name with one place to put something into."""

_NAME = lazy_regex(r"[A-Za-z0-9_.]{1,60}\Z")
_SPELLINGS = {"upper": str.upper, "capitalize": str.capitalize, "title": str.title, "lower": str.lower}

_WRITING = lazy_regex(r"(?:write|save|dump|to_|mkdir|makedirs|touch|rename)|\w*(?:[Ww]riter|[Ll]ogger|Handler)\Z")
"""Functions and methods that make a file, by the beginning or the end of their names."""

_WRITING_MODES = lazy_regex(r"[rb+t]{0,2}[wax+][b+t]{0,2}\Z")

_BY_NAME = frozenset({"getattr", "hasattr", "import_module", "__import__", "resolve_name"})
_MOST_PARTS = 100
"""Parts of one name."""


class NameOfType(Rule):
    """Finds names that are made of the type of a device, of which the project has that for CUDA alone."""

    CODE = "DEV119"
    EFFECT = Effect.WRONG
    WORDS = (
        *("getattr(", "globals()", "locals()", "vars(", "import_module(", "__import__("),
        *(".type}", "_type}", "device}", "{dev}", ".type +", ".type)"),
    )

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each name."""
        reported: set[ast.AST] = set()
        for node in context.file.strings:
            if not isinstance(node.value, str) or not (_PART.match(node.value) or _FIELD.match(node.value)):
                continue
            whole = _whole(context, node)
            if whole is None or whole in reported:
                continue
            built = _made(context, whole)
            if built is None:
                continue
            own, name = (built.of(word) for word in (context.target.backend.DEVICE_TYPE, cuda.DEVICE_TYPE))
            is_name = _NAME.match(name) is not None and _is_used_as_name(context, whole)
            is_there = _is_defined if is_name else _is_file
            reported.add(whole)
            if not is_there(context, name) or is_there(context, own):
                continue
            if (is_name or not _is_written(context, whole)) and exemption_reason(context, whole) is None:
                message = say(
                    "builds a name from the type of a device: on {target} that is `{own}`, but only `{name}` "
                    "exists; add that name, or choose from a table",
                    target=context.target.title,
                    own=own,
                    name=name,
                )
                yield self.finding(context, context.file.span(whole), message, Grade.MANUAL)


def _whole(context: PythonContext, node: ast.Constant) -> ast.expr | None:
    """Return the outermost expression of which a string is a part, together with something that is no string."""
    whole: ast.AST = context.file.fstring_of(node) or node
    parent = context.file.parents.get(whole)
    for _ in range(_MOST_PARTS):
        if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, (ast.Add, ast.Mod)):
            break
        whole, parent = parent, context.file.parents.get(parent)
    if whole is node and isinstance(parent, ast.Attribute) and parent.attr == "format":
        call = context.file.parents.get(parent)
        whole = call if isinstance(call, ast.Call) else whole
    return whole if isinstance(whole, (ast.JoinedStr, ast.BinOp, ast.Call)) else None


class _Made(NamedTuple):
    """A name that is made of a device: the text, with a NUL for the device, and the method that spells that."""

    text: str
    spelt_by: str

    def of(self, device_type: str) -> str:
        """Return the name that a type of device makes."""
        spell = _SPELLINGS.get(self.spelt_by)
        return self.text.replace("\0", spell(device_type) if spell is not None else device_type)


def _made(context: PythonContext, whole: ast.expr) -> _Made | None:
    """Return the name that an expression makes; None where it makes another, or none of a device."""
    parts = _parts(whole)
    if parts is None or len(parts) > _MOST_PARTS:
        return None
    while len(parts) > 1 and not isinstance(parts[0], str) and isinstance(parts[1], str) and parts[1][:1] == "/":
        parts = [parts[1][1:], *parts[2:]]  # a file in a folder that is not named here
    texts = [part if isinstance(part, str) else "\0" for part in parts]
    devices = [part for part in parts if not isinstance(part, str)]
    text = "".join(texts).removeprefix("./")
    if len(devices) != 1 or text == "\0" or not context.devices.values.holds(devices[0]):
        return None
    spelt_by = last_name(devices[0]) if isinstance(devices[0], ast.Call) else ""
    return _Made(text, spelt_by) if _PART.match(text.replace("\0", "x")) else None


def _parts(whole: ast.expr) -> list[str | ast.expr] | None:
    """Return the texts and the expressions that make a text; None for one that is made in another way."""
    text = string_value(whole)
    if text is not None:
        return [text]
    if isinstance(whole, ast.JoinedStr):
        parts: list[str | ast.expr] = []
        for value in whole.values:
            if isinstance(value, ast.FormattedValue) and value.conversion == -1 and value.format_spec is None:
                parts.append(value.value)
            elif isinstance(value, ast.Constant):
                parts.append(str(value.value))
            else:
                return None
        return parts
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Add):
        left, right = _parts(whole.left), _parts(whole.right)
        return None if left is None or right is None else [*left, *right]
    template, filling = "", None
    if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mod):
        template, filling = string_value(whole.left) or "", whole.right
        filling = filling.elts[0] if isinstance(filling, ast.Tuple) and len(filling.elts) == 1 else filling
    elif isinstance(whole, ast.Call) and isinstance(whole.func, ast.Attribute) and whole.func.attr == "format":
        template, filling = string_value(whole.func.value) or "", whole.args[0] if len(whole.args) == 1 else None
    match = _FIELD.match(template)
    if match is not None and filling is not None:
        return [match[1], filling, match[2]]
    return [whole]


def _is_used_as_name(context: PythonContext, whole: ast.expr) -> bool:
    """Whether an expression, or the variable that it is assigned to, is what something is asked for by its name."""
    for place in (whole, *stored_uses(context, whole)):
        parent = context.file.parents.get(place)
        if isinstance(parent, ast.Subscript) and parent.slice is place:
            return True
        if isinstance(parent, ast.Call) and place in parent.args[:2] and last_name(parent.func) in _BY_NAME | LOOKUPS:
            return True
    return False


def _is_defined(context: PythonContext, name: str) -> bool:
    """Whether the project has something of a name: a function, a class, a module, a key of a table."""
    last = name.rpartition(".")[2]
    file = context.file
    if "." in name and context.project is not None and context.project.module_path(name, context.path) is not None:
        return True
    if last in (cuda.DEVICE_TYPE, context.target.backend.DEVICE_TYPE):  # a part of torch, or of a module
        return any(node.value == name for node in file.strings)
    if any(function.name == last for function in file.functions) or any(owner.name == last for owner in file.classes):
        return True
    if any(node.value == name for node in file.strings) or last in file.attributes or last in file.names:
        return True
    return context.project is not None and context.project.defines(last)


def _is_file(context: PythonContext, name: str) -> bool:
    """Whether a name that looks like that of a file is one of a file, or a folder, of the project."""
    is_path = ("." in name or "/" in name) and name.strip("./") not in (
        cuda.DEVICE_TYPE,
        context.target.backend.DEVICE_TYPE,
    )
    if context.project is None or not is_path:
        return False
    return context.project.has_file(name) or (context.project.root / name).is_file()  # data, which is no source


def _is_written(context: PythonContext, whole: ast.expr) -> bool:
    """Whether the file of a name is written: there it need not be before."""
    for place in (whole, *stored_uses(context, whole)):
        child: ast.AST | None = place
        while isinstance(child, ast.expr):
            child = context.file.parents.get(child)
            if isinstance(child, ast.keyword):
                child = context.file.parents.get(child)
            if not isinstance(child, ast.Call):
                continue
            mode = next((each.value for each in child.keywords if each.arg == "mode"), None)
            modes = [mode, *child.args[:2]] if last_name(child.func) == "open" else []
            if _WRITING.match(last_name(child.func)) or any(
                _WRITING_MODES.match(string_value(each) or "") for each in modes
            ):
                return True
    return False
