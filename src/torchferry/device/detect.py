"""Which device: what was asked for, or the first in order whose plugin is installed and finds a card.

Every device that was looked at is kept with the reason why it was not chosen, and nothing is left out in silence: a
plugin that cannot be imported is a warning with its error, and the CPU is chosen only where that was allowed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from typing import NamedTuple

from torchferry.core.messages import Message, say
from torchferry.device.facts import Facts
from torchferry.device.failures import DeviceError, DeviceNotAvailableError, plain, warn
from torchferry.device.names import find
from torchferry.device.provider import vendors

PREFERRED = "PREFERRED_DEVICE"
"""Environment variable with the device to use, such as `cuda`, `cuda:1`, `cpu` or the name of a vendor."""

FALLBACK = "PREFERRED_DEVICE_FALLBACK"
"""Environment variable in place of the argument `fallback`."""

FALLBACKS = ("warn", "error", "allow", "cpu")
"""What happens without an accelerator: the CPU with a warning, an error, or the CPU without a word. A device that was
asked for by name and is not there is an error in all three; `cpu` takes the CPU then too, with a warning."""

_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"

NOT_INSTALLED, FAILED, OTHER, NO_CARD, NOT_TRIED, CHOSEN = (
    "not installed",
    "failed",
    "another plugin",
    "no card",
    "not tried",
    "chosen",
)


class Candidate(NamedTuple):
    """A device that was looked at.

    Attributes:
        facts: What is known of its kind.
        state: `chosen`, `not installed`, `failed`, `another plugin`, `no card` or `not tried`.
        reason: Why.
        error: The whole traceback, where the plugin failed.
    """

    facts: Facts
    state: str
    reason: Message
    error: str = ""


class Choice(NamedTuple):
    """The kind of device that was chosen.

    Attributes:
        facts: What is known of it.
        asked_for: Whether it is the one that was asked for by name.
        asked_index: The index that was asked for; None when none was.
        reason: Why this one.
        candidates: Every device that was looked at, in order.
    """

    facts: Facts
    asked_for: bool
    asked_index: int | None
    reason: Message
    candidates: tuple[Candidate, ...]


def choose(preferred: str, order: tuple[str, ...], fallback: str) -> Choice:
    """Return the device that `preferred` names, or the best that is there.

    Args:
        preferred: `NAME` or `NAME:INDEX`; empty for the environment variable, and without that for detection.
        order: Names of the devices to look for; empty for all that are known.
        fallback: One of `FALLBACKS`; empty for the environment variable, and without that for `warn`.

    Raises:
        DeviceNotAvailableError: the device is not there, and the CPU was not allowed in its place.
        DeviceError: a name or a setting does not exist.
    """
    source = say("the argument")
    if not preferred:
        preferred, source = os.environ.get(PREFERRED, ""), plain(PREFERRED)
    fallback = fallback or os.environ.get(FALLBACK, "") or "warn"
    if fallback not in FALLBACKS:
        raise DeviceError(say("`{value}` is no fallback; write one of {known}", value=fallback, known=_list(FALLBACKS)))
    preferred = preferred.strip().lower()
    if preferred in ("", "auto"):
        return _detected(_ordered(order), fallback)
    name, colon, index = preferred.partition(":")
    if colon and not index.isdigit():
        raise DeviceError(say("`{value}` is no device; write NAME or NAME:INDEX", value=preferred))
    wanted = _named(name)
    why = say("{source} asks for `{device}`", source=source, device=preferred)
    return _asked_for(wanted, int(index) if colon else None, why, fallback)


def _asked_for(wanted: tuple[Facts, ...], index: int | None, why: Message, fallback: str) -> Choice:
    if wanted[0].name == vendors()[-1].name:
        return Choice(wanted[0], True, index, why, (Candidate(wanted[0], CHOSEN, why),))
    tried = []
    for facts in wanted:
        tried.append(_look(facts))
        if tried[-1].state == CHOSEN:
            return Choice(facts, True, index, why, tuple(tried))
    reasons = _reasons(tried)
    if fallback != "cpu":
        advice = say(
            "available here: {names}; fallback='cpu' or {variable}=cpu would take the CPU instead",
            names=_list([facts.name for facts in _others(wanted)]),
            variable=FALLBACK,
        )
        if tried[0].state == NOT_INSTALLED and wanted[0].install.en:
            advice = say("{first}; {second}", first=wanted[0].install, second=advice)
        raise DeviceNotAvailableError(say("{why}, which is not available: {reasons}", why=why, reasons=reasons), advice)
    reason = say("{why}, which is not available, and the fallback is the CPU: {reasons}", why=why, reasons=reasons)
    warn(reason)
    return _host(reason, tried)


def _detected(order: tuple[Facts, ...], fallback: str) -> Choice:
    tried: list[Candidate] = []
    found: Facts | None = None
    for facts in order:
        if found is not None:
            tried.append(Candidate(facts, NOT_TRIED, say("{name} was found first", name=found.name)))
            continue
        tried.append(_look(facts))
        if tried[-1].state == CHOSEN:
            found = facts
    for candidate in tried:
        if candidate.state == FAILED:
            warn(say("{name} was not chosen: {reason}", name=candidate.facts.name, reason=candidate.reason))
    if found is not None:
        return Choice(found, False, None, say("the first device that is there"), tuple(tried))
    reason = say("no accelerator is there: {reasons}", reasons=_reasons(tried))
    if fallback == "error":
        raise DeviceNotAvailableError(reason, say("fallback='warn' would take the CPU with a warning"))
    if fallback != "allow":
        warn(say("running on the CPU: {reason}", reason=reason))
    return _host(reason, tried)


def _host(reason: Message, tried: list[Candidate]) -> Choice:
    host = vendors()[-1]
    return Choice(host, False, None, reason, (*tried, Candidate(host, CHOSEN, reason)))


def _look(facts: Facts) -> Candidate:
    """Ask whether a device is there: its plugin is imported, if it is installed, and asked."""
    if facts.plugin and facts.plugin not in sys.modules:
        if importlib.util.find_spec(facts.plugin) is None:
            return Candidate(facts, NOT_INSTALLED, say("{plugin} is not installed", plugin=facts.plugin))
        if facts.plugin_before_torch:
            return Candidate(
                facts,
                FAILED,
                say("{plugin} must be imported before torch; import it in the first line", plugin=facts.plugin),
            )
    try:
        if facts.plugin:
            importlib.import_module(facts.plugin)
            return _ask(facts)
        with _without_starting_the_driver():
            return _ask(facts)
    except Exception as error:  # whatever a plugin raises is told, and the next device is looked at
        told = traceback.format_exc()
        return Candidate(
            facts, FAILED, say("{plugin} fails: {error}", plugin=_asked(facts), error=_in_full(error)), told
        )


@contextlib.contextmanager
def _without_starting_the_driver() -> Iterator[None]:
    """Let torch ask NVML for CUDA's cards (torch 2.0 and later): it can still fork, and hide cards."""
    before = os.environ.get(_NVML)
    os.environ[_NVML] = "1" if before is None else before
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NVML]


