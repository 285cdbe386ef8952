"""Where a program ends since something is lacking, although its import is attempted: `assert HAVE_CUPY`.

Code that catches the failed import of a package does not go on without it when a handler, or a check further on, ends
the program. Such a place is met as any other: what must hold there is a question after what is lacking.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Location
from torchferry.core.record import NamedTuple
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import MissingFeature
from torchferry.programs.syntax.assignments import is_guarded, returns_of
from torchferry.programs.syntax.decorators import bound_in_project
from torchferry.programs.syntax.package_questions import module_asked_for
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.programs.verdicts.missing_features import MissingFeatures, is_lacking, raised_by
from torchferry.rules.guarded import ENDS, MISSING, asks_availability, catching, copes
from torchferry.rules.library.cuda_package import CudaPackage, advice
from torchferry.source.exports import absolute_module
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import import_of, taken_apart
from torchferry.source.names import Names, assigned_value, bound_name
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_MOST_PASSED_ON = 50
"""Functions that are followed where one ends the program by another."""

_FAILING = re.compile(r"\b(?:raise|assert|exit|_exit|quit|abort|error)\b|\bexcept\b")
_ASKING = re.compile(r"available|installed|find_spec|has_|have_|_import(?:_from)?\(", re.IGNORECASE)

_WORKS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.With, ast.Return)
"""Statements that do more than to tell of what is lacking."""


class PresenceCheck(NamedTuple):
    """A place where a program ends for lack of something.

    Attributes:
        feature: The missing feature, where the file asks for it.
        place: Where the program ends; of an assertion what it asserts.
        error: The exception that is raised there; empty where that is not known.
        is_assertion: Whether it ends there only where the expression does not hold.
    """

    feature: MissingFeature
    place: Location
    error: str
    is_assertion: bool = False


class _Attempts(NamedTuple):
    """The attempts of a file that fail on the target, by their place, and the names that depend on them."""

    features: dict[tuple[int, int], MissingFeature]
    names: frozenset[str]


class PresenceChecks:
    """Finds for all programs where files end them for lack of something.

    Args:
        sources: The project's files.
        modules: Their imports.
        features: The features that files need and the target lacks.
        target: Where the project is to run.
    """

    def __init__(self, sources: Sources, modules: Modules, features: MissingFeatures, target: Target) -> None:
        self._sources = sources
        self._modules = modules
        self._features = features
        self._target = target
        self._tried: dict[str, _Attempts] = {}
        self._named: set[str] = set()
        self._looked_in: set[str] = set()
        self._kept: dict[str, tuple[PresenceCheck, ...]] = {}
        self._lacking_names = _lacking_modules(target)

    def of(self, path: str) -> tuple[PresenceCheck, ...]:
        """Return where a file ends the program for lack of something that it, or another file, asks for."""
        if path not in self._kept:
            loaded = self._sources.file(path) if self._may_demand(path) else None
            self._kept[path] = tuple(self._within(*loaded)) if loaded is not None else ()
        return self._kept[path]

    def _may_demand(self, path: str) -> bool:
        text = self._sources.text(path)
        if not _FAILING.search(text):
            return False
        if _ASKING.search(text) and any(module in text for module in self._lacking_names):
            return True
        return any(name in text for name in self._names_tried(path))

    def _names_tried(self, path: str) -> set[str]:
        """Return the names that depend on failing attempts of a file or of what it reaches by imports, at least."""
        waiting = [path]
        while waiting:
            path = waiting.pop()
            if path in self._looked_in:
                continue
            self._looked_in.add(path)
            self._named |= self._attempts(path).names
            for imported in self._modules.imports.get(path, ()):
                other = self._modules.find(absolute_module(imported.module, path), path)
                if other is not None:
                    waiting.append(other)
        return self._named

    def _attempts(self, path: str) -> _Attempts:
        if path not in self._tried:
            self._tried[path] = _Attempts({}, frozenset())  # it is not asked again while its own lacks are looked for
            features = self._features.of(path)
            loaded = self._sources.file(path) if features else None
            if loaded is not None:
                self._tried[path] = self._attempts_in(loaded[0], features)
        return self._tried[path]

    def _attempts_in(self, file: PythonFile, features: list[MissingFeature]) -> _Attempts:
        tried: dict[tuple[int, int], MissingFeature] = {}
        names: set[str] = set()
        for feature in features:
            node = None if feature.place.cell else self._sources.node(feature.place)
            context = place_context(file, node).against(raised_by(feature, node)) if node is not None else None
            for attempt in context.attempts if context is not None else ():
                tried.setdefault((attempt.lineno, attempt.col_offset), feature)
                names.update(_names_bound(attempt))
                if context is not None and context.unit is not None:
                    names.add(context.unit.name)
        return _Attempts(tried, frozenset(names | _names_behind(file, names)))

    # --- where a file ends the program ---

    def _within(self, file: PythonFile, names: Names) -> Iterator[PresenceCheck]:
        for statement in nodes_in(file.tree):
            if isinstance(statement, ast.Assert):
                feature = self._decided_by(file, names, statement.test, wanted=False)
                if feature is not None and not self._is_handled_apart(file, statement):
                    yield _demand(file, feature, statement.test, "AssertionError", is_assertion=True)
                if not (isinstance(statement.test, ast.Constant) and not statement.test.value):
                    continue
            if isinstance(statement, (ast.Raise, ast.Assert, ast.Expr)) and _may_end(statement):
                feature = self._lack_behind(file, names, statement)
                error = self._error_of(file, names, statement, 0) if feature is not None else None
                if feature is not None and error is not None:
                    yield _demand(file, feature, statement, error)

    def _lack_behind(self, file: PythonFile, names: Names, statement: ast.stmt) -> MissingFeature | None:
        """Return what is lacking where a statement is run: a handler or a condition around it says so."""
        handled = self._handled(file, statement)
        if handled is not None and not handled[1]:
            return None
        context = place_context(file, statement)
        tests = context.tests
        if context.unit is not None and _is_all_of(file, statement, context.unit):
            tests = (*tests, *place_context(file, context.unit).tests)
        if any(self._is_otherwise(file, names, test, wanted=wanted) for test, wanted in tests):
            return None
        if handled is not None:
            handler, feature = handled
            speaks = any(last_name(each) == handler.name for test, _ in tests for each in nodes_in(test))
            return None if handler.name and speaks else feature
        for test, wanted in tests:
            feature = self._decided_by(file, names, test, wanted=wanted)
            if feature is not None:
                return None if _is_in_fallback(file, statement, test) else feature
        return None

    def _is_handled_apart(self, file: PythonFile, node: ast.AST) -> bool:
        """Whether a node is in the handler of an attempt that does not fail for what is lacking."""
        handled = self._handled(file, node)
        return handled is not None and handled[1] is None

    def _handled(self, file: PythonFile, node: ast.AST) -> tuple[ast.ExceptHandler, MissingFeature | None] | None:
        """Return the handler around a node and what its attempt lacks; None where there is no handler.

        A function that is defined in a handler and only raises represents what could not be imported.
        """
        parent = file.parents.get(node)
        while parent is not None:
            if isinstance(parent, FunctionNode) and not _is_all_of(file, node, parent):
                return None
            if isinstance(parent, ast.ExceptHandler):
                attempt = file.parents.get(parent)
                assert isinstance(attempt, ast.Try)
                feature = self._attempts(file.path).features.get((attempt.lineno, attempt.col_offset))
                is_the_one = feature is not None and parent in catching(attempt, MISSING)
                return parent, feature if is_the_one else None
            parent = file.parents.get(parent)
        return None

    def _error_of(self, file: PythonFile, names: Names, statement: ast.stmt, depth: int) -> str | None:
        """Return what a statement raises, empty where that is not known; None where it does not end the program."""
        if isinstance(statement, ast.Raise):
            raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
            name = last_name(raised) if raised is not None else MISSING
            if "skip" in name.lower():
                return None
            if isinstance(getattr(builtins, name, None), type):
                return name
            return None if _is_caught_here(file, statement, name) else ""
        if isinstance(statement, ast.Assert):
            return "AssertionError"
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return None
        if last_name(call.func) in ENDS:
            return "SystemExit"
        if isinstance(call.func, ast.Attribute) and call.func.attr == "error":
            return "SystemExit" if _is_parser(file, names, call.func.value) else None
        return "" if self._is_end(file, names, call, depth) else None

    def _is_end(self, file: PythonFile, names: Names, call: ast.Call, depth: int) -> bool:
        """Whether a call is one of a function of the project that always ends the program."""
        qualified = names.qualified(call.func)
        defined: tuple[PythonFile, Names, ast.AST] | None
        defined = self._sources.project.definition(qualified, file.path) if qualified is not None else None
        if defined is None:
            defined = bound_in_project(self._sources.project, file, names, call.func)
        function = defined[2] if defined is not None else None
        if defined is None or not isinstance(function, ast.FunctionDef) or depth > _MOST_PASSED_ON:
            return False
        other, other_names, _ = defined
        if any(isinstance(each, (ast.Return, ast.Yield)) for each in nodes_in(function)):
            return False
        return self._error_of(other, other_names, function.body[-1], depth + 1) is not None

    # --- what a condition asks for ---

    def _decided_by(self, file: PythonFile, names: Names, test: ast.expr, *, wanted: bool) -> MissingFeature | None:
        """Return what a condition asks for that is lacking and decides it; None where it asks for something else too.

        Args:
            file: The file.
            names: Its names.
            test: The condition.
            wanted: The value that it must have.
        """
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._decided_by(file, names, test.operand, wanted=not wanted)
        if isinstance(test, ast.BoolOp):
            if self._is_otherwise(file, names, test, wanted=wanted):
                return None
            parts = (self._decided_by(file, names, part, wanted=wanted) for part in test.values)
            return next((feature for feature in parts if feature is not None), None)
        for node in nodes_in(test):
            feature = self._asked(file, names, node)
            if feature is not None:
                return feature
        return None

    def _is_otherwise(self, file: PythonFile, names: Names, test: ast.expr, *, wanted: bool) -> bool:
        """Whether a condition depends on something whose import is attempted and that may be there.

        The arguments are those of `_decided_by`.
        """
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._is_otherwise(file, names, test.operand, wanted=not wanted)
        if isinstance(test, ast.BoolOp):
            parts = [self._is_otherwise(file, names, part, wanted=wanted) for part in test.values]
            return any(parts) if isinstance(test.op, ast.And) is wanted else all(parts)
        guarded = (each for node in nodes_in(test) for each in self._guarded(file, names, node))
        return any(self._attempted(*each) is None for each in guarded)

    def _asked(self, file: PythonFile, names: Names, node: ast.AST) -> MissingFeature | None:
        """Return what an expression asks for that is lacking: a name that depends on it, or a question after it."""
        features = (self._attempted(*each) for each in self._guarded(file, names, node))
        feature = next((feature for feature in features if feature is not None), None)
        if feature is not None:
            return feature
        if isinstance(node, ast.Name):
            feature = next(
                filter(None, (self._imported_beside(file, names, each) for each in names.bindings(node))), None
            )
            if feature is not None:
                return feature
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) and asks_availability(node):
            return self._lacking_package(file, node)
        return None

    def _guarded(self, file: PythonFile, names: Names, node: ast.AST) -> Iterator[tuple[PythonFile, ast.AST]]:
        """Yield what a name means, here or in another file, that an attempt binds, or a function gives back in one."""
        if isinstance(node, ast.Name):
            yield from self._guarded_by((file, names, binding) for binding in names.bindings(node))
        elif isinstance(node, ast.Attribute):
            yield from self._guarded_by(self._member(names.qualified(node) or "", file.path))

    def _guarded_by(
        self, bindings: Iterable[tuple[PythonFile, Names, ast.AST]]
    ) -> Iterator[tuple[PythonFile, ast.AST]]:
        """Yield those of some bindings, and of what they import, keep or return, that an attempt makes."""
        waiting = [*bindings]
        met: set[ast.AST] = set()
        while waiting:
            file, names, binding = waiting.pop(0)
            if binding in met:
                continue
            met.add(binding)
            if isinstance(binding, FunctionNode):
                returns = returns_of(file, binding)
                yield from ((file, each) for each in returns if is_guarded(file, each))
                values = [each.value for each in returns if not is_guarded(file, each)]
            elif is_guarded(file, binding):
                yield file, binding
                continue
            elif isinstance(binding, ast.alias):
                origin = names.binding_origin(binding) or ""
                waiting += self._member(origin, file.path)
                continue
            else:
                values = [assigned_value(file, binding)]
            for value in values:
                name = _name_kept(value)
                if name is not None:
                    waiting += ((file, names, each) for each in names.bindings(name))

    def _member(self, qualified: str, importer: str) -> list[tuple[PythonFile, Names, ast.AST]]:
        """Return what binds a name of a module of the project."""
        module, _, member = qualified.rpartition(".")
        path = self._sources.project.module_path(module, importer) if module.strip(".") else None
        loaded = self._sources.file(path) if path is not None else None
        return [(*loaded, binding) for binding in loaded[1].module_bindings(member)] if loaded is not None else []

    def _attempted(self, file: PythonFile, node: ast.AST) -> MissingFeature | None:
        """Return what the attempt around a node lacks."""
        tried = self._attempts(file.path).features
        parent = file.parents.get(node) if tried else None
        while parent is not None and not isinstance(parent, (*FunctionNode.__args__, ast.Lambda)):
            if isinstance(parent, ast.Try) and (parent.lineno, parent.col_offset) in tried:
                return tried[parent.lineno, parent.col_offset]
            parent = file.parents.get(parent)
        return None

    def _imported_beside(self, file: PythonFile, names: Names, binding: ast.AST) -> MissingFeature | None:
        """Return what a name says of that is lacking: `has_cupy` in `cupy, has_cupy = optional_import("cupy")`."""
        call = taken_apart(file, binding, 1)
        if call is None or "import" not in last_name(call.func):
            return None
        imported = import_of(names, call)
        module = imported.module if imported is not None else string_value(call.args[0]) if call.args else None
        return self._lacking(file, call, module or "")

    def _lacking_package(
        self, file: PythonFile, question: ast.Name | ast.Attribute | ast.Call
    ) -> MissingFeature | None:
        """Return the package that a question asks for, where the target lacks it."""
        return self._lacking(file, question, module_asked_for(question))

    def _lacking(self, file: PythonFile, question: ast.expr, module: str) -> MissingFeature | None:
        """Return the package of a module that a question asks for, where the target lacks it."""
        known_package = self._target.package_of_module(module) if module else None
        if known_package is None or not is_lacking(*known_package):
            return None
        package, row = known_package
        place = file.location(*file.span(question))
        return MissingFeature(package.name, CudaPackage.CODE, place, advice(self._target.title, package.name, row))


def _demand(
    file: PythonFile, feature: MissingFeature, node: ast.AST, error: str, *, is_assertion: bool = False
) -> PresenceCheck:
    return PresenceCheck(feature, file.location(*file.span(node)), error, is_assertion)


def _lacking_modules(target: Target) -> frozenset[str]:
    """Return the last parts of the names of the modules that a target lacks."""
    modules = (module for package in cuda.packages().values() for module in package.modules)
    packages = ((module, target.package_of_module(module)) for module in modules)
    return frozenset(
        module.rpartition(".")[2] for module, entry in packages if entry is not None and is_lacking(*entry)
    )


def _is_in_fallback(file: PythonFile, statement: ast.stmt, test: ast.expr) -> bool:
    """Whether a statement checks something else in the code that stands in for what is lacking.

    Such code does something beside the check, and what ends the program is under a further condition.
    """
    holder = file.parents.get(test)
    child: ast.AST = statement
    parent = file.parents.get(child)
    while parent is not None and parent is not holder:
        child, parent = parent, file.parents.get(parent)
    if child is statement or not isinstance(holder, ast.If):
        return False
    other_branch = holder.body if child in holder.body else holder.orelse
    return any(each is not child and isinstance(each, _WORKS) for each in other_branch)


def _names_bound(attempt: ast.Try) -> Iterator[str]:
    """Yield the names that an attempt and its handlers bind."""
    for node in nodes_in(attempt):
        if isinstance(node, ast.alias):
            yield bound_name(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _names_behind(file: PythonFile, names: set[str]) -> set[str]:
    """Return the variables that keep one of some names, or what a function of such a name returns, and so on."""
    names_of: dict[str, set[str]] = {}
    for function in file.functions if names else ():
        for each in returns_of(file, function):
            if (name := _name_kept(each.value)) is not None:
                names_of.setdefault(name.id, set()).add(function.name)
    for node in nodes_in(file.tree) if names else ():
        if isinstance(node, ast.Assign) and (name := _name_kept(node.value)) is not None:
            names_of.setdefault(name.id, set()).update(map(last_name, node.targets))
    waiting = [*names]
    bound: set[str] = set()
    while waiting:
        further = names_of.pop(waiting.pop(), set()) - {""}
        bound |= further
        waiting += further
    return bound


def _name_kept(value: ast.expr | None) -> ast.Name | None:
    """Return the variable that a value is, or the function whose answer it is; what arguments decide is no answer."""
    name = value.func if isinstance(value, ast.Call) and not value.args and not value.keywords else value
    return name if isinstance(name, ast.Name) else None


def _is_all_of(file: PythonFile, node: ast.AST, function: FunctionNode) -> bool:
    """Whether a statement is what a function does, which is called by its name or makes an object.

    Python calls other methods by itself, and nobody knows when: these are left out.
    """
    if file.parents.get(node) is not function:
        return False
    if isinstance(file.parents.get(function), ast.ClassDef) and function.name != "__init__":
        return False
    return not any(isinstance(each, (ast.Return, ast.Yield)) for each in nodes_in(function))


def _is_caught_here(file: PythonFile, statement: ast.stmt, error: str) -> bool:
    """Whether an exception of the project's own is caught around the statement that raises it, and the code goes on.

    `if not is_cupy_available(): raise NotThere()`, and `except NotThere:` has what stands in for it.
    """
    child: ast.AST = statement
    parent = file.parents.get(child)
    while parent is not None and not isinstance(parent, FunctionNode):
        if isinstance(parent, ast.Try) and child in parent.body and copes(parent, error):
            return True
        child, parent = parent, file.parents.get(parent)
    return False


def _may_end(statement: ast.Raise | ast.Assert | ast.Expr) -> bool:
    """Whether a statement may end the program, judged by itself."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if call is None:
        return True
    return isinstance(call, ast.Call) and isinstance(call.func, (ast.Name, ast.Attribute))


def _is_parser(file: PythonFile, names: Names, node: ast.expr) -> bool:
    """Whether an expression is a parser of options, whose `error` ends the program."""
    bindings = names.bindings(node) if isinstance(node, ast.Name) else []
    values = (assigned_value(file, binding) for binding in bindings)
    is_made = any(isinstance(value, ast.Call) and last_name(value.func).endswith("Parser") for value in values)
    return is_made or "parser" in last_name(node).lower()
