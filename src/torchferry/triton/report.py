"""What `torchferry triton check` prints: text, JSON, HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from torchferry.backends.triton_front_end import FrontEnd
from torchferry.core.messages import Message, cut, say, say_in, say_plural, translatable
from torchferry.numerics.report.pages import framed, heading, paragraphs, table
from torchferry.triton.model import CaseState, CheckedCase, CheckedKernel, CheckedProject, Signature

FORMAT = "torchferry triton check"
VERSION = 1

_STATES = {
    CaseState.ACCEPTED: say_in("a kernel by a compiler", "accepted"),
    CaseState.REFUSED: say_in("a kernel by a compiler", "refused"),
    CaseState.CRASHED: say("the compiler crashed"),
    CaseState.TIMEOUT: say("the compiler did not end"),
    CaseState.NOT_COMPILED: say("not compiled"),
}
_MOST_SHOWN = 12
"""Cases of one kernel that the text shows."""

_MOST_PLACES = 6
_LONGEST_MESSAGE = 160
"""Columns of a message that the text shows without `-v`."""


def document(checked: CheckedProject, front_end: FrontEnd) -> dict[str, Any]:
    """Return the result in values that JSON has."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": checked.target,
        "front_end": checked.front_end,
        "up_to": front_end.up_to.render("en"),
        "arch": checked.arch,
        "python": checked.python,
        "good": checked.is_good,
        "counts": {state.value: count for state, count in checked.counts().items()},
        "seconds": checked.seconds,
        "compiler_seconds": checked.compiler_seconds,
        "memories": {each.scope: {"name": each.name, "bytes": each.bytes} for each in front_end.memories},
        "unread": [message.render("en") for message in checked.unread],
        "kernels": [_kernel_document(kernel) for kernel in checked.kernels],
    }


def _kernel_document(kernel: CheckedKernel) -> dict[str, Any]:
    return {
        "kernel": kernel.name,
        "file": kernel.path,
        "line": kernel.line,
        "state": kernel.state.value,
        "compiled_with": list(kernel.called_by),
        "remarks": [message.render("en") for message in kernel.remarks],
        "doubts": [message.render("en") for message in kernel.doubts],
        "suggested_signature": kernel.suggestion,
        "cases": [_case_document(case) for case in kernel.cases],
    }


def _case_document(case: CheckedCase) -> dict[str, Any]:
    return {
        "state": case.state.value,
        "struck_out": case.is_struck_out,
        "signature": _signature_text(case.signature),
        "signature_from": "" if case.signature is None else case.signature.origin.render("en"),
        "dtypes_assumed": case.signature is not None and case.signature.is_assumed,
        "configuration": None if case.configuration is None else dict(case.configuration.constants),
        "supposed": case.supposed,
        "options": None if case.configuration is None else dict(case.configuration.options),
        "same_but_for_options_without_effect": case.same_as,
        "message": case.message.render("en") if isinstance(case.message, Message) else case.message,
        "file": case.path,
        "line": case.line,
        "stage": case.stage,
        "memory": dict(case.memory),
        "core": case.core,
        "one_element_at_a_time": [each._asdict() for each in case.elements],
        "seconds": case.seconds,
        "attempts": case.attempts,
        "from_cache": case.from_cache,
        "warnings": list(case.warnings),
    }


def lines(checked: CheckedProject, front_end: FrontEnd, lang: str, *, verbose: bool = False) -> list[str]:
    """Return the result as text; `verbose` shows every configuration, and accepted kernels in full."""
    written = [message.render(lang) for message in _head(checked, front_end)]
    written += ["  " + message.render(lang) for message in checked.unread]
    for kernel in checked.kernels:
        written += ["", *_kernel_lines(kernel, front_end, lang, verbose)]
    following = _next_command(checked)
    if following is not None:
        written += ["", following.render(lang)]
    return written


