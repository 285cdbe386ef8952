"""How much memory of the cards is free, and who holds the rest?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.smi import SmiCard
from torchferry.backends.unknown import Unknown
from torchferry.core.messages import Message, say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.host import Opener
from torchferry.doctor.result import Result, passed, skipped, unknown, warned

_BUSY = 0.5
"""Share in use from which a warning is worth it: half of a card is gone."""


@check("card.memory", rank=4, side="host", title=say_in("check", "memory of the cards"), needs_card=True)
def card_memory(context: CheckContext) -> Iterator[Result]:
    """Compare what is used with what there is, and name the processes."""
    if not context.cards:
        yield skipped(say("the management tool shows no card; see tool.present"))
        return
    asking = any(card.used is None or not card.total or card.used / card.total > _BUSY for card in context.cards)
    openers = _openers(context) if asking else []
    free: list[SmiCard] = []
    busy: list[SmiCard] = []
    for card in context.cards:
        if card.used is None or card.total is None:
            yield unknown(
                say("card {index}: the tool does not show how much of its memory is used", index=card.index),
                *_looking(context, openers),
                advice=_opened_by(openers),
            )
        elif not card.total:
            yield unknown(
                say(
                    "card {index}: the tool shows a memory size of 0, so the memory in use was not judged",
                    index=card.index,
                )
            )
        elif card.used / card.total <= _BUSY:
            free.append(card)
        else:
            busy.append(card)
    yield from (_busy(context, card, openers, free) for card in busy)
    if free:
        names = ", ".join(card.index for card in free)
        yield passed(say("more than half of the memory is free on these cards: {cards}", cards=names))


def _busy(context: CheckContext, card: SmiCard, openers: list[Opener], free: list[SmiCard]) -> Result:
    holders = [holder for holder in context.smi.reading.holders if holder.card == card.index.partition(".")[0]]
    who = ", ".join(f"{holder.pid} {holder.name} ({holder.memory} MiB)" for holder in holders)
    inside = container_info(context.host).evidence
    if who:
        cause = say("held by {who}", who=who)
    else:
        cause = _opened_by(openers) or say(
            "the tool names no process on this card, and no visible process has a card open"
        )
    looking = [f"ps -o pid,user,etime,args -p {holder.pid}" for holder in holders[:4]] or _looking(context, openers)
    return warned(
        say("card {index}: {used} of {total} MiB are in use", index=card.index, used=card.used, total=card.total),
        cause,
        *looking,
        *_another(context, free),
        advice=say("in a container the tool shows the host's process IDs; `ps` in the container shows others")
        if inside and holders
        else None,
    )


def _nodes(context: CheckContext) -> list[str]:
    return [node.pattern for node in context.requirements.nodes if node.kind == "card"]


def _openers(context: CheckContext) -> list[Opener]:
    """Return the processes that have a card open: all there is to see where the tool names none."""
    paths = [path for pattern in _nodes(context) for path in context.host.find(pattern)]
    return context.host.openers(paths) if paths else []


def _opened_by(openers: list[Opener]) -> Message | None:
    if not openers:
        return None
    who = ", ".join(f"{opener.pid} {opener.name} ({', '.join(opener.paths[:4])})" for opener in openers[:8])
    return say("the tool names no process; these have a card open: {who}", who=who)


def _looking(context: CheckContext, openers: list[Opener]) -> list[str]:
    """Return the commands that show the processes; root sees those of others and, on the host, of containers."""
    shown = [f"ps -o pid,user,etime,args -p {opener.pid}" for opener in openers[:4]]
    return shown or [f"sudo fuser -v {pattern}" for pattern in _nodes(context)] or ["ps -eo pid,user,etime,args"]


def _another(context: CheckContext, free: list[SmiCard]) -> tuple[str, ...]:
    """Return the command that chooses a free card, where the tool's numbers are those of the variable."""
    variable = context.target.backend.VISIBLE_DEVICES
    if isinstance(variable, Unknown) or any(context.devices_per_card(card) != 1 for card in context.cards):
        return ()
    healthy = (None, *context.tool.healthy)
    indices = [card.index for card in free if card.index.isdigit() and card.health in healthy]
    return tuple(f"export {variable}={index}  # another card" for index in indices[:1])
