"""What comes of a question for CUDA whose answer is no on the target: the program stops, or goes another way.

The answer is followed through the names that it is kept under and the functions that return it, into other files too.
What is only printed, logged or skipped is no consequence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from torchferry.core.budget import spend
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.conditions import Condition, condition_of, stored_uses
from torchferry.source.flow.syntax import last_name

_MOST_FOLLOWED = 2_000
"""Uses of one answer that are followed; what comes of further ones is not known, and is said."""

_STEPS = 20
"""Steps of the budget that following one use takes."""

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


KnownConsequences = dict[tuple[tuple[ast.expr, ...], bool], Consequence | None]
"""What comes of answers by their uses, kept while one file is examined: many may be kept under the same name."""


def consequence_of(
    context: PythonContext, condition: Condition, followed_answers: KnownConsequences
) -> Consequence | None:
    """Return the first consequence of a condition that is false on the target, a refusal before a choice.

    Args:
        context: The file of the condition.
        condition: The condition; where another part of it may still decide, nothing is said.
        followed_answers: What is known of the answers in this file; what is found out is added.
    """
    if not condition.needed:
        return None
    effect = _effect_of(context, condition.top, condition.positive)
    own = None if effect is None else Consequence(effect, context.path, _line_of(condition))
    if effect is AnswerEffect.REFUSES:
        return own
    uses = [*_uses(context, condition.top)]
    key = (tuple(use for _, use in uses), condition.positive)
    if key not in followed_answers:
        followed_answers[key] = _first_of(_consequences(uses, condition.positive))
    return _first_of(each for each in (own, followed_answers[key]) if each is not None)


def _first_of(consequences: Iterable[Consequence]) -> Consequence | None:
    """Return the first refusal, or else the first consequence."""
    first: Consequence | None = None
    for consequence in consequences:
        if consequence.effect is AnswerEffect.REFUSES:
            return consequence
        first = first or consequence
    return first


def _consequences(uses: Iterable[tuple[PythonContext, ast.expr]], positive: bool) -> Iterator[Consequence]:
    """Yield what comes of an answer by its uses, and last that it is not known whether more does."""
    waiting: list[tuple[PythonContext, Condition, bool]] = []
    met: set[tuple[ast.expr, bool]] = set()

    def add(further: Iterable[tuple[PythonContext, ast.expr]], positive: bool) -> None:
        for where, use in further:
            condition = condition_of(where, use, answer=True)
            state = None if condition is None else (condition.top, positive == condition.positive)
            if condition is not None and state is not None and state not in met:
                met.add(state)
                waiting.append((where, condition, state[1]))

    add(uses, positive)
    for number, (place, asked, is_positive) in enumerate(waiting):
        if number >= _MOST_FOLLOWED:
            yield Consequence(AnswerEffect.UNKNOWN, place.path, _line_of(asked))
            return
        spend(_STEPS)
        if asked.needed:
            effect = _effect_of(place, asked.top, is_positive)
            if effect is not None:
                yield Consequence(effect, place.path, _line_of(asked))
            add(_uses(place, asked.top), is_positive)


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


def _uses(context: PythonContext, top: ast.AST) -> Iterator[tuple[PythonContext, ast.expr]]:
    """Yield where the answer is used under another name, or by a call of the function that returns it."""
    yield from ((context, use) for use in stored_uses(context, top))
    yield from elsewhere(context, _public_name(context, top))


def elsewhere(context: PythonContext, name: str) -> Iterator[tuple[PythonContext, ast.expr]]:
    """Yield where other files use a name of a module, or call it, each with its file."""
    file, project = context.file, context.project
    for other, names, use in project.users(file.path, name) if project is not None and name.isidentifier() else ():
        where = PythonContext(other, names, context.target, context.options, project)
        parent = other.parents.get(use)
        is_called = isinstance(parent, ast.Call) and parent.func is use
        yield where, parent if is_called else use  # type: ignore[misc]


def _public_name(context: PythonContext, top: ast.AST) -> str:
    """Return the name under which other files get the answer: a function that returns it, or a variable."""
    parent = context.file.parents.get(top)
    if isinstance(parent, ast.Return):
        function = context.file.enclosing_function(parent)
        return function.name if function is not None and context.file.parents.get(function) is context.file.tree else ""
    if isinstance(parent, ast.Assign) and context.file.enclosing_function(parent) is None:
        return next((target.id for target in parent.targets if isinstance(target, ast.Name)), "")
    return ""


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
