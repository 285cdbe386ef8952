"""Calls that import: at once, when what they give back is used first, or only where the module is there.

`importlib.import_module("nets")` does what the statement does. `lazy_loader.load("nets")` and
`LazyLoader("nets", globals(), "nets")` give back what imports the module when it is asked for something;
`optional_import("nets")` gives back what it found, and whether it found it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol
from weakref import WeakKeyDictionary

from torchferry.core.record import NamedTuple
from torchferry.source.python import PythonFile


class MeaningOfNames(Protocol):
    """What names mean in a file."""

    file: PythonFile

    def qualified(self, node: ast.AST) -> str | None:
        """Return the canonical name of a dotted expression."""

    def bindings(self, name: ast.Name) -> list[ast.AST]:
        """Return the nodes that bind a variable."""

    def binding_origin(self, binding: ast.AST) -> str | None:
        """Return the canonical name that one binding gives its name, or None."""

    def bound_by_stars(self, package: str) -> Sequence[ast.alias]:
        """Return the aliases by which star imports bind names of a package that the file uses."""

    def by_modules(self) -> tuple[Sequence[NameReference], int]:
        """Return what is said through modules of the project that import something, and the steps of the search."""


class NameReference(Protocol):
    """A use of a name of a module."""

    @property
    def name(self) -> str:
        """The canonical name."""

    @property
    def node(self) -> ast.AST:
        """Where it is used."""


class ImportTime(Enum):
    """When a call imports, and what it gives back."""

    AT_ONCE = "at once"
    LAZILY = "lazily"
    """It gives back what imports the module when something of it is requested."""

    AS_PAIR = "as a pair"
    """It gives back the module, or what fails when it is used; and whether the module is there."""


class ImportCall(NamedTuple):
    """A call that imports.

    Attributes:
        call: The call; where the function is only spoken of, and nobody can tell who calls it, that place.
        asked: The expression that names the module; a tuple of them where the function is handed on together with the
            names, as to `map`; None where it is given none.
        how: When it imports, and what it gives back.
        member: What it takes from the module, where that is written down; empty for the module itself.
        exported_as: The name by which other files may take the function from this one, and call it; empty elsewhere.
    """

    call: ast.expr
    asked: ast.expr | None
    how: ImportTime = ImportTime.AT_ONCE
    member: str = ""
    exported_as: str = ""

    @property
    def module(self) -> str:
        """The module with what is taken from it, where both are written down; empty for a relative one and for none.

        `__import__("a.b")` returns `a`.
        """
        asked, call = self.asked, self.call
        name = asked.value if isinstance(asked, ast.Constant) and isinstance(asked.value, str) else ""
        if not isinstance(call, ast.Call):
            return ""
        called = _last_name(call.func)
        if name.startswith(".") or (called == "import_module" and len(call.args) != 1):
            return ""
        if called == "__import__":
            is_inner = len(call.args) > 3 or any(each.arg == "fromlist" for each in call.keywords)
            return name if is_inner else name.partition(".")[0]
        return f"{name}.{self.member}" if name and self.member else name


class _Function(NamedTuple):
    """A function of a library that imports.

    Attributes:
        how: When it imports, and what it gives back.
        position: The argument that names the module.
        keyword: The name of that argument.
        member_position: The argument that names what is taken from the module; -1 where it is by its name alone.
        member: The name of that argument; empty where the module itself is given back.
        at_once: The argument with which it fails at once where the module is not there.
    """

    how: ImportTime
    position: int
    keyword: str
    member_position: int = -1
    member: str = ""
    at_once: str = ""


_MONAI = _Function(ImportTime.AS_PAIR, 0, "module", 3, "name")
_SAFELY = _Function(ImportTime.AS_PAIR, 0, "module")
_SAFELY_FROM = _Function(ImportTime.AS_PAIR, 0, "module", 1, "symbol")
_FUNCTIONS: dict[str, _Function] = {
    "lazy_loader.load": _Function(ImportTime.LAZILY, 0, "fullname", at_once="error_on_import"),
    "lazy_import.lazy_module": _Function(ImportTime.LAZILY, 0, "modname"),
    "lightning_utilities.core.imports.lazy_import": _Function(ImportTime.LAZILY, 0, "module_name"),
    "monai.utils.optional_import": _MONAI,
    "monai.utils.module.optional_import": _MONAI,
    "nemo.utils.import_utils.safe_import": _SAFELY,
    "nemo.utils.import_utils.safe_import_from": _SAFELY_FROM,
    "nemo_automodel.shared.import_utils.safe_import": _SAFELY,
    "nemo_automodel.shared.import_utils.safe_import_from": _SAFELY_FROM,
}
"""Functions of libraries that import what they are given the name of."""

_LOADER = _Function(ImportTime.LAZILY, 2, "name")
"""`LazyLoader("nets", globals(), "nets")` of TensorFlow, which many projects have copied: the class tells itself by the
namespace that it is given."""

_PLAIN = frozenset({"import_module", "__import__"})
_BY_SPEC = "module_from_spec"
_LAST_NAMES = (*sorted({name.rpartition(".")[2] for name in _FUNCTIONS}), "LazyLoader", _BY_SPEC)
IMPORTING_NAMES = _PLAIN.union(_LAST_NAMES)
"""The last names of functions that may import what they are given the name of."""


def import_calls(file: PythonFile) -> Iterator[ast.Call]:
    """Yield the calls of a file that import what a text names, as Python's own functions do."""
    yield from file.calls_by_name("import_module")
    yield from file.calls_by_name("__import__")


