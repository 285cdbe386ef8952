"""The end of a rehearsal, for people: what would fail on the card, what will be slow, what stayed unknown."""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from torchferry.backends.collectives import refusals
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core import exitcodes, supported_torch
from torchferry.core.messages import Bilingual, Message, cut, say, say_plural
from torchferry.core.secrets import masked, masked_command
from torchferry.rehearsal.aggregate import Aggregate, EventSum, RehearsalOutcome
from torchferry.rehearsal.config import Rehearsal
from torchferry.rehearsal.driver.description import load_driver
from torchferry.rehearsal.event_kinds import BELOW_A_MODE, RACES, WITHOUT_MODE
from torchferry.rehearsal.event_texts import COSTS, FAILURES, OTHER
from torchferry.rehearsal.faults import Fault
from torchferry.rehearsal.own_failure import explanation, plugin_of_another
from torchferry.rehearsal.published_limits import unknown_in

SCHEMA = 1
"""Version of the JSON summary."""

_MOST, _MOST_NAMES = 12, 4
"""Lines of one kind, and operators without limits, that are shown; the JSON summary has all."""


def opening(rehearsal: Rehearsal) -> Message:
    """Return the first line: that this is a rehearsal, and of what."""
    profile = rehearsal.profile
    target = rehearsal.resolved()
    # translators: memory of each device
    size = say("{size} each", size=_size(profile.memory)) if profile.memory else say("memory unknown, not limited")
    plugin = f"{target.backend.PLUGIN} {profile.version}".rstrip()
    return say(
        "REHEARSAL on the CPU: {devices} x {card} ({size}), {plugin}; it proves that code is "
        "right for the API, not speed or accuracy on the card",
        devices=profile.devices,
        card=profile.card or target.title,
        size=size,
        plugin=plugin
        if rehearsal.shipped is None
        else say("{plugin} as {vendor} ships it, on a simulated driver", plugin=plugin, vendor=_maker(target)),
    )


def _maker(target: Target) -> Bilingual:
    """Return who ships the target's plugin."""
    driver = load_driver(target.backend)
    return target.title if driver is None or driver.maker is None else driver.maker


