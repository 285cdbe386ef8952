"""How warm are the cards? A card that is much warmer than its neighbours is badly cooled and slows down."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, unknown, warned

_APART = 15.0
"""Degrees above the median of the cards of one host: our own measure, since no vendor publishes a limit."""


@check("card.temperature", rank=3, side="host", title=say_in("check", "temperature"), needs_card=True)
def card_temperature(context: CheckContext) -> Iterator[Result]:
    """Compare the cards with one another."""
    degrees = {card.index: card.temperature for card in context.cards if card.temperature is not None}
    if not degrees:
        yield skipped(say("no card shows its temperature"))
        return
    middle = statistics.median(degrees.values())
    hot = {index: value for index, value in degrees.items() if value > middle + _APART}
    for index, value in hot.items():
        yield warned(
            say(
                "card {index}: {degrees} C; the median of all cards is {middle} C",
                index=index,
                degrees=f"{value:g}",
                middle=f"{middle:g}",
            ),
            say("the fan or air flow of the card is blocked, or it is the only busy card"),
            " ".join((str(context.tool_name), *context.smi.command[1:])),
        )
    if hot:
        return
    listed = ", ".join(f"{value:g}" for value in degrees.values())
    if len(degrees) > 1:
        yield passed(say("{listed} C: no card is much warmer than the others", listed=listed))
    yield unknown(say("{listed} C: nobody has verified at which temperature these cards slow down", listed=listed))