def _ask(facts: Facts) -> Candidate:
    is_available, device_count = find(facts, "is_available"), find(facts, "device_count")
    if is_available is None and device_count is None:
        return Candidate(
            facts,
            OTHER,
            say("{plugin} is installed and is another plugin: it has no {path}", plugin=_asked(facts),
                path=facts.name_of("is_available").path),
        )  # fmt: skip
    if is_available is not None and not is_available():
        return Candidate(facts, NO_CARD, _nothing(facts, f"{facts.name_of('is_available').path}() is False"))
    if device_count is not None and device_count() < 1:
        return Candidate(facts, NO_CARD, _nothing(facts, f"{facts.name_of('device_count').path}() is 0"))
    return Candidate(facts, CHOSEN, say("it is there"))


def _nothing(facts: Facts, answer: str) -> Message:
    """Say that a plugin sees no card, and what the variable that hides cards is set to."""
    variable = facts.visible_devices
    if variable and variable in os.environ:
        return say("{answer}; {variable} is set to `{value}`", answer=answer, variable=variable,
                   value=os.environ[variable])  # fmt: skip
    return plain(answer)


def _asked(facts: Facts) -> str:
    return facts.plugin or facts.namespace


def _in_full(error: BaseException) -> str:
    """Return an error and what caused it, each with its type."""
    told = f"{type(error).__name__}: {error}"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return told if cause is None else f"{told} (after {_in_full(cause)})"


def _reasons(tried: list[Candidate]) -> Message:
    """Join the reasons; plugins that are not installed are named together."""
    told = [
        say("{name}: {reason}", name=candidate.facts.name, reason=candidate.reason)
        for candidate in tried
        if candidate.state != NOT_INSTALLED
    ]
    absent = [candidate.facts.plugin for candidate in tried if candidate.state == NOT_INSTALLED]
    if absent:
        told.append(say("not installed: {plugins}", plugins=_list(absent)))
    joined = told[0] if told else say("nothing was looked for")
    for message in told[1:]:
        joined = say("{first}; {second}", first=joined, second=message)
    return joined


def _ordered(order: tuple[str, ...]) -> tuple[Facts, ...]:
    if not order:
        return vendors()[:-1]
    chosen = [facts for name in order for facts in _named(name.lower())]
    if vendors()[-1] in chosen:
        raise DeviceError(say("the CPU stands in no order: `fallback` says when it is taken"))
    return tuple(chosen)


def _named(name: str) -> tuple[Facts, ...]:
    """Return the devices that a name, a device type or an alias means.

    Raises:
        DeviceError: it means none.
    """
    known = vendors()
    found = [facts for facts in known if facts.name == name]
    found = found or [facts for facts in known if facts.device_type == name]
    found = found or [facts for facts in known if name in facts.aliases]
    if not found:
        raise DeviceError(
            say("unknown device `{name}`", name=name),
            say("known: {names}", names=_list([facts.name for facts in known])),
        )
    return tuple(found)


def _others(wanted: tuple[Facts, ...]) -> list[Facts]:
    """Return the devices that are there beside those that were asked for."""
    return [
        facts for facts in vendors()
        if facts not in wanted and (facts is vendors()[-1] or _look(facts).state == CHOSEN)
    ]  # fmt: skip


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)
