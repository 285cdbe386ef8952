"""What must hold for a place to be run, and the known facts about it when nothing is said on the command line."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Mapping, Set

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.evaluation.shared_results import CachedAnswer, ParameterTree, SharedAnswers
from torchferry.programs.evaluation.value_types import ValueTypes
from torchferry.programs.evaluation.values import Values
from torchferry.programs.options.answers import Answer, DefaultValue, Truth
from torchferry.programs.options.switches import UNDETERMINED
from torchferry.programs.syntax.assignments import COMPARED, is_guarded, is_namespace
from torchferry.programs.syntax.package_questions import availability_of, sounds_of_cuda
from torchferry.programs.syntax.parameters import BoundArgument, Expression, Parameter
from torchferry.programs.syntax.partial_texts import written_ends
from torchferry.rules.guarded import asks_availability
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import import_of
from torchferry.source.names import Names
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

UNKNOWN_ANSWER = Answer(Truth.UNKNOWN)

_BESIDE = frozenset({"torch", "torchvision", "numpy"})
"""Packages that every program here has."""

_MODES = {
    "torch.jit.is_scripting": ("script", "script_method", "script_if_tracing", "ScriptModule", "to_torchscript"),
    "torch.jit.is_tracing": (
        "trace", "trace_module", "script_if_tracing", "export", "to_onnx", "to_torchscript", "add_graph",
    ),
    "torch.onnx.is_in_onnx_export": ("export", "dynamo_export", "to_onnx"),
}  # fmt: skip
"""What checks whether code is compiled or exported, and the functions of torch, Lightning and TensorBoard that do it:
in a program that speaks of none of them it is not."""

_PYTHONS = ((3, 8), (3, 99))


class Conditions(Values):
    """Answers conditions for one program.

    Args:
        facts: The facts of the program.
        target: Where it is to run.
        shared: What was answered to other programs.
        staying: Where a migration leaves `.is_cuda` as it is, by the file and the line: no tensor of the target is it.
    """

    def __init__(
        self, facts: ProgramFacts, target: Target, shared: SharedAnswers, staying: Set[tuple[str, int]] = frozenset()
    ) -> None:
        super().__init__(facts)
        self._staying = staying
        self._target = target
        self._shared = shared
        self._answers: defaultdict[ast.expr, ParameterTree[CachedAnswer]] = defaultdict(ParameterTree)
        self._types = ValueTypes(facts, self._objects, self.answer)

    def evaluate(
        self, file: PythonFile, names: Names, test: ast.expr, bound: Mapping[Parameter, BoundArgument] | None = None
    ) -> tuple[Answer, frozenset[Parameter]]:
        """Return the known facts about a condition, and the parameters on which it depends that could not be told.

        The same conditions are met on many ways: an answer holds wherever the same is given to what it asks for.

        Args:
            file: The file.
            names: Its names.
            test: The condition.
            bound: What the calls on the way give to parameters.
        """
        bound = bound or {}
        answers = self._answers[test]
        cached = answers.find(bound)
        if cached is not None:
            return cached.answer, cached.asked
        facts = self.facts
        cached = self._shared.find(test, bound, facts.number)
        if cached is not None:
            answers.keep(cached.consulted, cached)
            return cached.answer, cached.asked
        with facts.by_itself() as dependencies:
            facts.bound = bound
            answer = self.answer(Expression(file, names, test))
            cached_answer = CachedAnswer(answer, frozenset(facts.asked), facts.consulted)
        answers.keep(cached_answer.consulted, cached_answer)
        self._shared.keep(test, dependencies, cached_answer)
        return cached_answer.answer, cached_answer.asked

    def answer(self, where: Expression, depth: int = 0) -> Answer:
        """Return the known facts about a condition."""
        test = where.node
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.answer(where.part(test.operand), depth).turned()
        if isinstance(test, ast.BoolOp):
            parts = [self.answer(where.part(value), depth) for value in test.values]
            decisive = Truth.NO if isinstance(test.op, ast.And) else Truth.YES
            deciding = [part for part in parts if part.truth is decisive]
            if deciding:
                return min(deciding, key=lambda part: (not part.guard, not part.option))
            if any(part.truth is Truth.UNKNOWN for part in parts):
                return UNKNOWN_ANSWER
            return next((part for part in parts if part.option), parts[0])
        if isinstance(test, ast.NamedExpr):
            return self.answer(where.part(test.value), depth)
        if isinstance(test, ast.Compare):
            return self._compared(where, test, depth)
        if isinstance(test, ast.Attribute) and test.attr == "is_cuda" and where.place[:2] in self._staying:
            return Answer(Truth.NO, guard=True)
        default_value = self.value(where, depth)
        if default_value.value is UNDETERMINED:
            return self._types.asked(where, depth) or self._by_name(where)
        return Answer(Truth.YES if default_value.value else Truth.NO, default_value.option, default_value.guard)

    def is_present(self, module: str) -> bool | None:
        """Return whether the target has a module; None where nobody knows."""
        if module.partition(".")[0] in _BESIDE:
            return True
        if not self.facts.sources.project.extensions.isdisjoint((module, module.rpartition(".")[2])):
            return False
        if self.facts.sources.project.module_path(module, self.facts.program.path) is not None:
            return True
        present = self._target.has_module(module)
        return False if present is None and sounds_of_cuda(module) else present

    def is_absent(self, module: str) -> bool:
        """Return whether it is known that the target has no module of a name."""
        return self.is_present(module) is False

    def _by_name(self, where: Expression) -> Answer:
        test = where.node
        name = where.names.qualified(test.func if isinstance(test, ast.Call) else test) or ""
        if last_name(test) == "TYPE_CHECKING":
            return Answer(Truth.NO, guard=True)
        if name in cuda.questions() or name == "torch.distributed.is_available":
            return Answer(Truth.YES)
        if name in _MODES and not any(map(self.facts.mentioning, _MODES[name])):
            return Answer(Truth.NO)
        if name.startswith("torch.backends.mps."):
            return Answer(Truth.NO)
        if isinstance(test, (ast.Name, ast.Attribute, ast.Call)) and asks_availability(test):
            present = availability_of(test, self._target.has_module)
            if present is not None:
                return Answer(Truth.YES) if present else Answer(Truth.NO, guard=True)
        return UNKNOWN_ANSWER

    def _compared(self, where: Expression, test: ast.Compare, depth: int) -> Answer:
        if len(test.ops) != 1:
            pairs = itertools.pairwise([test.left, *test.comparators])
            parts = [ast.Compare(left, [how], [right]) for how, (left, right) in zip(test.ops, pairs, strict=True)]
            return self.answer(where.part(ast.copy_location(ast.BoolOp(ast.And(), [*parts]), test)), depth)
        asked, names = string_value(test.left), where.names
        if names.qualified(test.comparators[0]) == "os.environ" and isinstance(test.ops[0], (ast.In, ast.NotIn)):
            answer = self._of_variable(asked)
            return answer if isinstance(test.ops[0], ast.In) else answer.turned()
        if is_namespace(test.comparators[0]) and asked is not None and isinstance(test.ops[0], (ast.In, ast.NotIn)):
            bindings = names.module_bindings(asked)
            if bindings and not all(is_guarded(where.file, binding) for binding in bindings):
                return UNKNOWN_ANSWER
            return Answer(Truth.NO if isinstance(test.ops[0], ast.In) else Truth.YES, guard=bool(bindings))
        if names.qualified(test.left) == "sys.version_info":
            return self._of_version(where, test, depth)
        left = self.value(where.part(test.left), depth)
        right = self.value(where.part(test.comparators[0]), depth)
        if left.value is UNDETERMINED:
            dimensions = self._types.dimensions(where.part(test.left), depth)
            left = left if dimensions is None else DefaultValue(dimensions)
        if left.value is UNDETERMINED or right.value is UNDETERMINED:
            return self._types.asked(where, depth) or self._unlike(where, test, left, right)
        return _held(test.ops[0], left, right)

    @staticmethod
    def _unlike(where: Expression, test: ast.Compare, left: DefaultValue, right: DefaultValue) -> Answer:
        """Return whether a computed text is another one, where its written parts tell that it cannot be."""
        node, text = (test.left, right.value) if left.value is UNDETERMINED else (test.comparators[0], left.value)
        if not isinstance(text, str) or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
            return UNKNOWN_ANSWER
        if written_ends(where.file, where.names, node).may_be(text):
            return UNKNOWN_ANSWER
        return Answer(Truth.NO if isinstance(test.ops[0], ast.Eq) else Truth.YES)

    def _of_variable(self, name: str | None) -> Answer:
        """Return whether a variable of the environment is set: by the command, or perhaps by a file of the program."""
        value = self.facts.variable(name) if name is not None else None
        if value is not None:
            return UNKNOWN_ANSWER if value.value is UNDETERMINED else Answer(Truth.YES, str(name))
        return UNKNOWN_ANSWER if name is None or self.facts.sets_variable(name) else Answer(Truth.NO, name)

    def _of_version(self, where: Expression, test: ast.Compare, depth: int) -> Answer:
        """Return what a comparison with Python's version says where all versions that people use agree."""
        right = self.value(where.part(test.comparators[0]), depth).value
        compare = COMPARED.get(type(test.ops[0]))
        if not isinstance(right, tuple) or compare is None:
            return UNKNOWN_ANSWER
        try:
            oldest, newest = (compare(version, right) for version in _PYTHONS)
        except TypeError:
            return UNKNOWN_ANSWER
        return UNKNOWN_ANSWER if oldest != newest else Answer(Truth.YES if oldest else Truth.NO)


