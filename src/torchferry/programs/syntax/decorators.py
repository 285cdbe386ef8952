"""What a project's own decorators do: keep a function, as `@register("fast")` for `NETS["fast"]()`, or give it more."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.dispatch_tables import lists_keys
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import callee, last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

_ADDS = frozenset({"append", "add", "insert", "appendleft"})
_READS_ALL = frozenset({"values", "items", "copy"})
_READS_NOTHING = frozenset({"keys", "append", "add", "clear", "update", "insert", "remove", "discard", "appendleft"})

_CHANGES_KEYS = lazy_regex(r"\.(?:lower|upper|replace|sub)\(")
"""Names in a class that keeps things under other keys than it is given."""


class Registration(NamedTuple):
    """Where a decorator keeps what it decorates.

    Attributes:
        file: The file of the variable that holds it.
        container: A binding of that variable; None where something else keeps it, such as an object.
        key: The key under which it is kept; None for a list, or where the key cannot be told.
    """

    file: PythonFile
    container: ast.Name | None = None
    key: str | None = None


class Lookup(NamedTuple):
    """Where a container is asked for what it holds.

    Attributes:
        node: The place.
        asked: The key that is asked for; None where all that it holds is taken, or nobody can tell.
        takes_all: Whether all of it is taken, as in a loop.
    """

    node: ast.expr
    asked: ast.expr | None
    takes_all: bool = False


def registrations(
    project: Project, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef
) -> Iterator[Registration]:
    """Yield where the decorators of a function or class keep it."""
    for decorator, defined in definitions(project, file, names, unit):
        yield from _kept_by(*defined, decorator, unit)
    for decorator in unit.decorator_list:
        registration = _kept_by_object(project, file, names, decorator, unit)
        if registration is not None:
            yield registration


def _kept_by_object(
    project: Project, file: PythonFile, names: Names, decorator: ast.expr, unit: FunctionNode | ast.ClassDef
) -> Registration | None:
    """Return which object keeps a function or class, `@NETS.register()`; None for that of a package, or for none."""
    called = callee(decorator)
    if not isinstance(called, ast.Attribute) or "regist" not in called.attr.lower():
        return None
    bound = bound_in_project(project, file, names, called.value)
    if bound is None:
        return None
    of, of_names, binding = bound
    if not isinstance(binding, ast.Name) or of.scope(binding) is not of.tree:
        return Registration(of) if isinstance(binding, ast.ClassDef) else None
    value = assigned_value(of, binding)
    defined = bound_in_project(project, of, of_names, value.func) if isinstance(value, ast.Call) else None
    text = defined[0].text(defined[2]) if defined is not None and isinstance(defined[2], ast.ClassDef) else ""
    return Registration(of, binding, None if _CHANGES_KEYS.search(text) else _given_key(decorator) or unit.name)


def bound_in_project(
    project: Project, file: PythonFile, names: Names, value: ast.expr
) -> tuple[PythonFile, Names, ast.AST] | None:
    """Return what binds a name, in the file of the project where it is bound; None where that is none or several."""
    bindings = names.bindings(value) if isinstance(value, ast.Name) else []
    binding = bindings[0] if len(bindings) == 1 else None
    if binding is not None and not isinstance(binding, ast.alias):
        return file, names, binding
    origin = names.qualified(value)
    met: set[tuple[str, str]] = set()
    while origin is not None:
        module, _, member = origin.rpartition(".")
        path = project.module_path(module, file.path) if module.strip(".") else None
        loaded = project.file(path) if path is not None else None
        if path is None or loaded is None or (path, member) in met:
            return None
        met.add((path, member))
        file, names = loaded
        bindings = names.module_bindings(member)
        binding = bindings[0] if len(bindings) == 1 else None
        if binding is None or not isinstance(binding, ast.alias):
            return None if binding is None else (file, names, binding)
        origin = names.binding_origin(binding)
    return None


def _given_key(decorator: ast.expr) -> str | None:
    """Return the key that a decorator says: `@NETS.register("fast")`, `@NETS.register_module(name="fast")`."""
    if not isinstance(decorator, ast.Call):
        return None
    given = [keyword.value for keyword in decorator.keywords if keyword.arg in ("name", "key")]
    return next((text for each in (*given, *decorator.args) for text in [string_value(each)] if text), None)


def changes_arguments(project: Project, file: PythonFile, names: Names, unit: FunctionNode) -> bool:
    """Whether a decorator of the project calls a function with other arguments than it is called with itself."""
    return any(_gives_others(function) for _, (_, _, function) in definitions(project, file, names, unit))


def has_own_decorator(project: Project, file: PythonFile, names: Names, unit: ast.ClassDef) -> bool:
    """Whether a decorator of a class is a function or an object of the project, which may keep the class."""
    decorators = map(callee, unit.decorator_list)
    owners = (each.value if isinstance(each, ast.Attribute) else each for each in decorators)
    return any(bound_in_project(project, file, names, owner) is not None for owner in owners)


def _gives_others(function: ast.FunctionDef) -> bool:
    parts = nodes_in(function)
    functions = [part for part in parts if isinstance(part, ast.FunctionDef)]
    decorated = {argument.arg for each in functions for argument in each.args.args}
    stars = {star.arg for each in functions for star in (each.args.vararg, each.args.kwarg) if star is not None}
    for node in parts:
        if isinstance(node, ast.Call) and _is_one_of(node.func, decorated):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            unpacked = (part.value if isinstance(part, ast.Starred) else part for part in given)
            if not all(isinstance(part, ast.Name) and part.id in stars | decorated for part in unpacked):
                return True
        stored = node.value if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None
        if isinstance(node, ast.Attribute) and node.attr in ("update", "setdefault"):
            stored = node.value
        if stored is not None and _is_one_of(stored, stars):
            return True
    return False


def changes_result(project: Project, file: PythonFile, names: Names, unit: FunctionNode) -> bool:
    """Whether a decorator of the project may give back something else than a function, or call it otherwise."""
    return any(
        _gives_others(function) or _gives_back_others(function)
        for _, (_, _, function) in definitions(project, file, names, unit)
    )


def _gives_back_others(function: ast.FunctionDef) -> bool:
    """Whether the context of a decorated function gives back anything but it, or what it gave back."""
    parts = nodes_in(function)
    functions = [part for part in parts if isinstance(part, ast.FunctionDef)]
    decorated = {argument.arg for each in functions for argument in each.args.args}
    results = {
        target.id
        for part in parts
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call) and _is_one_of(part.value.func, decorated)
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    same = results | decorated | {each.name for each in functions}
    returns = (part.value for part in parts if isinstance(part, ast.Return))
    return not all(isinstance(value, (ast.Name, ast.Call)) and _is_one_of(callee(value), same) for value in returns)


def definitions(
    project: Project, file: PythonFile, names: Names, unit: FunctionNode | ast.ClassDef
) -> Iterator[tuple[ast.expr, tuple[PythonFile, Names, ast.FunctionDef]]]:
    """Yield the decorators of a function or class that are functions of the project, each with its definition."""
    for decorator in unit.decorator_list:
        called = callee(decorator)
        bindings = names.bindings(called) if isinstance(called, ast.Name) else []
        own = [each for each in bindings if isinstance(each, ast.FunctionDef)]
        if len(own) == 1:
            yield decorator, (file, names, own[0])
            continue
        qualified = names.qualified(called)
        defined: tuple[PythonFile, Names, ast.AST] | None
        defined = project.definition(qualified, file.path) if qualified is not None else None
        if defined is None:
            defined = bound_in_project(project, file, names, called)
        if defined is not None and isinstance(defined[2], ast.FunctionDef):
            yield decorator, (defined[0], defined[1], defined[2])


def kept_by(
    file: PythonFile, names: Names, function: ast.AST, call: ast.expr, unit: FunctionNode | ast.ClassDef
) -> list[Registration]:
    """Return where a function of the project keeps a function or class that a call hands to it.

    Args:
        file: The file of the function.
        names: Its names.
        function: The function; anything else keeps nothing.
        call: The call.
        unit: What is handed on.
    """
    return [*_kept_by(file, names, function, call, unit)] if isinstance(function, ast.FunctionDef) else []


def _kept_by(
    file: PythonFile, names: Names, function: ast.FunctionDef, decorator: ast.expr, unit: FunctionNode | ast.ClassDef
) -> Iterator[Registration]:
    """Yield where a decorator function keeps what it is given."""
    functions = [function, *(part for part in nodes_in(function) if isinstance(part, ast.FunctionDef))]
    parameters = {argument.arg for each in functions for argument in each.args.args}
    for node in nodes_in(function):
        if isinstance(node, ast.Assign) and _is_one_of(node.value, parameters):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    key = _key(target.slice, function, decorator, unit)
                    yield Registration(file, _module_variable(file, names, target.value), key)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS:
            if any(_is_one_of(argument, parameters) for argument in node.args):
                yield Registration(file, _module_variable(file, names, node.func.value))


def _is_one_of(value: ast.expr, names: set[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in names


def _module_variable(file: PythonFile, names: Names, container: ast.expr) -> ast.Name | None:
    """Return the binding of a variable of a module; None for anything else."""
    bindings = names.bindings(container) if isinstance(container, ast.Name) else []
    own = [each for each in bindings if isinstance(each, ast.Name) and file.scope(each) is file.tree]
    return own[0] if own and len(own) == len(bindings) else None


def _key(
    key: ast.expr, function: ast.FunctionDef, decorator: ast.expr, unit: FunctionNode | ast.ClassDef
) -> str | None:
    """Return the key under which a decorator keeps what it decorates, as far as it is written down."""
    if isinstance(key, ast.Attribute) and key.attr in ("__name__", "__qualname__"):
        return unit.name
    if isinstance(key, ast.Name) and isinstance(decorator, ast.Call):
        names = [argument.arg for argument in function.args.args]
        given = {keyword.arg: keyword.value for keyword in decorator.keywords}
        given |= dict(zip(names, decorator.args, strict=False))
        key = given.get(key.id, key)
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _kind_in(settings: ast.expr) -> ast.expr | None:
    """Return what settings say is to be built: `dict(type="fast")`, or the name itself; None for what is not told."""
    if isinstance(settings, ast.Dict):
        pairs = zip(settings.keys, settings.values, strict=True)
        return next((value for key, value in pairs if string_value(key) in ("type", "name")), None)
    if isinstance(settings, ast.Call) and last_name(settings.func) == "dict":
        return next((keyword.value for keyword in settings.keywords if keyword.arg in ("type", "name")), None)
    return settings if isinstance(settings, ast.Constant) else None


def lookup(file: PythonFile, use: ast.Name | ast.Attribute, *, is_keyed: bool) -> Lookup | None:
    """Return how a use of a container asks for what it holds; None where it does not.

    Args:
        file: The file of the use.
        use: Where the container is named.
        is_keyed: Whether the container holds it by a key, so that a loop goes over the keys.
    """
    parent = file.parents.get(use)
    if isinstance(parent, ast.Subscript) and parent.value is use:
        return Lookup(parent, parent.slice) if isinstance(parent.ctx, ast.Load) else None
    if isinstance(parent, ast.Attribute):
        call = file.parents.get(parent)
        if isinstance(call, ast.Subscript) and call.value is parent and isinstance(call.ctx, ast.Load):
            return Lookup(call, call.slice)  # `NETS.kept[name]`
        if isinstance(call, ast.Attribute) and call.attr in ("get", "pop", "items", "values"):
            return Lookup(use, None)
        if parent.attr in _READS_NOTHING or "regist" in parent.attr.lower() or not isinstance(call, ast.Call):
            return None
        if (parent.attr == "pop" or parent.attr.startswith("get")) and call.args:
            return Lookup(call, call.args[0])
        if parent.attr.startswith(("build", "create", "make")) and call.args:
            return Lookup(call, _kind_in(call.args[0]))
        return Lookup(call, None, parent.attr in _READS_ALL)
    if is_keyed and lists_keys(file, use):
        return None
    if isinstance(parent, (ast.For, ast.comprehension)):
        return Lookup(use, None, takes_all=True)
    if isinstance(parent, ast.Call) and last_name(parent.func) in ("len", "print", "isinstance"):
        return None
    return Lookup(use, None)