def import_of(names: MeaningOfNames, call: ast.Call) -> ImportCall | None:
    """Return what a call imports; None for a call that does something else."""
    called = _last_name(call.func)
    if called not in IMPORTING_NAMES:
        return handed_imports(names).get(call)
    if called in _PLAIN:
        return ImportCall(call, argument(call, 0, "name"))
    if called == _BY_SPEC:
        asked = _of_spec(names, call.args[0]) if len(call.args) == 1 else None
        return ImportCall(call, asked) if asked is not None else None
    if called == "LazyLoader":
        return _of_function(call, _LOADER) if _is_given_globals(call) else None
    function = _FUNCTIONS.get(names.qualified(call.func) or "")
    return _of_function(call, function) if function is not None else handed_imports(names).get(call)


def all_import_calls(names: MeaningOfNames) -> Iterator[ImportCall]:
    """Yield the calls of a file that import what a text names, also those of functions that libraries have."""
    file = names.file
    further = (call for name in _LAST_NAMES for call in file.calls_by_name(name))
    for call in (*import_calls(file), *further):
        imported = import_of(names, call)
        if imported is not None:
            yield imported
    yield from handed_imports(names).values()


_HANDED: WeakKeyDictionary[MeaningOfNames, Mapping[ast.expr, ImportCall]] = WeakKeyDictionary()


def handed_imports(names: MeaningOfNames) -> Mapping[ast.expr, ImportCall]:
    """Return where `import_module` or `__import__` is called by another name, handed on, or kept, by the place.

    `load = importlib.import_module; load("nets")`, `map(import_module, names)`, `TABLE = {"load": import_module}`;
    also where another file of the project gives it the name, `from helpers import load`.
    """
    if names not in _HANDED:
        _HANDED[names] = {}  # ends recursion through the names of modules that calls import
        text = names.file.source.text
        taken = [*dict.fromkeys(_under_other_names(names))]
        is_spoken_of = bool(taken) or any(name in text for name in _PLAIN)
        _HANDED[names] = {each.call: each for each in _handed_on(names.file, taken)} if is_spoken_of else {}
    return _HANDED[names]


def _under_other_names(names: MeaningOfNames) -> Iterator[ast.expr]:
    """Yield where a function of Python that imports is spoken of by a name that an import statement gives it."""
    file = names.file
    own = (alias for statement in file.imports for alias in statement.names)
    for alias in (*own, *names.bound_by_stars("importlib")):
        bound = alias.asname or alias.name
        if bound not in _PLAIN and bound in file.names and names.binding_origin(alias) in _OF_PYTHON:
            yield from _said(file, bound)
    for reference in names.by_modules()[0]:
        node = reference.node
        if reference.name in _OF_PYTHON and isinstance(node, ast.Attribute) and node.attr not in _PLAIN:
            yield node


_OF_PYTHON = frozenset({"importlib.import_module", "importlib.__import__", "builtins.__import__"})


def _handed_on(file: PythonFile, taken: list[ast.expr]) -> Iterator[ImportCall]:
    functions: list[ast.expr] = [each for name in _PLAIN for each in _said(file, name)]
    functions += [each for name in _PLAIN for each in file.attributes.get(name, ())]
    functions += taken
    for call in file.calls_by_name("getattr"):
        if any(isinstance(each, ast.Constant) and each.value in _PLAIN for each in call.args[1:2]):
            functions.append(call)
    for function in functions:  # those that stand for them are added while it runs
        parent = file.parents[function]
        called = file.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(called, ast.Call) and called.func is function:
            if _last_name(function) not in _PLAIN:
                yield ImportCall(called, argument(called, 0, "name"))
        elif isinstance(called, ast.Call):
            given = (*called.args, *(keyword.value for keyword in called.keywords))
            arguments = [each for each in given if each is not function]
            if arguments and _last_name(called.func) not in _ASKING:
                yield ImportCall(called, ast.copy_location(ast.Tuple(arguments, ast.Load()), called))
            elif not arguments:
                yield ImportCall(function, None)
        elif isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and parent.value is function:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    functions += [each for each in _said(file, target.id) if each not in functions]
                scope = file.scope(target) if isinstance(target, ast.Name) else None
                if isinstance(target, ast.Name) and scope is file.tree:
                    yield ImportCall(function, None, exported_as=target.id)
                elif scope is None or isinstance(scope, ast.ClassDef):
                    yield ImportCall(function, None)
        elif not isinstance(parent, (ast.Attribute, ast.Compare, ast.Expr)):
            yield ImportCall(function, None)


