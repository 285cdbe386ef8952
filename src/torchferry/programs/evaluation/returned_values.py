"""What functions of a project give back to a call, also those that try an import: `def has(name): ...`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Protocol

from torchferry.programs.evaluation.members import Members
from torchferry.programs.evaluation.object_kinds import ClassObject, ModuleObject, Object
from torchferry.programs.evaluation.objects import Objects
from torchferry.programs.evaluation.program_facts import ProgramFacts, agreed
from torchferry.programs.options.answers import UNKNOWN_VALUE, DefaultValue, Truth, alike
from torchferry.programs.options.switches import UNDETERMINED
from torchferry.programs.syntax.assignments import IMPORTS, in_handler_of, is_guarded, loops_around, returns_of, yields
from torchferry.programs.syntax.decorators import changes_result
from torchferry.programs.syntax.parameters import Expression, given_itself
from torchferry.programs.syntax.per_file import per_file
from torchferry.programs.syntax.place_context import FunctionNode, place_context
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import ImportTime, import_of, taken_apart
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_MOST_RETURNS = 6
"""Places by which a method is left; one that has more computes."""

_MOST_METHODS = 4
"""Objects that a method may be asked of; where there are more, nobody can tell what it gives back."""


class ValueLookup(Protocol):
    """What the look-up of values answers for those that functions give back."""

    def value(self, where: Expression, depth: int) -> DefaultValue:
        """Return the value of an expression."""

    def text(self, where: Expression, depth: int) -> str | None:
        """Return a text that an expression is."""

    def is_present(self, module: str) -> bool | None:
        """Return whether the target has a module; None where nobody knows."""


class ReturnedValues:
    """Tells what calls give back, for one program.

    Args:
        facts: The facts of the program.
        objects: Resolves expressions to objects.
        members: Tells which places the program comes to.
        values: Tells the values of expressions.
    """

    def __init__(self, facts: ProgramFacts, objects: Objects, members: Members, values: ValueLookup) -> None:
        self._facts = facts
        self._sources = facts.sources
        self._objects = objects
        self._members = members
        self._values = values

    def second(self, where: Expression, binding: ast.AST, depth: int) -> DefaultValue:
        """Return the value of a name that is bound to the second part of what a call returns.

        Of what gives back what it imports as a pair, that says whether it is there.
        """
        call = taken_apart(where.file, binding, 1)
        if call is None:
            return UNKNOWN_VALUE
        imported = import_of(where.names, call)
        if imported is None or imported.how is not ImportTime.AS_PAIR:
            return self.of(where.part(call), call, depth, part=1)
        module = self._values.text(where.part(imported.asked), depth) if imported.asked is not None else None
        present = self._values.is_present(module) if module is not None else None
        return UNKNOWN_VALUE if present is None else DefaultValue(present, guard=not present)

    def of(self, where: Expression, node: ast.Call, depth: int, part: int | None = None) -> DefaultValue:
        """Return what a function of the project returns for a call, where it can be told.

        Args:
            where: Where the call stands.
            node: The call.
            depth: How many expressions were followed already.
            part: Which part of what it returns is asked for; None for all of it.
        """
        bindings = where.names.bindings(node.func) if isinstance(node.func, ast.Name) else []
        if any(isinstance(each, ast.FunctionDef) for each in bindings):
            meant = self._meant(where.part(node.func), bindings, depth)
            return UNKNOWN_VALUE if meant is None else self._of_defined(where, node, meant, depth, part)
        qualified = where.names.qualified(node.func)
        defined = self._sources.project.definition(qualified, where.file.path) if qualified is not None else None
        if defined is None and isinstance(node.func, ast.Attribute):
            return self._of_method(where, node, node.func.value, node.func.attr, depth, part)
        if defined is None and isinstance(node.func, (ast.Name, ast.Call)):
            return self._of_method(where, node, node.func, "__call__", depth, part)
        if defined is None or not isinstance(defined[2], ast.FunctionDef):
            return UNKNOWN_VALUE
        file, names, function = defined
        meant = self._meant(Expression(file, names, node), names.module_bindings(function.name), depth)
        return UNKNOWN_VALUE if meant is None else self._of_defined(where, node, meant, depth, part)

    def _of_defined(
        self,
        where: Expression,
        node: ast.Call,
        defined: tuple[PythonFile, Names, ast.FunctionDef],
        depth: int,
        part: int | None,
    ) -> DefaultValue:
        function = defined[2]
        inside = Expression(*defined[:2], node)
        inside = inside._replace(given=self._objects.arguments(where, node, inside, function))
        return self._of_function(inside, node, function, depth, part)

    def _meant(
        self, of: Expression, bindings: list[ast.AST], depth: int
    ) -> tuple[PythonFile, Names, ast.FunctionDef] | None:
        """Return the function that a name means; None where it may be bound to something else when it is called.

        Args:
            of: Where the name is bound.
            bindings: What binds it there.
            depth: How many expressions were followed already.
        """
        file, names = of.file, of.names
        latest = sorted(bindings, key=lambda each: getattr(each, "lineno", 0), reverse=True)
        scope = file.scope(latest[0])
        chosen: ast.AST | None = None
        for binding in latest if len(latest) > 1 else ():
            # what `global` binds in a function is bound when that is called
            truth = self._is_bound(of, binding, depth) if file.scope(binding) is scope else Truth.UNKNOWN
            if truth is Truth.UNKNOWN:
                return None
            if truth is Truth.YES:
                chosen = binding
                break
        chosen = latest[0] if len(latest) == 1 else chosen
        if not isinstance(chosen, ast.FunctionDef):
            return None
        is_replaced = scope is file.tree and self._members.may_replace(ModuleObject(file.path), chosen.name)
        return None if is_replaced else (file, names, chosen)

    def _is_bound(self, of: Expression, binding: ast.AST, depth: int) -> Truth:
        """Return whether a statement that binds a name is run; in a `try`, where its imports are known to fail."""
        context = place_context(of.file, of.file.statement(binding))
        if context.suppressed or len(context.attempts) > 1 or (context.fallback and context.attempts):
            return Truth.UNKNOWN
        for attempt in (*context.attempts, *([context.fallback] if context.fallback else [])):
            imports = (
                each
                for each in nodes_in(ast.Module(attempt.body, []))
                if isinstance(each, (ast.Import, ast.ImportFrom))
            )
            if not any(self._values.is_present(name) is False for each in imports for name in _modules_of(each)):
                return Truth.UNKNOWN
            if context.attempts:
                return Truth.NO
        plain = context._replace(attempts=(), fallback=None)
        return self._members.runs(of, plain, depth + 1).truth

    def _of_method(
        self, where: Expression, node: ast.Call, of: ast.expr, name: str, depth: int, part: int | None
    ) -> DefaultValue:
        """Return what the method of a name gives back, where all objects that it may be asked of agree."""
        itself = where.part(of)
        if isinstance(of, ast.Call) and last_name(of.func) == "super" and not of.args:
            around_it = where.file.enclosing_class(node)
            function = where.file.enclosing_function(node)
            if around_it is None or not isinstance(function, FunctionNode) or not function.args.args:
                return UNKNOWN_VALUE
            itself = where.part(ast.copy_location(ast.Name(function.args.args[0].arg, ast.Load()), of))
            asked_of: Iterable[Object] = self._objects.bases(ClassObject(where.file, where.names, around_it))
        else:
            asked_of = self._objects.of(itself, depth) or ()
        values: list[DefaultValue] = []
        for each in asked_of:
            method = self._objects.method(each, name) if isinstance(each, ClassObject) else None
            if method is None or not isinstance(each, ClassObject) or len(values) == _MOST_METHODS:
                return UNKNOWN_VALUE
            if self._is_bound_again(method) or self._members.may_replace(each, name):
                return UNKNOWN_VALUE
            if name == "__call__" and each.maker is None:
                return UNKNOWN_VALUE  # a call of the class makes an object
            inside, function = method
            if not isinstance(function, ast.FunctionDef) or not _gives_plain(inside.file, function):
                return UNKNOWN_VALUE
            given = {
                **self._objects.arguments(where, node, inside, function),
                **given_itself(method, each.maker if each.maker is not None else itself),
            }
            values.append(self._of_function(inside._replace(given=given), node, function, depth, part))
        return alike(values) if values else UNKNOWN_VALUE

    @staticmethod
    def _is_bound_again(method: tuple[Expression, FunctionNode]) -> bool:
        """Whether the body of a class binds the name of a method more than once."""
        inside, function = method
        owner = inside.file.parents.get(function)
        return owner is not None and len(inside.names.bound_in(function.name, owner)) > 1

    def _of_function(
        self, inside: Expression, node: ast.Call, function: ast.FunctionDef, depth: int, part: int | None
    ) -> DefaultValue:
        """Return what a function gives back; `inside` has what it is given."""
        other = inside.file
        if yields(other, function) or changes_result(self._sources.project, other, inside.names, function):
            return UNKNOWN_VALUE
        returns = returns_of(other, function)
        guarded = [each for each in returns if is_guarded(other, each)]
        if guarded:
            return self._attempted(inside, function, guarded, depth, part)
        if part is not None:
            return UNKNOWN_VALUE
        returned = self._first_returned(inside, returns, depth)
        return self._asked_by_name(node, function) if returned.value is UNDETERMINED and node.args else returned

    def _first_returned(self, inside: Expression, returns: list[ast.Return], depth: int) -> DefaultValue:
        """Return what the first `return` gives back that a function comes to."""
        option, guard = "", False
        for each in sorted(returns, key=lambda each: each.lineno):
            answer = self._members.runs(inside, place_context(inside.file, each), depth + 1)
            if answer.truth is Truth.UNKNOWN or (loops_around(inside.file, each) and answer.truth is Truth.YES):
                return UNKNOWN_VALUE
            option, guard = option or answer.option, guard or answer.guard
            if answer.truth is Truth.YES:
                value = (
                    DefaultValue(None) if each.value is None else self._values.value(inside.part(each.value), depth + 1)
                )
                return value if value.value is UNDETERMINED else value._replace(
                    option=value.option or option, guard=value.guard or guard
                )  # fmt: skip
        return UNKNOWN_VALUE

    def _attempted(
        self, inside: Expression, function: ast.FunctionDef, guarded: list[ast.Return], depth: int, part: int | None
    ) -> DefaultValue:
        """Return what a function gives back that tries an import: what its handler says where that fails."""
        handled = next((_part(each.value, part) for each in guarded if in_handler_of(inside.file, each)), None)
        failed = DefaultValue(handled.value if isinstance(handled, ast.Constant) else None, guard=True)
        nodes = [each for statement in function.body for each in nodes_in(statement)]
        present = self._is_present([inside.part(each) for each in nodes if isinstance(each, ast.Call)], depth)
        if present is None:
            plain = [each for each in nodes if isinstance(each, (ast.Import, ast.ImportFrom))]
            modules = [name for each in plain for name in _modules_of(each)]
            if not modules or not all(map(self._values.is_present, modules)):
                return failed if plain else UNKNOWN_VALUE
        tried = next((_part(each.value, part) for each in guarded if not in_handler_of(inside.file, each)), None)
        if present is False:
            return failed
        if tried is None:
            return UNKNOWN_VALUE
        return DefaultValue(True) if isinstance(tried, ast.Call) else self._values.value(inside.part(tried), depth + 1)

    def _asked_by_name(self, call: ast.Call, function: ast.FunctionDef) -> DefaultValue:
        """Return the option that a function asks for by the name which it is given: `is_set("fast")`."""
        key = string_value(call.args[0]) if len(call.args) == 1 else None
        if key is None or len(function.args.args) != 1:
            return UNKNOWN_VALUE
        asks = any(
            isinstance(inner, ast.Call)
            and last_name(inner.func) in ("getattr", "hasattr")
            and isinstance(inner.args[1] if len(inner.args) > 1 else None, ast.Name)
            and last_name(inner.args[1]) == function.args.args[0].arg
            for statement in function.body
            for inner in nodes_in(statement)
        )
        return (agreed(self._facts.options(key), self._facts) or UNKNOWN_VALUE) if asks else UNKNOWN_VALUE

    def imported(self, values: Iterable[Expression], depth: int) -> DefaultValue | None:
        """Return what an import by a computed name is that may fail; None where no such import is among some values."""
        calls = [each for each in values if isinstance(each.node, ast.Call) and last_name(each.node.func) in IMPORTS]
        if not calls:
            return None
        present = self._is_present(calls, depth)
        return None if present is False else DefaultValue(True) if present else UNKNOWN_VALUE

    def _is_present(self, calls: Iterable[Expression], depth: int) -> bool | None:
        """Return whether the target has what calls import by computed names; None where nobody knows."""
        asked = [
            each.part(each.node.args[0])
            for each in calls
            if isinstance(each.node, ast.Call) and last_name(each.node.func) in IMPORTS and each.node.args
        ]
        module = self._values.text(asked[0], depth) if len(asked) == 1 else None
        return None if module is None else self._values.is_present(module)


_PLAIN = (
    ast.Constant, ast.Name, ast.Attribute, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.Subscript, ast.Tuple,
)  # fmt: skip
"""What a method gives back that answers a question, and does not compute."""


@per_file
def _gives_plain(file: PythonFile, function: ast.FunctionDef) -> bool:
    """Whether a method answers a question: what it gives back can be read off, or is asked of another such method."""
    values = [each.value for each in returns_of(file, function)]
    return 0 < len(values) <= _MOST_RETURNS and all(
        value is None or isinstance(value, _PLAIN) or _asks(value) for value in values
    )


def _asks(value: ast.expr) -> bool:
    """Whether a call asks the base of a class, the object itself, or one of Python's functions for an answer."""
    if not isinstance(value, ast.Call):
        return False
    of = value.func.value if isinstance(value.func, ast.Attribute) else value.func
    return last_name(of) in ("self", "super", "bool", "int", "len", "any", "all")


def _part(value: ast.expr | None, part: int | None) -> ast.expr | None:
    """Return one part of what a statement returns, or all of it."""
    if part is None:
        return value
    return value.elts[part] if isinstance(value, ast.Tuple) and part < len(value.elts) else None


def _modules_of(statement: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [] if statement.level else [statement.module or ""]