def _head(checked: CheckedProject, front_end: FrontEnd) -> Iterator[Message]:
    yield say(
        "Triton kernels, compiled by {front_end} for {arch} up to {stage}",
        front_end=checked.front_end,
        arch=checked.arch,
        stage=front_end.up_to,
    )
    counts = checked.counts()
    parts: Message | str = ""
    for state, count in counts.items():
        if count:
            part = say("{state}: {count}", state=_STATES[state], count=count)
            parts = part if parts == "" else say("{first}; {second}", first=parts, second=part)
    doubtful = sum(bool(kernel.doubts) for kernel in checked.kernels)
    if doubtful:
        part = say("accepted, and still in doubt: {count}", count=doubtful)
        parts = say("{first}; {second}", first=parts, second=part)
    kernels = say_plural("{count} kernel", "{count} kernels", count=len(checked.kernels))
    if not checked.kernels:
        yield say("no kernel of Triton was seen in these files")
    else:
        yield say("{kernels}: {states}", kernels=kernels, states=parts)
    yield say(
        "{seconds} s, of which the compiler took {compiler} s",
        seconds=f"{checked.seconds:.1f}",
        compiler=f"{checked.compiler_seconds:.1f}",
    )


def _kernel_lines(kernel: CheckedKernel, front_end: FrontEnd, lang: str, verbose: bool) -> Iterator[str]:
    yield f"{kernel.path}:{kernel.line}  {kernel.name}  {_STATES[kernel.state].render(lang)}"
    if kernel.called_by:
        yield "    " + say("compiled as a part of {names}", names=", ".join(kernel.called_by[:_MOST_PLACES])).render(
            lang
        )
    most = len(kernel.cases) if verbose else _MOST_SHOWN
    before: Signature | None = None
    for case in kernel.cases[:most]:
        if case.signature is not None and case.signature is not before:
            before = case.signature
            yield f"    {_signature_text(before)}  ({before.origin.render(lang)})"
        yield from ("      " + message for message in _case_lines(case, kernel, front_end, lang, verbose))
    if len(kernel.cases) > most:
        yield "      " + say("... and {count} more; `-v` shows them", count=len(kernel.cases) - most).render(lang)
    for doubt in kernel.doubts:
        yield "    " + say("accepted, and still in doubt: {text}", text=doubt).render(lang)
    for remark in kernel.remarks:
        yield "    " + say("note: {text}", text=remark).render(lang)
    if kernel.suggestion:
        yield f"    --signature '{kernel.suggestion}'"


def _case_lines(
    case: CheckedCase, kernel: CheckedKernel, front_end: FrontEnd, lang: str, verbose: bool
) -> Iterator[str]:
    shown = _configuration_text(case)
    start = f"{shown}  " if shown else ""
    if case.supposed:
        start += say("if {condition} at import:", condition=case.supposed).render(lang) + " "
    if case.state is CaseState.ACCEPTED:
        yield start + "; ".join(_facts(case, front_end, lang))
        if case.elements:
            places = _places(case)
            total = sum(each.times for each in case.elements)
            yield "  " + say_plural(
                "slow: one access is made one element at a time: {places}",
                "slow: {count} accesses are made one element at a time: {places}",
                count=total,
                places=places,
            ).render(lang)
    else:
        message = case.message.render(lang) if isinstance(case.message, Message) else case.message
        state = say("struck out") if case.is_struck_out else _STATES[case.state]
        place = f" [{case.path}:{case.line}]" if case.path else ""
        message = message if verbose else cut(message, _LONGEST_MESSAGE)
        yield f"{start}{state.render(lang)}: {message}{place}" if message else f"{start}{state.render(lang)}"
    if verbose:
        for warning in case.warnings:
            yield "  " + say("the compiler warns: {text}", text=warning).render(lang)


def _places(case: CheckedCase) -> str:
    """Return the lines whose accesses are made one element at a time, a file named once."""
    shown, before = [], ""
    for each in case.elements[:_MOST_PLACES]:
        shown.append(f":{each.line}" if each.path == before else f"{PurePosixPath(each.path).name}:{each.line}")
        before = each.path
    return ", ".join(shown)


def _facts(case: CheckedCase, front_end: FrontEnd, lang: str) -> Iterator[str]:
    core = next((each.title.render(lang) for each in front_end.cores if each.name == case.core), case.core)
    if core:
        yield core
    yield from _memory_texts(case, front_end, lang)
    if case.same_as:
        yield say_plural(
            "one more that differs by options without effect alone",
            "{count} more that differ by options without effect alone",
            count=case.same_as,
        ).render(lang)
    if case.attempts > 1:
        yield say("at attempt {count}: the compiler crashed before", count=case.attempts).render(lang)
    seconds = say("{seconds} s", seconds=f"{case.seconds:.1f}")
    yield (say("{seconds} s, by an earlier run", seconds=f"{case.seconds:.1f}") if case.from_cache else seconds).render(
        lang
    )