_ASKING = frozenset({"callable", "getattr", "hasattr", "isinstance", "signature", "wraps"})
"""Functions that ask something of a function, and do not call it."""


def _said(file: PythonFile, name: str) -> Iterator[ast.Name]:
    """Yield where a name is read."""
    return (each for each in file.names.get(name, ()) if isinstance(each.ctx, ast.Load))


def module_named_by(names: MeaningOfNames, node: ast.AST) -> str:
    """Return the module that an expression is by a name which is written down; empty for a relative one and for none.

    `import_module("nets")`, `sys.modules["nets"]`, `sys.modules.get("nets")`, `optional_import("nets")[0]`.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return _loaded(names, node.func.value, node.args[0])
    if isinstance(node, ast.Call):
        imported = import_of(names, node)
        return imported.module if imported is not None and imported.how is not ImportTime.AS_PAIR else ""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return ""
    if node.slice.value == 0:
        return _first_of_pair(names, node.value)
    return _loaded(names, node.value, node.slice)


def may_take_from_loaded(file: PythonFile) -> bool:
    """Whether a file speaks of `sys.modules`, under whatever name; a method `modules` alone is another thing."""
    if "sys" not in file.source.text:
        return False
    aliases = (alias for statement in file.imports for alias in statement.names)
    return "modules" in file.attributes or any(alias.name == "modules" for alias in aliases)


def taken_from_loaded(names: MeaningOfNames, references: Iterable[NameReference]) -> Iterator[ast.expr]:
    """Yield where a module may be taken out of `sys.modules`, the table of those that are loaded.

    Args:
        names: What names mean in the file.
        references: The uses of the module `sys`.
    """
    for reference in references:
        node, parent = reference.node, names.file.parents.get(reference.node)
        if isinstance(parent, ast.Subscript) and parent.value is node and reference.name == "sys.modules":
            yield parent
        if isinstance(parent, ast.Call) and parent.func is node and reference.name == "sys.modules.get":
            yield parent


def _loaded(names: MeaningOfNames, table: ast.expr, key: ast.expr) -> str:
    """Return the module that is taken out of a table by a name that is written down; empty of any other table."""
    name = key.value if isinstance(key, ast.Constant) and names.qualified(table) == "sys.modules" else None
    return name if isinstance(name, str) and not name.startswith(".") else ""


def module_in_pair(names: MeaningOfNames, binding: ast.AST) -> str:
    """Return the module that a name is bound to as the first of a pair: `cupy, has_cupy = optional_import("cupy")`."""
    value = taken_apart(names.file, binding)
    return _first_of_pair(names, value) if value is not None else ""


def taken_apart(file: PythonFile, binding: ast.AST, position: int = 0) -> ast.Call | None:
    """Return the call of which an assignment gives a name one part: `f()` for `first` in `first, second = f()`."""
    parent = file.parents.get(binding)
    if not isinstance(parent, (ast.Tuple, ast.List)) or parent.elts.index(binding) != position:  # type: ignore[arg-type]
        return None
    statement = file.parents.get(parent)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return value if isinstance(value, ast.Call) else None


def _first_of_pair(names: MeaningOfNames, value: ast.expr) -> str:
    imported = import_of(names, value) if isinstance(value, ast.Call) else None
    return imported.module if imported is not None and imported.how is ImportTime.AS_PAIR else ""


def _of_function(call: ast.Call, function: _Function) -> ImportCall:
    member = argument(call, function.member_position, function.member) if function.member else None
    taken = member.value if isinstance(member, ast.Constant) and isinstance(member.value, str) else ""
    fails = argument(call, -1, function.at_once) if function.at_once else None
    is_at_once = isinstance(fails, ast.Constant) and bool(fails.value)
    how = ImportTime.AT_ONCE if is_at_once else function.how
    return ImportCall(call, argument(call, function.position, function.keyword), how, taken)


def _of_spec(names: MeaningOfNames, spec: ast.expr) -> ast.expr | None:
    """Return the name of which `find_spec` has looked a module up: `spec = find_spec("nets")`; None for another one."""
    if isinstance(spec, ast.Name):
        bindings = names.bindings(spec)
        statement = names.file.parents.get(bindings[0]) if len(bindings) == 1 else None
        is_assigned = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
        spec = statement.value if is_assigned and statement.value is not None else spec  # type: ignore[union-attr]
    if not isinstance(spec, ast.Call) or _last_name(spec.func) != "find_spec":
        return None
    return argument(spec, 0, "name")


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """Return what a call is given for a parameter; nothing of what is unpacked into it."""
    for each in call.keywords:
        if each.arg == keyword:
            return each.value
    given = call.args[position] if 0 <= position < len(call.args) else None
    return None if any(isinstance(each, ast.Starred) for each in call.args[: position + 1]) else given


def _is_given_globals(call: ast.Call) -> bool:
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(isinstance(each, ast.Call) and _last_name(each.func) == "globals" for each in given)


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
