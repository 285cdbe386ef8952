"""Which device: what was requested, or the first in order whose plugin is installed and finds a card.

Every device that was looked at is kept with the reason why it was not chosen, and nothing is left out in silence: a
plugin that cannot be imported is a warning with its error, and the CPU is chosen only where that was allowed.
"""

from __future__ import annotations

import os
import traceback
from typing import NamedTuple

from torchferry.core.messages import Message, say
from torchferry.device.facts import DeviceFacts
from torchferry.device.failures import DeviceError, DeviceNotAvailableError, plain, warn
from torchferry.device.names import find
from torchferry.device.presence import (
    FAILED,
    FALLBACK,
    NOT_INSTALLED,
    PREFERRED,
    absence,
    chosen_fallback,
    error_in_full,
    named,
    split_device,
)
from torchferry.device.provider import vendors

NOT_TRIED, CHOSEN = "not tried", "chosen"


class Candidate(NamedTuple):
    """A device that was looked at.

    Attributes:
        facts: The known facts about its kind.
        state: `chosen`, `not installed`, `failed`, `another plugin`, `no card` or `not tried`.
        reason: Why.
        error: The whole traceback, where the plugin failed.
    """

    facts: DeviceFacts
    state: str
    reason: Message
    error: str = ""


class DetectedDevice(NamedTuple):
    """The kind of device that was chosen.

    Attributes:
        facts: The known facts about it.
        asked_for: Whether it is the one that was asked for by name.
        asked_index: The index that was asked for; None when none was.
        reason: Why this one.
        candidates: Every device that was looked at, in order.
    """

    facts: DeviceFacts
    asked_for: bool
    asked_index: int | None
    reason: Message
    candidates: tuple[Candidate, ...]


def choose(preferred: str, order: tuple[str, ...], fallback: str) -> DetectedDevice:
    """Return the device that `preferred` names, or the best that is there.

    Args:
        preferred: `NAME` or `NAME:INDEX`; empty for the environment variable, and without that for detection.
        order: Names of the devices to look for; empty for all that are known.
        fallback: One of `FALLBACKS`; empty for the environment variable, and without that for `warn`.

    Raises:
        DeviceNotAvailableError: the device is not there, and the CPU was not allowed in its place.
        DeviceError: a name or a setting does not exist.
    """
    # translators: what named the device: an argument of DeviceManager, in contrast to a variable of the environment
    source = say("the argument")
    if not preferred:
        preferred, source = os.environ.get(PREFERRED, ""), plain(PREFERRED)
    fallback = chosen_fallback(fallback)
    preferred = preferred.strip().lower()
    if preferred in ("", "auto"):
        return _detected(_ordered(order), fallback)
    name, index = split_device(preferred)
    wanted = named(name)
    why = say("{source} asks for `{device}`", source=source, device=preferred)
    return _asked_for(wanted, index, why, fallback)


def _asked_for(wanted: tuple[DeviceFacts, ...], index: int | None, why: Message, fallback: str) -> DetectedDevice:
    if wanted[0].name == vendors()[-1].name:
        return DetectedDevice(wanted[0], True, index, why, (Candidate(wanted[0], CHOSEN, why),))
    tried = []
    for facts in wanted:
        tried.append(_look(facts))
        if tried[-1].state == CHOSEN:
            return DetectedDevice(facts, True, index, why, tuple(tried))
    reasons = _reasons(tried)
    if fallback != "cpu":
        advice = say(
            "available here: {names}; fallback='cpu' or {variable}=cpu would use the CPU instead",
            names=_list([facts.name for facts in _others(wanted)]),
            variable=FALLBACK,
        )
        if tried[0].state == NOT_INSTALLED and wanted[0].install.en:
            advice = say("{first}; {second}", first=wanted[0].install, second=advice)
        raise DeviceNotAvailableError(say("{why}, which is not available: {reasons}", why=why, reasons=reasons), advice)
    reason = say("{why}, which is not available, and the fallback is the CPU: {reasons}", why=why, reasons=reasons)
    warn(reason)
    return _host(reason, tried)