def _memory_texts(case: CheckedCase, front_end: FrontEnd, lang: str) -> Iterator[str]:
    planned = dict(case.memory)
    for each in front_end.memories:
        if each.scope in planned:
            used = planned.pop(each.scope)
            yield say(
                "{memory} {used} of {size} KiB",
                memory=each.name,
                used=f"{used / 1024:.1f}",
                size=f"{each.bytes / 1024:.0f}",
            ).render(lang)
    for scope, used in planned.items():
        yield f"{scope} {used / 1024:.1f} KiB"


def _configuration_text(case: CheckedCase) -> str:
    if case.configuration is None:
        return ""
    values = (*case.configuration.constants, *case.configuration.options)
    return " ".join(f"{name}={value}" for name, value in values)


def _signature_text(signature: Signature | None) -> str:
    return "" if signature is None else ", ".join(f"{each.name}={each.text}" for each in signature.arguments)


def _next_command(checked: CheckedProject) -> Message | None:
    unknown = [kernel for kernel in checked.kernels if kernel.suggestion]
    if not unknown:
        return None
    return say(
        "next: a rehearsal records what kernels are launched with: `torchferry rehearse -t {target} --summary-file "
        "run.json -- COMMAND`, then `torchferry triton check -t {target} --launches run.json`; or write the signature "
        "by hand",
        target=checked.target,
    )


_HEADS = (
    translatable("kernel"),
    translatable("state"),
    translatable("configuration"),
    translatable("signature"),
    translatable("cores"),
    translatable("memory"),
    translatable("one element at a time"),
    translatable("seconds"),
    translatable("message"),
)


def page(checked: CheckedProject, front_end: FrontEnd, lang: str) -> str:
    """Return the result as an HTML page."""
    title = say("torchferry: Triton kernels on {target}", target=checked.target).render(lang)
    body = [paragraphs(message.render(lang) for message in (*_head(checked, front_end), *checked.unread))]
    rows: list[list[str]] = []
    kinds: list[str] = []
    for kernel in checked.kernels:
        for case in kernel.cases or (CheckedCase(None, None, kernel.state),):
            rows.append(_cells(kernel, case, front_end, lang))
            is_good = case.state is CaseState.ACCEPTED
            kinds.append("" if is_good and not case.elements else "warn" if is_good or case.is_struck_out else "fail")
    body += [table([say(text).render(lang) for text in _HEADS], rows, kinds)]
    remarks = [
        f"{kernel.path}:{kernel.line} {kernel.name}: {each.render(lang)}"
        for kernel in checked.kernels
        for each in (*kernel.doubts, *kernel.remarks)
    ]
    if remarks:
        body += [heading(say("notes").render(lang)), paragraphs(remarks)]
    following = _next_command(checked)
    if following is not None:
        body.append(paragraphs([following.render(lang)]))
    return framed(title, checked.is_good, body, lang)


def _cells(kernel: CheckedKernel, case: CheckedCase, front_end: FrontEnd, lang: str) -> list[str]:
    core = next((each.title.render(lang) for each in front_end.cores if each.name == case.core), case.core)
    message = case.message.render(lang) if isinstance(case.message, Message) else case.message
    if kernel.called_by and not kernel.cases:
        message = say("compiled as a part of {names}", names=", ".join(kernel.called_by[:_MOST_PLACES])).render(lang)
    place = f" [{case.path}:{case.line}]" if case.path else ""
    state = say("struck out") if case.is_struck_out else _STATES[case.state]
    return [
        f"{kernel.path}:{kernel.line} {kernel.name}",
        state.render(lang),
        " ".join(filter(None, (_configuration_text(case), case.supposed))),
        _signature_text(case.signature),
        core,
        ", ".join(_memory_texts(case, front_end, lang)),
        ", ".join(f"{each.path}:{each.line} x{each.times}" for each in case.elements),
        f"{case.seconds:.1f}" if case.seconds else "",
        f"{message}{place}",
    ]