def lines(
    rehearsal: Rehearsal, aggregate: Aggregate, lang: str, code: int = 0, found_by: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield the summary, line by line.

    Args:
        rehearsal: What was asked for.
        aggregate: What was seen.
        lang: The language.
        code: The exit code of the command.
        found_by: Tools of ours in the command that found something, which is what its exit code says.
    """
    yield verdict(rehearsal, aggregate, code, found_by).render(lang)
    if outcome(aggregate, code, found_by) is RehearsalOutcome.FAILED_ITSELF:
        yield from explanation(rehearsal.resolved(), aggregate, lang)
    if code and _is_verdict(code, found_by):
        yield "  " + say(
            "the command ended with exit code {code}: {tools} found something, see above",
            code=code,
            tools=", ".join(found_by),
        ).render(lang)
    elif code and (aggregate.failures or aggregate.on_device == 0):
        yield "  " + say("the command ended with exit code {code}", code=code).render(lang)
    if aggregate.processes == 0 and aggregate.without_torch:
        yield "  " + supported_torch.how_to_install(aggregate.without_torch).render(lang)
    elif aggregate.on_device == 0 and code == 0 and not aggregate.refused:
        yield "  " + _why_nothing(rehearsal, aggregate).render(lang)
    if aggregate.crashed:
        yield "  " + say(
            "processes that ended without a report, so that their calls are missing here: {count}",
            count=aggregate.crashed,
        ).render(lang)
    if aggregate.mostly_on_host:
        advice = say("move the model and its inputs with `.to(device)`")
        yield from _block("x", _host_work(aggregate), aggregate.of("host-work"), lang, advice)
    failures = _failures(aggregate, outcome(aggregate, code, found_by))
    for kind, (title, advice) in FAILURES.items():
        of_kind = [event for event in failures if event.kind == kind]
        below = [event for event in of_kind if kind == "mixed-devices" and event.subject in BELOW_A_MODE]
        yield from _block("x", title, [event for event in of_kind if event not in below], lang, advice)
        yield from _block("x", title, below, lang, WITHOUT_MODE)
    caught = [event for event in aggregate.caught if event not in failures]
    reported = [event for event in caught if event.only_reported]
    yield from _block(
        "x", say("what the card refuses; the program catches the error and does nothing about it"), reported, lang
    )
    handled = [event for event in caught if not event.only_reported]
    yield from _block(
        "!", say("what the card refuses; the program catches the error and does something else"), handled, lang
    )
    if not aggregate.mostly_on_host:
        yield from _block("!", _host_work(aggregate), aggregate.of("host-work"), lang)
    for kind, title in COSTS.items():
        yield from _block("!", title, aggregate.of(kind), lang)
    for kind, title in OTHER.items():
        remark = rehearsal.resolved().api("torch.compile").remark if kind == "not-compiled" else None
        yield from _block("-", title, aggregate.of(kind), lang, remark)
    asked = sorted(rehearsal.profile.fallback_operators)
    if asked:
        called = ", ".join(f'"aten::{name}"' for name in asked)
        yield "  ! " + say(
            "`--fallback` runs operators on the CPU here; on the card the program has to: {call}",
            call=f"torchferry.ops.cpu_fallback([{called}])",
        ).render(lang)
    for fault in rehearsal.faults:
        if not _happened(fault, aggregate):
            yield "  - " + say("a requested fault never occurred: {fault}", fault=fault.text()).render(lang)
            if fault.kind == "oom" and rehearsal.shipped is not None:
                yield "    " + _SEGMENTS.render(lang)
    yield from _memory(rehearsal, aggregate, lang)
    if aggregate.operators:
        yield "  " + say(
            "{operators} ran {times} on the device",
            operators=say_plural("{count} operator", "{count} operators", count=len(aggregate.operators)),
            times=say_plural("{count} time", "{count} times", count=sum(aggregate.operators.values())),
        ).render(lang)
    yield from _limits_unknown(rehearsal, aggregate, lang)
    if rehearsal.profile.saturates and aggregate.operators:
        yield "  ! " + say(
            "on this card float16 results that overflow become 65504, not inf, and nan becomes 0; a check for inf or "
            "nan sees nothing there, and here it does"
        ).render(lang)
    unknown = [say(phrase).render(lang) for phrase in rehearsal.profile.unknown]
    if aggregate.of("collective") and isinstance(refusals(rehearsal.resolved().backend), Unknown):
        unknown.append(say("the dtypes that the collective library supports").render(lang))
    if aggregate.unverified:
        unknown.append(
            say_plural(
                "{count} operator newer than the plugin's list",
                "{count} operators newer than the plugin's list",
                count=len(aggregate.unverified),
            ).render(lang)
        )
    if unknown:
        yield "  " + say("not known for this card, assumed to be as on CUDA: {facts}", facts="; ".join(unknown)).render(
            lang
        )


def limits_unknown(rehearsal: Rehearsal, aggregate: Aggregate) -> list[str]:
    """Return the operators that ran and whose limits on the card nobody publishes: all of them without any table."""
    return unknown_in(aggregate, rehearsal.profile.kernel_limits or "")


def _limits_unknown(rehearsal: Rehearsal, aggregate: Aggregate, lang: str) -> Iterator[str]:
    names = limits_unknown(rehearsal, aggregate)
    if names:
        shown = ", ".join(name.removeprefix("aten::") for name in names[:_MOST_NAMES])
        yield "  " + say_plural(
            "limits of this kernel unknown: {count} operator ({names})",
            "limits of these kernels unknown: {count} operators ({names})",
            count=len(names),
            names=shown + (", ..." if len(names) > _MOST_NAMES else ""),
        ).render(lang)


def _host_work(aggregate: Aggregate) -> Message:
    # A share that rounds to 100 % or to 0 % would say that there is nothing on the other side.
    share = 100 * aggregate.host_work / max(1, aggregate.host_work + aggregate.device_work)
    return say(
        "work of the model on the CPU: {share} % of the arithmetic in products, convolutions, attention and "
        "recurrent layers",
        share=f"{share:.1f}" if 0.05 < share < 99.95 or share == 100 else f"{share:.2g}",
    )


_SEGMENTS = say(
    "`after` counts the memory segments that the plugin's allocator requests, not tensors: lower "
    "it, or rehearse with `--plugin simulated`"
)


def _happened(fault: Fault, aggregate: Aggregate) -> bool:
    detail = "out of memory" if fault.kind == "oom" else fault.kind
    return any(
        event.detail == detail
        and (not fault.op or event.subject == fault.op or event.subject.startswith(f"{fault.op}."))
        for event in aggregate.of("fault")
    )


def _why_nothing(rehearsal: Rehearsal, aggregate: Aggregate) -> Message:
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        return say(
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading plugins; unset it, or import the "
            "plugin in the program"
        )
    if aggregate.processes == 0:
        return say("the command must run Python programs that import torch, with a Python that has torchferry")
    return say(
        "the program must import {plugin}; `torchferry migrate` adds the import",
        plugin=rehearsal.resolved().backend.PLUGIN,
    )


def _is_verdict(code: int, found_by: tuple[str, ...]) -> bool:
    """Whether the exit code is that of a tool which found something in a program that ended well."""
    return bool(found_by) and code == exitcodes.FINDINGS


def outcome(aggregate: Aggregate, code: int, found_by: tuple[str, ...] = ()) -> RehearsalOutcome:
    """Return what a rehearsal comes to.

    Args:
        aggregate: What was seen.
        code: The exit code of the command.
        found_by: Tools of ours in the command that found something, which is what its exit code says.
    """
    failed = bool(code) and not _is_verdict(code, found_by)
    if aggregate.on_device == 0:
        return RehearsalOutcome.NOTHING_RAN
    if aggregate.failures:
        return RehearsalOutcome.WOULD_FAIL
    if failed and _may_have_ended(aggregate):
        return RehearsalOutcome.WOULD_FAIL
    if failed:
        return RehearsalOutcome.NOT_REHEARSED if _unrehearsed(aggregate) else RehearsalOutcome.FAILED_ITSELF
    if aggregate.caught:
        return RehearsalOutcome.GOES_ON
    if not aggregate.used:
        return RehearsalOutcome.NOTHING_RAN
    if aggregate.mostly_on_host:
        return RehearsalOutcome.ON_CPU
    return RehearsalOutcome.NOT_REHEARSED if aggregate.of(*_NOT_REHEARSED) else RehearsalOutcome.NOTHING_SEEN


_NOT_REHEARSED = ("not-rehearsed", "not-compiled", "interpreted-kernel")
"""Kinds of what is there on the card and was not rehearsed: of that a rehearsal has seen nothing."""


def _may_have_ended(aggregate: Aggregate) -> bool:
    """Whether a command that failed by an exit code alone may have ended for what it caught.

    Names that it asks for and does without are no reason to.
    """
    own = [error for error in aggregate.errors if error.name not in _OF_CHILDREN]
    return not own and any(event.kind != "missing-api" for event in aggregate.caught)


_OF_CHILDREN = frozenset({"CalledProcessError", "ChildFailedError", "ProcessExitedException", "ProcessRaisedException"})
"""Exceptions by which a program says that another one failed, which it had started."""


def _failures(aggregate: Aggregate, result: RehearsalOutcome) -> list[EventSum]:
    """Return what would fail: where the program catches all that the card refuses and ends for it, that."""
    return aggregate.failures or (aggregate.caught if result is RehearsalOutcome.WOULD_FAIL else [])


def _unrehearsed(aggregate: Aggregate) -> str:
    """Return what ended a process, of what is there on the card and is not rehearsed; empty where nothing did."""
    places = {(error.file, error.line) for error in aggregate.errors}
    events = aggregate.of("not-rehearsed")
    return next((event.subject for event in events if (event.file, event.line) in places), "")


def verdict(rehearsal: Rehearsal, aggregate: Aggregate, code: int, found_by: tuple[str, ...] = ()) -> Message:
    """Return the outcome in one sentence."""
    if aggregate.processes == 0 and aggregate.without_torch:
        return say("NOTHING WAS REHEARSED: torch is not installed in {python}", python=aggregate.without_torch)
    if aggregate.on_device == 0 and aggregate.refused:
        return say("NOTHING WAS REHEARSED: it could not begin, for the reason above")
    if aggregate.processes == 0:
        return say("NOTHING WAS REHEARSED: the rehearsal began in no process of the command")
    if aggregate.on_device == 0:
        return say(
            "NOTHING RAN ON THE DEVICE: the command never loaded {plugin}", plugin=rehearsal.resolved().backend.PLUGIN
        )
    result = outcome(aggregate, code, found_by)
    if result is RehearsalOutcome.WOULD_FAIL:
        failures = _failures(aggregate, result)
        return say(
            "WOULD FAIL on the card; findings: {count}, places: {places}",
            count=len(failures),
            places=len({(event.file, event.line) for event in failures}),
        )
    if result is RehearsalOutcome.NOT_REHEARSED and code:
        return say(
            "NOT REHEARSED: the command ended at {name}, which exists on the card and is not rehearsed",
            name=_unrehearsed(aggregate),
        )
    if result is RehearsalOutcome.NOT_REHEARSED:
        return say(
            "NOT REHEARSED: {what}; in the rest nothing was seen that would fail on the card",
            what=functools.reduce(_and, _not_rehearsed(aggregate)),
        )
    if result is RehearsalOutcome.FAILED_ITSELF:
        return _failed_itself(rehearsal.resolved(), aggregate, code)
    if result is RehearsalOutcome.GOES_ON:
        names = list(dict.fromkeys(event.subject for event in aggregate.caught))
        return say(
            "GOES ON WITHOUT {names}: the card refuses it, and the program catches that",
            names=", ".join(cut(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
            + (", ..." if len(names) > _MOST_NAMES else ""),
        )
    if result is RehearsalOutcome.NOTHING_RAN:
        return say("NOTHING RAN ON THE DEVICE: every tensor stayed on the CPU")
    if result is RehearsalOutcome.ON_CPU:
        return say("THE LARGER PART RAN ON THE CPU: what is marked x was left there")
    return say("nothing was seen that would fail on the card")


def _and(first: Message | str, second: Message | str) -> Message | str:
    return say("{first}, {second}", first=first, second=second)


def _not_rehearsed(aggregate: Aggregate) -> Iterator[Message | str]:
    """Yield what was not rehearsed: compilers with their graphs, then names."""
    graphs: Counter[str] = Counter()
    for event in aggregate.of("not-compiled"):
        graphs[event.subject] += event.times
    for name, count in graphs.items():
        yield say_plural("{name} ({count} graph)", "{name} ({count} graphs)", name=name, count=count)
    kernels = {event.subject for event in aggregate.of("interpreted-kernel")}
    if kernels:
        yield say_plural(
            "the card's compiler for Triton ({count} kernel)",
            "the card's compiler for Triton ({count} kernels)",
            count=len(kernels),
        )
    names = list(dict.fromkeys(event.subject for event in aggregate.of("not-rehearsed")))
    yield from (cut(name, _LONGEST_NAME) for name in names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        yield "..."


def _failed_itself(target: Target, aggregate: Aggregate, code: int) -> Message:
    """Return that a command failed for a reason that has nothing to do with the card, and for which."""
    error = next(iter(aggregate.errors), None)
    if error is None:
        return say("THE COMMAND FAILED with exit code {code}; see its own error above", code=code)
    place = f"{_short(error.file)}:{error.line}" if error.file else ""
    if error.module == "triton" and isinstance(target.backend.TRITON, str):
        return say(
            "THE COMMAND FAILED with exit code {code}: no module named {module} ({place}); on {target} it is "
            "`{package}`",
            code=code, module=error.module, place=place or "?", target=target.title, package=target.backend.TRITON,
        )  # fmt: skip
    other = plugin_of_another(target, error.module)
    if other is not None:
        return say(
            "THE COMMAND FAILED with exit code {code}: it imports {module} ({place}), the plugin of {other}, and this "
            "is a rehearsal of {target}",
            code=code, module=error.module, place=place or "?", other=other.title, target=target.title,
        )  # fmt: skip
    if error.module:
        return say(
            "THE COMMAND FAILED with exit code {code}: no module named {module} ({place})",
            code=code, module=error.module, place=place or "?",
        )  # fmt: skip
    return say(
        "THE COMMAND FAILED with exit code {code}: {error} ({place}); see its own error above",
        code=code, error=error.name, place=place or "?",
    )  # fmt: skip


_MOST_NAMES = 3
_LONGEST_NAME = 60
"""How many of what a program goes on without the verdict names, and characters of each."""


def document(
    rehearsal: Rehearsal, aggregate: Aggregate, code: int, command: list[str], found_by: tuple[str, ...] = ()
) -> str:
    """Return the summary as JSON."""
    profile = rehearsal.profile
    result = outcome(aggregate, code, found_by)
    return json.dumps(
        {
            "schema": SCHEMA,
            "rehearsal": True,
            "target": rehearsal.target,
            "card": profile.card,
            "plugin_version": profile.version,
            "torch": aggregate.torch,
            "devices": profile.devices,
            "memory": profile.memory,
            "command": masked_command(command),
            "exit_code": code,
            "outcome": result.value,
            "verdict": verdict(rehearsal, aggregate, code, found_by).render("en"),
            "found_by": list(found_by),
            "processes": aggregate.processes,
            "processes_on_device": aggregate.on_device,
            "processes_without_counts": aggregate.crashed,
            "would_fail": len(_failures(aggregate, result)),
            "goes_on_without": len(aggregate.caught),
            "work": {"device": aggregate.device_work, "cpu": aggregate.host_work},
            "peak_memory": list(aggregate.peaks),
            "errors": [{**error._asdict(), "text": masked(error.text)} for error in aggregate.errors],
            "events": [{**asdict(event), "fails": event.fails} for event in aggregate.events],
            "operators": aggregate.operators,
            "unverified_operators": list(aggregate.unverified),
            "unknown": list(profile.unknown),
            "limits_unknown": limits_unknown(rehearsal, aggregate),
            "faults": [fault.as_dict() for fault in rehearsal.faults],
            "triton_launches": list(aggregate.triton_launches),
            "triton_launches_left_out": aggregate.triton_launches_left_out,
        },
        indent=1,
    )


def _block(
    mark: str, title: Message, events: list[EventSum], lang: str, advice: Message | Bilingual | None = None
) -> Iterator[str]:
    if not events:
        return
    total = sum(event.times for event in events)
    yield f"  {mark} {title.render(lang)}: {total}"
    for event in sorted(events, key=lambda event: -event.times)[:_MOST]:
        yield f"      {_describe(event, lang)}"
    if len(events) > _MOST:
        yield "      " + say_plural(
            "and {count} more place", "and {count} more places", count=len(events) - _MOST
        ).render(lang)
    if advice is not None:
        yield "    " + advice.render(lang)


def _describe(event: EventSum, lang: str) -> str:
    place = f"{_short(event.file)}:{event.line}" if event.file else "(no line of the program)"
    amount = f", {_size(event.amount)}" if event.kind in {"to-device", "to-host"} else ""
    if event.kind == "host-work":
        amount = f", {_operations(event.amount)}"
    detail = f" ({event.detail})" if event.detail else ""
    handler = ""
    if event.goes_on:
        handler = ", " + say("caught at {place}", place=f"{_short(event.handler_file)}:{event.handler_line}").render(
            lang
        )
    earlier = f", {_earlier(event).render(lang)}" if event.earlier_file else ""
    subject = RACES[event.subject].render(lang) if event.subject in RACES else event.subject
    return f"{place}  {subject}{detail}  x{event.times}{amount}{handler}{earlier}"


def _earlier(event: EventSum) -> Message:
    """Return what a race should wait for, or where it was written what the host reaches for."""
    place = f"{_short(event.earlier_file)}:{event.earlier_line}"
    if event.kind == "device-address":
        return say("written at {place}", place=place)
    return say("should wait for {place}", place=place)


def _short(file: str) -> str:
    """Return a file below the current folder, or of a package as Python finds it: `torch/amp/grad_scaler.py`."""
    _, installed, inside = file.rpartition(_INSTALLED)
    if installed:
        return inside
    try:
        relative = Path(file).relative_to(os.getcwd())
    except ValueError:
        return file
    return str(relative)


_INSTALLED = f"{os.sep}site-packages{os.sep}"


def _memory(rehearsal: Rehearsal, aggregate: Aggregate, lang: str) -> Iterator[str]:
    if not aggregate.peaks or max(aggregate.peaks) == 0:
        return
    peak, capacity = max(aggregate.peaks), rehearsal.profile.memory
    if capacity:
        text = say(
            "peak memory of a device: {peak} of {capacity} ({share} %)",
            peak=_size(peak),
            capacity=_size(capacity),
            share=f"{100 * peak / capacity:.1f}",
        )
    else:
        text = say("peak memory of a device: {peak}", peak=_size(peak))
    yield "  " + text.render(lang)


def _operations(count: int) -> str:
    value = float(count)
    for unit in ("FLOP", "kFLOP", "MFLOP", "GFLOP"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "FLOP" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} TFLOP"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"
