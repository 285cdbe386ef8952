"""A comparison for people."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.differences.cause import CERTAIN, NOTE, Cause
from torchferry.numerics.differences.comparison import Comparison, First

_MODULES = 12
_NOTES = 8


def lines(result: Comparison, lang: str) -> Iterator[str]:
    """Yield what is shown on a terminal."""
    causes = [cause for cause in result.causes if cause.grade != NOTE]
    yield _headline(result).render(lang)
    for message in result.coverage.gaps:
        yield f"  {message.render(lang)}"
    if causes:
        yield ""
        yield say("What differs before any operator is asked, and what explains the most first:").render(lang)
        for cause in causes:
            yield from _cause(cause, lang)
    if result.first is not None:
        yield ""
        yield from _first(result.first, lang)
    elif result.earliest and not result.same:
        yield say("first difference of any size: {where}", where=result.earliest).render(lang)
    yield ""
    yield say_plural(
        "{count} result was laid side by side; {only_a} only the first run has, {only_b} only the second",
        "{count} results were laid side by side; {only_a} only the first run has, {only_b} only the second",
        count=result.aligned,
        only_a=result.only_a,
        only_b=result.only_b,
    ).render(lang)
    yield from _growth(result, lang)
    for message in result.remarks:
        yield message.render(lang)
    for message in result.left_out:
        yield say("not compared: {what}", what=message).render(lang)
    notes = [cause for cause in result.causes if cause.grade == NOTE]
    if notes:
        yield say("also different:").render(lang)
        for cause in notes[:_NOTES]:
            yield f"  {cause.text.render(lang)}: {cause.where}: {cause.a} | {cause.b}"
        if len(notes) > _NOTES:
            yield "  " + say("and {count} more, in the JSON report", count=len(notes) - _NOTES).render(lang)


def _headline(result: Comparison) -> Message:
    covered = result.coverage
    counts = {
        "results": say_plural("{count} result", "{count} results", count=result.aligned),
        "steps": _steps(covered.compared),
        "made": _steps(covered.made),
    }
    if result.differs:
        return say("DIFFERENT")
    if not covered.complete:
        return say(
            "NOT COMPARED TO THE END: {results} of {steps} laid side by side, none beyond the standard; "
            "the first run made {made}",
            **counts,
        )
    return say(
        "SAME: {results} of {steps} laid side by side, none beyond the standard; the first run made {made}",
        **counts,
    )


def _steps(count: int) -> Message:
    return say_plural("{count} step", "{count} steps", count=count)


def _cause(cause: Cause, lang: str) -> Iterator[str]:
    mark = "*" if cause.grade == CERTAIN else "?"
    yield f"  {mark} {cause.text.render(lang)} ({cause.where})"
    yield f"      {cause.a} | {cause.b}"
    yield f"      {cause.advice.render(lang)}"


def _first(first: First, lang: str) -> Iterator[str]:
    place = f"{first.module or say('outside of modules').render(lang)} ({first.phase})"
    what = f"{place} {first.operator}".rstrip()
    head = (
        say("Errors grew up to {what}, step {step}", what=what, step=first.step)
        if first.gradual
        else say("Numbers part first at {what}, step {step}", what=what, step=first.step)
    )
    yield head.render(lang)
    yield "      " + say(
        "relative error {error}, where {limit} is allowed; what it used was off by {came_in}",
        error=f"{first.error:.3g}",
        limit=f"{first.limit:.3g}",
        came_in=f"{first.came_in:.3g}",
    ).render(lang)
    yield "      " + say(
        "{dtype} {shape}, norm {a} | {b}, rank {rank}",
        dtype=first.dtype,
        shape=list(first.shape),
        a=f"{first.a:.6g}",
        b=f"{first.b:.6g}",
        rank=first.rank,
    ).render(lang)
    if first.exact is not None:
        found = first.exact
        yield "      " + say_plural(
            "{differing} of {count} element differs, the most at {at}: {a} | {b}; cosine {cosine}",
            "{differing} of {count} elements differ, the most at {at}: {a} | {b}; cosine {cosine}",
            differing=found.differing,
            count=found.of,
            at=list(found.at),
            a=f"{found.values[0]:.7g}",
            b=f"{found.values[1]:.7g}",
            cosine=f"{found.cosine:.6f}",
        ).render(lang)


def _growth(result: Comparison, lang: str) -> Iterator[str]:
    if not any(error for error in result.steps.values()):
        return
    worst = sorted(result.modules.items(), key=lambda item: -item[1][0])[:_MODULES]
    yield say("largest errors, by module:").render(lang)
    for (module, phase), (error, step) in worst:
        if error:
            place = module or say("outside of modules").render(lang)
            yield f"  {error:9.3g}  {place} ({phase}), {say('step').render(lang)} {step}"
    shown = list(result.steps.items())
    if len(shown) > 1:
        chosen = shown if len(shown) <= 8 else [shown[i * (len(shown) - 1) // 7] for i in range(8)]
        yield say(
            "growth over steps: {values}", values=", ".join(f"{step}: {error:.2g}" for step, error in chosen)
        ).render(lang)
    if result.losses:
        pairs = list(result.losses.items())
        chosen_losses = pairs if len(pairs) <= 4 else [*pairs[:2], *pairs[-2:]]
        yield say(
            "loss: {values}", values=", ".join(f"{step}: {one:.6g} | {two:.6g}" for step, (one, two) in chosen_losses)
        ).render(lang)
