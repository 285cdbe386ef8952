"""Whether a question about the card is one about the vendor's own cards: then a person has written it for them.

What NVIDIA's cards answer as well was written for CUDA as likely as for the target, so that it is no such question,
under whatever name the card is asked.
"""

from __future__ import annotations

import ast

from torchferry.backends import cuda_cards
from torchferry.backends.card_table import Card, card_key, plugin_of
from torchferry.backends.cards import cards
from torchferry.backends.target import Target
from torchferry.rules.target_words import target_words
from torchferry.source.flow.syntax import last_name


def asks_about_own_cards(target: Target, question: ast.AST) -> bool:
    """Whether all that a value is held against is what cards of the vendor answer, and none of NVIDIA's do."""
    if target.module:
        return False
    if isinstance(question, ast.Compare):
        sides = [question.left, *question.comparators]
        is_equal = all(isinstance(each, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) for each in question.ops)
        is_minor = any(_is_minor(side) for side in sides)
    elif isinstance(question, ast.Call):
        sides, is_equal, is_minor = list(question.args), True, False
    else:
        return False
    described = cards(target.backend)
    constants = [constant for side in sides for constant in _constants(side)]
    return bool(constants) and all(
        _is_own_text(target, described, constant)
        if isinstance(constant, str)
        else _is_own_capability(described, constant, is_equal and not is_minor)
        for constant in constants
    )


def _constants(side: ast.expr) -> list[object]:
    """Return what is written down on one side: texts, pairs of numbers and numbers; a list holds several."""
    if isinstance(side, ast.Constant):
        return [side.value]
    if isinstance(side, (ast.Tuple, ast.List, ast.Set)):
        values = [part.value if isinstance(part, ast.Constant) else part for part in side.elts]
        if len(values) == 2 and all(type(value) is int for value in values) and isinstance(side, ast.Tuple):
            return [tuple(values)]
        return [constant for part in side.elts for constant in _constants(part)]
    if isinstance(side, (ast.BinOp, ast.JoinedStr)):
        return [None]  # made of something: nobody knows what it is
    return []


def _is_minor(side: ast.expr) -> bool:
    if isinstance(side, ast.Subscript):
        return not (isinstance(side.slice, ast.Constant) and side.slice.value == 0)
    return last_name(side) == "minor"


def _is_own_text(target: Target, described: tuple[Card, ...], text: str) -> bool:
    prefixes = plugin_of(target.backend).prefixes
    if target_words(*target.words, *prefixes).search(text) is not None:
        return True
    keys = {card_key(name, prefixes) for card in described for name in (card.name, *card.aliases)}
    asked = card_key(text, prefixes)
    return any(key in asked for key in keys) and not cuda_cards.is_in_name(text)


def _is_own_capability(described: tuple[Card, ...], capability: object, is_number_enough: bool) -> bool:
    own = {card.capability for card in described if isinstance(card.capability, tuple)}
    if isinstance(capability, tuple):
        return capability in own and capability not in cuda_cards.capabilities()
    majors = {pair[0] for pair in own} | {card.properties.get("major") for card in described}
    of_cuda = {major for major, _ in cuda_cards.capabilities()}
    return is_number_enough and type(capability) is int and capability in majors - of_cuda
