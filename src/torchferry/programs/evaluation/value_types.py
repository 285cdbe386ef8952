"""Of which type values are, as far as the code says, and how many dimensions tensors have.

`isinstance(x, list)`, `torch.is_tensor(x)`, `x is None` and `x.ndim == 4` ask it of what callers give: a list that is
written down, a tensor that a function of torch makes. What nobody can tell is left open.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from torchferry.core.record import NamedTuple
from torchferry.programs.evaluation.object_kinds import ClassObject
from torchferry.programs.evaluation.objects import Objects
from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.options.answers import Answer, Truth
from torchferry.programs.syntax.assignments import returns_of
from torchferry.programs.syntax.parameters import Expression, Parameter, default_of, function_of
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_DEEPEST = 12
"""Variables, parameters and calls that are followed to a type."""

_MOST_STEPS = 300
"""Expressions that are looked at for one question."""

_MOST_BASES = 20
"""Classes among whose bases a type is looked for."""

TENSOR = "torch.Tensor"
ARRAY = "numpy.ndarray"
NONE = "NoneType"
_MODULE = "torch.nn.Module"

Defined = tuple[PythonFile, Names, FunctionNode | ast.ClassDef]
"""A function or class of the project, with its file."""

_OF_SYNTAX: dict[type[ast.expr], str] = {
    ast.List: "list", ast.ListComp: "list", ast.Tuple: "tuple", ast.Dict: "dict", ast.DictComp: "dict",
    ast.Set: "set", ast.SetComp: "set", ast.JoinedStr: "str", ast.Lambda: "function", ast.GeneratorExp: "generator",
}  # fmt: skip

_OF_BUILTINS = {
    "list": "list", "tuple": "tuple", "dict": "dict", "set": "set", "frozenset": "frozenset", "str": "str",
    "int": "int", "float": "float", "bool": "bool", "len": "int", "sorted": "list", "range": "range", "repr": "str",
}  # fmt: skip
"""Builtins that give back one type, whatever they are given."""

_BY_SIZE = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn"})
"""Functions that make a tensor of the size that they are given."""

_BY_DIMENSIONS = {"torch.arange": 1, "torch.linspace": 1, "torch.eye": 2, "torch.randperm": 1}

_MAKERS = frozenset({
    "torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.cat", "torch.concat", "torch.stack", "torch.full",
    "torch.einsum", "torch.matmul", "torch.bmm", "torch.randint", "torch.zeros_like", "torch.ones_like",
    "torch.empty_like", "torch.rand_like", "torch.randn_like", "torch.full_like", "torch.softmax", "torch.sigmoid",
    "torch.relu", "torch.tanh", "torch.exp", "torch.log", "torch.sqrt", "torch.clamp", "torch.abs", "torch.FloatTensor",
    "torch.LongTensor", "torch.Tensor", "torch.nn.functional.interpolate", "torch.nn.functional.pad",
    "torch.nn.functional.normalize", "torch.nn.functional.softmax", "torch.nn.functional.relu",
    "torch.nn.functional.one_hot", "torch.nn.functional.scaled_dot_product_attention",
    *_BY_SIZE, *_BY_DIMENSIONS,
})  # fmt: skip
"""Functions of torch that give back a tensor."""

_ARRAYS = frozenset({
    "numpy.array", "numpy.asarray", "numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full", "numpy.arange",
    "numpy.linspace", "numpy.stack", "numpy.concatenate", "numpy.zeros_like", "numpy.ones_like", "numpy.random.rand",
    "numpy.random.randn",
})  # fmt: skip
"""Functions of NumPy that give back an array."""

_SAME_SIZE = frozenset({
    "to", "cuda", "cpu", "float", "half", "double", "bfloat16", "long", "int", "bool", "type_as", "contiguous",
    "clone", "detach", "requires_grad_", "pin_memory", "permute", "transpose", "expand", "clamp", "abs", "exp", "log",
    "sqrt", "softmax", "sigmoid", "relu", "tanh", "fill_", "zero_", "normal_", "uniform_", "masked_fill", "roll",
})  # fmt: skip
"""Methods of a tensor that give back one with as many dimensions."""

_OTHER_SIZE = frozenset({
    "view", "reshape", "squeeze", "flatten", "mean", "sum", "matmul", "bmm", "repeat", "gather", "index_select",
    "masked_select", "unfold", "argmax", "argmin", "norm", "diag",
})  # fmt: skip
"""Methods of a tensor that give back one with other dimensions."""

_TYPES_OF_METHODS = {"tolist": "list", "numpy": ARRAY, "split": "tuple", "chunk": "tuple", "unbind": "tuple"}
"""Methods of a tensor that give back something else."""

_WIDER: dict[str, frozenset[str]] = {
    "bool": frozenset({"int", "numbers.Number", "numbers.Integral", "numbers.Real"}),
    "int": frozenset({"numbers.Number", "numbers.Integral", "numbers.Real"}),
    "float": frozenset({"numbers.Number", "numbers.Real"}),
    **{
        name: frozenset(f"{module}.{kind}" for module in ("collections.abc", "typing", "collections") for kind in kinds)
        for name, kinds in {
            "list": ("Sequence", "Iterable", "Collection", "Sized", "MutableSequence", "List"),
            "tuple": ("Sequence", "Iterable", "Collection", "Sized", "Hashable", "Tuple"),
            "str": ("Sequence", "Iterable", "Collection", "Sized", "Hashable", "Text"),
            "dict": ("Mapping", "MutableMapping", "Iterable", "Collection", "Sized", "Dict"),
        }.items()
    },
}
"""What else an object of a type is, of what code asks for."""

_PLAIN = frozenset({"list", "tuple", "dict", "set", "frozenset", "str", "int", "float", "bool", "bytes", NONE, "range"})
"""Types of Python that no package derives its own from unasked."""

_CLASSES_OF_PACKAGES = ("torch.", "numpy.", "PIL.", "transformers.")


class ValueType(NamedTuple):
    """What a value may be.

    Attributes:
        types: Its types: the names of Python's, those of packages with the package, those of the project with the file.
        dimensions: How many dimensions it has, where it is a tensor and that is told.
    """

    types: frozenset[str]
    dimensions: int | None = None


def _only(name: str, dimensions: int | None = None) -> ValueType:
    return ValueType(frozenset({name}), dimensions)


class ValueTypes:
    """Tells the types of values, for one program.

    Args:
        facts: The facts of the program.
        objects: Resolves expressions to objects.
        answer: Answers conditions.
    """

    def __init__(self, facts: ProgramFacts, objects: Objects, answer: Callable[[Expression, int], Answer]) -> None:
        self._facts = facts
        self._objects = objects
        self._answer = answer
        self._steps = 0
        self._is_asked = False
        self._bases: dict[str, frozenset[str] | None] = {}

    def asked(self, where: Expression, depth: int = 0) -> Answer | None:
        """Return what a question after a type says: `isinstance(x, list)`, `x is None`; None for another question.

        Args:
            where: The question.
            depth: How many expressions were followed to it.
        """
        test = where.node
        if isinstance(test, ast.Compare):
            return self._is_none(where, test, depth)
        if not isinstance(test, ast.Call) or not test.args:
            return None
        if last_name(test.func) == "is_tensor" and where.names.qualified(test.func) == "torch.is_tensor":
            wanted: list[str | None] = [TENSOR]
        elif isinstance(test.func, ast.Name) and test.func.id == "isinstance" and len(test.args) == 2:
            wanted = self._named_types(where, test.args[1])
        else:
            return None
        value = self._whole(where, test.args[0], depth)
        if value is None:
            return None
        answers = {self._is_one(each, wanted) for each in value.types}
        answer = answers.pop() if len(answers) == 1 else None
        return None if answer is None else Answer(Truth.YES if answer else Truth.NO)

    def dimensions(self, where: Expression, depth: int = 0) -> int | None:
        """Return how many dimensions something has: `x.ndim`, `x.dim()`, `len(x.shape)`; None where nobody knows.

        Args:
            where: The expression.
            depth: How many expressions were followed to it.
        """
        node = where.node
        if isinstance(node, ast.Call) and last_name(node.func) == "len" and len(node.args) == 1:
            size = node.args[0]
            size = size.func if isinstance(size, ast.Call) and not size.args else size
            of = size.value if isinstance(size, ast.Attribute) and size.attr in ("shape", "size") else None
        elif isinstance(node, ast.Call) and not node.args:
            of = (
                node.func.value
                if isinstance(node.func, ast.Attribute) and node.func.attr in ("dim", "ndimension")
                else None
            )
        else:
            of = node.value if isinstance(node, ast.Attribute) and node.attr == "ndim" else None
        value = self._whole(where, of, depth) if of is not None else None
        return value.dimensions if value is not None and value.types == {TENSOR} else None

    def _is_none(self, where: Expression, test: ast.Compare, depth: int) -> Answer | None:
        other = test.comparators[0]
        is_asked = len(test.ops) == 1 and isinstance(other, ast.Constant) and other.value is None
        if not is_asked or not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return None
        value = self._whole(where, test.left, depth)
        if value is None or (NONE in value.types and len(value.types) > 1):
            return None
        return Answer(Truth.YES if (NONE in value.types) is isinstance(test.ops[0], ast.Is) else Truth.NO)

    def _named_types(self, where: Expression, node: ast.expr) -> list[str | None]:
        """Return the types that a question names; None for one that cannot be told."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return [name for each in node.elts for name in self._named_types(where, each)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return [*self._named_types(where, node.left), *self._named_types(where, node.right)]
        if isinstance(node, ast.Constant) and node.value is None:
            return [NONE]
        if isinstance(node, ast.Name) and not where.names.bindings(node):
            return [node.id]
        if isinstance(node, ast.Name):
            values = [assigned_value(where.file, each) for each in where.names.bindings(node)]
            if len(values) == 1 and isinstance(values[0], (ast.Tuple, ast.BinOp)):
                return self._named_types(where, values[0])
        own = self._own_class(where, node)
        qualified = where.names.qualified(node) if own is None else None
        return [own if own is not None else None if (qualified or ".").startswith(".") else qualified]

    def _own_class(self, where: Expression, node: ast.expr) -> str | None:
        """Return a class of the project that an expression names."""
        objects = self._objects.of(where.part(node)) if isinstance(node, (ast.Name, ast.Attribute)) else None
        own = [each for each in objects or () if isinstance(each, ClassObject) and each.maker is None]
        return _of_class(own[0]) if len(own) == 1 == len(objects or ()) else None

    def _is_one(self, name: str, wanted: list[str | None]) -> bool | None:
        """Whether an object of a type is one of some types; None if it is unknown."""
        names = _WIDER.get(name, frozenset()) | (self._bases.get(name) or frozenset()) | {name}
        if any(each in names for each in wanted):
            return True
        if None in wanted or (name in self._bases and self._bases[name] is None):
            return None
        is_whole = name in self._bases
        return None if any(_may_be(name, str(each), is_whole=is_whole) for each in wanted) else False

    # --- types of expressions ---

    def _whole(self, where: Expression, node: ast.expr, depth: int) -> ValueType | None:
        """Return the type of an expression in a question.

        A type may hang on another question: `x = 1 if x is None else x`. Both share their steps, else there is no end.
        """
        is_within, self._is_asked = self._is_asked, True
        if not is_within:
            self._steps = 0
        inside = where.file.enclosing_function(where.node) if where.node in where.file.parents else None
        try:
            return self._of(where.part(node), inside, depth)
        finally:
            self._is_asked = is_within

    def _of(self, where: Expression, asks: FunctionNode | None, depth: int) -> ValueType | None:
        """Return the type of an expression; `asks` is the function whose parameters are asked for their types."""
        self._steps += 1
        if not self._facts.goes_on(depth, _DEEPEST) or self._steps > _MOST_STEPS:
            return None
        node = where.node
        if isinstance(node, ast.Constant):
            return _only(type(node.value).__name__)
        if type(node) in _OF_SYNTAX:
            return _only(_OF_SYNTAX[type(node)])
        if isinstance(node, ast.NamedExpr):
            return self._of(where.part(node.value), asks, depth + 1)
        if isinstance(node, ast.IfExp):
            answer = self._answer(where.part(node.test), depth + 1)
            parts = [node.body] * (answer.truth is not Truth.NO) + [node.orelse] * (answer.truth is not Truth.YES)
            return self._joined(where, parts, asks, depth)
        if isinstance(node, ast.BoolOp):
            return self._joined(where, node.values, asks, depth)
        if isinstance(node, ast.UnaryOp):
            return (
                _only("bool") if isinstance(node.op, ast.Not) else self._of(where.part(node.operand), asks, depth + 1)
            )
        if isinstance(node, ast.BinOp):
            return self._of_operation(where, node, asks, depth)
        if isinstance(node, ast.Subscript):
            return self._of_item(where, node, asks, depth)
        if isinstance(node, ast.Name):
            return self._of_name(where, node, asks, depth)
        if isinstance(node, ast.Attribute):
            of = self._of(where.part(node.value), asks, depth + 1) if node.attr in ("data", "T", "mT") else None
            return of if of is not None and of.types == {TENSOR} else None
        return self._of_call(where, node, asks, depth) if isinstance(node, ast.Call) else None

    def _joined(
        self, where: Expression, nodes: Iterable[ast.expr], asks: FunctionNode | None, depth: int
    ) -> ValueType | None:
        return _union([self._of(where.part(each), asks, depth + 1) for each in nodes])

    def _of_operation(
        self, where: Expression, node: ast.BinOp, asks: FunctionNode | None, depth: int
    ) -> ValueType | None:
        left, right = (self._of(where.part(each), asks, depth + 1) for each in (node.left, node.right))
        types = [each.types for each in (left, right) if each is not None]
        if left is not None and left.types == {"str"}:
            return left
        if {TENSOR} in types and not any(ARRAY in each for each in types):
            is_told = types == [{TENSOR}, {TENSOR}] and not isinstance(node.op, ast.MatMult)
            dimensions = [each.dimensions for each in (left, right) if each is not None and each.dimensions is not None]
            return _only(TENSOR, max(dimensions) if is_told and len(dimensions) == len(types) else None)
        is_list = types[:1] == [{"list"}] and left is not None
        is_added = isinstance(node.op, ast.Add) and len(types) == 2 and types[0] == types[1]
        return left if is_list and (is_added or isinstance(node.op, ast.Mult)) else None

    def _of_item(
        self, where: Expression, node: ast.Subscript, asks: FunctionNode | None, depth: int
    ) -> ValueType | None:
        of = self._of(where.part(node.value), asks, depth + 1)
        if of is None or of.types != {TENSOR}:
            return None
        is_number = isinstance(node.slice, ast.Constant) and type(node.slice.value) is int
        if of.dimensions is None or not (is_number or isinstance(node.slice, ast.Slice)):
            return _only(TENSOR)
        return _only(TENSOR, of.dimensions - is_number)

    def _of_name(self, where: Expression, node: ast.Name, asks: FunctionNode | None, depth: int) -> ValueType | None:
        types: list[ValueType | None] = []
        for binding in where.names.reaching_bindings(node):
            value = assigned_value(where.file, binding)
            if isinstance(binding, ast.arg):
                types.append(self._of_parameter(where, binding, asks, depth))
            elif isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef)):
                types.append(_only("function"))
            else:
                is_apart = isinstance(where.file.parents.get(binding), ast.Starred)
                is_told = value is not None and not is_apart
                types.append(self._of(where.part(value), asks, depth + 1) if is_told and value is not None else None)
        return _union(types)

    def _of_parameter(
        self, where: Expression, argument: ast.arg, asks: FunctionNode | None, depth: int
    ) -> ValueType | None:
        """Return what a call gives to a parameter, else what is noted of it where another function asks."""
        function = function_of(where.file, argument)
        if function is None:
            return None
        if argument in (function.args.vararg, function.args.kwarg):
            return _only("tuple" if argument is function.args.vararg else "dict")
        key = Parameter(where.file.path, function.lineno, argument.arg)
        given = where.given.get(key) or self._facts.given(key)
        given_type = self._of(given, asks, depth + 1) if given is not None else None
        if given_type is not None or function is asks or default_of(function.args, argument) is not None:
            return given_type
        return self._noted(where, argument.annotation)

    def _noted(self, where: Expression, annotation: ast.expr | None) -> ValueType | None:
        """Return the type that an annotation names: a tensor, a list."""
        if annotation is None:
            return None
        if where.names.qualified(annotation) == TENSOR:
            return _only(TENSOR)
        outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        name = last_name(outer).lower()
        is_plain = isinstance(outer, ast.Name) and not where.names.bindings(outer)
        is_typing = (where.names.qualified(outer) or "").startswith("typing.")
        return _only(name) if name in ("list", "tuple", "dict") and (is_plain or is_typing) else None

    def _of_call(self, where: Expression, node: ast.Call, asks: FunctionNode | None, depth: int) -> ValueType | None:
        qualified = where.names.qualified(node.func) or ""
        if qualified in _MAKERS:
            return _only(TENSOR, _BY_DIMENSIONS.get(qualified, _sized(node) if qualified in _BY_SIZE else None))
        if qualified in _ARRAYS:
            return _only(ARRAY)
        if isinstance(node.func, ast.Name) and node.func.id in _OF_BUILTINS and not where.names.bindings(node.func):
            return _only(_OF_BUILTINS[node.func.id])
        if qualified.startswith("torch.nn.") and last_name(node.func)[:1].isupper():
            return _only(qualified)
        defined = self._objects.defined(where, node)
        if defined is not None:
            return self._of_own(where, node, defined, asks, depth)
        of = self._of(where.part(node.func.value), asks, depth + 1) if isinstance(node.func, ast.Attribute) else None
        return _of_method(node, of) if of is not None and of.types == {TENSOR} else None

    def _of_own(
        self, where: Expression, node: ast.Call, defined: Defined, asks: FunctionNode | None, depth: int
    ) -> ValueType | None:
        """Return what a class or function of the project gives back."""
        file, names, own = defined
        if isinstance(own, ast.ClassDef):
            owner = ClassObject(file, names, own)
            name = _of_class(owner)
            if name not in self._bases:
                self._bases[name] = self._all_bases(owner)
            return _only(name)
        inside = Expression(file, names, node)
        yields = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in nodes_in(own))
        if yields or isinstance(own, ast.AsyncFunctionDef) or own.decorator_list:
            return None
        noted = self._noted(inside, own.returns)
        if noted is not None:
            return noted
        inside = inside._replace(given=self._objects.arguments(where, node, inside, own))
        returns = returns_of(file, own)
        values = [self._of(inside.part(each.value), asks, depth + 1) for each in returns if each.value is not None]
        falls_through = not isinstance(own.body[-1], (ast.Return, ast.Raise)) or len(values) < len(returns)
        return _union([*values, _only(NONE)] if falls_through else values)

    def _all_bases(self, of: ClassObject) -> frozenset[str] | None:
        """Return all bases of a class; None where one of them is not known, or something else may make its objects."""
        bases: set[str] = set()
        waiting = [of]
        while waiting:
            each = waiting.pop()
            own = [*self._objects.bases(each)]
            others = {each.names.qualified(base) or last_name(base) for base in each.node.bases}
            foreign = others & {_MODULE, "object"}
            is_plain = not each.node.decorator_list and not each.node.keywords
            if not is_plain or len(own) + len(foreign) < len(each.node.bases) or len(bases) > _MOST_BASES:
                return None
            bases.update(foreign, map(_of_class, own))
            waiting += own
        return frozenset(bases)


