"""The evidence as one page that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from torchferry.acceptance.card_use import no_card_message
from torchferry.acceptance.gates import Gate, GateStatus
from torchferry.acceptance.report import headline, rows
from torchferry.acceptance.runs import SAMPLE_DEVICE, SAMPLE_HOST, SAMPLE_STEP, AcceptanceRun
from torchferry.acceptance.situation import Situation
from torchferry.acceptance.units import readable
from torchferry.core.messages import Message, say
from torchferry.numerics.report.pages import framed, heading, paragraphs, table

_KINDS = {GateStatus.RED: "fail", GateStatus.NOT_JUDGED: "warn", GateStatus.GREEN: ""}
_WIDE, _HIGH, _EDGE = 640.0, 160.0, 8.0


def page(situation: Situation, found: dict[str, Any], gates: Sequence[Gate], partial: bool, lang: str) -> str:
    """Return the page.

    Args:
        situation: What was judged.
        found: What evidence.json holds.
        gates: The gates.
        partial: Whether only some stages were requested.
        lang: The language.
    """

    def text(message: Message) -> str:
        return message.render(lang)

    without_card = no_card_message(situation)
    remarks = [] if without_card is None else [text(without_card)]
    if situation.rehearsal is not None:
        remarks.append(
            text(
                say(
                    "A rehearsal proves that code is right for the API; it says nothing about speed or accuracy on the "
                    "card."
                )
            )
        )
        if found["faults"]:
            faults = ", ".join(found["faults"])
            remarks.append(text(say("Faults were injected, to see which gate turns red: {faults}", faults=faults)))
    head = [text(each) for each in (say("gate"), say("status"), say("measured"), say("wanted"), say("reason"))]
    head.append(text(say("needed to judge it")))
    shown = list(rows(gates, lang))
    body = [paragraphs(remarks), heading(text(say("gates")))]
    body.append(
        table(
            head,
            [
                (
                    title,
                    status,
                    measured,
                    wanted,
                    *("" if each is None else text(each) for each in (gate.reason, gate.needed)),
                )
                for gate, title, status, measured, wanted in shown
            ],
            [_KINDS[gate.status] for gate, *_ in shown],
        )
    )
    body.append(heading(text(say("what was judged"))))
    body.append(table(("", ""), list(_facts(found, lang))))
    body.append(heading(text(say("runs"))))
    body.append(
        table(
            [
                text(each)
                for each in (
                    say("run"),
                    say("command"),
                    say("seconds"),
                    say("exit code"),
                    say("steps"),
                    say("peak memory"),
                    say("log"),
                )
            ],
            [
                (
                    run["name"],
                    " ".join(run["command"]),
                    run["seconds"],
                    run["exit_code"],
                    run["steps"],
                    "" if run["peak_memory"] is None else readable(run["peak_memory"]),
                    run["log"],
                )
                for run in found["runs"]
            ],
        )
    )
    for run in situation.made:
        body += _memory(run, lang)
    return framed(headline(situation, gates, partial).render(lang), found["verdict"] == "accepted", body, lang)


def _facts(found: dict[str, Any], lang: str) -> list[tuple[str, str]]:
    target, project, baseline = found["target"], found["project"], found["baseline"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    baseline_versions = ", ".join(f"{name} {version}" for name, version in baseline["versions"].items())
    facts = [
        (say("target"), f"{target['title']} ({target['name']} {target['version']}) {target['card']}"),
        (say("project"), f"{project['name']} {project['commit']}" + (" +" if project["changed"] else "")),
        (say("source"), " ".join(filter(None, found["source"].values()))),
        (say("model"), " ".join(filter(None, found["model"].values()))),
        (say("data"), " ".join(filter(None, found["data"].values()))),
        (say("baseline"), ", ".join(filter(None, (baseline["device"], baseline["date"], baseline_versions)))),
        (say("versions"), versions),
        (say("date"), found["date"]),
        (say("accept file"), f"{project['accept_file']} sha256 {project['accept_sha256']}"),
    ]
    return [(title.render(lang), value) for title, value in facts if value.strip()]


def _memory(run: AcceptanceRun, lang: str) -> list[str]:
    """Return the curves of memory by step."""
    drawn: list[str] = []
    for column, title in ((SAMPLE_DEVICE, say("memory of the device")), (SAMPLE_HOST, say("memory of the process"))):
        points = [(row[SAMPLE_STEP], row[column]) for row in run.rows() if row[column] >= 0]
        if len(points) < 2:
            continue
        low, high = min(y for _, y in points), max(y for _, y in points)
        first, last = points[0][0], points[-1][0]

        def place(
            x: float, y: float, low: float = low, high: float = high, first: float = first, last: float = last
        ) -> str:
            along = _EDGE + (x - first) / ((last - first) or 1) * (_WIDE - 2 * _EDGE)
            return f"{along:.1f},{_HIGH - 24 - (y - low) / ((high - low) or 1) * (_HIGH - 48):.1f}"

        line = " ".join(place(*point) for point in points)
        name = say(
            "{run}: {title}, {low} to {high}, steps {first} to {last}",
            run=run.name,
            title=title,
            low=readable(low),
            high=readable(high),
            first=int(first),
            last=int(last),
        ).render(lang)
        drawn.append(
            f'<svg viewBox="0 0 {_WIDE:g} {_HIGH:g}" role="img" aria-label="{escape(name)}">'
            f'<text x="{_EDGE}" y="14">{escape(name)}</text><polyline points="{line}"/></svg>'
        )
    return drawn
