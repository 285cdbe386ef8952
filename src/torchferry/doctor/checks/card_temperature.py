"""How warm are the cards? A card that is much warmer than its neighbours is badly cooled and slows down."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, passed, skipped, unknown, warned

CODE = "card.temperature"
RANK = 3
SIDE = "host"
TITLE = say_in("check", "temperature")
CARD = True

_APART = 15.0
"""Degrees above the median of the cards of one host: our own measure, since no vendor publishes a limit."""


def check(patient: Patient) -> Iterator[Result]:
    """Compare the cards with one another."""
    degrees = {card.index: card.temperature for card in patient.cards if card.temperature is not None}
    if not degrees:
        yield skipped(say("no card shows its temperature"))
        return
    middle = statistics.median(degrees.values())
    hot = {index: value for index, value in degrees.items() if value > middle + _APART}
    for index, value in hot.items():
        yield warned(
            say(
                "card {index}: {degrees} C, and the others are at {middle} C",
                index=index,
                degrees=f"{value:g}",
                middle=f"{middle:g}",
            ),
            say("its fan or its air is blocked, or it alone works"),
            " ".join((str(patient.tool_name), *patient.asked.command[1:])),
        )
    if hot:
        return
    listed = ", ".join(f"{value:g}" for value in degrees.values())
    if len(degrees) > 1:
        yield passed(say("{listed} C: no card is much warmer than the others", listed=listed))
    yield unknown(say("{listed} C: nobody has verified from which temperature these cards slow down", listed=listed))
