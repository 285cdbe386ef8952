"""What a condition is made of, as its file says it: what handlers bind, what is stored before, what never changes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

from torchferry.core.lazy_regex import lazy_regex
from torchferry.programs.syntax.per_file import per_file
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.rules.guarded import copes
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value, bound_name
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def in_handler(file: PythonFile, binding: ast.AST) -> ast.expr | None:
    """Return the value that a binding gives where it is in an exception handler, or None."""
    return assigned_value(file, binding) if in_handler_of(file, binding) else None


def in_handler_of(file: PythonFile, node: ast.AST) -> bool:
    """Whether a node is in an exception handler."""
    parent = file.parents.get(node)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if isinstance(parent, ast.ExceptHandler):
            return True
        parent = file.parents.get(parent)
    return False


def is_only_asked(file: PythonFile, use: ast.Name | ast.Attribute) -> bool:
    """Whether a name is only asked whether it is there: `if name`, `name is None`, `not name`."""
    parent = file.parents.get(use)
    if isinstance(parent, ast.Compare):
        return any(isinstance(side, ast.Constant) and side.value is None for side in (parent.left, *parent.comparators))
    return isinstance(parent, (ast.UnaryOp, ast.BoolOp, ast.If, ast.While, ast.Assert)) or (
        isinstance(parent, ast.IfExp) and use is parent.test
    )


def bound_by_handler(file: PythonFile, name: str, statement: ast.stmt) -> bool:
    """Whether the handler beside an import binds the same name to something else that can be used."""
    parent = file.parents.get(statement)
    while parent is not None and not isinstance(parent, ast.Try):
        parent = file.parents.get(parent)
    if parent is None:
        return False
    for handler in parent.handlers:
        for node in (inner for part in handler.body for inner in nodes_in(part)):
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                if not isinstance(assigned_value(file, node), ast.Constant):
                    return True
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                return True
            if isinstance(node, ast.alias) and bound_name(node) == name:
                return True
    return False


def one_parameter(names: Names, values: list[ast.expr | None]) -> bool:
    """Whether all of some values are the same parameter of a function."""
    bound = [names.bindings(value) if isinstance(value, ast.Name) else [] for value in values]
    return len(bound[0]) == 1 and isinstance(bound[0][0], ast.arg) and all(each == bound[0] for each in bound)


def is_namespace(node: ast.expr) -> bool:
    """Whether an expression is the names of the module: `globals()`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "globals" and not node.args


def is_kind_of_device(node: ast.Attribute) -> bool:
    """Whether an attribute is the `type` of a torch.device, whatever options and settings are called so."""
    return node.attr == "type" and "device" in last_name(node.value).lower()


def stores_in(file: PythonFile, name: str, attribute: str) -> Iterator[ast.Attribute]:
    """Yield where an attribute of what a name represents is set: `name.attribute = ...`."""
    for store in file.attributes.get(attribute, ()):
        if isinstance(store.ctx, ast.Store) and isinstance(store.value, ast.Name) and store.value.id == name:
            yield store


def item_stores(file: PythonFile, key: str) -> list[ast.Subscript]:
    """Return where an item is stored under a text: `cfg["fast"] = ...`."""
    return _all_item_stores(file, None).get(key, [])


@per_file
def _all_item_stores(file: PythonFile, _: None) -> dict[str, list[ast.Subscript]]:
    stores: dict[str, list[ast.Subscript]] = {}
    for constant in file.strings:
        parent = file.parents.get(constant)
        if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
            stores.setdefault(str(constant.value), []).append(parent)
    return stores


@per_file
def returns_of(file: PythonFile, function: FunctionNode) -> list[ast.Return]:
    """Return where a function itself is left by `return`, not one that is defined in it."""
    returns = [part for part in nodes_in(function) if isinstance(part, ast.Return)]
    return [part for part in returns if file.enclosing_function(part) is function]


@per_file
def yields(file: PythonFile, function: FunctionNode) -> bool:
    """Whether a call of a function gives back a generator."""
    parts = (part for part in nodes_in(function) if isinstance(part, (ast.Yield, ast.YieldFrom)))
    return any(file.enclosing_function(part) is function for part in parts)


