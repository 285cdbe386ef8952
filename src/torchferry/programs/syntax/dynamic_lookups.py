"""Where a name is looked up in a module by a text: `getattr(nets, kind)`, `globals()[stage]`, `eval(kind)(...)`."""

from __future__ import annotations

import ast
import inspect
import posixpath
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.per_file import once_per_file
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile, UnparsableError, parse

WORDS = frozenset({
    "Fire", "__dict__", "__getattribute__", "__main__", "attrgetter", "eval", "exec", "getattr", "getmembers",
    "globals", "hub", "itemgetter", "locals", "methodcaller", "modules", "timeit", "vars",
})  # fmt: skip
"""What a file says that looks something up so."""

_OWN = ("globals", "locals", "vars")
_EVALUATES = ("eval", "exec")
_TIMES = ("timeit", "repeat", "Timer")
RUN_TEXTS = (*_EVALUATES, *_TIMES)
"""Functions that run a text as code."""

_KEEPS = (
    ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.keyword, ast.IfExp, ast.List, ast.Tuple, ast.Set,
    ast.Dict, ast.Lambda, ast.Yield, ast.BoolOp, ast.Starred, ast.FunctionDef, ast.ClassDef, ast.withitem,
)  # fmt: skip
_COLLECTS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CHOOSES = frozenset({"callable", "isfunction", "isclass", "issubclass", "ismethod", "isroutine", "getmembers"})
_GETTERS = ("attrgetter", "itemgetter", "methodcaller")
_ONLY_READ = frozenset({"isinstance", "print", "str", "repr", "len", "bool", "hasattr", "id"})
_TAKES_ITEM = frozenset({"get", "pop", "__getitem__", "setdefault"})


class NamespaceLookup(NamedTuple):
    """A look-up of a name in a module.

    Attributes:
        node: The expression that represents what is found.
        asked: What the name is compared with; None where the text says more than a name.
        module: The name of the module as the file has it; empty for the file itself.
    """

    node: ast.expr
    asked: ast.expr | None
    module: str


class CodeInText(NamedTuple):
    """Code that is given as a text.

    Attributes:
        call: What runs it.
        nodes: The names and attributes that it reads; they are in no file.
    """

    call: ast.Call
    nodes: tuple[ast.Name | ast.Attribute, ...]


@once_per_file
def namespace_lookups(file: PythonFile, names: Names) -> tuple[NamespaceLookup, ...]:
    """Return where a file looks a name up in itself or in a module, and uses what it finds.

    A name that is written down counts as any other does: `getattr(nets, "Fast")`. What is only read, compared or
    collected is no use: `{key: globals()[key] for key in keys}`.
    """
    return tuple(each for each in _lookups(file, names) if _is_used(file, each.node))


