"""How much memory of the cards is free, and who holds the rest?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import Bilingual, say
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, passed, skipped, unknown, warned
from torchferry.doctor.surroundings import surroundings

CODE = "card.memory"
RANK = 4
SIDE = "host"
TITLE = Bilingual("memory of the cards", "显存占用")
CARD = True

_BUSY = 0.5
"""Share in use from which a warning is worth it: half of a card is gone."""


def check(patient: Patient) -> Iterator[Result]:
    """Compare what is used with what there is, and name the processes."""
    if not patient.cards:
        yield skipped(say("no card is shown; see tool.present"))
        return
    free = []
    for card in patient.cards:
        if card.used is None or card.total is None:
            yield unknown(say("card {index}: the tool does not show how much of its memory is used", index=card.index))
            continue
        if not card.total:
            yield unknown(say("card {index}: the tool shows a memory of 0", index=card.index))
            continue
        if card.used / card.total <= _BUSY:
            free.append(card.index)
            continue
        holders = [holder for holder in patient.asked.reading.holders if holder.card == card.index.partition(".")[0]]
        who = ", ".join(f"{holder.pid} {holder.name} ({holder.memory} MiB)" for holder in holders)
        inside = surroundings(patient.machine).sign
        yield warned(
            say("card {index}: {used} of {total} MiB are in use", index=card.index, used=card.used, total=card.total),
            say("held by {who}", who=who) if who else say("the tool names no process that holds it"),
            *(f"ps -o pid,user,etime,args -p {holder.pid}" for holder in holders[:4]),
            f"{patient.target.backend.VISIBLE_DEVICES}=... python train.py  # another card",
            advice=say("in a container the tool shows the host's process numbers, and ps shows others")
            if inside
            else None,
        )
    if free:
        yield passed(say("more than half of the memory is free on: {cards}", cards=", ".join(free)))