def stored_before(file: PythonFile, node: ast.Attribute) -> ast.expr | None:
    """Return what `args.name = ...` gives an attribute, where that is run before it is asked, whatever holds."""
    if not isinstance(node.value, ast.Name) or node.value.id in ("self", "cls"):
        return None
    stores = [store for store in stores_in(file, node.value.id, node.attr) if file.scope(store) is file.scope(node)]
    statement = file.parents.get(stores[0]) if len(stores) == 1 else None
    if not isinstance(statement, ast.Assign) or statement.lineno >= node.lineno:
        return None
    child: ast.AST = node
    while file.parents.get(child) is not file.parents.get(statement):
        above = file.parents.get(child)
        if above is None:
            return None  # it stands in a block of its own, which may be passed over
        child = above
    between = (use for use in file.names.get(node.value.id, ()) if statement.lineno < use.lineno < node.lineno)
    return None if any(_is_handed_on(file, use) for use in between) else statement.value


def _is_handed_on(file: PythonFile, use: ast.Name) -> bool:
    """Whether something else may change an object: a method of it is called, or it is given to a call."""
    parent = file.parents.get(use)
    if isinstance(parent, ast.Attribute):
        call = file.parents.get(parent)
        return isinstance(call, ast.Call) and call.func is parent
    return isinstance(parent, (ast.Call, ast.keyword, ast.Starred))


