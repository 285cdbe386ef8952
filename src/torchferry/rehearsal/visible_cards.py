"""What a rehearsal says at its start of the variables that choose cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchferry.backends.unknown import Unknown
from torchferry.backends.visible_cards import shortfall, unread_variables
from torchferry.core.messages import Message, say
from torchferry.rehearsal.config import Rehearsal


def environment_notes(rehearsal: Rehearsal, environment: Mapping[str, str]) -> Iterator[Message]:
    """Yield what is amiss with the variables that choose cards: a list that requests more, and names nobody reads."""
    target = rehearsal.resolved()
    name = target.backend.VISIBLE_DEVICES
    value = "" if isinstance(name, Unknown) else environment.get(name, "")
    if value and not isinstance(name, Unknown):
        fewer = shortfall(target, name, value, count=rehearsal.profile.devices)
        if fewer is not None:
            yield say("{fewer} (simulated devices: {count}, see `--devices`)", fewer=fewer,
                      count=rehearsal.profile.devices)  # fmt: skip
    yield from (text for _, text in unread_variables(target, environment))
