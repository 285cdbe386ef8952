"""What an expression of a project comes to, told from its text: nothing of the project is run.

Enough of Python is known for how people write the configurations of an autotuner: numbers, texts, lists and
dictionaries, comprehensions, conditions, and functions that put a list together.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torchferry.backends.target import Target
from torchferry.core.record import NamedTuple
from torchferry.rules.target_words import names_target
from torchferry.source.names import assigned_value
from torchferry.source.project import Project

_MOST_STEPS = 400_000
_MOST_ITEMS = 100_000
_LARGEST = 1 << 64
_DEEPEST = 60

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.Pow: operator.pow,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip
_UNARY: Mapping[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs, "all": all, "any": any, "bool": bool, "dict": dict, "float": float, "int": int, "len": len,
    "list": list, "max": max, "min": min, "range": range, "set": set, "sorted": sorted, "sum": sum, "tuple": tuple,
    "zip": zip, "enumerate": enumerate, "itertools.product": itertools.product,
    "math.log2": math.log2, "math.ceil": math.ceil,
    "math.floor": math.floor, "math.sqrt": math.sqrt,
    "triton.cdiv": lambda x, y: -(-x // y),
    "triton.next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
}  # fmt: skip
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset({"lower", "upper", "strip", "startswith", "endswith"}),
    dict: frozenset({"get", "keys", "values", "items", "copy", "update"}),
    list: frozenset({"append", "extend", "copy", "index", "count"}),
}
_CONFIG = "triton.Config"
_ENVIRONMENT = ("os.environ.get", "os.getenv", "os.environ")
_NUMBERS = (int, float, bool)


class NotToldError(Exception):
    """The text does not tell what an expression comes to; the message is the part of it."""


class Configuration(NamedTuple):
    """A configuration of an autotuner.

    Attributes:
        constants: Arguments of the kernel.
        options: Options of the launch, such as `num_warps`.
    """

    constants: tuple[tuple[str, Any], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


class _ReturnedError(Exception):
    """Ends a function that is followed."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Evaluator:
    """Tells what expressions come to.

    Args:
        project: The project's files.
        target: The target: `is_npu_available()` holds there. None where nothing is to be told of it.

    Attributes:
        choices: Conditions that the text does not tell, and of which both sides were taken.
    """

    def __init__(self, project: Project, target: Target | None = None) -> None:
        self.choices: list[str] = []
        self._project = project
        self._target = target
        self._steps = 0
        self._depth = 0

    def value(self, node: ast.expr, path: str, variables: Mapping[str, Any] | None = None) -> Any:
        """Return what an expression comes to.

        Args:
            node: The expression.
            path: The file that it stands in.
            variables: What variables are known to be, before those of the module.

        Raises:
            NotToldError: the text does not tell.
        """
        self._depth += 1
        try:
            return _checked(self._value(node, path, dict(variables or {})))
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise NotToldError(f"{ast.unparse(node)[:80]}: {type(error).__name__}") from None
        finally:
            self._depth -= 1

    def truth(self, test: ast.expr, path: str, variables: Mapping[str, Any] | None = None) -> bool | None:
        """Return whether a condition holds on the target; None where the text does not tell."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand, path, variables)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            parts = [self.truth(each, path, variables) for each in test.values]
            decides = isinstance(test.op, ast.Or)
            return decides if decides in parts else None if None in parts else not decides
        if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
            return False
        try:
            return bool(self.value(test, path, variables))
        except NotToldError:
            return self._of_target(test)

    def _of_target(self, test: ast.expr) -> bool | None:
        """Return whether a condition that tests for the target by its name holds."""
        if self._target is None:
            return None
        if isinstance(test, ast.Compare):
            sides = [test.left, *test.comparators]
            words = [str(each.value) for each in sides if isinstance(each, ast.Constant)]
            is_asked = len(sides) == 2 and len(words) == 1 and words[0].casefold() in self._target.words
            return (
                isinstance(test.ops[0], ast.Eq) if is_asked and isinstance(test.ops[0], (ast.Eq, ast.NotEq)) else None
            )
        is_question = isinstance(test, (ast.Call, ast.Name, ast.Attribute))
        return True if is_question and names_target(self._target, ast.unparse(test)) else None

    def _value(self, node: ast.expr, path: str, variables: dict[str, Any]) -> Any:
        self._steps += 1
        if self._steps > _MOST_STEPS or self._depth > _DEEPEST:
            raise NotToldError("more than is followed")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._variable(node, path, variables)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            items = [*self._items(node.elts, path, variables)]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict):
            return self._dictionary(node, path, variables)
        if isinstance(node, ast.BinOp):
            return self._combined(node, path, variables)
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](self.value(node.operand, path, variables))
        if isinstance(node, ast.BoolOp):
            return self._all_or_any(node, path, variables)
        if isinstance(node, ast.Compare):
            return self._compared(node, path, variables)
        if isinstance(node, ast.IfExp):
            return self._chosen(node, path, variables)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return [self.value(node.elt, path, each) for each in self._turns(node.generators, path, variables)]
        if isinstance(node, ast.DictComp):
            turns = self._turns(node.generators, path, variables)
            return {self.value(node.key, path, each): self.value(node.value, path, each) for each in turns}
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            return self.value(node.value, path, variables)[self.value(node.slice, path, variables)]
        if isinstance(node, ast.Call):
            return self._called(node, path, variables)
        raise NotToldError(ast.unparse(node)[:80])

    def _variable(self, node: ast.Name, path: str, variables: dict[str, Any]) -> Any:
        if node.id in variables:
            return variables[node.id]
        home, value = self.module_value(node.id, path)
        return self.value(value, home)

    def module_value(self, name: str, path: str, depth: int = 8) -> tuple[str, ast.expr]:
        """Return the file and the expression that a name of a module is given.

        Raises:
            NotToldError: it is given none, or several.
        """
        loaded = self._project.file(path)
        bindings = loaded[1].module_bindings(name) if loaded is not None else []
        if loaded is None or len(bindings) != 1 or not depth:
            raise NotToldError(name)
        file, names = loaded
        binding = bindings[0]
        if isinstance(binding, ast.alias):
            statement = file.statement(binding)
            if isinstance(statement, ast.ImportFrom):
                home = self._project.module_path(names.imported_module(statement), path)
                if home is not None and home != path:
                    return self.module_value(binding.name, home, depth - 1)
            raise NotToldError(name)
        value = assigned_value(file, binding)
        if value is None:
            raise NotToldError(name)
        return path, value

    def _items(self, nodes: list[ast.expr], path: str, variables: dict[str, Any]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.value(node.value, path, variables)
            else:
                yield self.value(node, path, variables)

    def _dictionary(self, node: ast.Dict, path: str, variables: dict[str, Any]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.value(value, path, variables))
            else:
                result[self.value(key, path, variables)] = self.value(value, path, variables)
        return result

    def _combined(self, node: ast.BinOp, path: str, variables: dict[str, Any]) -> Any:
        left, right = self.value(node.left, path, variables), self.value(node.right, path, variables)
        is_growing = isinstance(node.op, (ast.Pow, ast.LShift))
        if is_growing and not (isinstance(right, _NUMBERS) and abs(right) <= 64 and isinstance(left, _NUMBERS)):
            raise NotToldError(ast.unparse(node)[:80])
        if isinstance(node.op, ast.Mult) and not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
            count = left if isinstance(left, int) else right
            if not isinstance(count, int) or count > _MOST_ITEMS:
                raise NotToldError(ast.unparse(node)[:80])
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            raise NotToldError(ast.unparse(node)[:80])
        return _OPERATORS[type(node.op)](left, right)

    def _all_or_any(self, node: ast.BoolOp, path: str, variables: dict[str, Any]) -> Any:
        is_all = isinstance(node.op, ast.And)
        value: Any = is_all
        for each in node.values:
            value = self.value(each, path, variables)
            if bool(value) is not is_all:
                break
        return value

    def _compared(self, node: ast.Compare, path: str, variables: dict[str, Any]) -> bool:
        left = self.value(node.left, path, variables)
        for sign, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, path, variables)
            if isinstance(sign, (ast.In, ast.NotIn)):
                holds = (left in right) is isinstance(sign, ast.In)
            else:
                holds = bool(_OPERATORS[type(sign)](left, right))
            if not holds:
                return False
            left = right
        return True

    def _chosen(self, node: ast.IfExp, path: str, variables: dict[str, Any]) -> Any:
        test = self.truth(node.test, path, variables)
        if test is None:
            first, second = self.value(node.body, path, variables), self.value(node.orelse, path, variables)
            if first == second:
                return first
            if not (isinstance(first, list) and isinstance(second, list)):
                raise NotToldError(ast.unparse(node.test)[:80])
            self.choices.append(ast.unparse(node.test)[:80])  # lists of what is tried: both sides are
            return [*first, *(each for each in second if each not in first)]
        return self.value(node.body if test else node.orelse, path, variables)

    def _turns(
        self, generators: list[ast.comprehension], path: str, variables: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if not generators:
            yield variables
            return
        first, *others = generators
        for item in self.value(first.iter, path, variables):
            inner = {**variables, **_bound(first.target, item)}
            if all(self.value(test, path, inner) for test in first.ifs):
                yield from self._turns(others, path, inner)

    def _called(self, node: ast.Call, path: str, variables: dict[str, Any]) -> Any:
        loaded = self._project.file(path)
        name = loaded[1].qualified(node.func) if loaded is not None else None
        if name is None and isinstance(node.func, ast.Name):
            name = node.func.id
        if name in _ENVIRONMENT and name != "os.environ":
            return self.value(node.args[1], path, variables) if len(node.args) > 1 else None
        arguments = [*self._items(node.args, path, variables)]
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg == "pre_hook":
                continue  # it is called before a launch
            value = self.value(keyword.value, path, variables)
            named.update({keyword.arg: value} if keyword.arg is not None else value)
        if name is not None and (name == _CONFIG or name.endswith(".Config")):
            return _configuration(arguments, named)
        if name is not None and name in _FUNCTIONS:
            result = _FUNCTIONS[name](*arguments, **named)
            return _bounded(result) if isinstance(result, (Iterator, range)) else result
        if isinstance(node.func, ast.Attribute):
            value = self.value(node.func.value, path, variables)
            if node.func.attr in _METHODS.get(type(value), ()):
                result = getattr(value, node.func.attr)(*arguments, **named)
                return [*result] if type(result).__name__ in ("dict_keys", "dict_values", "dict_items") else result
        if isinstance(node.func, ast.Name):
            return self._followed(node.func, path, arguments, named)
        raise NotToldError(ast.unparse(node)[:80])

    # --- functions of the project ---

    def _followed(self, node: ast.Name, path: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Return what a function of the project returns."""
        home, function = self._function(node.id, path)
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if function.args.vararg or function.args.kwarg or len(arguments) > len(parameters):
            raise NotToldError(f"{node.id}()")
        given = dict(zip((each.arg for each in parameters), arguments, strict=False)) | named
        positional = [*function.args.posonlyargs, *function.args.args]
        defaults = [
            *zip(positional[len(positional) - len(function.args.defaults) :], function.args.defaults, strict=True),
            *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
        ]
        for parameter, default in defaults:
            if parameter.arg not in given and default is not None:
                given[parameter.arg] = self.value(default, home)
        self._depth += 1
        try:
            self._run(function.body, home, given)
        except _ReturnedError as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _function(self, name: str, path: str, depth: int = 8) -> tuple[str, ast.FunctionDef]:
        loaded = self._project.file(path)
        bindings = loaded[1].module_bindings(name) if loaded is not None else []
        if loaded is None or len(bindings) != 1 or not depth:
            raise NotToldError(f"{name}()")
        binding = bindings[0]
        if isinstance(binding, ast.FunctionDef):
            return path, binding
        statement = loaded[0].statement(binding)
        if isinstance(binding, ast.alias) and isinstance(statement, ast.ImportFrom):
            home = self._project.module_path(loaded[1].imported_module(statement), path)
            if home is not None and home != path:
                return self._function(binding.name, home, depth - 1)
        raise NotToldError(f"{name}()")

    def _run(self, body: list[ast.stmt], path: str, variables: dict[str, Any]) -> None:
        """Follow statements, up to the one that returns."""
        for statement in body:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise NotToldError("more than is followed")
            if isinstance(statement, ast.Return):
                raise _ReturnedError(None if statement.value is None else self.value(statement.value, path, variables))
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                variables.update(_bound(statement.targets[0], self.value(statement.value, path, variables)))
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                added = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
                variables[statement.target.id] = self.value(added, path, variables)
            elif isinstance(statement, ast.If):
                test = self.truth(statement.test, path, variables)
                if test is None:
                    raise NotToldError(ast.unparse(statement.test)[:80])
                self._run(statement.body if test else statement.orelse, path, variables)
            elif isinstance(statement, ast.For) and not statement.orelse:
                for item in self.value(statement.iter, path, variables):
                    variables.update(_bound(statement.target, item))
                    self._run(statement.body, path, variables)
            elif isinstance(statement, ast.Expr):
                self.value(statement.value, path, variables)
            elif not isinstance(statement, ast.Pass):
                raise NotToldError(ast.unparse(statement)[:80])


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    """Return what a target gets of a value."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, (ast.Tuple, ast.List)):
        values = list(value)
        if len(values) == len(target.elts):
            return {
                name: each
                for part, item in zip(target.elts, values, strict=True)
                for name, each in _bound(part, item).items()
            }
    raise NotToldError(ast.unparse(target)[:80])


def _configuration(arguments: list[Any], named: dict[str, Any]) -> Configuration:
    constants = arguments[0] if arguments else named.pop("kwargs", {})
    if not isinstance(constants, dict) or not all(isinstance(each, str) for each in constants):
        raise NotToldError(_CONFIG)
    names = ("num_warps", "num_stages", "num_ctas", "maxnreg")
    options = dict(zip(names, arguments[1:], strict=False)) | named
    return Configuration(tuple(constants.items()), tuple(sorted(options.items())))


def _bounded(items: Any) -> list[Any]:
    result = [*itertools.islice(items, _MOST_ITEMS + 1)]
    if len(result) > _MOST_ITEMS:
        raise NotToldError("more than is followed")
    return result


def _checked(value: Any) -> Any:
    """Return a value that is not larger than anybody means."""
    is_long = isinstance(value, (str, list, tuple, dict)) and len(value) > _MOST_ITEMS
    if is_long or (isinstance(value, int) and abs(value) > _LARGEST):
        raise NotToldError("larger than is followed")
    return value