def held_for_ever(file: PythonFile, names: Names, test: ast.expr, comes_to: Callable[[ast.AST], bool]) -> bool | None:
    """Return what a condition on a variable of its module says, where a program never changes that; else None.

    `if world_size == 1: return`, where `world_size = 1` is at the top and only a function changes it that the
    program does not call.

    Args:
        file: The file.
        names: Its names.
        test: The condition.
        comes_to: Whether the program reaches a place of the file.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = held_for_ever(file, names, test.operand, comes_to)
        return None if inner is None else not inner
    compared = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant)
    name = test.left if isinstance(test, ast.Compare) and compared else test
    if not isinstance(name, ast.Name):
        return None
    bindings = names.bindings(name)
    inner_ones = [binding for binding in bindings if file.enclosing_function(binding) is not None]
    first = [binding for binding in bindings if file.enclosing_function(binding) is None]
    value = assigned_value(file, first[0]) if len(first) == 1 and len(bindings) > 1 else None
    if not isinstance(value, ast.Constant) or any(map(comes_to, inner_ones)):
        return None
    if not isinstance(test, ast.Compare):
        return bool(value.value)
    compare, other = COMPARED.get(type(test.ops[0])), test.comparators[0]
    assert isinstance(other, ast.Constant)
    try:
        return bool(compare(value.value, other.value)) if compare is not None else None
    except TypeError:
        return None


def calls_of_base(file: PythonFile, base: str) -> Iterator[ast.Call]:
    """Yield where classes derived from one of a name call its method: `super().__init__()`, `Base.__init__(self)`."""
    for callee in file.attributes.get("__init__", ()):
        call, whose = file.parents.get(callee), callee.value
        derived = file.enclosing_class(call) if isinstance(call, ast.Call) and call.func is callee else None
        if derived is None:
            continue
        assert isinstance(call, ast.Call)
        if isinstance(whose, ast.Call) and last_name(whose.func) == "super":
            if base in map(last_name, derived.bases):
                yield call
        elif last_name(whose) == base != derived.name:
            yield call


def is_stub(names: Names, value: ast.expr | None) -> bool:
    """Whether a value is a function, or a class with methods, that does nothing but raise."""
    bindings = names.bindings(value) if isinstance(value, ast.Name) else []
    if len(bindings) != 1 or not isinstance(bindings[0], (ast.FunctionDef, ast.ClassDef)):
        return False
    defined = bindings[0]
    methods = [defined] if isinstance(defined, ast.FunctionDef) else [
        part for part in defined.body if isinstance(part, ast.FunctionDef)
    ]  # fmt: skip
    bodies = [
        [part for part in method.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
        for method in methods
    ]
    return bool(bodies) and all(len(body) == 1 and isinstance(body[0], ast.Raise) for body in bodies)


def is_guarded(file: PythonFile, binding: ast.AST) -> bool:
    """Whether a name is bound by code that copes with the absence of what it imports."""
    parent = file.parents.get(binding)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if isinstance(parent, ast.Try) and _holds_import(file, parent.body) and copes(parent):
            return True
        parent = file.parents.get(parent)
    return False


def _holds_import(file: PythonFile, block: list[ast.stmt]) -> bool:
    """Whether something is imported in a block."""
    last = block[-1].end_lineno or block[-1].lineno
    called = (callee for name in IMPORTS for callee in (*file.names.get(name, ()), *file.attributes.get(name, ())))
    return any(block[0].lineno <= each.lineno <= last for each in (*file.imports, *called))


IMPORTS = frozenset({"import_module", "__import__"})
"""Functions that import by a name."""


def computed_members(file: PythonFile) -> list[tuple[ast.expr, str]]:
    """Return what gets members by computed names in a file, with what the names begin with."""
    return _all_computed_members(file, None)


@per_file
def _all_computed_members(file: PythonFile, _: None) -> list[tuple[ast.expr, str]]:
    return [*_computed_members(file)]


def _computed_members(file: PythonFile) -> Iterator[tuple[ast.expr, str]]:
    """Yield what gets names that are computed, with what these begin with: `setattr(x, f"a{n}", 1)`, `x.update(y)`."""
    for callee in file.names.get("setattr", ()):
        call = file.parents.get(callee)
        if isinstance(call, ast.Call) and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant):
            written = call.args[1].values[:1] if isinstance(call.args[1], ast.JoinedStr) else []
            yield call.args[0], (string_value(written[0]) if written else None) or ""
    for attribute in file.attributes.get("update", ()):
        call = file.parents.get(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute:
            continue
        for part in call.args:
            names = [string_value(key) for key in part.keys] if isinstance(part, ast.Dict) else [None]
            if not isinstance(part, ast.Constant):
                yield from ((attribute.value, name or "") for name in names)
        for keyword in call.keywords:
            yield attribute.value, keyword.arg or ""
    for uses in file.names.values():
        for name in uses:
            store = file.parents.get(name)
            by_name = isinstance(store, ast.Subscript) and store.slice is name and isinstance(store.ctx, ast.Store)
            if by_name and isinstance(store, ast.Subscript) and _is_of_loop(file, name):
                yield store.value, ""


def table_of_names(file: PythonFile, base: ast.expr) -> ast.expr | None:
    """Return the table whose keys are the computed names that an object gets; None where that is none.

    `for k, v in more.items(): setattr(x, k, v)`, `for k in more: vars(x)[k] = more[k]`, `x.__dict__.update(more)`.
    """
    parent = file.parents.get(base)
    if last_name(base) != "__dict__" and not isinstance(parent, ast.Call):
        if not isinstance(base, ast.Call) or last_name(base.func) != "vars":
            return None  # a table, of which there are many
    if isinstance(parent, ast.Attribute):
        call = file.parents.get(parent)
        return call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords else None
    key = parent.slice if isinstance(parent, ast.Subscript) else None
    if isinstance(parent, ast.Call) and len(parent.args) > 1:
        key = parent.args[1]
    for loop in loops_around(file, base) if isinstance(key, ast.Name) else ():
        first = loop.target if isinstance(loop, ast.For) else None
        of = loop.iter if isinstance(loop, ast.For) else None
        if isinstance(first, ast.Tuple) and isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute):
            first, of = first.elts[0], of.func.value if of.func.attr == "items" else None
        if isinstance(first, ast.Name) and isinstance(key, ast.Name) and first.id == key.id:
            return of
    return None


_OF_NETS = lazy_regex(r"(?i)module|model|layer|net|block|parent|child|self|cls|conv|param|buffer")


def may_fill_anything(file: PythonFile, base: ast.expr) -> bool:
    """Whether a place gives what it is handed names out of a table: `for k, v in more.items(): setattr(x, k, v)`.

    What goes through the parts of a network, and gives them back changed, fills no settings.
    """
    call = file.parents.get(base)
    if not isinstance(call, ast.Call) or last_name(call.func) != "setattr" or _OF_NETS.search(last_name(base)):
        return False
    key = call.args[1]
    loops = [loop for loop in loops_around(file, call) if isinstance(loop, (ast.For, ast.AsyncFor))]
    if not isinstance(key, ast.Name):
        return False
    for loop in loops:
        if any(isinstance(each, ast.Name) and each.id == key.id for each in nodes_in(loop.target)):
            return isinstance(loop.iter, ast.Call) and not _OF_NETS.search(file.text(loop.iter))
    function = file.enclosing_function(call)
    return isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and key.id in {
        argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)
    }


def merges_settings(file: PythonFile) -> bool:
    """Whether a file takes settings from elsewhere into an object: `cfg.merge_from_file(path)`."""
    attributes = (attribute for method in ("merge_from_file", "merge_from_list", "merge_from_other_cfg")
                  for attribute in file.attributes.get(method, ()))  # fmt: skip
    return any(isinstance(call := file.parents.get(each), ast.Call) and call.func is each for each in attributes)


def _is_of_loop(file: PythonFile, name: ast.Name) -> bool:
    """Whether a name is what a loop around it takes from something: `for key, value in given: cfg[key] = value`."""
    loops = (loop for loop in loops_around(file, name) if isinstance(loop, (ast.For, ast.AsyncFor)))
    targets = (loop.target for loop in loops if last_name(loop.iter) not in ("range", "enumerate"))
    return any(isinstance(each, ast.Name) and each.id == name.id for target in targets for each in nodes_in(target))


def loops_around(file: PythonFile, node: ast.AST) -> set[ast.AST]:
    """Return the loops around a node in its file."""
    loops: set[ast.AST] = set()
    parent = file.parents.get(node)
    while parent is not None:
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            loops.add(parent)
        parent = file.parents.get(parent)
    return loops


def may_be_passed_over(file: PythonFile, binding: ast.AST, use: ast.AST) -> bool:
    """Whether a place that binds a variable may not be run before a use: in a loop, in a case, or behind the use."""
    if getattr(binding, "lineno", 0) > getattr(use, "lineno", 0) and file.scope(binding) is file.scope(use):
        return True
    parent = file.parents.get(binding)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        if isinstance(parent, ast.match_case):
            return True
        parent = file.parents.get(parent)
    return bool(loops_around(file, binding) - loops_around(file, use))


def is_empty(value: ast.expr | None) -> bool:
    """Whether a value is a list, table or set to which something is added later."""
    if isinstance(value, ast.Call):
        return last_name(value.func) in ("list", "dict", "set", "deque", "defaultdict") and not value.keywords
    return isinstance(value, (ast.List, ast.Dict)) and not getattr(value, "elts", getattr(value, "keys", None))


_LEAVES_AS_IS = frozenset({"index", "count", "copy", "keys", "values", "items", "get", "split", "join", "startswith"})
"""Methods that leave what they belong to as it is."""

_ONLY_READ_BY = frozenset({
    "print", "len", "sorted", "list", "tuple", "set", "dict", "str", "repr", "enumerate", "range", "zip", "any", "all",
    "max", "min", "sum", "isinstance", "add_argument", "parse_args", "parse_known_args", "Choice", "format", "info",
    "debug", "warning", "error", "ValueError", "join", "run", "Popen", "call", "check_call", "check_output",
})  # fmt: skip
"""Functions and methods that leave what they are given as it is."""


def only_reads(file: PythonFile, use: ast.Name | ast.Attribute) -> bool:
    """Whether a list, set or table stays as it is where its name is used: nothing else can add to it."""
    child: ast.AST = use
    parent = file.parents.get(use)
    if not isinstance(use.ctx, ast.Load):
        return isinstance(use.ctx, ast.Store) and not isinstance(parent, ast.AugAssign)
    if isinstance(parent, ast.Starred):
        return True
    if isinstance(parent, ast.Attribute):
        call = file.parents.get(parent)
        is_called = isinstance(call, ast.Call) and call.func is parent
        return is_called and parent.attr in _LEAVES_AS_IS
    if isinstance(parent, ast.keyword):
        child, parent = parent, file.parents.get(parent)
    if isinstance(parent, ast.Call):
        return child is not parent.func and last_name(parent.func) in _ONLY_READ_BY
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.IfExp):
        return child is parent.test
    return isinstance(parent, (
        ast.Compare, ast.For, ast.AsyncFor, ast.comprehension, ast.If, ast.While, ast.UnaryOp, ast.BinOp,
        ast.FormattedValue, ast.Assert,
    ))  # fmt: skip


@per_file
def reads_only(file: PythonFile, name: str) -> bool:
    """Whether a file only reads what a name represents."""
    return all(only_reads(file, use) for use in (*file.names.get(name, ()), *file.attributes.get(name, ())))


@per_file
def speaks_of_class(file: PythonFile, name: str) -> bool:
    """Whether a file speaks of a class other than as the base of another, also as a text."""
    for use in (*file.names.get(name, ()), *file.attributes.get(name, ())):
        parent = file.parents.get(use)
        is_read = isinstance(use.ctx, ast.Load) and not isinstance(parent, (ast.arg, ast.AnnAssign))
        if is_read and not (isinstance(parent, ast.ClassDef) and use in parent.bases):
            if not (isinstance(parent, ast.Call) and last_name(parent.func) in ("isinstance", "super")):
                return True
    return name in _last_words(file, None)


@per_file
def _last_words(file: PythonFile, _: None) -> frozenset[str]:
    """Return what follows the last dot of each text of a file."""
    return frozenset(str(each.value).rpartition(".")[2] for each in file.strings)


def is_of_loop(names: Names, node: ast.expr) -> bool:
    """Whether a name is what a loop goes through: nobody knows which objects these are."""
    bindings = names.reaching_bindings(node) if isinstance(node, ast.Name) else []
    loops = (ast.For, ast.AsyncFor, ast.comprehension)
    return any(isinstance(names.file.parents.get(each), loops) for each in bindings)
