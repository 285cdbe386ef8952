"""The advice as one page that loads nothing."""

from __future__ import annotations

from html import escape

from torchferry.advice.model import Advice, Counsel
from torchferry.advice.report import diff_lines, effect, evidence, headline
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.numerics.report.pages import framed, heading, paragraphs, table


def page(counsel: Counsel, target: Target, lang: str) -> str:
    """Return the page."""
    body = [paragraphs(remark.render(lang) for remark in counsel.remarks)]
    if counsel.steps:
        places = ", ".join(map(str, counsel.steps))
        body.insert(0, paragraphs([say("training step: {places}", places=places).render(lang)]))
    for number, advice in enumerate(counsel.advice, 1):
        body.append(heading(f"{number}. {advice.title.render(lang)}"))
        body += _advice(advice, lang)
    return framed(headline(counsel, target).render(lang), not counsel.advice, body, lang)


def _advice(advice: Advice, lang: str) -> list[str]:
    lines = [
        advice.reason,
        say("evidence: {evidence}", evidence=evidence(advice)),
        say("effect: {effect}", effect=effect(advice)),
    ]
    if advice.effect.source:
        lines.append(say("source: {source}", source=advice.effect.source))
    if advice.todo is not None:
        lines.append(say("do: {what}", what=advice.todo))
    body = [paragraphs(line.render(lang) for line in lines)]
    if advice.places:
        body.append(table(("", ""), [(str(place), place.text.strip()) for place in advice.places]))
    body += [f"<pre>{escape(chr(10).join(diff_lines(edit)))}</pre>" for edit in advice.edits]
    return body
