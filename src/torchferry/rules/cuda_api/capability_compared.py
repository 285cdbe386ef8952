"""A decision by NVIDIA's compute capability or by the name of an NVIDIA card.

`torch.cuda.get_device_capability() >= (8, 0)` tests for Ampere; `"A100" in torch.cuda.get_device_name()` tests for a
card. On the target the numbers mean the vendor's own generations, or do not exist, and the name differs. Where the
plugin answers None, a line that unpacks the pair or calculates with it raises TypeError. `CUD101` renames the call,
unless the condition only chooses by the generation: such a condition stays, and the code for other devices runs.
The new name answers nothing: the place is found under it as well, until what is compared is one of the vendor's cards.
Decide what to test instead, usually the feature itself, such as `is_bf16_supported()`.

Why: The program chooses a code path by a number that has no meaning on the target, or raises TypeError.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Effect, Finding, Grade, Stays
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_of_reading
from torchferry.rules.generations import CAPABILITY, PROPERTIES, CapabilityRead, readings, renamed_readings
from torchferry.rules.target_words import target_words


class CapabilityCompared(Rule):
    """Finds comparisons of the compute capability and of the card's name, and calculations with what is None."""

    CODE = "CUD110"
    EFFECT = Effect.WRONG
    WORDS = ("get_device_capability", "get_device_name", "get_device_properties")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use."""
        compared: set[tuple[ast.AST, str]] = set()
        raising: set[ast.AST] = set()
        for reading in [*readings(context), *renamed_readings(context)]:
            node = reading.reference.node
            exemption = exemption_of_reading(context, node)
            if exemption is not None and not (reading.is_renamed and exemption.kind is Stays.TARGET_BESIDE):
                continue
            if reading.calculation is not None and _is_none(context, reading):
                if reading.calculation in raising:
                    continue
                raising.add(reading.calculation)
                message = say(
                    "`{found}` is None on {target}: where this line runs, it raises TypeError; "
                    "check for the needed feature",
                    found=reading.field or reading.reference.name,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(reading.calculation), message, Grade.MANUAL)
            elif reading.asked is not None and reading.comparison is not None:
                if reading.is_renamed and _asks_about_own_card(context, reading.comparison):
                    continue
                question = node, str(reading.asked)
                if question in compared:  # `major` and `minor` of one card are one question
                    continue
                compared.add(question)
                message = say(
                    "decides by {asked} of an NVIDIA card, which has another meaning on {target}",
                    asked=reading.asked,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(reading.comparison), message, Grade.MANUAL)


def _is_none(context: PythonContext, reading: CapabilityRead) -> bool:
    """Whether the plugin answers None to what is read."""
    target, name = context.target, reading.reference.name
    if target.api(name).status not in REWRITTEN or target.of_vendor(name).status not in REWRITTEN:
        return False
    from torchferry.backends.cards import default_card  # imported late: few projects compare capabilities

    card = default_card(target.backend)
    if reading.reference.name == PROPERTIES:
        return reading.field in card.none_properties
    return reading.reference.name == CAPABILITY and card.capability is None


def _asks_about_own_card(context: PythonContext, comparison: ast.Compare) -> bool:
    """Whether what is compared is a name or a generation of the vendor's cards: then a person has written it."""
    target = context.target
    if target.module:
        return False
    from torchferry.backends.card_table import card_key, plugin_of  # imported late: few projects compare capabilities
    from torchferry.backends.cards import cards

    constants = [node.value for node in ast.walk(comparison) if isinstance(node, ast.Constant)]
    prefixes = plugin_of(target.backend).prefixes
    texts = [value for value in constants if isinstance(value, str)]
    names = [card_key(name, prefixes) for card in cards(target.backend) for name in (card.name, *card.aliases)]
    if any(target_words(*target.words, *prefixes).search(text) for text in texts):
        return True
    if any(len(key) > 1 and key in name for text in texts for key in (card_key(text, prefixes),) for name in names):
        return True
    majors = [card.capability[0] for card in cards(target.backend) if isinstance(card.capability, tuple)]
    highest = max((_generation(comparator) for comparator in (comparison.left, *comparison.comparators)), default=0)
    return bool(majors) and 0 < highest <= max(majors)


def _generation(compared: ast.expr) -> int:
    """Return the major number of a capability that is written as a pair or a number; 0 for anything else."""
    if isinstance(compared, (ast.Tuple, ast.List)) and compared.elts:
        compared = compared.elts[0]
    if not isinstance(compared, ast.Constant) or type(compared.value) is not int:
        return 0
    return compared.value // 10 if compared.value >= 20 else compared.value
