"""What a module name that is computed may be: `f"models.{name}"`, an item of a table, the argument of a call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.programs.syntax.assignments import returns_of
from torchferry.programs.syntax.dynamic_lookups import hub_modules, local_hub_calls
from torchferry.programs.syntax.parameters import default_of
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.source.exports import dotted
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import argument, handed_imports, import_of
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.outline import Outline
from torchferry.source.project import Project
from torchferry.source.python import PythonFile

HOLE = "*"
"""Stands for the part of a name that cannot be told."""

ROOT = "/"
"""Stands before a name that is told from the project's root, as that of the file itself is."""

_MOST_STEPS = 20_000
"""Expressions that are read for one call."""

_MOST_PARSED = 2_000
"""Files that are parsed for the calls in them, all in all."""

_MOST = 400
"""Values that one name may have; further ones are a hole."""

_MOST_CALLS = 100
"""Calls of one function that are looked at for the value of a parameter."""

_DEPTH = 6
"""Variables and parameters that are followed to a value before giving up."""

_LISTS = re.compile(r"\b(?:listdir|scandir|glob|iglob|rglob|iterdir|iter_modules|walk_packages|walk)\(")
_SAME = frozenset({"strip", "str", "lower"})


class ComputedName(NamedTuple):
    """The modules that one call imports.

    Attributes:
        line: The line of the call.
        text: The call, shortened.
        names: What the module's name may be, with `HOLE` for what cannot be told.
        every: Whether all of them are imported, as in a loop, rather than one.
        indented: Whether the call is in a block, so that it may not be run when the file is.
        owner: The class that holds the call, or `__getattr__` of the module; empty for neither.
        exported_as: The name by which other files may take the function that imports, and call it; empty for a call.
        is_probe: Whether a function only checks whether the module is there: `try: import_module(name); return True`.
    """

    line: int
    text: str
    names: tuple[str, ...]
    every: bool
    indented: bool = True
    owner: str = ""
    is_probe: bool = False
    exported_as: str = ""


class Unfollowed(NamedTuple):
    """An import whose module is computed and cannot be told.

    Attributes:
        path: The file.
        line: The line.
        text: The call, shortened.
        reason: What is said of it; None for what is said of a computed name.
        of_others: Whether it surely imports nothing of the project, or only checks whether a module is there.
    """

    path: str
    line: int
    text: str
    reason: Message | None = None
    of_others: bool = False

    @property
    def message(self) -> Message:
        """What is said of it."""
        if self.reason is not None:
            return self.reason
        return say("imports a module by a name that could not be resolved: {text}", text=self.text)


_KEPT_AS = lazy_regex(
    r"\b(?:import_module|__import__)\s{1,9}as\s{1,9}(\w+)|\b(\w+) ?= ?[\w.]{0,60}?(?:import_module|__import__)\s"
)
"""Where a file gives a function that imports another name."""


def taking_imports(outlines: Iterable[Outline], text: Callable[[str], str]) -> set[str]:
    """Return the files that may take a function which imports from another file, under its own name there.

    `from importlib import import_module as load` in one file, and `from helpers import load` in others.

    Args:
        outlines: What the project's files import.
        text: Returns the text of one of them.
    """
    outlines = [*outlines]
    name_matches = (_KEPT_AS.finditer(text(outline.path)) for outline in outlines if outline.is_dynamic)
    todo = {match[1] or match[2] for matches in name_matches for match in matches}
    names: set[str] = set()
    takers: set[str] = set()
    while todo:
        names |= todo
        pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(todo)))})\b(?:\s{{1,9}}as\s{{1,9}}(\w+))?")
        todo = set()
        for outline in outlines:
            spoken = [*pattern.finditer(text(outline.path))] if outline.imports else []
            takers |= {outline.path} if spoken else set()
            todo |= {match[1] for match in spoken if match[1]} - names
    return takers


