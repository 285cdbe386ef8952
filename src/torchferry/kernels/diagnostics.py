"""The pages of the numbers that a port prints: what is there, why it matters, before and after, per target.

    torchferry rule PRT116

Each kind of place has one number for good. The code of its example is tried by the tests: a port finds the kind in what
precedes, and no longer in what is after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchferry.backends import registry
from torchferry.backends.kernel_table import KernelTable, kernel_table
from torchferry.core.messages import Message, say
from torchferry.kernels.diagnostic_examples import EXAMPLES, DiagnosticExample
from torchferry.kernels.effort import ApiClass, class_of_kind
from torchferry.kernels.review import ReviewKind, kinds

PREFIX = "PRT"
_OF_EVERY_TARGET = ("kernel-rewrite",)


def diagnostics(beginning: str = PREFIX) -> list[ReviewKind]:
    """Return the kinds whose number begins with a text, by number."""
    return sorted(
        (kind for kind in kinds().values() if kind.number.startswith(beginning)), key=lambda kind: kind.number
    )


def page_lines(kind: ReviewKind, lang: str) -> Iterator[str]:
    """Yield the page of a kind as Markdown without its title."""
    if kind.blocks:
        yield say("The ported code cannot be right, or cannot be compiled, before somebody has acted.").render(lang)
    else:
        yield say("The ported code may be right; somebody has to look.").render(lang)
    yield ""
    yield f"## {say('Why is this listed?').render(lang)}"
    yield ""
    yield _sentence(kind.why, lang)
    yield ""
    yield f"## {say('What to do').render(lang)}"
    yield ""
    yield _sentence(kind.action, lang)
    example = EXAMPLES.get(kind.name)
    if example is not None:
        yield from _example_lines(example, lang)
    yield ""
    yield f"## {say('On each target').render(lang)}"
    yield ""
    for name, text in _on_targets(kind):
        yield f"- `{name}`{': ' if lang == 'en' else '：'}{text.render(lang)}"


def document(kind: ReviewKind, lang: str) -> dict[str, Any]:
    """Return the page as JSON holds it."""
    example = EXAMPLES.get(kind.name)
    return {
        "code": kind.number,
        "name": kind.name,
        "why": kind.why.render(lang),
        "action": kind.action.render(lang),
        "blocks": kind.blocks,
        "example": None
        if example is None
        else {"file": example.file, "before": example.before, "after": example.after},
        "targets": {name: text.render(lang) for name, text in _on_targets(kind)},
    }


def _sentence(message: Message, lang: str) -> str:
    text = message.render(lang)
    return f"{text[:1].upper()}{text[1:]}{'.' if lang == 'en' else '。'}"


def _example_lines(example: DiagnosticExample, lang: str) -> Iterator[str]:
    yield ""
    yield f"## {say('Before and after').render(lang)}"
    for text in filter(None, (example.before, example.after)):
        yield ""
        yield f"```{example.language}"
        yield from text.rstrip("\n").split("\n")
        yield "```"
    if not example.after:
        yield ""
        yield say("Nothing is written in its place: that is for whoever knows the code.").render(lang)


def _on_targets(kind: ReviewKind) -> Iterator[tuple[str, Message]]:
    """Yield the targets, each with what the kind means there."""
    for name in registry.built_in():
        table = kernel_table(registry.load(name))
        yield name, say("no port of CUDA C++ is known") if table is None else _on_target(kind, table)


def _on_target(kind: ReviewKind, table: KernelTable) -> Message:
    """Say what the kind means on one target, as far as its table tells."""
    which = class_of_kind(kind.name)
    is_of_kernels = which in (ApiClass.DEVICE, ApiClass.PTX) and kind.name not in _OF_EVERY_TARGET
    if kind.name == "kernel-rewrite":
        if table.takes_cuda_syntax:
            return say("not listed: the compiler takes CUDA's syntax, and kernels are ported")
        return say("listed for each kernel: kernels are written in {language}", language=table.language)
    if is_of_kernels and not table.takes_cuda_syntax:
        return say("not listed by itself: the kernel is written anew in {language}", language=table.language)
    if kind.name in ("warp-size", "warp-intrinsic"):
        sizes = ", ".join(f"{limit.architecture}: {limit.warp}" for limit in table.limits if limit.warp)
        return say("listed; threads of a warp: {known}", known=sizes) if sizes else say("listed; the warp is UNKNOWN")
    if kind.name in ("shared-memory", "shared-memory-limit"):
        sizes = ", ".join(
            f"{limit.architecture}: {limit.shared_memory} B" for limit in table.limits if limit.shared_memory
        )
        if sizes:
            return say("listed; shared memory of a block: {known}", known=sizes)
        return say("listed; the shared memory of a block is UNKNOWN")
    return say("listed")
