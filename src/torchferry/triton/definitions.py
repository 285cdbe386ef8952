"""What a kernel is made of, cut from the project's files: its own text, what it calls, and the constants it names.

Each file that has a part of it becomes a text of as many lines, empty but for that part, so that a line of the
compiler's message is a line of the user's file. Only what does no harm is cut: functions, which are defined and not
called, imports of Triton, and constants whose expressions call nothing of the project. What else a kernel needs is
said, with its place: it would have to be imported, which runs the project.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property

from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.triton.kernels import JIT
from torchferry.source.flow.syntax import callee
from torchferry.source.names import Names, assigned_value, bound_name
from torchferry.source.project import Project
from torchferry.source.python import PythonFile
from torchferry.triton.evaluating import Evaluator
from torchferry.triton.layout import laid_out

_HARMLESS_MODULES = frozenset({"__future__", "math", "operator", "typing"})
_HARMLESS_FUNCTIONS = frozenset(
    {"abs", "bool", "float", "getattr", "hasattr", "int", "len", "list", "max", "min", "range", "str", "tuple"}
)
_OF_TRITON = frozenset({"cdiv", "jit", "language", "next_power_of_2", "constexpr_function"})
"""What kernels name of Triton; its other modules lead to the system."""

_LANGUAGES = ("triton.language", "triton.experimental", "triton.tools")
_NEVER = frozenset(
    {"__import__", "breakpoint", "compile", "eval", "exec", "globals", "input", "locals", "open", "vars"}
)
_BUILT_IN = frozenset(dir(builtins))
_MOST_FILES = 200
_MOST_DEFINITIONS = 2_000


class ModuleText(NamedTuple):
    """A part of a file.

    Attributes:
        path: The file.
        text: As many lines as the file has, empty but for the part.
        names: Names that it has of other parts: the name, the place of that part among all, and what it is called
            there; empty for the whole module.
    """

    path: str
    text: str
    names: tuple[tuple[str, int, str], ...]


class KernelText(NamedTuple):
    """A kernel cut from a project.

    Attributes:
        path: Its file.
        name: Its name.
        line: Where it is defined.
        modules: The parts of files that it needs, each behind those that it needs itself; its own is the last.
        lacking: What it needs that cannot be cut; nothing is compiled then.
        assumed: Conditions of which the text does not tell the side, and that were taken as true.
        called: The kernels that it calls: path, name and line of each, as a name may have two definitions.
    """

    path: str
    name: str
    line: int
    modules: tuple[ModuleText, ...] = ()
    lacking: tuple[Message, ...] = ()
    assumed: tuple[str, ...] = ()
    called: tuple[tuple[str, str, int], ...] = ()


class _NeededPart:
    """What is needed of one file."""

    def __init__(self, file: PythonFile, names: Names) -> None:
        self.file = file
        self.names = names
        self.statements: dict[ast.stmt, set[ast.alias]] = {}
        self.bound: dict[str, tuple[str, str]] = {}

    @cached_property
    def path(self) -> str:
        """The file."""
        return self.file.path


class Cutter:
    """Cuts one kernel.

    Args:
        project: The project's files.
        path: The kernel's file.
        function: The kernel.
        target: The target, for which conditions may ask.
        supposed: What conditions are supposed to be of which the text does not tell it; None to suppose nothing: of two
            sides the second one is taken where the first one fails.
    """

    def __init__(
        self, project: Project, path: str, function: ast.FunctionDef, target: Target, supposed: bool | None = None
    ) -> None:
        self._project = project
        self._target = target
        self._supposed = supposed
        self._parts: dict[str, _NeededPart] = {}
        self._met: set[tuple[str, str]] = set()
        self._functions: set[ast.AST] = set()
        self._waiting: list[tuple[str, str]] = []
        self._lacking: dict[Message, None] = {}
        self._assumed: dict[str, None] = {}
        self._called: dict[tuple[str, str, int], None] = {}
        self._path, self._function = path, function

    def cut(self) -> KernelText:
        """Return the kernel with all that it needs."""
        path, name = self._path, self._function.name
        part = self._part(path)
        function = None if part is None else _same_function(part.file, self._function)
        if part is None or function is None:
            gone = say("its file cannot be read any more")
            return KernelText(path, name, self._function.lineno, lacking=(gone,))
        self._function = function
        if not _is_of_module(part.file, function):
            inside = say("it is defined inside of a function or class")
            return KernelText(path, name, function.lineno, lacking=(inside,))
        self._need_function(part, function)
        self._met.add((path, name))
        while self._waiting and not self._too_much():
            self._need(*self._waiting.pop())
        if self._too_much():
            self._lacking[say("it needs more definitions than are followed")] = None
        if self._lacking:
            return KernelText(path, name, function.lineno, lacking=tuple(self._lacking), called=tuple(self._called))
        order = self._order(path)
        if order is None:
            circle = say("its files import each other in a circle")
            return KernelText(path, name, function.lineno, lacking=(circle,), called=tuple(self._called))
        place = {each: number for number, each in enumerate(order)}
        modules = []
        for each in order:
            wanted = self._parts[each]
            text, assumed = laid_out(wanted.file, wanted.statements, self._is_true)
            self._assumed.update(dict.fromkeys(f"{each}:{line}: {condition}" for line, condition in assumed))
            bound = tuple((name, place[home], there) for name, (home, there) in wanted.bound.items())
            modules.append(ModuleText(each, text, bound))
        return KernelText(path, name, function.lineno, tuple(modules), (), tuple(self._assumed), tuple(self._called))

    def _too_much(self) -> bool:
        return len(self._parts) > _MOST_FILES or len(self._met) > _MOST_DEFINITIONS

    def _part(self, path: str) -> _NeededPart | None:
        if path not in self._parts:
            loaded = self._project.file(path)
            if loaded is None:
                return None
            self._parts[path] = _NeededPart(*loaded)
        return self._parts[path]

    def _is_true(self, path: str, test: ast.expr) -> bool | None:
        """Whether a condition of a module holds; of one that the text does not tell what is supposed."""
        known = Evaluator(self._project, self._target).truth(test, path)
        return self._supposed if known is None else known

    def _lack(self, path: str, node: ast.AST, message: Message) -> None:
        place = f"{path}:{getattr(node, 'lineno', 1)}"
        self._lacking[say("{reason} ({place})", reason=message, place=place)] = None

    # --- names ---

    def _need(self, path: str, name: str) -> None:
        """Add what a name of a module is bound to."""
        part = self._part(path)
        if part is None:
            return
        bindings = part.names.module_bindings(name)
        if not bindings:
            self._need_by_star(part, name)
            return
        for binding in bindings:
            if not self._is_reached(part, binding):
                continue
            if isinstance(binding, ast.alias):
                self._need_import(part, binding)
            elif isinstance(binding, ast.FunctionDef):
                self._need_function(part, binding)
            else:
                self._need_value(part, name, binding)

    def _is_reached(self, part: _NeededPart, binding: ast.AST) -> bool:
        """Whether a binding may be run: no condition around it is known to be false."""
        child: ast.AST = part.file.statement(binding)
        while not isinstance(child, ast.Module):
            parent = part.file.parents[child]
            if isinstance(parent, ast.If) and child is not parent.test:
                holds = self._is_true(part.path, parent.test)
                if holds is not None and holds is not (child in parent.body):
                    return False
            child = parent
        return True

    def _need_by_star(self, part: _NeededPart, name: str) -> None:
        for statement in part.file.tree.body:
            if not (isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"):
                continue
            module = part.names.imported_module(statement)
            home = home_of(self._project, module, part.path)
            if home is not None and self._defines(home, name):
                part.bound[name] = (home, name)
                self._want(home, name)
                return
            if module.startswith("triton"):
                part.statements.setdefault(statement, set()).add(statement.names[0])
                return
        if name not in _BUILT_IN:
            self._lack(part.path, self._function, say("`{name}` is defined nowhere in the file", name=name))

    def _defines(self, path: str, name: str) -> bool:
        loaded = self._project.file(path)
        return loaded is not None and bool(loaded[1].module_bindings(name))

    def _want(self, path: str, name: str) -> None:
        if (path, name) not in self._met:
            self._met.add((path, name))
            self._waiting.append((path, name))

    def _need_import(self, part: _NeededPart, alias: ast.alias) -> None:
        statement = part.file.statement(alias)
        bound = bound_name(alias)
        if isinstance(statement, ast.ImportFrom):
            module = part.names.imported_module(statement)
            inner = home_of(
                self._project, f"{module}.{alias.name}" if module.strip(".") else f"{module}{alias.name}", part.path
            )
            home = home_of(self._project, module, part.path)
            if home is not None and self._defines(home, alias.name):
                part.bound[bound] = (home, alias.name)
                self._want(home, alias.name)
                return
        else:
            module = alias.name
            home = home_of(self._project, module, part.path)
            inner = home if alias.asname or "." not in module else None
        if inner is not None:
            self._need_module(part, bound, inner)
            return
        top = module.partition(".")[0]
        if home is None and (top == "triton" or top in _HARMLESS_MODULES):
            part.statements.setdefault(statement, set()).add(alias)
            return
        self._lack(part.path, statement, say("`{name}` comes from `{module}`", name=bound, module=module))

    def _need_module(self, part: _NeededPart, bound: str, home: str) -> None:
        """Let a name represent a whole module of the project; what is used of it was added by its users."""
        if self._part(home) is not None and home != part.path:
            part.bound[bound] = (home, "")

    def _need_value(self, part: _NeededPart, name: str, binding: ast.AST) -> None:
        value = assigned_value(part.file, binding)
        statement = part.file.statement(binding)
        if value is None or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            self._lack(part.path, binding, say("`{name}` is no constant", name=name))
            return
        whole = statement.value or value
        trouble = self._trouble(part, whole)
        if trouble is not None:
            self._lack(part.path, statement, say("`{name}` needs `{code}` at import", name=name, code=trouble))
            return
        part.statements.setdefault(statement, set())
        own = {node.id for node in ast.walk(whole) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._need_names(part, [whole], own)

    def _trouble(self, part: _NeededPart, value: ast.expr) -> str | None:
        """Return what of an expression would run more than Triton and arithmetic."""
        for node in ast.walk(value):
            if isinstance(node, ast.Call):
                name = part.names.qualified(node.func) or (node.func.id if isinstance(node.func, ast.Name) else "")
                is_known = name in _HARMLESS_FUNCTIONS or name.startswith(("triton.", "math."))
                if not is_known or _leads_away(node, name):
                    return ast.unparse(node)[:80]
            elif isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.NamedExpr)) or (
                isinstance(node, ast.Attribute) and _is_outside(part, node)
            ):
                return ast.unparse(node)[:80]
        return None

    # --- functions ---

    def _need_function(self, part: _NeededPart, function: ast.FunctionDef) -> None:
        if function in self._functions:
            return
        self._functions.add(function)
        part.statements.setdefault(function, set())
        compilers = jit_decorators(part.names, function)
        is_own = function is self._function
        if not is_own and compilers:
            self._called[part.path, function.name, function.lineno] = None
        local = _local_names(function)
        for node in (inner for each in (*function.body, *compilers) for inner in ast.walk(each)):
            is_away = (
                (isinstance(node, ast.Attribute) and _is_outside(part, node))
                or (isinstance(node, ast.Name) and node.id not in local and _is_never(node.id))
                or (isinstance(node, ast.Call) and _leads_away(node, getattr(node.func, "id", "")))
            )
            if is_away:
                shown = ast.unparse(node)[:80]
                self._lack(part.path, node, say("`{name}` is not of Triton's language", name=shown))
                return
        defaults = [*function.args.defaults, *(each for each in function.args.kw_defaults if each is not None)]
        outside = [*compilers, *defaults]
        for default in outside:
            trouble = (
                None if default in compilers and not isinstance(default, ast.Call) else self._trouble(part, default)
            )
            if trouble is not None:
                self._lack(
                    part.path, default, say("`{name}` needs `{code}` at import", name=function.name, code=trouble)
                )
        self._need_names(part, outside, set())
        if compilers or is_own:  # a function of Python is refused by the compiler, whatever it holds
            self._need_names(part, function.body, local)

    def _need_names(self, part: _NeededPart, nodes: Iterable[ast.AST], local: set[str]) -> None:
        for node in (inner for each in nodes for inner in ast.walk(each)):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id in local:
                continue
            bindings = part.names.module_bindings(node.id)
            if not bindings and node.id in _BUILT_IN:
                continue
            self._want(part.path, node.id)
            self._need_attributes(part, node)

    def _need_attributes(self, part: _NeededPart, node: ast.Name) -> None:
        """Add what is used of a module of the project: `ops.exp` needs `exp` of `ops`."""
        for binding in part.names.module_bindings(node.id):
            attribute = part.file.parents.get(node)
            if not isinstance(binding, ast.alias) or not isinstance(attribute, ast.Attribute):
                continue
            statement = part.file.statement(binding)
            if isinstance(statement, ast.ImportFrom):
                module = part.names.imported_module(statement)
                name = f"{module}.{binding.name}" if module.strip(".") else f"{module}{binding.name}"
            else:
                name = binding.name
            home = home_of(self._project, name, part.path)
            if home is not None:
                self._want(home, attribute.attr)

    def _order(self, last: str) -> list[str] | None:
        """Return the files, each behind those that it has names of; None where they go round in a circle."""
        order: list[str] = []
        state: dict[str, bool] = {}
        waiting: list[tuple[str, bool]] = [(last, False)]
        while waiting:
            path, is_done = waiting.pop()
            if is_done:
                state[path] = True
                order.append(path)
                continue
            if path in state:
                if not state[path]:
                    return None
                continue
            state[path] = False
            waiting.append((path, True))
            homes = {home for home, _ in self._parts[path].bound.values()}
            for home in homes:
                if home in state and not state[home]:
                    return None
                if home not in state:
                    waiting.append((home, False))
        return order


def home_of(project: Project, module: str, importer: str) -> str | None:
    """Return the file of a project that a module name means; `triton` is Triton, whatever a package calls a part."""
    if module.partition(".")[0] == "triton":
        return None
    return project.module_path(module, importer)


def _same_function(file: PythonFile, function: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return a function as a file has it that may have been parsed again."""
    for each in file.functions:
        if isinstance(each, ast.FunctionDef) and (each.name, each.lineno) == (function.name, function.lineno):
            return each
    return None