def _detected(order: tuple[DeviceFacts, ...], fallback: str) -> DetectedDevice:
    tried: list[Candidate] = []
    first: DeviceFacts | None = None
    for facts in order:
        if first is not None:
            tried.append(Candidate(facts, NOT_TRIED, say("{name} was found first", name=first.name)))
            continue
        tried.append(_look(facts))
        if tried[-1].state == CHOSEN:
            first = facts
    for candidate in tried:
        if candidate.state == FAILED:
            warn(say("{name} was not chosen: {reason}", name=candidate.facts.name, reason=candidate.reason))
    if first is not None:
        return DetectedDevice(first, False, None, say("the first available device"), tuple(tried))
    reason = say("no accelerator is available: {reasons}", reasons=_reasons(tried))
    if fallback == "error":
        raise DeviceNotAvailableError(reason, say("fallback='warn' would use the CPU with a warning"))
    if fallback != "allow":
        warn(say("running on the CPU: {reason}", reason=reason))
    return _host(reason, tried)


def _host(reason: Message, tried: list[Candidate]) -> DetectedDevice:
    host = vendors()[-1]
    return DetectedDevice(host, False, None, reason, (*tried, Candidate(host, CHOSEN, reason)))


def _look(facts: DeviceFacts) -> Candidate:
    """Check whether a device is there."""
    try:
        missing = absence(facts)
    except Exception as error:  # whatever a plugin raises is told, and the next device is looked at
        trace = traceback.format_exc()
        fails = say("{plugin} fails: {error}", plugin=facts.plugin or facts.namespace, error=error_in_full(error))
        return Candidate(facts, FAILED, fails, trace)
    if missing is None:
        _compare_with_list(facts)
        return Candidate(facts, CHOSEN, say("it is available"))
    return Candidate(facts, *missing)


def _compare_with_list(facts: DeviceFacts) -> None:
    """Warn where the list of visible cards has more entries than the plugin counts cards."""
    variable, device_count = facts.visible_devices, find(facts, "device_count")
    if not variable or device_count is None:
        return
    value = os.environ.get(variable, "")
    asked, count = sum(bool(entry.strip()) for entry in value.split(",")), int(device_count())
    if asked > count:
        warn(
            say(
                "{variable}={value} names {asked} cards, and the plugin counts {count}; see `torchferry doctor`",
                variable=variable,
                value=value,
                asked=asked,
                count=count,
            )
        )


def _reasons(tried: list[Candidate]) -> Message:
    """Join the reasons; plugins that are not installed are named together."""
    reasons = [
        say("{name}: {reason}", name=candidate.facts.name, reason=candidate.reason)
        for candidate in tried
        if candidate.state != NOT_INSTALLED
    ]
    absent = [candidate.facts.plugin for candidate in tried if candidate.state == NOT_INSTALLED]
    if absent:
        reasons.append(say("not installed: {plugins}", plugins=_list(absent)))
    joined = reasons[0] if reasons else say("no accelerator was looked for")
    for message in reasons[1:]:
        joined = say("{first}; {second}", first=joined, second=message)
    return joined


def _ordered(order: tuple[str, ...]) -> tuple[DeviceFacts, ...]:
    if not order:
        return vendors()[:-1]
    chosen = [facts for name in order for facts in named(name.lower())]
    if vendors()[-1] in chosen:
        raise DeviceError(say("the CPU cannot be part of `order`: `fallback` determines when it is used"))
    return tuple(chosen)


def _others(wanted: tuple[DeviceFacts, ...]) -> list[DeviceFacts]:
    """Return the devices that are there beside those that were asked for."""
    return [
        facts for facts in vendors()
        if facts not in wanted and (facts is vendors()[-1] or _look(facts).state == CHOSEN)
    ]  # fmt: skip


def _list(names: list[str]) -> str:
    return ", ".join(names)