def _lookups(file: PythonFile, names: Names) -> Iterator[NamespaceLookup]:
    for name in _OWN:
        for use in file.names.get(name, ()):
            call = file.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use and not (name == "vars" and call.args):
                yield from _item(file, call, "")
    for use in file.names.get("vars", ()):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and call.func is use and len(call.args) == 1:
            module = _module(file, names, call.args[0])
            yield from _item(file, call, module) if module is not None else ()
    for attribute in file.attributes.get("__dict__", ()):
        module = _module(file, names, attribute.value)
        yield from _item(file, attribute, module) if module is not None else ()
    for use in file.names.get("getattr", ()):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and call.func is use and len(call.args) > 1:
            module = _module(file, names, call.args[0])
            for each in _given_modules(file, names, call.args[0]) if module is None else (module,):
                yield NamespaceLookup(call, call.args[1], each)
    for use in (*file.names.get("Fire", ()), *file.attributes.get("Fire", ())):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and call.func is use and call.args:
            table = _table(file, names, call.args[0])
            module = _module(file, names, call.args[0]) if table is None else table
            if module is not None:
                yield NamespaceLookup(call, None, module)
    for attribute in file.attributes.get("__getattribute__", ()):
        call = file.parents.get(attribute)
        module = _module(file, names, attribute.value)
        if isinstance(call, ast.Call) and call.func is attribute and call.args and module is not None:
            yield NamespaceLookup(call, call.args[0], module)
    for name in _GETTERS:
        for getter in (*file.names.get(name, ()), *file.attributes.get(name, ())):
            call = file.parents.get(getter)
            if isinstance(call, ast.Call) and call.func is getter and call.args:
                yield from _gotten(file, names, call, call)
    for name in ("getattr", "vars", *_OWN[:2]):  # handed on: `partial(getattr, nets)`, `reduce(getattr, path, nets)`
        for use in file.names.get(name, ()):
            call = file.parents.get(use)
            if isinstance(call, ast.Call) and use in call.args:
                for other in call.args:
                    module = _module(file, names, other) if other is not use else None
                    if module is not None:
                        yield NamespaceLookup(call, None, module)
    yield from _iterated(file, names)
    for call in local_hub_calls(file, names):
        asked = call.args[1] if len(call.args) > 1 else None
        for module in hub_modules(file, call):
            yield NamespaceLookup(call, asked, module)
    for code in codes_in_texts(file, names):
        for node in code.nodes:
            module = names.qualified(node.value) if isinstance(node, ast.Attribute) else ""
            if module is not None:
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                written = ast.copy_location(ast.Constant(name), code.call)
                yield NamespaceLookup(code.call, written, module)
    for call in _calls_of_builtins(file, _EVALUATES):
        if call.args and _written(file, names, _code_of(call)) is None:
            yield from _evaluated(file, names, call)


@once_per_file
def codes_in_texts(file: PythonFile, names: Names) -> tuple[CodeInText, ...]:
    """Return the code that `eval`, `exec` and `timeit` are given as texts which are written down."""
    texts = [(call, _code_of(call)) for call in _calls_of_builtins(file, _EVALUATES) if call.args]
    for name in _TIMES:
        for call in file.calls_by_name(name):
            named = [each.value for each in call.keywords if each.arg in ("stmt", "setup")]
            texts += [(call, text) for text in (*call.args[:2], *named)]
    codes = []
    for call, text in texts:
        try:
            tree = parse(inspect.cleandoc(_written(file, names, text) or ""))
        except UnparsableError:
            continue  # it raises
        nodes = (node for node in nodes_in(tree) if isinstance(node, (ast.Name, ast.Attribute)))
        codes.append(CodeInText(call, tuple(node for node in nodes if isinstance(node.ctx, ast.Load))))
    return tuple(codes)


def _calls_of_builtins(file: PythonFile, builtins: tuple[str, ...]) -> Iterator[ast.Call]:
    for name in builtins:
        for use in file.names.get(name, ()):
            call = file.parents.get(use)
            if isinstance(call, ast.Call) and call.func is use:
                yield call


def _code_of(call: ast.Call) -> ast.expr:
    """Return the text that `eval` or `exec` is given: `exec(compile(text, "name", "exec"))`."""
    text = call.args[0]
    return text.args[0] if isinstance(text, ast.Call) and last_name(text.func) == "compile" and text.args else text


def local_hub_calls(file: PythonFile, names: Names) -> Iterator[ast.Call]:
    """Yield the calls that load a model from the tree: `torch.hub.load("hub/net", "small", source="local")`."""
    for call in file.calls_by_name("load") if "hub" in file.names or "hub" in file.attributes else ():
        if names.qualified(call.func) == "torch.hub.load":
            if any(part.arg == "source" and string_value(part.value) == "local" for part in call.keywords):
                yield call


def hub_modules(file: PythonFile, call: ast.Call) -> Iterator[str]:
    """Yield the modules that a call of `local_hub_calls` may import: `hubconf.py` of the folder that it names.

    The folder is told from where the program is started: the file's own folder, or one above it.
    """
    folder = string_value(call.args[0]) if call.args else None
    starts = file.path.split("/")[:-1]
    for end in range(len(starts), -1, -1) if folder and not folder.startswith("/") else ():
        path = posixpath.normpath(posixpath.join(*starts[:end], folder or ""))
        if not path.startswith(".."):
            yield "." + ".".join([*(part for part in path.split("/") if part != "."), "hubconf"])