def _is_of_module(file: PythonFile, function: ast.FunctionDef) -> bool:
    """Whether a function is in no other function and no class."""
    parent = file.parents[function]
    while not isinstance(parent, ast.Module):
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return False
        parent = file.parents[parent]
    return True


def jit_decorators(names: Names, function: ast.FunctionDef) -> list[ast.expr]:
    """Return the decorators that make a kernel of a function."""
    return [each for each in function.decorator_list if (names.qualified(callee(each)) or "") in JIT]


def _is_never(name: str) -> bool:
    """Whether a name of Python's own is none that a kernel may have."""
    return name in _NEVER or name.startswith("__")


def _is_outside(part: _NeededPart, node: ast.Attribute) -> bool:
    """Whether an attribute leads out of Triton's language, to modules of Python that its own modules import."""
    if node.attr.startswith("__"):
        return True
    qualified = part.names.qualified(node)
    if qualified is None or not qualified.startswith("triton."):
        return False
    parts = qualified.split(".")
    if parts[1] not in _OF_TRITON and not qualified.startswith(_LANGUAGES):
        return True
    return any(each in sys.stdlib_module_names and each not in ("math", "random") for each in parts[2:])


def _leads_away(call: ast.Call, name: str) -> bool:
    """Whether a call of `getattr` may lead out of Triton's language."""
    if name not in ("getattr", "hasattr"):
        return False
    attribute = call.args[1] if len(call.args) > 1 else None
    text = attribute.value if isinstance(attribute, ast.Constant) else None
    return not isinstance(text, str) or text.startswith("__") or (text in sys.stdlib_module_names and text != "math")


def _local_names(function: ast.FunctionDef) -> set[str]:
    return {*_bound_inside(function)}


def _bound_inside(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node is not function:
            yield node.name
        elif isinstance(node, ast.alias):
            yield bound_name(node)
