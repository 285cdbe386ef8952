"""Has each card the memory that its model has? Less means a setting of the host is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped, unverified

_SLACK = 0.8
"""Share of a model's memory that the tool must show: some settings take a part (S60: 42,976 of 49,120 MiB)."""


@check("card.memory_size", rank=5, side="host", title=say_in("check", "size of the memory"), needs_card=True)
def card_memory_size(context: CheckContext) -> Iterator[Result]:
    """Compare the tool's total with the known facts about the model."""
    if not context.cards:
        yield skipped(say("the management tool shows no card; see tool.present"))
        return
    size_known = False
    for card in context.cards:
        size = _size(context, card.name)
        if size is None or card.total is None:
            continue
        size_known = True
        if card.total < size * _SLACK:
            yield failed(
                say(
                    "card {index} ({card}) shows {total} MiB instead of {size}",
                    index=card.index,
                    card=card.name,
                    total=card.total,
                    size=size,
                ),
                context.requirements.driver.iommu or say("the driver could not map all memory of the card"),
                "sudo dmesg | grep -i -e iommu -e 'BAR' | tail -n 20",
                advice=say("enable `Above 4G Decoding` and resizable BARs in the firmware of the host"),
                source=context.requirements.driver.source,
            )
            return
    if size_known:
        yield passed(say("every card shows the memory size of its model"))
    else:
        yield unverified(say("how much memory {card} has", card=context.cards[0].name))


def _size(context: CheckContext, shown: str) -> int | None:
    """Return the MiB that the tool shows of the model that its name for the card means; None where it is not known.

    The tool's figure is compared with the tool's: a program gets less of some cards.
    """
    model = context.model(shown)
    if model is None:
        return None
    memory = model.memory if isinstance(model.tool_memory, Unknown) else model.tool_memory
    return None if isinstance(memory, Unknown) else memory >> 20
