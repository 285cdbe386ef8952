"""A decision by NVIDIA's compute capability or by the name of an NVIDIA card.

`torch.cuda.get_device_capability() >= (8, 0)` tests for Ampere; `"A100" in torch.cuda.get_device_name()` tests for a
card. On the target the numbers mean the vendor's own generations, or do not exist, and the name differs. Where the
plugin answers None, each use is reported that raises, or that nobody has proven to take None: printing it and asking
whether it is there do. So is a field of the properties that the plugin's object lacks, or that nobody has verified.
`CUD101` renames the call, unless the condition only chooses by the generation: such a condition stays, and the code for
other devices runs. The new name answers nothing: the place is found under it as well, until what is compared is a name
or a capability of the vendor's cards that no card of NVIDIA's has.
Decide what to test instead, usually the feature itself, such as `is_bf16_supported()`.

Why: The program chooses a code path by a number that has no meaning on the target, or raises TypeError.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import Enum

from torchferry.backends.tables import REWRITTEN
from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Effect, Finding, Grade, Stays
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_of_reading
from torchferry.rules.generations import CAPABILITY, PROPERTIES, CapabilityRead, readings, renamed_readings
from torchferry.rules.never_run import never_runs
from torchferry.rules.value_steps import Bears


class CapabilityCompared(Rule):
    """Finds comparisons of the compute capability and of the card's name, and calculations with what is None."""

    CODE = "CUD110"
    EFFECT = Effect.WRONG
    ANSWERS = (say("check for the feature, not the card"),)
    WORDS = ("get_device_capability", "get_device_name", "get_device_properties")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use."""
        reported: set[tuple[ast.AST, object]] = set()
        for reading in self._readings(context):
            decision = self._decision(context, reading)
            if decision is not None and not reported & {decision.once, (decision.place, decision.message)}:
                reported |= {decision.once, (decision.place, decision.message)}
                span = context.file.span(decision.place)
                yield self.finding(context, span, decision.message, Grade.MANUAL, effect=decision.effect)

    def _readings(self, context: PythonContext) -> Iterator[CapabilityRead]:
        """Yield what is read of the card where it is on the target."""
        for reading in [*readings(context), *renamed_readings(context)]:
            node = reading.reference.node
            exemption = exemption_of_reading(context, node)
            stays = exemption is not None and not (reading.is_renamed and exemption.kind is Stays.TARGET_BESIDE)
            if not stays and not never_runs(context, node):
                yield reading

    def _decision(self, context: PythonContext, reading: CapabilityRead) -> _Decision | None:
        """Return what there is to decide about a value that is read; None where it is the same on the target."""
        field = _FieldState.of(context, reading)
        if field is _FieldState.ABSENT:
            message = say(
                "the properties of a card have no `{name}` on {target}: where this line runs, it raises AttributeError",
                name=reading.field,
                target=context.target.title,
            )
            return _Decision(reading.place, (reading.reference.node, reading.field), message, Effect.RAISES)
        refused = _refused(context, reading) if _is_none(context, reading) else None
        if refused is not None:
            return refused
        compared = _compared(context, reading) if reading.asked is not None else None
        if compared is not None or field is _FieldState.PRESENT:
            return compared
        message = say(
            "whether the properties of a card have `{name}` on {target} is UNKNOWN; try it on the card",
            name=reading.field,
            target=context.target.title,
        )
        return _Decision(reading.place, (reading.reference.node, field), message, Effect.UNKNOWN)


class _Decision(NamedTuple):
    """What there is to decide.

    Attributes:
        place: The expression that is reported.
        once: What is the same for places that are one decision.
        message: What the user reads.
        effect: What happens at the place; None: as the rule has it.
    """

    place: ast.AST
    once: tuple[ast.AST, object]
    message: Message
    effect: Effect | None = None


def _refused(context: PythonContext, reading: CapabilityRead) -> _Decision | None:
    """Return the decision about a value that is None on the target: its first use that raises, or that may."""
    for bears in (Bears.NO, Bears.OPEN):
        for use in reading.uses:
            if use.bears is bears and not never_runs(context, use.node):
                value = reading.field or reading.reference.name
                message = say(
                    "`{found}` is None on {target}: where this line runs, it raises TypeError; "
                    "check for the needed feature",
                    found=value,
                    target=context.target.title,
                )
                effect = Effect.RAISES
                if bears is Bears.OPEN:
                    effect = Effect.UNKNOWN
                    message = say(
                        "`{found}` is None on {target}, and whether this line accepts None is UNKNOWN; check for "
                        "the needed feature",
                        found=value,
                        target=context.target.title,
                    )
                return _Decision(use.node, (use.node, "None"), message, effect)
    return None


def _compared(context: PythonContext, reading: CapabilityRead) -> _Decision | None:
    """Return the decision about a value by which the program chooses: the first question that nobody has answered."""
    from torchferry.rules.own_cards import asks_about_own_cards  # imported late: few projects compare capabilities

    for use in reading.uses:
        if use.question is None or never_runs(context, use.node):
            continue
        if not asks_about_own_cards(context.target, use.question):
            message = say(
                "decides by {asked} of an NVIDIA card, which has another meaning on {target}",
                asked=reading.asked,
                target=context.target.title,
            )
            # `major` and `minor` of one card are one question
            return _Decision(use.node, (reading.reference.node, reading.asked), message)
    return None


class _FieldState(Enum):
    """Whether what is read is there on the target; UNVERIFIED is one decision for all fields that a place reads."""

    PRESENT = "present"
    ABSENT = "absent"
    UNVERIFIED = "unverified"

    @classmethod
    def of(cls, context: PythonContext, reading: CapabilityRead) -> _FieldState:
        """Return whether the target's object has the field that is read."""
        if not reading.field or reading.has_default or not _is_rewritten(context, reading):
            return cls.PRESENT
        from torchferry.backends.cards import default_card  # imported late, as above

        card = default_card(context.target.backend)
        if not isinstance(card.property_names, Unknown):
            return cls.PRESENT if reading.field in card.property_names else cls.ABSENT
        memory = () if isinstance(card.memory, Unknown) else ("total_memory",)
        return cls.PRESENT if reading.field in (*card.properties, *memory) else cls.UNVERIFIED


def _is_rewritten(context: PythonContext, reading: CapabilityRead) -> bool:
    target, name = context.target, reading.reference.name
    return target.api(name).status in REWRITTEN and target.of_vendor(name).status in REWRITTEN


def _is_none(context: PythonContext, reading: CapabilityRead) -> bool:
    """Whether the plugin answers None to what is read."""
    if not _is_rewritten(context, reading):
        return False
    from torchferry.backends.cards import default_card  # imported late, as above

    card = default_card(context.target.backend)
    if reading.reference.name == PROPERTIES:
        return reading.field in card.none_properties
    return reading.reference.name == CAPABILITY and card.capability is None