def _is_probe(file: PythonFile, call: ast.expr) -> bool:
    """Whether a function imports a module for nothing but the answer whether it is there.

    What loads plugins takes nothing of them either, and does not answer: they count by being imported.
    """
    function = file.enclosing_function(call)
    if not isinstance(function, FunctionNode) or not isinstance(file.parents.get(call), ast.Expr):
        return False
    answers = [each.value for each in returns_of(file, function)]
    is_answer = all(isinstance(each, ast.Constant) and each.value in (True, False, None) for each in answers)
    return bool(answers) and is_answer and bool(place_context(file, call).attempts)


def calls_importing(file: PythonFile, names: Names) -> Iterator[ast.expr]:
    """Yield the calls that import what a text names: a module, or an object together with its module."""
    yield from (imported.call for imported in names.import_calls())
    for name, functions in LOCATORS.items():
        for call in file.calls_by_name(name):
            if names.qualified(call.func) in functions:
                yield call


_BY_PATH = {"spec_from_file_location": "location", "SourceFileLoader": "path", "load_source": "pathname"}
"""Functions of importlib and imp that load a module from a file, and the argument, the second one, that is its path."""

COMPILED = (".so", ".pyd")
"""Endings of compiled modules."""

_PATHS = frozenset(
    {"os.path.abspath", "os.path.expanduser", "os.path.join", "os.path.normpath", "os.path.realpath", "pathlib.Path"}
)
"""What gives back a path that ends with its arguments."""


def calls_loading(file: PythonFile) -> Iterator[ast.Call]:
    """Yield the calls of a file that load a module by the path of its file."""
    for name in _BY_PATH:
        yield from file.calls_by_name(name)


_HYDRA = ("get_class", "get_method", "get_object", "get_static_method")
LOCATORS: dict[str, frozenset[str]] = {
    "locate": frozenset({"pydoc.locate"}),
    "resolve_name": frozenset({"pkgutil.resolve_name"}),
    **{name: frozenset({f"hydra.utils.{name}"}) for name in _HYDRA},
}
"""Functions that import the module of an object which is named with it: `locate("nets.unet.UNet")`."""


Parsed = Callable[[str], "tuple[PythonFile, Names] | None"]
"""Returns a file, parsed, or None when it cannot be read."""


