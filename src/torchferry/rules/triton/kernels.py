"""The Triton kernels of a file: what each is made of, and where it is launched."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from torchferry.backends.tables import Row
from torchferry.backends.triton_target import TABLE, effect_of
from torchferry.core.finding import Effect
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import callee
from torchferry.source.names import assigned_value
from torchferry.source.nodes import children_of

JIT = frozenset({"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit"})
"""What makes a kernel of a function."""

GLUON = "triton.experimental"
"""Where the languages lie that no table speaks of, Gluon among them."""

_LANGUAGE = "triton.language."
_MATHEMATICS = "triton.language.math."
_METHODS = {"to": "cast"}
"""Methods of tiles whose function has another name."""

_PYTHON = frozenset(
    {"abs", "bool", "float", "getattr", "int", "isinstance", "len", "max", "min", "print", "range", "tuple"}
)
"""Functions of Python that a kernel may call."""

_DOT = f"{_LANGUAGE}dot"
_PRECISION = ("input_precision", "allow_tf32")
"""The arguments of `dot` behind two tiles and an accumulator, by their places; up to Triton 2 the switch was the first
of them, or stood in place of the accumulator."""

_PERMUTATIONS = (f"{_LANGUAGE}permute", f"{_LANGUAGE}trans")
_SHARED = f"{_LANGUAGE}extra."


class Construct(NamedTuple):
    """A part of a kernel that the table of a target may speak of.

    Attributes:
        name: Its name in the table: `triton.language.dot`, `triton.language.dot(allow_tf32)`.
        node: Where it stands.
        value: What an argument is given, as `repr` or as a full name; None where the text does not tell. Empty for
            what is no argument.
        in_loop: Whether it stands in a loop.
    """

    name: str
    node: ast.expr | ast.keyword
    value: str | None = ""
    in_loop: bool = False


class TritonKernel(NamedTuple):
    """A kernel.

    Attributes:
        function: The function.
        constructs: What it is made of, in order of place.
        unread: The names of functions that it calls and that are neither Triton's nor the project's kernels.
        is_of_unknown_language: Whether it is written in a language that no table speaks of.
    """

    function: ast.FunctionDef
    constructs: tuple[Construct, ...]
    unread: tuple[str, ...]
    is_of_unknown_language: bool = False


class TritonLaunch(NamedTuple):
    """A launch: `kernel[grid](x, y, BLOCK=1024)`.

    Attributes:
        call: The call.
        grid: What stands in the brackets.
        kernel: The name of the kernel.
    """

    call: ast.Call
    grid: ast.expr
    kernel: str


@lru_cache(maxsize=1)  # the rules ask one after the other
def kernels_of(context: PythonContext) -> tuple[TritonKernel, ...]:
    """Return the kernels that a file defines, in order of place."""
    functions = {**_decorated(context), **_wrapped(context)}
    if not functions:
        return ()
    own = {function.name for function in functions}
    kernels = []
    for function, made_by in sorted(functions.items(), key=lambda item: item[0].lineno):
        contents = _Contents(context, function, own)
        constructs = tuple(sorted(contents.constructs, key=lambda each: _place(each.node)))
        kernels.append(TritonKernel(function, constructs, tuple(contents.unread), made_by.startswith(GLUON)))
    return tuple(kernels)


def launches_of(context: PythonContext) -> Iterator[TritonLaunch]:
    """Yield the launches of a file: calls of an item of a function or class that it defines, or of what it imports."""
    file = context.file
    defined = [function.name for function in file.functions]
    imported = [alias.asname or alias.name for statement in file.imports for alias in statement.names]
    for name in dict.fromkeys((*defined, *imported)):
        for node in (*file.names.get(name, ()), *file.attributes.get(name, ())):
            item = file.parents.get(node)
            call = file.parents.get(item) if isinstance(item, ast.Subscript) and item.value is node else None
            if isinstance(item, ast.Subscript) and isinstance(call, ast.Call) and call.func is item:
                yield TritonLaunch(call, item.slice, name)


class TableEntry(NamedTuple):
    """What the table of the target says of a construct.

    Attributes:
        construct: The construct.
        row: The row; its status is `unknown` where none speaks of it.
        is_certain: Whether the row is about the value that the construct has; else nobody can tell from the text.
    """

    construct: Construct
    row: Row
    is_certain: bool

    @property
    def is_refused(self) -> bool:
        """Whether the compiler of the target is known to refuse it."""
        return self.row.status == "missing" and self.is_certain and effect_of(self.row) is Effect.RAISES


def entries_of(context: PythonContext, kernel: TritonKernel) -> Iterator[TableEntry]:
    """Yield what the table says of the parts of a kernel that the target runs; nothing of those that are as on CUDA."""
    for construct in kernel.constructs:
        row = _row_of(context, construct)
        spoken = _speaks_of(row, construct)
        if row.status != "same" and spoken is not False and exemption_reason(context, construct.node) is None:
            yield TableEntry(construct, row, spoken is True)


def _row_of(context: PythonContext, construct: Construct) -> Row:
    """Return the row of a construct; of a library's function that of the library."""
    name = construct.name
    row = context.target.row(TABLE, name)
    while row.status == "unknown" and not row.source and name.startswith(_SHARED):
        name = name.rpartition(".")[0]
        row = context.target.row(TABLE, name)
    return row


