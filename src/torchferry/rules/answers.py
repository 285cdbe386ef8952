"""What comes of a question for CUDA whose answer is no on the target: the program stops, or goes another way.

The answer is followed through all that it is kept under and the functions that return it, into other files too.
What is only printed, logged or skipped is no consequence.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from torchferry.backends import cuda
from torchferry.core.budget import spend
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.conditions import Condition, condition_of, followers
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.value_steps import Hop, Relation, TracedExpression
from torchferry.rules.value_uses import MOST_AT_ONCE
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.nodes import nodes_in

_MOST_FOLLOWED = MOST_AT_ONCE
"""Uses of one answer that are followed; what comes of further ones is not known, and is said."""

_STEPS = 20
"""Steps of the budget that following one use takes."""

_CUDA = "cuda"
_ENDS = frozenset({"exit", "_exit", "abort", "skip", "fail"})
"""Functions that end a program, or a test."""


class AnswerEffect(Enum):
    """What the program does where the answer is no."""

    REFUSES = "refuses"
    CHOOSES = "chooses"
    UNKNOWN = "unknown"
    """There are more uses of the answer than are followed."""


class Consequence(NamedTuple):
    """What comes of an answer, and where.

    Attributes:
        effect: What the program does.
        path: The file.
        line: Where it does that.
    """

    effect: AnswerEffect
    path: str
    line: int


KnownConsequences = dict[tuple["KeptAnswer", ...], Consequence | None]
"""What comes of answers by where they are kept, while one file is examined: many may be kept under the same name."""


def consequence_of(
    context: PythonContext, condition: Condition, followed_answers: KnownConsequences
) -> Consequence | None:
    """Return the first consequence of a condition that is false on the target, a refusal before a choice.

    Args:
        context: The file of the condition.
        condition: The condition; where another part of it may still decide, nothing is said.
        followed_answers: The known facts about the answers in this file; what is found out is added.
    """
    if not condition.needed:
        return None
    effect = _effect_of(context, condition.top, condition.positive)
    own = None if effect is None else Consequence(effect, context.path, _line_of(condition))
    if effect is AnswerEffect.REFUSES:
        return own
    answer = KeptAnswer(_traced(context, condition.top), condition.positive)
    answers = tuple(_passed_on(context, context, answer, condition.top))
    if answers not in followed_answers:
        followed_answers[answers] = _first_of(_consequences(context, answers))
    return _first_of(each for each in (own, followed_answers[answers]) if each is not None)


def not_all_followed(message: Message, place: str) -> Message:
    """Return what is said of an answer that has more uses than are followed, up to a place."""
    return say(
        "{message}; the answer is used in more places than torchferry follows (up to {place}): "
        "look for one that refuses to go on, or that chooses what runs",
        message=message,
        place=place,
    )


def _first_of(consequences: Iterable[Consequence]) -> Consequence | None:
    """Return the first refusal, or else the first consequence."""
    first: Consequence | None = None
    for consequence in consequences:
        if consequence.effect is AnswerEffect.REFUSES:
            return consequence
        first = first or consequence
    return first


def _consequences(context: PythonContext, answers: Iterable[KeptAnswer]) -> Iterator[Consequence]:
    """Yield what comes of an answer by its uses, and last that it is not known whether more does."""
    for asked in conditions_asking(context, answers):
        place = asked.context
        if asked.is_cut_off:
            yield Consequence(AnswerEffect.UNKNOWN, place.path, asked.line)
        elif asked.needed:
            effect = _effect_of(place, asked.condition.top, asked.positive)
            if effect is not None:
                yield Consequence(effect, place.path, asked.line)
            elif any(moves_to_card(place, node) for node in asked.guarded):
                yield Consequence(AnswerEffect.CHOOSES, place.path, asked.line)


# --- where an answer goes ---


class KeptAnswer(NamedTuple):
    """An expression that is an answer, or that holds it.

    Attributes:
        step: The expression.
        positive: Whether it is true where the answer is yes.
        needed: Whether nothing else makes it so.
    """

    step: Hop
    positive: bool = True
    needed: bool = True


class AskedAnswer(NamedTuple):
    """A condition that an answer is a part of.

    Attributes:
        context: The file.
        use: Where the answer is in the condition.
        condition: The condition.
        positive: Whether it is true where the answer is yes.
        needed: Whether it is so by the answer alone.
        is_cut_off: Whether there are more uses than are followed; this is the last of those.
    """

    context: PythonContext
    use: ast.expr
    condition: Condition
    positive: bool
    needed: bool
    is_cut_off: bool = False

    @property
    def line(self) -> int:
        """The line of the condition."""
        return _line_of(self.condition)

    @property
    def guarded(self) -> list[ast.AST]:
        """What runs only where the answer is yes."""
        return followers(self.context.file, self.condition.top, self.positive)


def conditions_asking(context: PythonContext, answers: Iterable[KeptAnswer]) -> Iterator[AskedAnswer]:
    """Yield the conditions that some answers are a part of, in all files.

    An answer is followed through what keeps it (variables, attributes, items, arguments, functions that return it) and
    through conditions: what is true by one way and false by the other is the answer, too.

    Args:
        context: The file that is examined.
        answers: Where the answers are.
    """
    waiting = deque(answers)
    files = {context.file: context}
    met: set[tuple[ast.AST, Relation, object, bool, bool]] = set()
    while waiting:
        answer = waiting.popleft()
        at, relation, key = answer.step
        state = (at.node, relation, key, answer.positive, answer.needed)
        if state in met:
            continue
        spend(_STEPS)
        met.add(state)
        if at.file not in files:
            files[at.file] = PythonContext(at.file, at.names, context.target, context.options, context.project)
        where, whole = files[at.file], at.node
        if relation is Relation.VALUE:
            condition = condition_of(where, at.node, answer=True)
            if condition is None:
                continue
            is_cut_off = len(met) > _MOST_FOLLOWED
            answer = KeptAnswer(answer.step, answer.positive == condition.positive, answer.needed and condition.needed)
            yield AskedAnswer(where, at.node, condition, answer.positive, answer.needed, is_cut_off)
            if is_cut_off:
                return
            whole = condition.top
        waiting += _passed_on(context, where, answer, whole)


def _passed_on(
    context: PythonContext, where: PythonContext, answer: KeptAnswer, whole: ast.expr
) -> Iterator[KeptAnswer]:
    """Yield what an answer comes to from the whole condition that it is a part of, or from what holds it."""
    file, at = where.file, answer.step.at
    is_answer = answer.step.relation is Relation.VALUE
    parent = file.parents.get(whole)
    if is_answer and isinstance(parent, ast.IfExp) and whole is not parent.test:
        return  # what is chosen there is not the answer alone
    if is_answer and isinstance(parent, (ast.If, ast.IfExp)):
        ways = ways_of(where, parent)
        for origin, positive in told_apart(*(ways if answer.positive else ways[::-1])):
            node = parent if isinstance(parent, ast.IfExp) else origin
            if isinstance(node, ast.expr):
                yield answer._replace(step=Hop(at._replace(node=node)), positive=positive)
        return
    origins = [whole]
    if is_answer and file.named_expressions:
        origins += (part for part in nodes_in(whole) if isinstance(part, ast.NamedExpr) and part is not whole)
    for origin in origins:
        for step in context.values.next(answer.step._replace(at=at._replace(node=origin)))[0]:
            if step.relation is not Relation.MADE:
                yield KeptAnswer(step, answer.positive, answer.needed)


def kept_from(
    context: PythonContext, origin: ast.expr | ast.alias, name: str = "", positive: bool = True
) -> Iterator[KeptAnswer]:
    """Yield where an answer is that an expression gives, or an import under a name that is not there without it."""
    if not isinstance(origin, ast.alias):
        yield KeptAnswer(_traced(context, origin), positive)
        return
    yield from (KeptAnswer(_traced(context, use), positive) for use in context.names.uses_of_import(origin))
    users = context.project.users(context.path, name) if context.project is not None else ()
    for file, names, use in users:
        yield KeptAnswer(Hop(TracedExpression(use, file, names, context.file.tree)), positive)


def _traced(context: PythonContext, node: ast.expr) -> Hop:
    return Hop(TracedExpression(node, context.file, context.names))


# --- the two ways of a condition or an attempt ---

Outcomes = dict[str, ast.expr | ast.alias]
"""What a way gives each name, and, under the empty name, what it returns."""


def ways_of(context: PythonContext, test: ast.If | ast.IfExp) -> tuple[Outcomes, Outcomes]:
    """Return what the two ways of a condition give: where it is true, and where it is not."""
    if isinstance(test, ast.IfExp):
        return {"": test.body}, {"": test.orelse}
    ways = outcomes(test.body), outcomes(test.orelse)
    if not any(ways):
        return ways
    around = outcomes_around(context, test)
    return {**around, **ways[0]}, {**around, **ways[1]}


def told_apart(taken: Outcomes, otherwise: Outcomes) -> Iterator[tuple[ast.expr | ast.alias, bool]]:
    """Yield what the first way gives a name that is true by one way alone, and whether it is so by the first."""
    for name, wanted in taken.items():
        other = otherwise.get(name)
        if other is None or isinstance(other, ast.alias):
            continue
        if _is_true(wanted) and _is_false(other):
            yield wanted, True
        elif _is_false(wanted) and _is_true(other):
            yield wanted, False


def outcomes_around(context: PythonContext, statement: ast.stmt) -> Outcomes:
    """Return what the statements before one give, and what is returned right behind it."""
    before, behind = _beside(context, statement)
    spend(len(before))
    earlier = outcomes(before)
    earlier.pop("", None)
    return {**earlier, **(outcomes(behind[:1]) if behind and isinstance(behind[0], ast.Return) else {})}


def outcomes(statements: Sequence[ast.stmt]) -> Outcomes:
    """Return what statements give."""
    given: Outcomes = {}
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            given.update((alias.asname or alias.name.partition(".")[0], alias) for alias in statement.names)
        elif isinstance(statement, ast.Assign):
            given.update((_written(target), statement.value) for target in statement.targets)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            given[_written(statement.target)] = statement.value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            given[""] = statement.value
    return given


def _written(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ast.unparse(target)


def _beside(context: PythonContext, statement: ast.stmt) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """Return the statements before and behind one in the same body."""
    parent = context.file.parents.get(statement)
    for field in ("body", "orelse", "finalbody"):
        body = getattr(parent, field, None)
        if isinstance(body, list) and statement in body:
            place = body.index(statement)
            return body[:place], body[place + 1 :]
    return (), ()


def _is_true(node: ast.expr | ast.alias) -> bool:
    return not isinstance(node, ast.Constant) or bool(node.value)


def _is_false(node: ast.expr | ast.alias) -> bool:
    return isinstance(node, ast.Constant) and not node.value


# --- what a condition does ---


def _line_of(condition: Condition) -> int:
    return getattr(condition.top, "lineno", 1)


def _effect_of(context: PythonContext, top: ast.AST, positive: bool) -> AnswerEffect | None:
    """Return what depends on a condition by the statement or expression that it is the test of.

    Args:
        context: The file.
        top: The condition.
        positive: Whether it is false on the target; else it is true there.
    """
    parent = context.file.parents.get(top)
    if isinstance(parent, ast.Assert) and top is parent.test:
        return AnswerEffect.REFUSES if positive else None
    if isinstance(parent, ast.IfExp) and top is parent.test:
        return None if all(map(_is_text, (parent.body, parent.orelse))) else AnswerEffect.CHOOSES
    if not isinstance(parent, ast.If) or top is not parent.test:
        return None
    taken, left = (parent.orelse, parent.body) if positive else (parent.body, parent.orelse)
    if taken and _ends(taken):
        return AnswerEffect.REFUSES
    if taken and left and not _only_tells(taken):
        return AnswerEffect.CHOOSES
    return None


def names_card(context: PythonContext, node: ast.AST, *, renamed: bool = False) -> bool:
    """Whether code speaks of the card, by CUDA's words or the target's; by these alone, where it was `renamed`."""
    backend = context.target.backend
    namespaces = {backend.NAMESPACE} - {""} if renamed else {cuda.NAMESPACE, backend.NAMESPACE} - {""}
    types = {backend.DEVICE_TYPE} if renamed else {_CUDA, backend.DEVICE_TYPE}
    return any(
        exemption_for(context, part) is None
        for part in nodes_in(node)
        if _is_move(context, part, types) or _is_below(context, part, namespaces)
    )


def moves_to_card(context: PythonContext, node: ast.AST) -> bool:
    """Whether code moves something to the card, or makes it there, by CUDA's words or the target's."""
    types = {_CUDA, context.target.backend.DEVICE_TYPE}
    return any(exemption_for(context, part) is None for part in nodes_in(node) if _is_move(context, part, types))


def _is_below(context: PythonContext, node: ast.AST, namespaces: set[str]) -> bool:
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    name = f"{context.names.qualified(node)}."
    return any(name.startswith(f"{namespace}.") for namespace in namespaces)


def _is_move(context: PythonContext, node: ast.AST, types: set[str]) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in types
    parent = context.file.parents.get(node)
    is_told = isinstance(parent, ast.Compare) or (isinstance(parent, ast.expr) and _tells(parent))
    return not is_told and (string_value(node) or "").partition(":")[0] in types


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a text, such as that of a message; a device is found before."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _ends(statements: Sequence[ast.stmt]) -> bool:
    last = statements[-1]
    value = last.value if isinstance(last, ast.Expr) else None
    return isinstance(last, ast.Raise) or (isinstance(value, ast.Call) and last_name(value.func) in _ENDS)


def _only_tells(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements do nothing but print or log, or keep a text."""
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and _tells(statement.value))
        or (isinstance(statement, ast.Assign) and _is_text(statement.value))
        for statement in statements
    )


def _tells(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    return isinstance(node, ast.Call) and last_name(node.func) in (
        "print", "debug", "info", "warning", "warn", "error", "log", "write", "append", "join",
    )  # fmt: skip
