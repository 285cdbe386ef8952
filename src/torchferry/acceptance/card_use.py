"""Whether the run that was judged used an accelerator: what ran on the CPU says nothing about a card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from torchferry.acceptance.gates import Gate, GateStatus
from torchferry.acceptance.runs import AcceptanceRun
from torchferry.acceptance.situation import TARGET, Situation
from torchferry.core.messages import Message, say


class CardUse(Enum):
    """Whether an accelerator was used, as far as that is asked."""

    NOT_ASKED = "not asked"
    """A rehearsal, the baseline's own command, `--allow-cpu`, no run at all, or one that failed before it told."""

    USED = "used"
    CPU_ALONE = "the CPU alone"
    NOT_SEEN = "not seen"
    """The run ended well, and neither a step nor a model was seen on any device."""


_FOR_WANT_OF_A_CARD = frozenset({"environment", "loads.device", "runs.device"})
"""Gates that are red wherever there is no card; another red gate says more than that."""


def card_use(situation: Situation) -> CardUse:
    """Return whether the run that was judged used an accelerator."""
    run = situation.judged
    if run is None or situation.kind != TARGET or situation.allow_cpu:
        return CardUse.NOT_ASKED
    devices = set(_devices(run))
    if devices - {"cpu"}:
        return CardUse.USED
    if devices:
        return CardUse.CPU_ALONE
    return CardUse.NOT_SEEN if run.ended_well else CardUse.NOT_ASKED


def _devices(run: AcceptanceRun) -> Iterator[str]:
    for process in run.processes:
        yield from filter(None, [process.get("device_type", "")])
        for model in process.get("models", ()):
            yield from model["devices"]


def is_without_card(situation: Situation) -> bool:
    """Whether no accelerator was used, although one was to be."""
    return card_use(situation) in (CardUse.CPU_ALONE, CardUse.NOT_SEEN)


def is_red_for_more(gates: Sequence[Gate]) -> bool:
    """Whether a gate is red for another reason than that there is no card."""
    return any(gate.status is GateStatus.RED and gate.name not in _FOR_WANT_OF_A_CARD for gate in gates)


def no_card_message(situation: Situation) -> Message | None:
    """Return what is said where no accelerator was used; None where one was, or none was to be."""
    use = card_use(situation)
    if use is CardUse.CPU_ALONE:
        return say(
            "no accelerator was used: the run was on the CPU alone, so that no green gate of it says anything about a "
            "card; --rehearse judges on the simulated card, --allow-cpu judges the CPU"
        )
    if use is CardUse.NOT_SEEN:
        return say(
            "no accelerator was seen in use: neither a step nor a model of the run was on one; --rehearse judges on "
            "the simulated card, --allow-cpu judges without one"
        )
    return None