def _gotten(file: PythonFile, names: Names, getter: ast.expr, call: ast.Call) -> Iterator[NamespaceLookup]:
    """Yield what a getter takes out of modules: `attrgetter(kind)(nets)`, `map(attrgetter(kind), [nets])`."""
    outer = file.parents.get(getter)
    target = outer.targets[0] if isinstance(outer, ast.Assign) and len(outer.targets) == 1 else None
    if isinstance(target, ast.Name) and not _is_name(getter):
        for use in file.names.get(target.id, ()):
            if isinstance(use.ctx, ast.Load):
                yield from _gotten(file, names, use, call)
    if not isinstance(outer, ast.Call):
        return
    for given in outer.args if outer.func is getter else [part for arg in outer.args for part in nodes_in(arg)]:
        of = given.args[0] if isinstance(given, ast.Call) and last_name(given.func) == "vars" and given.args else given
        module = _module(file, names, of) if isinstance(of, ast.expr) and given is not getter else None
        if module is not None:
            yield NamespaceLookup(outer, call.args[0], module)


def _is_name(node: ast.expr) -> bool:
    """Whether a table or getter is a variable already: one is followed, and not `table = table` for ever."""
    return isinstance(node, ast.Name)


def _iterated(file: PythonFile, names: Names) -> Iterator[NamespaceLookup]:
    """Yield where all of a module is gone through and called, or chosen from: `for f in vars(nets).values(): f()`."""
    for table in (*file.attributes.get("items", ()), *file.attributes.get("values", ())):
        yield from _gone_through(file, file.parents.get(table), _table(file, names, table.value))
    for use in (*file.names.get("getmembers", ()), *file.attributes.get("getmembers", ())):
        call = file.parents.get(use)
        if isinstance(call, ast.Call) and call.func is use and call.args:
            yield from _gone_through(file, call, _module(file, names, call.args[0]))
    for name in (*_OWN, "getattr", "eval"):
        for use in file.names.get(name, ()):
            node: ast.AST | None = file.parents.get(use)
            while isinstance(node, (ast.Call, ast.Subscript, ast.Attribute, ast.Tuple)):
                node = file.parents.get(node)
            if isinstance(node, _COLLECTS):
                first = file.parents.get(use)
                of = first.args[0] if name == "getattr" and isinstance(first, ast.Call) and first.args else None
                module = "" if name != "getattr" else _module(file, names, of) if of is not None else None
                if module is not None and _is_taken_out(file, node):
                    yield NamespaceLookup(node, None, module)


def _table(file: PythonFile, names: Names, node: ast.expr) -> str | None:
    """Return the module whose dictionary an expression is."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return _module(file, names, node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OWN:
        return _module(file, names, node.args[0]) if node.args else ""
    return None


def _gone_through(file: PythonFile, node: ast.AST | None, module: str | None) -> Iterator[NamespaceLookup]:
    """Yield the expression that goes through a module, where what it finds is called or chosen."""
    if not isinstance(node, ast.expr) or module is None:
        return
    around: ast.AST | None = file.parents.get(node)
    while isinstance(around, (ast.Call, ast.comprehension, ast.Starred, *_COLLECTS)):
        around = file.parents.get(around)
    statement = around if isinstance(around, ast.stmt) else None
    if statement is None:
        return
    bound = {name.id for name in nodes_in(statement) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    calls = [each for each in nodes_in(statement) if isinstance(each, ast.Call)]
    if any(last_name(each.func) in bound or _chooses(each) for each in calls) or _is_table_kept(file, statement):
        yield NamespaceLookup(node, None, module)


def _chooses(call: ast.Call) -> bool:
    """Whether a call checks whether something can be called, as who wants to call it does."""
    if last_name(call.func) == "isinstance":
        return bool(call.args) and last_name(call.args[-1]) == "type"
    return last_name(call.func) in _CHOOSES


def _is_table_kept(file: PythonFile, statement: ast.stmt) -> bool:
    """Whether what a statement keeps is taken out of it and called: `NETS = dict(getmembers(nets))`, `NETS[kind]()`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    return any(_is_item_called(file, use) for use in file.names.get(statement.targets[0].id, ()))


