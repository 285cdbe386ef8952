"""A diagnosis as text, as JSON, and as a block for an issue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Any

from torchferry import __version__
from torchferry.core.json_text import json_text
from torchferry.core.messages import Bilingual, Message, say, say_in, say_plural
from torchferry.core.secrets import masked
from torchferry.core.terminal import visible
from torchferry.doctor.check import SIDES
from torchferry.doctor.engine import Diagnosis
from torchferry.doctor.grouping import CauseGroup, grouped
from torchferry.doctor.host import Host
from torchferry.doctor.registry import all_checks
from torchferry.doctor.result import CheckStatus, Result

SCHEMA = 2
"""Version of the JSON; it grows when a field changes its meaning."""


class Detail(Enum):
    """How much is shown.

    BRIEF leaves out what is well or was skipped; USUAL names what was skipped; FULL also says why.
    """

    BRIEF = 0
    USUAL = 1
    FULL = 2


Paint = Callable[[str, str], str]
"""Gives a text the colour of a status."""

_WORDS = {
    CheckStatus.OK: say_in("status", "ok"),
    CheckStatus.WARNING: say_in("status", "warning"),
    CheckStatus.FAILURE: say_in("status", "FAILURE"),
    CheckStatus.SKIPPED: say_in("status", "skipped"),
    CheckStatus.UNKNOWN: say_in("status", "unknown"),
}
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")


def shown(text: str) -> str:
    """Return text that may be on a terminal: secrets hidden, control characters escaped."""
    return visible(masked(text))


def text_lines(diagnosis: Diagnosis, lang: str, paint: Paint, detail: Detail) -> Iterator[str]:
    """Yield the report for people."""
    context = diagnosis.context
    title = context.target.title.render(lang)
    yield say(
        "{target} ({title}), Python {python}", target=context.target.name, title=title, python=context.host.python
    ).render(lang)
    if context.rehearsed:
        yield say("REHEARSAL: the results describe a simulated card on the CPU").render(lang)
    groups = grouped(diagnosis)
    for group in groups:
        yield ""
        mark = paint(_pad(_WORDS[group.status].render(lang), 8), group.status.value)
        counted = say_plural(
            "{what} ({count} check)", "{what} ({count} checks)", what=group.what, count=len(group.members)
        )
        yield f"  {mark} {shown(counted.render(lang))}"
        yield from (f"           {line}" for line in _details(group, lang))
    sides = {check.code: check.side for check in all_checks()}
    titles = {check.code: check.title for check in all_checks()}
    quiet = (CheckStatus.OK, CheckStatus.SKIPPED) if detail is Detail.BRIEF else ()
    chosen = [result for result in diagnosis.results if result.status not in quiet]
    for side, of_side in groupby(chosen, key=lambda result: sides[result.code]):
        yield ""
        yield paint(SIDES[side].render(lang), "side")
        left_out = []
        for result in of_side:
            if result.status is CheckStatus.SKIPPED and detail is not Detail.FULL:
                left_out.append(titles[result.code].render(lang))
                continue
            mark = paint(_pad(_WORDS[result.status].render(lang), 8), result.status.value)
            above = detail is not Detail.FULL and any(group.has(result) for group in groups)
            what = say("{what} (see above)", what=result.what) if above else result.what
            line = say("{check}: {what}", check=titles[result.code], what=shown(what.render(lang)))
            yield f"  {mark} {line.render(lang)}"
            if not above:
                yield from (f"           {line}" for line in _details(result, lang))
        if left_out:
            mark = paint(_pad(_WORDS[CheckStatus.SKIPPED].render(lang), 8), CheckStatus.SKIPPED.value)
            yield f"  {mark} {', '.join(left_out)}"
    yield ""
    yield summary(diagnosis).render(lang)
    yield from (line.render(lang) for line in _closing(diagnosis))


def _pad(text: str, width: int) -> str:
    """Pad to a width on the terminal, on which a Chinese character takes two places."""
    return text + " " * max(0, width - sum(2 if ord(char) > 0x2E80 else 1 for char in text))


def _details(result: Result | CauseGroup, lang: str) -> Iterator[str]:
    if result.cause is not None:
        yield say("cause: {cause}", cause=shown(result.cause.render(lang))).render(lang)
    for command in result.commands:
        yield f"$ {shown(command)}"
    if result.advice is not None and result.advice.render(lang):
        yield say("note: {note}", note=shown(result.advice.render(lang))).render(lang)
    for line in result.evidence if isinstance(result, Result) else ():
        yield f"| {shown(line)}"
    if result.source and result.status in (CheckStatus.FAILURE, CheckStatus.WARNING):
        yield say("source: {source}", source=result.source).render(lang)


def summary(diagnosis: Diagnosis) -> Message:
    """Return how many checks ended how."""
    failures = diagnosis.count(CheckStatus.FAILURE)
    warnings = diagnosis.count(CheckStatus.WARNING)
    counts = {
        "failures": say_plural("{count} failure", "{count} failures", count=failures),
        "warnings": say_plural("{count} warning", "{count} warnings", count=warnings),
        **{
            status.name.lower(): diagnosis.count(status)
            for status in (CheckStatus.UNKNOWN, CheckStatus.OK, CheckStatus.SKIPPED)
        },
    }
    groups = [group for group in grouped(diagnosis) if group.status is CheckStatus.FAILURE]
    if groups:
        together = sum(result.status is CheckStatus.FAILURE for group in groups for result in group.members)
        return say(
            "{failures} (causes: {causes}), {warnings}, {unknown} unknown, {ok} ok, {skipped} skipped",
            causes=failures - together + len(groups),
            **counts,
        )
    return say("{failures}, {warnings}, {unknown} unknown, {ok} ok, {skipped} skipped", **counts)


def _closing(diagnosis: Diagnosis) -> Iterator[Message]:
    """Yield what to do next on a machine that has no card."""
    context = diagnosis.context
    if context.rehearsed or diagnosis.ok:
        return
    if not context.cards and not any(context.host.find(node.pattern) for node in context.requirements.nodes):
        yield say(
            "This machine has no card of {title}. You can test code on a simulated card: {command}",
            title=context.target.title,
            command=f"torchferry rehearse --target {context.target} -- python YOUR_PROGRAM.py",
        )


def _text(value: Message | Bilingual | None, lang: str) -> str:
    return "" if value is None else masked(value.render(lang))


def _record(result: Result, lang: str, groups: Sequence[CauseGroup]) -> dict[str, Any]:
    number = next((number for number, group in enumerate(groups) if group.has(result)), None)
    above = () if number is None else groups[number].commands
    return {
        "check": result.code,
        "status": result.status.value,
        "what": _text(result.what, lang),
        "cause": _text(result.cause, lang),
        "group": number,
        "commands": [masked(command) for command in result.commands if command not in above],
        "advice": _text(result.advice, lang),
        "evidence": [masked(line) for line in result.evidence],
        "source": result.source,
    }


def _group_record(group: CauseGroup, lang: str) -> dict[str, Any]:
    return {
        "status": group.status.value,
        "what": _text(group.what, lang),
        "cause": _text(group.cause, lang),
        "commands": [masked(command) for command in group.commands],
        "advice": _text(group.advice, lang),
        "source": group.source,
        "checks": [result.code for result in group.members],
    }


def document(diagnosis: Diagnosis, lang: str) -> dict[str, Any]:
    """Return the diagnosis as JSON has it. The commands of a group are not repeated in its results."""
    groups = grouped(diagnosis)
    return {
        "schema": SCHEMA,
        "kind": "torchferry doctor",
        "torchferry": __version__,
        "target": diagnosis.context.target.name,
        "rehearsal": diagnosis.context.rehearsed,
        "ok": diagnosis.ok,
        "counts": {status.value: diagnosis.count(status) for status in CheckStatus},
        "groups": [_group_record(group, lang) for group in groups],
        "results": [_record(result, lang, groups) for result in diagnosis.results],
    }


def render_json(diagnosis: Diagnosis, lang: str) -> str:
    """Return the diagnosis as JSON."""
    return json_text(document(diagnosis, lang), indent=2)


def issue_lines(diagnosis: Diagnosis, lang: str) -> Iterator[str]:
    """Yield a block of Markdown for an issue: no secrets, no host name, no user name, no addresses."""
    context = diagnosis.context
    rows = [
        ("target", context.target.name + (" (rehearsal)" if context.rehearsed else "")),
        ("cards", ", ".join(card.name for card in context.cards) or "none shown"),
        ("driver", context.driver_version[0] or "?"),
        (context.requirements.sdk.name or "toolkit", context.sdk_version[0] or "?"),
        ("python", context.python.version or "?"),
        ("torch", str((context.python.torch or {}).get("version") or "none")),
        (context.target.backend.PLUGIN, context.plugin or "none"),
    ]
    text = text_lines(diagnosis, lang, lambda text, kind: text, Detail.BRIEF)
    yield from issue_block(context.host, summary(diagnosis).render(lang), rows, text)


def issue_block(host: Host, title: str, rows: Iterable[tuple[str, str]], text: Iterable[str]) -> Iterator[str]:
    """Yield the block: a title, a table that begins with torchferry and the system, and lines of text."""
    hidden = {
        name: mark for name, mark in ((host.hostname, "HOST"), (host.user.name, "USER")) if name and name != "root"
    }
    home = host.environment.get("HOME", "")

    def anonymous(text: str) -> str:
        text = masked(text)
        if len(home) > 1 and home != "/root":
            text = text.replace(home, "~")
        for name, mark in hidden.items():
            text = re.sub(rf"\b{re.escape(name)}\b", mark, text)
        return _ADDRESS.sub("ADDRESS", text).replace("```", "'''")

    own_versions = [("torchferry", __version__), ("system", f"{host.architecture}, kernel {host.kernel}")]
    yield "<details><summary>torchferry doctor: " + anonymous(title) + "</summary>"
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    for name, value in [*own_versions, *rows]:
        yield f"| {name} | {anonymous(value).replace('|', '/')} |"
    yield ""
    yield "```text"
    yield from anonymous("\n".join(text)).split("\n")  # as one text: a key takes several lines
    yield "```"
    yield ""
    yield "</details>"