def _speaks_of(row: Row, construct: Construct) -> bool | None:
    """Whether a row speaks of a construct by its value and place; None where the value is not known."""
    if row.extra.get("in_loop") and not construct.in_loop:
        return False
    values = row.extra.get("values")
    if values is None:
        return True
    return None if construct.value is None else construct.value in values


def _decorated(context: PythonContext) -> dict[ast.FunctionDef, str]:
    kernels: dict[ast.FunctionDef, str] = {}
    for function in context.file.functions:
        if not isinstance(function, ast.FunctionDef):
            continue
        for decorator in function.decorator_list:
            name = context.names.qualified(callee(decorator)) or ""
            if name in JIT or name.startswith(GLUON):
                kernels[function] = name
    return kernels


def _wrapped(context: PythonContext) -> dict[ast.FunctionDef, str]:
    """Return the functions that a call makes kernels of: `add = triton.jit(add)`."""
    kernels: dict[ast.FunctionDef, str] = {}
    for reference in context.names.references("triton"):
        call = context.file.parents.get(reference.node)
        if reference.name in JIT and isinstance(call, ast.Call) and call.func is reference.node and call.args:
            bindings = context.names.bindings(call.args[0]) if isinstance(call.args[0], ast.Name) else ()
            kernels.update((each, reference.name) for each in bindings if isinstance(each, ast.FunctionDef))
    return kernels


