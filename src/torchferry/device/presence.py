"""Whether a device is there, and the first that is: all that the names of `torch.cuda` need of detection."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator

from torchferry.core.importable import is_importable
from torchferry.core.messages import Message, say
from torchferry.device.facts import DeviceFacts
from torchferry.device.failures import DeviceError, DeviceNotAvailableError, plain, warn
from torchferry.device.names import find
from torchferry.device.provider import vendors

PREFERRED = "PREFERRED_DEVICE"
"""Environment variable with the device to use, such as `cuda`, `cuda:1`, `cpu` or the name of a vendor."""

FALLBACK = "PREFERRED_DEVICE_FALLBACK"
"""Environment variable that says what happens without an accelerator."""

FALLBACKS = ("warn", "error", "allow", "cpu")
"""The CPU with a warning, an error, or the CPU without a word. A device that was asked for by name and is not there is
an error in all three; `cpu` takes the CPU then too, with a warning."""

NOT_INSTALLED, FAILED, OTHER, NO_CARD = "not installed", "failed", "another plugin", "no card"

_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


def absence(facts: DeviceFacts) -> tuple[str, Message] | None:
    """Return why a device is not there, as a state and in words; None where it is: its plugin is imported and asked.

    Raises:
        Exception: whatever the plugin raises.
    """
    if facts.plugin and facts.plugin not in sys.modules:
        if not is_importable(facts.plugin):
            return (NOT_INSTALLED, say("{plugin} is not installed", plugin=facts.plugin))
        if facts.plugin_before_torch:
            reason = say("{plugin} must be imported before torch; import it in the first line", plugin=facts.plugin)
            return (FAILED, reason)
    if facts.plugin:
        importlib.import_module(facts.plugin)
        return _answer(facts)
    with _without_starting_the_driver():
        return _answer(facts)


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


def _answer(facts: DeviceFacts) -> tuple[str, Message] | None:
    is_available, device_count = find(facts, "is_available"), find(facts, "device_count")
    if is_available is None and device_count is None:
        reason = say(
            "the installed {plugin} is another plugin: it has no {path}",
            plugin=facts.plugin or facts.namespace,
            path=facts.name_of("is_available").path,
        )
        return (OTHER, reason)
    if is_available is not None and not is_available():
        return (NO_CARD, _nothing(facts, f"{facts.name_of('is_available').path}() is False"))
    if device_count is not None and device_count() < 1:
        return (NO_CARD, _nothing(facts, f"{facts.name_of('device_count').path}() is 0"))
    return None


def _nothing(facts: DeviceFacts, answer: str) -> Message:
    """Say that a plugin sees no card, and what the variable that hides cards is set to."""
    variable = facts.visible_devices
    if variable and variable in os.environ:
        value = os.environ[variable]
        return say("{answer}; {variable} is set to `{value}`", answer=answer, variable=variable, value=value)
    return plain(answer)


def error_in_full(error: BaseException) -> str:
    """Return an error and what caused it, each with its type."""
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return text if cause is None else f"{text} (after {error_in_full(cause)})"


def named(name: str) -> tuple[DeviceFacts, ...]:
    """Return the devices that a name, a device type or an alias means.

    Raises:
        DeviceError: it means none.
    """
    named_kinds = [facts for facts in vendors() if name in (facts.name, facts.device_type, *facts.aliases)]
    if not named_kinds:
        all_names = ", ".join(facts.name for facts in vendors())
        raise DeviceError(say("unknown device `{name}`", name=name), say("known: {names}", names=all_names))
    return tuple(sorted(named_kinds, key=lambda facts: name not in (facts.name, facts.device_type)))


def chosen_fallback(fallback: str) -> str:
    """Return what happens without an accelerator: the argument, else the environment variable, else `warn`.

    Raises:
        DeviceError: there is no such fallback.
    """
    fallback = fallback or os.environ.get(FALLBACK, "") or "warn"
    if fallback not in FALLBACKS:
        allowed = ", ".join(FALLBACKS)
        raise DeviceError(say("`{value}` is not a fallback; write one of {known}", value=fallback, known=allowed))
    return fallback


def split_device(text: str) -> tuple[str, int | None]:
    """Return the name and the index of a device that a setting names, such as `npu:1`.

    Raises:
        DeviceError: the text is neither NAME nor NAME:INDEX.
    """
    name, colon, index = text.partition(":")
    if colon and not index.isdigit():
        raise DeviceError(say("`{value}` is not a device; write NAME or NAME:INDEX", value=text))
    return name, int(index) if colon else None


def first_device() -> tuple[DeviceFacts, int | None]:
    """Return the kind of device that the environment asks for, or the first that is there; and the index asked for.

    Raises:
        DeviceNotAvailableError: the device is not there, and the CPU is not allowed in its place.
        DeviceError: a variable names what does not exist.
    """
    preferred = os.environ.get(PREFERRED, "").strip().lower()
    name, index = split_device(preferred)
    by_name, fallback = name not in ("", "auto"), chosen_fallback("")
    host = vendors()[-1]
    reasons: list[str] = []
    absent: list[str] = []
    for facts in named(name) if by_name else vendors()[:-1]:
        if facts is host:
            return host, index
        try:
            missing = absence(facts)
        except Exception as error:  # whatever a plugin raises is told, and the next device is looked at
            module = facts.plugin or facts.namespace
            missing = FAILED, say("{plugin} fails: {error}", plugin=module, error=error_in_full(error))
        if missing is None:
            return facts, index
        state, reason = missing
        if state == FAILED and not by_name:
            warn(say("{name} was not chosen: {reason}", name=facts.name, reason=reason))
        if state == NOT_INSTALLED:
            absent.append(facts.plugin)
        else:
            reasons.append(str(say("{name}: {reason}", name=facts.name, reason=reason)))
    if absent:
        reasons.append(str(say("not installed: {plugins}", plugins=", ".join(absent))))
    joined = "; ".join(reasons)
    why = say("{source} asks for `{device}`", source=PREFERRED, device=preferred)
    if by_name and fallback != "cpu":
        advice = say("{variable}=cpu would use the CPU instead", variable=FALLBACK)
        raise DeviceNotAvailableError(say("{why}, which is not available: {reasons}", why=why, reasons=joined), advice)
    none = say("no accelerator is available: {reasons}", reasons=joined)
    if fallback == "error":
        advice = say("{variable}=warn would use the CPU with a warning", variable=FALLBACK)
        raise DeviceNotAvailableError(none, advice)
    if fallback != "allow":
        warn(say("running on the CPU: {reason}", reason=none))
    return host, None
