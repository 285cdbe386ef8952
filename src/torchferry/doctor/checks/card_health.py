"""What does the management tool say of each card's health?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped, unverified


@check("card.health", rank=1, side="host", title=say_in("check", "health of the cards"), needs_card=True)
def card_health(context: CheckContext) -> Iterator[Result]:
    """Compare the tool's word with the words that mean health, and look for cards that fell off the bus."""
    if not context.cards:
        yield skipped(say("the management tool shows no card; see tool.present"))
        return
    tool, name = context.tool, str(context.tool_name)
    for card in context.cards:
        if tool.lost and card.utilisation == tool.lost:
            yield failed(
                say("card {index} reports no utilisation: it is no longer on the bus", index=card.index),
                say("the tool shows {word} in place of a percentage", word=tool.lost),
                "sudo reboot",
                advice=say("if it happens again, send this report to the vendor"),
                source=tool.source,
            )
    if not tool.healthy:
        yield unverified(say("how the tool reports a faulty card"))
        return
    sick = [card for card in context.cards if card.health is not None and card.health not in tool.healthy]
    silent = [card for card in context.cards if card.health is None]
    for card in sick:
        yield failed(
            say(
                "card {index} ({card}): {tool} reports {health}",
                index=card.index,
                card=card.name,
                tool=name,
                health=card.health,
            ),
            say("the driver reports a fault of the card"),
            " ".join((name, *context.smi.command[1:])),
            "sudo dmesg | tail -n 50",
            advice=say(
                "stop the programs on this card and restart the host; if the fault remains, send this report to "
                "the vendor"
            ),
            source=tool.source,
        )
    if silent:
        yield unverified(say("how the tool reports a faulty card"))
    elif not sick:
        yield passed(
            say_plural(
                "{tool} reports {health} for {count} card",
                "{tool} reports {health} for all {count} cards",
                tool=name,
                health=context.cards[0].health,
                count=len(context.cards),
            )
        )
