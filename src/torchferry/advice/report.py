"""What `torchferry advise` prints: text, JSON, Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator

from torchferry.advice.model import Advice, Counsel, ProposedEdit
from torchferry.backends.performance import times_the_speed
from torchferry.backends.target import Target
from torchferry.core.json_text import visible_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.terminal import visible

FORMAT, VERSION = "torchferry advice", 1

_PLACES = 8
"""Places of one piece of advice that the text shows."""

_EDITS = 4
"""Edits of one piece of advice that the text shows."""


def headline(counsel: Counsel, target: Target) -> Message:
    """Return one line on how much advice there is."""
    if not counsel.advice:
        return say("nothing to advise for {target}", target=target.title)
    count = say_plural("{count} piece of advice", "{count} pieces of advice", count=len(counsel.advice))
    number = sum(advice.figure is not None for advice in counsel.advice)
    if number:
        return say(
            "{count} for {target}, {measured} of them with evidence from the trace",
            count=count,
            target=target.title,
            measured=number,
        )
    return say("{count} for {target}, from the code alone, not measured", count=count, target=target.title)


def text_lines(counsel: Counsel, target: Target, lang: str) -> Iterator[str]:
    """Yield the advice as text."""
    yield headline(counsel, target).render(lang)
    if counsel.steps:
        shown = ", ".join(map(str, counsel.steps[:_PLACES])) + (", ..." if len(counsel.steps) > _PLACES else "")
        yield "  " + say("training step: {places}", places=shown).render(lang)
    for remark in counsel.remarks:
        yield "  " + remark.render(lang)
    for number, advice in enumerate(counsel.advice, 1):
        yield ""
        yield from _advice_lines(number, advice, lang)


def _advice_lines(number: int, advice: Advice, lang: str) -> Iterator[str]:
    yield f"{number}. {advice.title.render(lang)} [{advice.kind}]"
    for place in advice.places[:_PLACES]:
        yield f"     {place}  {visible(place.text)}"
    if len(advice.places) > _PLACES:
        yield "     " + more(len(advice.places) - _PLACES).render(lang)
    yield "   " + say("why: {reason}", reason=advice.reason).render(lang)
    yield "   " + say("evidence: {evidence}", evidence=evidence(advice)).render(lang)
    yield "   " + say("effect: {effect}", effect=effect(advice)).render(lang)
    if advice.effect.source:
        yield "   " + say("source: {source}", source=advice.effect.source).render(lang)
    if advice.todo is not None:
        yield "   " + say("do: {what}", what=advice.todo).render(lang)
    for edit in advice.edits[:_EDITS]:
        yield from (f"     {line}" for line in diff_lines(edit))
    if len(advice.edits) > _EDITS:
        yield "     " + more(len(advice.edits) - _EDITS).render(lang)


def more(count: int) -> Message:
    """Return how many more there are."""
    return say("... and {count} more; -f json lists all", count=count)


def evidence(advice: Advice) -> Message:
    """Return what a piece of advice rests on."""
    return advice.figure.message if advice.figure is not None else say("from the code alone, not measured")


def effect(advice: Advice) -> Message:
    """Return what is to be expected: the most that the trace leaves to be saved, and what is published."""
    published = _published(advice)
    if advice.figure is None or advice.figure.share is None:
        return published
    return say(
        "at most {share} % of a step; {published}", share=f"{100 * advice.figure.share:.0f}", published=published
    )


def _published(advice: Advice) -> Message:
    facts = advice.effect
    if facts.speed is None:
        return say("no figure is published")
    factor = times_the_speed(facts.speed)
    if facts.elsewhere:
        return say(
            "no figure is published for this target; elsewhere {factor} ({measured})",
            factor=factor,
            measured=facts.measured,
        )
    return say("{factor} ({measured})", factor=factor, measured=facts.measured)


def diff_lines(edit: ProposedEdit) -> Iterator[str]:
    """Yield an edit as a unified diff without context."""
    yield f"@@ {edit.path}:{edit.line} @@"
    kept = 0
    while kept < min(len(edit.before), len(edit.after)) and edit.before[kept] == edit.after[kept]:
        kept += 1
    yield from (f" {visible(line)}" for line in edit.before[:kept])
    yield from (f"-{visible(line)}" for line in edit.before[kept:])
    yield from (f"+{visible(line)}" for line in edit.after[kept:])


def markdown(counsel: Counsel, target: Target, lang: str) -> str:
    """Return the advice as Markdown."""
    lines = [f"# {headline(counsel, target).render(lang)}", ""]
    lines += [f"- {_escaped(remark.render(lang))}" for remark in counsel.remarks]
    for number, advice in enumerate(counsel.advice, 1):
        lines += [
            "",
            f"## {number}. {_escaped(advice.title.render(lang))}",
            "",
            _escaped(advice.reason.render(lang)),
            "",
        ]
        lines += [f"- `{place}`: `{_code(place.text)}`" for place in advice.places]
        lines.append("- " + _escaped(say("evidence: {evidence}", evidence=evidence(advice)).render(lang)))
        lines.append("- " + _escaped(say("effect: {effect}", effect=effect(advice)).render(lang)))
        if advice.effect.source:
            lines.append("- " + _escaped(say("source: {source}", source=advice.effect.source).render(lang)))
        if advice.todo is not None:
            lines.append("- " + _escaped(say("do: {what}", what=advice.todo).render(lang)))
        for edit in advice.edits:
            fence = "`" * (3 + max((line.count("`") for line in (*edit.before, *edit.after)), default=0))
            lines += ["", f"{fence}diff", *diff_lines(edit), fence]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Return a text in which nothing but code in backquotes is markup."""
    parts = text.split("`")
    plain = ["".join(f"\\{letter}" if letter in "\\*_<>[]#|" else letter for letter in part) for part in parts[::2]]
    parts[::2] = plain
    return "`".join(parts)


def _code(text: str) -> str:
    return visible(text).replace("`", "'")


def document(counsel: Counsel, target: Target) -> dict[str, object]:
    """Return the advice in values that JSON has; `docs/en/advising.md` explains them."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": str(target),
        "measured": counsel.measured,
        "steps": [place._asdict() for place in counsel.steps],
        "remarks": [remark.render("en") for remark in counsel.remarks],
        "advice": [_advice_document(advice) for advice in counsel.advice],
    }


def _advice_document(advice: Advice) -> dict[str, object]:
    figure, facts = advice.figure, advice.effect
    return {
        "kind": advice.kind,
        "title": advice.title.render("en"),
        "reason": advice.reason.render("en"),
        "places": [place._asdict() for place in advice.places],
        "evidence": "code" if figure is None else "trace",
        "figure": None if figure is None else figure.message.render("en"),
        "share": None if figure is None else figure.share,
        "published": None
        if facts.speed is None
        else {
            "least": facts.speed[0],
            "most": facts.speed[1],
            "measured": facts.measured.en,
            "elsewhere": facts.elsewhere,
        },
        "source": facts.source or None,
        "edits": [
            {"path": edit.path, "line": edit.line, "before": list(edit.before), "after": list(edit.after)}
            for edit in advice.edits
        ],
        "todo": None if advice.todo is None else advice.todo.render("en"),
    }


def json_text(counsel: Counsel, target: Target) -> str:
    """Return the advice as JSON."""
    return visible_json(json.dumps(document(counsel, target), indent=1, ensure_ascii=False))
