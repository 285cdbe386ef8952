"""A value on its way through a program: the expressions that it comes to, and what is found out about it there."""

from __future__ import annotations

import ast
from enum import Enum

from torchferry.core.record import NamedTuple
from torchferry.source.names import Names
from torchferry.source.python import PythonFile


class Relation(Enum):
    """What an expression is to the value: itself, what is made of it and so never None, or what holds it.

    A holder has it as an item, an owner as an attribute.
    """

    VALUE = "value"
    MADE = "made"
    HOLDER = "holder"
    OWNER = "owner"


class Bears(Enum):
    """Whether a use takes None: it does, it raises, or nobody knows."""

    YES = "yes"
    NO = "no"
    OPEN = "open"


class TracedExpression(NamedTuple):
    """An expression, and where the examined file has it.

    Attributes:
        node: The expression.
        file: The file that it is in.
        names: Name resolution there.
        left_at: For an expression of another file, the one of the examined file from which the value came to it.
    """

    node: ast.expr
    file: PythonFile
    names: Names
    left_at: ast.AST | None = None


class ValueUse(NamedTuple):
    """A use of a value.

    Attributes:
        node: Where the examined file is to be reported.
        question: What decides by the value: a comparison, a search, the key of a table; None where nothing does.
        bears: Whether it takes None.
    """

    node: ast.AST
    question: ast.AST | None
    bears: Bears


class FollowedValue(NamedTuple):
    """The known facts about a value.

    Attributes:
        values: The expressions that are the value itself.
        uses: The uses that are not harmless, in the order of their places.
    """

    values: tuple[TracedExpression, ...]
    uses: tuple[ValueUse, ...]


class KeptAttribute(NamedTuple):
    """What an owner has: the value, or what holds it, by the name of an attribute or of a method that returns it."""

    name: str
    is_method: bool
    relation: Relation
    key: object


class Hop(NamedTuple):
    """An expression on the way; `key` is under what a holder or an owner has the value, None where that is open."""

    at: TracedExpression
    relation: Relation = Relation.VALUE
    key: object = None
