"""Has a card's memory had errors that could not be corrected? Results are then wrong without a word."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from torchferry.backends.smi import SmiCard
from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped, unknown, unverified, warned

_OFF = ("disable", "disabled", "off")


@check(
    "card.memory_errors",
    rank=2,
    side="host",
    title=say_in("check", "memory errors (ECC)"),
    needs_card=True,
)
def card_memory_errors(context: CheckContext) -> Iterator[Result]:
    """Read the counters from the tool: in its listing, or by asking for each card."""
    if not context.cards:
        yield skipped(say("the management tool shows no card; see tool.present"))
        return
    tool = context.tool
    for card in context.cards:
        if card.ecc is not None and card.ecc.lower() in _OFF:
            yield warned(
                say("card {index}: memory errors are not corrected (ECC is off)", index=card.index),
                say("a flipped bit changes results silently"),
                " ".join((str(context.tool_name), "-h")),
                advice=say("the vendor's manual explains how to enable ECC; ECC uses some memory"),
                source=tool.source,
            )
    if tool.memory_error is None and all(card.uncorrected is None for card in context.cards):
        yield unverified(say("where the tool counts memory errors"))
        return
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda card: _count(context, card), context.cards))
    for card, count in zip(context.cards, counts, strict=True):
        if count is None:
            yield unknown(say("card {index}: the tool does not say how many memory errors it had", index=card.index))
        elif count:
            yield failed(
                say_plural(
                    "card {index}: {count} uncorrectable memory error",
                    "card {index}: {count} uncorrectable memory errors",
                    index=card.index,
                    count=count,
                ),
                say("the memory of the card is or was damaged: do not trust results computed on it"),
                " ".join(_command(context, card)) if tool.memory_error else f"{context.tool_name} -q",
                advice=say("take the card out of use and send this report to the vendor"),
                source=tool.source,
            )
    if all(count == 0 for count in counts):
        yield passed(say("no uncorrectable memory errors"))


def _command(context: CheckContext, card: SmiCard) -> tuple[str, ...]:
    assert context.tool.memory_error is not None
    index = card.index.partition(".")[0]
    return tuple(word.replace("{index}", index) for word in context.tool.memory_error[0])


def _count(context: CheckContext, card: SmiCard) -> int | None:
    if card.uncorrected is not None or context.tool.memory_error is None:
        return card.uncorrected
    command = _command(context, card)
    process = context.host.run((context.smi.path or command[0], *command[1:]))
    counters = context.tool.memory_error[1].findall(process.out)
    return sum(map(int, counters)) if counters else None