def _of_class(of: ClassObject) -> str:
    return f"{of.file.path}:{of.node.name}"


def _union(types: list[ValueType | None]) -> ValueType | None:
    """Return what is one of several values; None where one of them is not told."""
    known_types = [each for each in types if each is not None]
    if not known_types or len(known_types) < len(types):
        return None
    dimensions = {each.dimensions for each in known_types}
    names = frozenset().union(*(each.types for each in known_types))
    return ValueType(names, dimensions.pop() if len(dimensions) == 1 else None)


def _sized(call: ast.Call) -> int | None:
    """Return how many dimensions a tensor has whose size is written down: `ones(1, 3)`, `ones((1, 3))`."""
    sizes: list[ast.expr] = call.args
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    elif len(sizes) == 1 and not isinstance(sizes[0], ast.Constant):
        return None
    return len(sizes) if sizes and not any(isinstance(each, ast.Starred) for each in sizes) else None


def _of_method(call: ast.Call, of: ValueType) -> ValueType | None:
    """Return what a method of a tensor gives back."""
    name = last_name(call.func)
    if name in _SAME_SIZE:
        is_sized = name != "expand" or of.dimensions == len(call.args)
        return _only(TENSOR, of.dimensions if is_sized else None)
    if name == "unsqueeze":
        return _only(TENSOR, None if of.dimensions is None else of.dimensions + 1)
    if name in _OTHER_SIZE:
        return _only(TENSOR, _sized(call) if name in ("view", "reshape") and len(call.args) > 1 else None)
    return _only(_TYPES_OF_METHODS[name]) if name in _TYPES_OF_METHODS else None


def _may_be(name: str, wanted: str, *, is_whole: bool) -> bool:
    """Whether an object of one type may be one of another that has another name.

    Args:
        name: Its type.
        wanted: The other type.
        is_whole: Whether all bases of its type are known.
    """
    if wanted in _PLAIN or wanted in (TENSOR, ARRAY):
        return not (is_whole or name in _PLAIN or name in (TENSOR, ARRAY, "function", "generator"))
    if ":" in wanted:
        return not (is_whole or name in _PLAIN or name in (TENSOR, ARRAY))
    if wanted in _ABSTRACT:
        return not (name in _PLAIN or name == TENSOR)
    return not (name in _PLAIN and wanted.startswith(_CLASSES_OF_PACKAGES))


_ABSTRACT = frozenset().union(*_WIDER.values())