def _is_taken_out(file: PythonFile, collection: ast.AST) -> bool:
    """Whether something is taken out of a collection and called, there or by the variable that keeps it."""
    parent = file.parents.get(collection)
    if isinstance(parent, ast.stmt) and _is_table_kept(file, parent):
        return True
    if isinstance(parent, ast.For):
        return any(
            isinstance(each, ast.Call) and last_name(each.func) == last_name(parent.target) for each in nodes_in(parent)
        )
    return isinstance(collection, ast.expr) and _is_item_called(file, collection)


def _is_item_called(file: PythonFile, table: ast.expr) -> bool:
    owner = file.parents.get(table)
    if isinstance(owner, ast.Attribute) and owner.attr in _TAKES_ITEM:
        owner = file.parents.get(owner)
    parent = file.parents.get(owner) if owner is not None else None
    if isinstance(owner, ast.For) and table is owner.iter:
        return any(
            isinstance(each, ast.Call) and last_name(each.func) == last_name(owner.target) for each in nodes_in(owner)
        )
    return isinstance(owner, (ast.Subscript, ast.Call)) and isinstance(parent, (ast.Call, ast.Assign, ast.Return))


def _item(file: PythonFile, table: ast.expr, module: str) -> Iterator[NamespaceLookup]:
    """Yield what is taken out of the dictionary of a module: `table[name]`, `table.get(name)`."""
    owner = file.parents.get(table)
    if isinstance(owner, ast.Call) and table in owner.args and last_name(owner.func) == "dict":
        yield from _item(file, owner, module)
    elif isinstance(owner, ast.Subscript) and owner.value is table and isinstance(owner.ctx, ast.Load):
        yield NamespaceLookup(owner, owner.slice, module)
    elif isinstance(owner, ast.Attribute) and owner.attr in _TAKES_ITEM:
        call = file.parents.get(owner)
        if isinstance(call, ast.Call) and call.func is owner and call.args:
            yield NamespaceLookup(call, call.args[0], module)
    elif isinstance(owner, ast.Assign) and owner.value is table and len(owner.targets) == 1 and not _is_name(table):
        target = owner.targets[0]
        if isinstance(target, ast.Name):
            for use in file.names.get(target.id, ()):
                if isinstance(use.ctx, ast.Load):
                    yield from _item(file, use, module)


def _module(file: PythonFile, names: Names, expression: ast.expr) -> str | None:
    """Return the name of the module that an expression is, empty for the file itself; None for anything else."""
    if isinstance(expression, ast.Subscript) and names.qualified(expression.value) == "sys.modules":
        return _named(expression.slice)
    name = names.qualified(expression)
    if name is None and isinstance(expression, ast.Call):
        return _named(expression.args[0]) if last_name(expression.func) == "import_module" and expression.args else None
    if name is None and isinstance(expression, ast.Name):
        values = [assigned_value(file, each) for each in names.reaching_bindings(expression)]
        value = values[0] if len(values) == 1 else None
        return _module(file, names, value) if isinstance(value, (ast.Subscript, ast.Call)) else None
    return "" if name == "__main__" else name