class _Contents:
    """What a kernel holds.

    Attributes:
        constructs: What the table may speak of.
        unread: The names of functions that it calls and of which nobody knows what they are made of.
    """

    def __init__(self, context: PythonContext, function: ast.FunctionDef, own: set[str]) -> None:
        self.constructs: list[Construct] = []
        self.unread: dict[str, None] = {}
        self._context = context
        self._function = function
        self._own = own
        imported = {alias.asname or alias.name for statement in context.file.imports for alias in statement.names}
        waiting: list[tuple[ast.AST, bool]] = [(statement, False) for statement in reversed(function.body)]
        while waiting:
            node, in_loop = waiting.pop()
            if isinstance(node, ast.Call):
                self._add_call(node, in_loop)
            elif isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id in imported):
                self._add_name(node)
            inside = in_loop or isinstance(node, (ast.For, ast.While))
            waiting += [(child, inside) for child in children_of(node)]

    def _add_call(self, call: ast.Call, in_loop: bool) -> None:
        context = self._context
        qualified = context.names.qualified(call.func)
        if qualified is not None and not qualified.startswith("triton."):
            self.unread[context.file.text(call.func)] = None
            return
        if qualified is None and isinstance(call.func, ast.Name):
            if call.func.id not in self._own and call.func.id not in _PYTHON:
                self.unread[call.func.id] = None
            return
        if qualified is None and not isinstance(call.func, ast.Attribute):
            return
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = _plain(qualified) if qualified is not None else f"{_LANGUAGE}{_METHODS.get(method, method)}"
        self.constructs.append(Construct(name, call.func, in_loop=in_loop))
        if name == _DOT:
            self.constructs += _precision_by_place(context, call)
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.constructs.append(Construct(f"{name}({keyword.arg})", keyword, value_of(context, keyword.value)))
        for order in _orders(call) if name in _PERMUTATIONS else ():
            axes = [each.value for each in order if isinstance(each, ast.Constant)]
            value = repr(tuple(axes)) if len(axes) == len(order) else None
            self.constructs.append(Construct(f"{name}(dims)", order[0], value))
        tile = call.args[0] if name == _DOT and call.args else None
        if isinstance(tile, ast.Name) and _is_read_behind(context, call, tile, self._function):
            self.constructs.append(Construct(f"{name}(input)", tile, tile.id))

    def _add_name(self, node: ast.Attribute | ast.Name) -> None:
        parent = self._context.file.parents.get(node)
        if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is node):
            return
        qualified = self._context.names.qualified(node)
        if qualified is not None and qualified.startswith(_LANGUAGE):
            self.constructs.append(Construct(_plain(qualified), node))


def _precision_by_place(context: PythonContext, call: ast.Call) -> Iterator[Construct]:
    """Yield the precision of a product that is given by its place: a truth value is the switch, wherever it stands."""
    for place, given in enumerate(call.args[2:]):
        value = value_of(context, given)
        argument = "allow_tf32" if value in ("True", "False") else _PRECISION[place - 1] if 0 < place < 3 else ""
        if argument:
            yield Construct(f"{_DOT}({argument})", given, value)


def _orders(call: ast.Call) -> Iterator[list[ast.expr]]:
    """Yield the order of axes that a call gives: as one list, or one by one."""
    lists = [each.elts for each in call.args if isinstance(each, (ast.Tuple, ast.List)) and each.elts]
    axes: list[ast.expr] = [each for each in call.args if isinstance(each, ast.Constant)]
    yield from lists or ([axes] if axes else [])


def _plain(name: str) -> str:
    return f"{_LANGUAGE}{name[len(_MATHEMATICS) :]}" if name.startswith(_MATHEMATICS) else name


def value_of(context: PythonContext, expression: ast.expr) -> str | None:
    """Return what an expression is, as `repr` or as a full name; None where the text does not tell."""
    if isinstance(expression, ast.Constant):
        return repr(expression.value)
    qualified = context.names.qualified(expression)
    if qualified is not None:
        return qualified
    if isinstance(expression, ast.Name):
        values = [assigned_value(context.file, each) for each in context.names.bindings(expression)]
        if len(values) == 1 and isinstance(values[0], ast.Constant):
            return repr(values[0].value)
    return None


def _is_read_behind(context: PythonContext, call: ast.Call, tile: ast.Name, function: ast.FunctionDef) -> bool:
    """Whether the left operand of `dot` is read again behind it, before it is bound anew.

    A tile that a loop reads in each of its turns does not count: the vendors' own examples of attention do so.
    """
    statement = context.file.statement(call)
    uses = [use for use in context.file.names.get(tile.id, ()) if context.file.enclosing_function(use) is function]
    if any(isinstance(use.ctx, ast.Store) and context.file.statement(use) is statement for use in uses):
        return False
    behind = [use for use in uses if _place(use) > _place(tile) and context.file.statement(use) is not statement]
    first = min(behind, key=lambda use: _place(context.file.statement(use)), default=None)
    if first is None:
        return False
    together = [use for use in behind if context.file.statement(use) is context.file.statement(first)]
    return any(isinstance(use.ctx, ast.Load) for use in together)  # `a = f(a)` reads it before it binds it


def _place(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]