def _held(operator: ast.cmpop, left: DefaultValue, right: DefaultValue) -> Answer:
    """Return what a comparison of two values says, and how its option is said."""
    compare = COMPARED.get(type(operator))
    if compare is None:
        return UNKNOWN_ANSWER
    try:
        held = compare(left.value, right.value)
    except TypeError:
        return UNKNOWN_ANSWER
    decisive = left if left.option or left.guard else right
    option, other = decisive.option, right if decisive is left else left
    if option and isinstance(other.value, (str, int)) and not held and isinstance(operator, (ast.Eq, ast.In)):
        if not option.startswith("-"):
            option = f"{option}={other.value}"
        elif other.value not in (True, 1):
            option = f"{option} {other.value}"
    return Answer(Truth.YES if held else Truth.NO, option, decisive.guard)


def assumed_condition(node: ast.AST, when: str, names: Names | None = None) -> ast.expr | None:
    """Return the condition that an expression is as `Finding.when` says; None where nothing is said.

    Args:
        node: The expression, or what imports by a name.
        when: What is said of it, or of the name.
        names: What names mean in its file; needed for what imports otherwise than Python's own functions.
    """
    if isinstance(node, ast.keyword):
        node = node.value
    if isinstance(node, (ast.stmt, ast.Call)) and when:  # the name by which it imports
        calls = (each for each in nodes_in(node) if isinstance(each, ast.Call))
        imported = (import_of(names, call) for call in calls) if names is not None else ()
        node = next((each.asked for each in imported if each is not None and each.asked is not None), node)
    if not when or not isinstance(node, ast.expr):
        return None
    if when == "true":
        return node
    comparison = ast.parse(f"_ {when}", mode="eval").body
    assert isinstance(comparison, ast.Compare)
    return ast.copy_location(ast.Compare(node, comparison.ops, comparison.comparators), node)
