"""Has a card's memory had errors that could not be corrected? Results are then wrong without a word."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from torchferry.backends.smi import Card
from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped, unknown, unverified, warned

CODE = "card.memory_errors"
RANK = 2
SIDE = "host"
TITLE = say_in("check", "memory errors (ECC)")
CARD = True

_OFF = ("disable", "disabled", "off")


def check(patient: Patient) -> Iterator[Result]:
    """Read the counters from the tool: in its listing, or by asking for each card."""
    if not patient.cards:
        yield skipped(say("no card is shown; see tool.present"))
        return
    tool = patient.tool
    for card in patient.cards:
        if card.ecc is not None and card.ecc.lower() in _OFF:
            yield warned(
                say("card {index}: errors of its memory are not corrected (ECC is off)", index=card.index),
                say("a flipped bit goes into the results without a word"),
                " ".join((str(patient.tool_name), "-h")),
                advice=say("the vendor's manual says how to switch it on; it takes some memory"),
                source=tool.source,
            )
    if tool.memory_error is None and all(card.uncorrected is None for card in patient.cards):
        yield unverified(say("where the tool counts memory errors"))
        return
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda card: _count(patient, card), patient.cards))
    for card, count in zip(patient.cards, counts, strict=True):
        if count is None:
            yield unknown(say("card {index}: the tool does not say how many memory errors it had", index=card.index))
        elif count:
            yield failed(
                say_plural(
                    "card {index}: {count} memory error that could not be corrected",
                    "card {index}: {count} memory errors that could not be corrected",
                    index=card.index,
                    count=count,
                ),
                say("its memory is damaged, or was: results computed since are not to be trusted"),
                " ".join(_command(patient, card)) if tool.memory_error else f"{patient.tool_name} -q",
                advice=say("take the card out of use and give the vendor this report"),
                source=tool.source,
            )
    if all(count == 0 for count in counts):
        yield passed(say("no memory errors that could not be corrected"))


def _command(patient: Patient, card: Card) -> tuple[str, ...]:
    assert patient.tool.memory_error is not None
    index = card.index.partition(".")[0]
    return tuple(word.replace("{index}", index) for word in patient.tool.memory_error[0])


def _count(patient: Patient, card: Card) -> int | None:
    if card.uncorrected is not None or patient.tool.memory_error is None:
        return card.uncorrected
    command = _command(patient, card)
    ran = patient.machine.run((patient.asked.path or command[0], *command[1:]))
    found = patient.tool.memory_error[1].findall(ran.out)
    return sum(map(int, found)) if found else None