def _given_modules(file: PythonFile, names: Names, expression: ast.expr) -> Iterator[str]:
    """Yield the modules that calls in the file give to a parameter: `pick(nets, kind)`."""
    binding = next(iter(names.bindings(expression)), None) if isinstance(expression, ast.Name) else None
    function = file.enclosing_function(expression)
    if not isinstance(binding, ast.arg) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    positions = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    for use in (*file.names.get(function.name, ()), *file.attributes.get(function.name, ())):
        call = file.parents.get(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        given |= dict(zip(positions[isinstance(use, ast.Attribute) :], call.args, strict=False))
        module = _module(file, names, given[binding.arg]) if binding.arg in given else None
        if module is not None:
            yield module


def _named(expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Name) and expression.id == "__name__":
        return ""
    written = string_value(expression)
    return "" if written == "__main__" else written


def _evaluated(file: PythonFile, names: Names, call: ast.Call) -> Iterator[NamespaceLookup]:
    """Yield what a text that is evaluated may name: all of it where it is a name, parts of it where it is more."""
    text = _code_of(call)
    begin, is_more = _begin(text)
    module, dot, _ = begin.rpartition(".")
    if dot and module.replace(".", "").isidentifier():
        yield NamespaceLookup(call, None, names.qualified(ast.parse(module, mode="eval").body) or module)
    elif is_more or (last_name(call.func) == "eval" and _is_called(file, call)):
        yield NamespaceLookup(call, None if is_more else text, "")


def _written(file: PythonFile, names: Names, text: ast.expr) -> str | None:
    """Return a text that is written down, there or where its variable gets its one value; None for any other."""
    if isinstance(text, ast.Call) and last_name(text.func) in ("dedent", "cleandoc", "strip"):
        inner = text.args[0] if text.args else text.func.value if isinstance(text.func, ast.Attribute) else None
        return _written(file, names, inner) if inner is not None else None
    if isinstance(text, ast.Name):
        values = [assigned_value(file, each) for each in names.reaching_bindings(text)]
        return string_value(values[0]) if len(values) == 1 and values[0] is not None else None
    return string_value(text)


def _begin(text: ast.expr) -> tuple[str, bool]:
    """Return the written beginning of a text, and whether something in it is called."""
    written = [str(part.value) for part in nodes_in(text) if isinstance(part, ast.Constant) and part.value is not None]
    first: ast.expr = text
    while isinstance(first, (ast.BinOp, ast.JoinedStr)):
        first = first.left if isinstance(first, ast.BinOp) else first.values[0]
    if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "format":
        first = first.func.value
    begin = (string_value(first) or "").partition("{")[0].partition("%")[0]
    is_composed = isinstance(text, (ast.BinOp, ast.JoinedStr)) or first is not text
    return begin, is_composed and any("(" in part for part in written)


def _is_used(file: PythonFile, node: ast.expr) -> bool:
    """Whether what is found is called, kept, returned or handed on, and not only read."""
    parent = file.parents.get(node)
    if isinstance(node, ast.Call) and last_name(node.func) in (*RUN_TEXTS, "Fire"):
        return True
    if isinstance(parent, ast.Call):
        return last_name(parent.func) not in _ONLY_READ
    if isinstance(parent, ast.Attribute):
        return not parent.attr.startswith("__")
    if isinstance(node, _COLLECTS) or isinstance(parent, (ast.For, ast.comprehension)):
        return True
    called = node.func.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) else None
    return isinstance(parent, _KEEPS) or (called is not None and last_name(called) == "methodcaller")


def _is_called(file: PythonFile, call: ast.Call) -> bool:
    """Whether the value of a call is called, there or by the variable that keeps it."""
    parent = file.parents.get(call)
    if isinstance(parent, ast.Call):
        return parent.func is call
    if not isinstance(parent, ast.Assign):
        return False
    names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
    attributes = {target.attr for target in parent.targets if isinstance(target, ast.Attribute)}
    uses: list[ast.expr] = [use for name in names for use in file.names.get(name, ())]
    uses += [use for name in attributes for use in file.attributes.get(name, ())]
    parents = ((use, file.parents.get(use)) for use in uses)
    return any(isinstance(parent, ast.Call) and parent.func is use for use, parent in parents)


def executes_files(file: PythonFile) -> bool:
    """Whether a file takes its constants from the command line, or from files that it executes."""
    return "globals()" in file.source.text or "exec(open(" in file.source.text


def executed_files(file: PythonFile) -> Iterator[str]:
    """Yield the files that a file executes by their written names: `exec(open("settings.py").read())`."""
    for callee in file.names.get("exec", ()):
        call = file.parents.get(callee)
        for part in nodes_in(call) if isinstance(call, ast.Call) and call.func is callee else ():
            path = string_value(part) if isinstance(part, ast.expr) else None
            if path is not None and path.endswith(".py"):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(file.path), path))