class ComputedNames:
    """Reads the calls that import by a computed name.

    Args:
        project: The project's Python files.
        text: Returns the text of one of them.
        parsed: Returns a file or a notebook, parsed.
    """

    def __init__(self, project: Project, text: Callable[[str], str], parsed: Parsed) -> None:
        self._project = project
        self._parsed_file = parsed
        self._text = text
        self._steps = 0
        self._parsed = 0
        self._callers: dict[str, list[str]] = {}
        self._every: dict[tuple[ast.expr, int], bool] = {}
        self._passed: dict[tuple[str, str, int, tuple[str, ...]], tuple[str, ...]] = {}

    def of(self, path: str) -> Iterator[ComputedName]:
        """Yield what the calls of a file or a notebook import."""
        loaded = self._parsed_file(path)
        if loaded is None:
            return
        file, names = loaded
        for call in calls_importing(file, names):
            computed = self._of_call(file, names, call)
            if isinstance(call, ast.Call) and last_name(call.func) in LOCATORS:
                computed = computed._replace(names=tuple(self._module_of(name, path) for name in computed.names))
            yield computed
        for loading in calls_loading(file):
            yield self._of_loading(file, names, loading)
        for call in local_hub_calls(file, names):
            modules = [each for each in hub_modules(file, call) if self._project.module_path(each, path) is not None]
            if modules:
                modules_below = (modules[0].replace(".", ROOT, 1),)
                text = " ".join(file.text(call).split())[:80]
                yield ComputedName(
                    call.lineno, text, modules_below, every=False, indented=file.statement(call).col_offset > 0
                )

    def texts(self, file: PythonFile, names: Names, node: ast.expr) -> tuple[str, ...]:
        """Return the texts that an expression of a file may have, with `HOLE` in what cannot be told."""
        self._steps = 0
        return self._values(file, names, node, 0)

    def _module_of(self, name: str, path: str) -> str:
        """Return the module that an object is asked of: of `pkg.nets.Net`, the part that is a module of the project."""
        module = whole = name.replace(":", ".").strip(".")
        while module and HOLE not in module and self._project.module_path(module, path) is None:
            module = module.rpartition(".")[0]
        return module or whole

    def _of_call(self, file: PythonFile, names: Names, call: ast.expr) -> ComputedName:
        self._steps = 0
        arguments = call.args if isinstance(call, ast.Call) else []
        keywords = {each.arg: each.value for each in call.keywords} if isinstance(call, ast.Call) else {}
        imported = import_of(names, call) if isinstance(call, ast.Call) else handed_imports(names).get(call)
        name = imported.asked if imported is not None else arguments[0] if arguments else keywords.get("name")
        values = self._values(file, names, name, 0) if name is not None else (HOLE,)
        package = arguments[1] if len(arguments) > 1 else keywords.get("package")
        if package is not None and isinstance(call, ast.Call) and last_name(call.func) == "import_module":
            anchors = self._values(file, names, package, 0)
            values = tuple(
                _beside(anchor, value) if value.startswith(".") else value
                for value, anchor in product(values, anchors[:1])
            )
        every = name is not None and (isinstance(name, ast.Tuple) or self._is_every(file, names, name))
        indented = file.statement(call).col_offset > 0
        holder: ast.AST | None = file.enclosing_class(call)
        if holder is None:
            function = file.enclosing_function(call)
            holder = function if function is not None and function.name == "__getattr__" else None
        text = " ".join(file.text(call).split())[:80]
        owner, exported_as = getattr(holder, "name", ""), imported.exported_as if imported is not None else ""
        return ComputedName(call.lineno, text, values, every, indented, owner, _is_probe(file, call), exported_as)

    def _of_loading(self, file: PythonFile, names: Names, call: ast.Call) -> ComputedName:
        """Return the modules that a call loads by the path of their file, each told from the project's root."""
        self._steps = 0
        path = argument(call, 1, _BY_PATH[last_name(call.func)])
        modules: dict[str, None] = {}
        for value in self._values(file, names, path, 0) if path is not None else (HOLE,):
            ending = value.rpartition(HOLE)[2].lstrip("./")
            files = [each for each in self._project.paths if f"/{each}".endswith(f"/{ending}")] if ending else []
            if files:
                modules |= dict.fromkeys(f"{ROOT}{dotted(each.removesuffix('.py'))}" for each in sorted(files))
            elif HOLE in value or not value.endswith(COMPILED):  # a file that the project does not have
                modules[HOLE] = None
        text = " ".join(file.text(call).split())[:80]
        every = path is not None and self._is_every(file, names, path)
        return ComputedName(call.lineno, text, tuple(modules), every, indented=file.statement(call).col_offset > 0)

    def _values(self, file: PythonFile, names: Names, node: ast.expr, depth: int) -> tuple[str, ...]:
        """Return the texts that an expression may have."""
        self._steps += 1
        if depth > _DEPTH or self._steps > _MOST_STEPS:
            return (HOLE,)
        return _first(self._read(file, names, node, depth + 1))

    def _read(self, file: PythonFile, names: Names, node: ast.expr, depth: int) -> Iterator[str]:
        text = string_value(node)
        if text is not None:
            yield text
        elif isinstance(node, ast.JoinedStr):
            yield from self._joined(file, names, node.values, depth)
        elif isinstance(node, ast.FormattedValue):
            yield from self._values(file, names, node.value, depth)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from self._joined(file, names, [node.left, node.right], depth)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):  # of a path
            for before, after in product(*(self._values(file, names, each, depth) for each in (node.left, node.right))):
                yield f"{before}/{after}"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            for value in self._values(file, names, node.left, depth):
                yield re.sub(r"%\w", HOLE, value)
        elif isinstance(node, (ast.IfExp, ast.BoolOp)):
            for choice in node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse):
                yield from self._values(file, names, choice, depth)
        elif isinstance(node, ast.Subscript):
            yield from self._items(file, names, node.value, depth)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):  # what stands beside a function that imports each
            for element in node.elts:
                yield from self._values(file, names, element, depth)
        elif isinstance(node, ast.Name):
            yield from self._variable(file, names, node, depth)
        elif isinstance(node, ast.Call):
            yield from self._called(file, names, node, depth)
        else:
            yield HOLE

    def _joined(self, file: PythonFile, names: Names, parts: list[ast.expr], depth: int) -> Iterator[str]:
        for values in product(*(self._values(file, names, part, depth) for part in parts)):
            yield "".join(values)

    def _called(self, file: PythonFile, names: Names, node: ast.Call, depth: int) -> Iterator[str]:
        if names.qualified(node.func) in _PATHS and node.args:
            for parts in product(*(self._values(file, names, part, depth) for part in node.args)):
                yield "/".join(parts)
            return
        if isinstance(node.func, ast.Attribute):
            of = node.func.value
            if node.func.attr == "format":
                for value in self._values(file, names, of, depth):
                    yield re.sub(r"\{[^{}]*\}", HOLE, value)
                return
            if node.func.attr == "join" and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
                for between in self._values(file, names, of, depth):
                    for parts in product(*(self._values(file, names, part, depth) for part in node.args[0].elts)):
                        yield between.join(parts)
                return
            if node.func.attr == "get":
                yield from self._items(file, names, of, depth)
                return
            if node.func.attr in _SAME and not node.args:
                yield from self._values(file, names, of, depth)
                return
        elif last_name(node.func) in _SAME and node.args:
            yield from self._values(file, names, node.args[0], depth)
            return
        yield HOLE

    def _items(self, file: PythonFile, names: Names, node: ast.expr, depth: int) -> Iterator[str]:
        """Yield the texts of a table: the values of a dictionary, the items of a list."""
        parts = self._listed(names, file, node)
        if parts is None:
            yield HOLE
        else:
            for part in parts:
                yield from self._values(file, names, part, depth)

    def _listed(self, names: Names, file: PythonFile, node: ast.expr, depth: int = 0) -> list[ast.expr] | None:
        if isinstance(node, ast.Dict):
            return node.values
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return node.elts
        if isinstance(node, ast.Name) and depth < _DEPTH:
            bindings = names.bindings(node)
            value = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
            return self._listed(names, file, value, depth + 1) if value is not None else None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("values", "items")
        ):
            return self._listed(names, file, node.func.value, depth + 1)
        return None

    def _variable(self, file: PythonFile, names: Names, node: ast.Name, depth: int) -> Iterator[str]:
        if node.id in ("__name__", "__package__"):
            own = file.path.removesuffix(".py").removesuffix("/__init__")
            in_package = node.id == "__package__" and not file.path.endswith("/__init__.py")
            yield ROOT + dotted(own.rpartition("/")[0] if in_package else own)
            return
        bindings = names.reaching_bindings(node)
        if not bindings:
            yield HOLE
        for binding in bindings:
            if isinstance(binding, ast.arg):
                yield from self._given(file, names, binding, depth)
                continue
            value = assigned_value(file, binding)
            if value is not None and not (isinstance(value, (ast.Tuple, ast.List))):
                yield from self._values(file, names, value, depth)
                continue
            loop = _loop(file, binding)
            if loop is not None:
                yield from self._items(file, names, loop, depth)
            else:
                yield HOLE

    def _given(self, file: PythonFile, names: Names, argument: ast.arg, depth: int) -> Iterator[str]:
        """Yield what the calls of a function in the project give to a parameter, and its default."""
        arguments = file.parents.get(argument)
        function = file.parents.get(arguments) if arguments is not None else None
        if not isinstance(arguments, ast.arguments) or not isinstance(
            function, (ast.FunctionDef, ast.AsyncFunctionDef)
        ):
            yield HOLE
            return
        positions = [*arguments.posonlyargs, *arguments.args]
        bound = isinstance(file.parents.get(function), ast.ClassDef)
        index = positions.index(argument) - bound if argument in positions else -1
        default = default_of(arguments, argument)
        defaults = self._values(file, names, default, depth) if default is not None else ()
        key = (function.name, argument.arg, index, defaults)
        if key not in self._passed:
            self._passed[key] = (HOLE,)  # ends recursion
            self._passed[key] = _first(self._values_passed(*key, depth))
        yield from self._passed[key]

    def _values_passed(
        self, function: str, argument: str, index: int, defaults: tuple[str, ...], depth: int
    ) -> Iterator[str]:
        """Yield what the calls of a function, by its name, give to a parameter."""
        calls = 0
        for file, names, call in self._calls(function):
            calls += 1
            if calls > _MOST_CALLS:
                yield HOLE
                return
            given = next((keyword.value for keyword in call.keywords if keyword.arg == argument), None)
            if given is None and 0 <= index < len(call.args):
                given = call.args[index]
            yield from self._values(file, names, given, depth) if given is not None else defaults
        if not calls or self._parsed > _MOST_PARSED:
            yield HOLE

    def _calls(self, function: str) -> Iterator[tuple[PythonFile, Names, ast.Call]]:
        if function not in self._callers:
            self._callers[function] = list(self._calling(function))
        for path in self._callers[function]:
            self._parsed += 1
            loaded = self._project.file(path) if self._parsed <= _MOST_PARSED else None
            if loaded is None:
                continue
            file, names = loaded
            for callee in (*file.names.get(function, ()), *file.attributes.get(function, ())):
                call = file.parents.get(callee)
                if isinstance(call, ast.Call) and call.func is callee:
                    yield file, names, call

    def _calling(self, function: str) -> Iterator[str]:
        """Yield the files that may call a function, judged by their texts."""
        called = re.compile(rf"{function}(?<!\w{function})\(")
        for path in sorted(self._project.paths):
            text = self._text(path)
            if f"{function}(" in text and called.search(text) is not None:
                yield path

    def _is_every(self, file: PythonFile, names: Names, name: ast.expr, depth: int = 0) -> bool:
        """Whether a name goes through all of a list that is written down, or all files of a folder."""
        if (name, depth) not in self._every:  # the same variables are met on many ways
            self._every[name, depth] = self._goes_through(file, names, name, depth)
        return self._every[name, depth]

    def _goes_through(self, file: PythonFile, names: Names, name: ast.expr, depth: int) -> bool:
        for node in nodes_in(name):
            if not isinstance(node, ast.Name):
                continue
            for binding in names.reaching_bindings(node):
                loop = _loop(file, binding)
                if loop is not None and (
                    self._listed(names, file, loop) is not None or _LISTS.search(file.source.text)
                ):
                    return True
                value = assigned_value(file, binding)
                if value is not None and depth < _DEPTH and self._is_every(file, names, value, depth + 1):
                    return True
        return False


def _first(values: Iterator[str]) -> tuple[str, ...]:
    """Return the values that are followed, each once; with a hole where there are more, or none."""
    first = tuple(dict.fromkeys(islice(values, _MOST)))
    return first if first and next(values, None) is None else tuple(dict.fromkeys((*first, HOLE)))


def _loop(file: PythonFile, binding: ast.AST) -> ast.expr | None:
    """Return what a loop goes through where it binds a name, alone or as the last of several, or None."""
    parent = file.parents.get(binding)
    if isinstance(parent, ast.Tuple):
        if parent.elts[-1] is not binding:
            return None
        parent = file.parents.get(parent)
    return parent.iter if isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) else None


def _beside(package: str, name: str) -> str:
    """Return the module that a relative name means in a package."""
    rest = name.lstrip(".")
    up = len(name) - len(rest) - 1
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - up], rest])
