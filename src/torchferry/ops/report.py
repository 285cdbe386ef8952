"""What `torchferry ops report` prints: text, JSON, CSV, HTML."""

from __future__ import annotations

from typing import Any

from torchferry.core.messages import say
from torchferry.ops.kernels import GROUPS, MustHave, shares
from torchferry.ops.lists import OperatorList

FORMAT = "torchferry operator report"
VERSION = 1


def document(known: OperatorList, kernels: MustHave | None) -> dict[str, Any]:
    """Return the report in values that JSON has."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "target": known.target,
        "plugin": known.plugin,
        "plugin_version": known.version,
        "card": known.card,
        "list": {
            "version": known.table.version,
            "torch": known.table.torch,
            "confidence": known.confidence,
            "source": known.table.source,
            "fallback": known.table.fallback,
        },
        "coverage": None if kernels is None else _coverage(known, kernels),
    }


def _coverage(known: OperatorList, kernels: MustHave) -> dict[str, Any]:
    registered = known.registered
    groups: list[dict[str, Any]] = []
    for share in shares(kernels, registered or ()):
        entry: dict[str, Any] = {"group": share.group, "total": share.total, "registered": None, "percent": None}
        if registered is not None:
            entry |= {"registered": share.registered, "percent": round(share.percent, 1)}
        groups.append(entry)
    return {"torch": kernels.torch, "source": kernels.source.render("en"), "groups": groups}


def lines(result: dict[str, Any], known: OperatorList, kernels: MustHave | None, lang: str) -> list[str]:
    """Return the report as text."""
    written = [*_head(known, lang)]
    if kernels is not None:
        written += ["", *_coverage_lines(result["coverage"], kernels, lang)]
    return written


def _head(known: OperatorList, lang: str) -> list[str]:
    written = [known.said().render(lang)]
    if known.is_of_another_version:
        written.append(
            say(
                "  the list of {version} is the nearest to {wanted} that is known",
                version=known.table.version,
                wanted=known.version,
            ).render(lang)
        )
    written.append("  " + say("source: {source}", source=known.table.source).render(lang))
    return written


def _coverage_lines(coverage: dict[str, Any], kernels: MustHave, lang: str) -> list[str]:
    title = say("operators of torch {version} that need a kernel of the device's own", version=coverage["torch"])
    written = [title.render(lang), "  " + say("source: {source}", source=kernels.source).render(lang)]
    for entry in coverage["groups"]:
        if entry["registered"] is None:
            share = say("{total}, of which registered: unknown", total=entry["total"])
        else:
            share = say(
                "{registered} of {total} registered ({percent} %)",
                registered=entry["registered"],
                total=entry["total"],
                percent=f"{entry['percent']:.1f}",
            )
        written.append("  " + say("{group}: {share}", group=say(GROUPS[entry["group"]]), share=share).render(lang))
    return written
