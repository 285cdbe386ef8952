"""A report as JSON; `schema.json` beside this module describes it, and its version changes when a field does."""

from __future__ import annotations

from typing import Any

from torchferry.core.finding import Finding, Stage
from torchferry.core.json_text import json_text
from torchferry.installed.describing import package_message
from torchferry.installed.model import Inspected
from torchferry.programs.model import (
    JudgedProgram,
    Obstacle,
    Reachability,
    RehearsedVerdict,
    Unexamined,
    Unread,
    Verdict,
)
from torchferry.report.decisions import ReportedDecision
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import verdict_of
from torchferry.rules.registry import family_name, family_title, rule_facts

SCHEMA_VERSION = "3.3"

OLDER_VERSION = "2.3"
"""What `--output-format json-2` prints, for who reads reports of version 2."""

_MOST_EVIDENCE = 50
"""Places of one package in a report."""


def render(report: Report, lang: str) -> str:
    """Return the report as JSON text, findings in order of place."""
    return json_text(document(report, lang))


def render_older(report: Report, lang: str) -> str:
    """Return the report as JSON text of version 2: without what version 3 has more, and with its names."""
    older = document(report, lang)
    older["schema"] = OLDER_VERSION
    older.pop("style")
    older.pop("since")
    older.pop("words")
    older.pop("roles")
    older.pop("decisions")
    if older["verdict"] == ProjectVerdict.MAY_NEED.value:
        older["verdict"] = ProjectVerdict.AFTER_WORK.value
    for program in older["programs"]:
        program.pop("unresolved")
        program.pop("role")
        program.pop("waits_for")
        for package in program["unverified"]:
            package.pop("carries")
        for judged in filter(None, (program, (program["settled"] or {}).get("static"))):
            if judged["verdict"] == Verdict.MAY_NEED.value:
                judged["verdict"] = Verdict.WITHOUT.value
    for finding in older["findings"]:
        regraded = [
            {"stage": step["stage"], "before": step["grade_before"]}
            for step in finding.pop("history")
            if step["stage"] not in (Stage.TORCHSCRIPT.value, Stage.DECIDED.value)
        ]
        if regraded:
            finding["regraded"] = regraded
        for name in ("effect", "anchor", "origin", "decided_by"):
            finding.pop(name, None)
    return json_text(older)


def document(report: Report, lang: str) -> dict[str, Any]:
    """Return the report as the object that JSON holds."""
    decisions = report.decisions
    return {
        "schema": SCHEMA_VERSION,
        "torchferry": report.torchferry,
        "target": report.target,
        "style": report.style,
        "root": report.root,
        "verdict": report.verdict.value,
        "summary": verdict_sentence(report).render(lang),
        "files": report.files,
        "counts": {grade.value: count for grade, count in sorted(report.by_grade.items())},
        "families": {
            name: {
                "title": family_title(name).render(lang),
                **{grade.value: count for grade, count in sorted(counts.items())},
            }
            for name, counts in report.by_family.items()
        },
        "remarks": [remark.render(lang) for remark in report.remarks],
        "entry_points": list(report.entry_points),
        "roles": {path: role.value for path, role in report.entry_points.items()},
        "programs": [
            {**program_object(judged, lang), "waits_for": list(decisions.of_program.get(judged.program.title, ()))}
            for judged in report.programs
        ],
        "decisions": [decision_object(decision, lang) for decision in decisions.all],
        "findings": [finding_object(finding, lang) for finding in report.findings],
        "changes": list(report.changes),
        "ignored": list(report.ignored),
        "packages": [package_object(package, lang) for package in report.packages],
        "unlooked": [unexamined_object(unexamined, lang) for unexamined in report.unexamined],
        "partial": report.partial,
        "since": None if report.since is None else report.since._asdict(),
        "native": _native_object(report, lang),
        "words": {
            "total": report.words.total,
            "rewritten": report.words.rewritten,
            "reported": report.words.reported,
            "unresolved": report.words.unresolved,
        },
        "kept": {kind.value: count for kind, count in report.mentions_by_kind.items()},
        "failures": [{"path": failure.path, "what": failure.what} for failure in report.failures],
    }


def _native_object(report: Report, lang: str) -> dict[str, Any] | None:
    if report.native is None:
        return None
    from torchferry.report.native import native_object  # imported late: most projects have no C++

    return native_object(report.native, lang)


def decision_object(decision: ReportedDecision, lang: str) -> dict[str, Any]:
    """Return one decision as JSON holds it, with all of its places and programs."""
    return {
        "id": decision.id,
        "code": decision.code,
        "effect": decision.effect.value,
        "message": decision.message.render(lang),
        "subjects": list(decision.subjects),
        "fix": decision.is_fix,
        "blocks": decision.blocks,
        "unresolved": decision.is_unresolved,
        "places": [str(place) for place in decision.places],
        "stopped": list(decision.stopped),
        "undecided": list(decision.undecided),
        "waiting": list(decision.waiting),
    }


def program_object(judged: JudgedProgram, lang: str) -> dict[str, Any]:
    """Return one program as JSON holds it."""
    program = judged.program
    return {
        "path": program.path,
        "name": program.title,
        "form": program.form.value,
        "role": program.role.value,
        "function": program.function,
        "starts": [{"command": start.command, "place": start.place} for start in program.starts],
        "verdict": judged.verdict.value,
        "summary": verdict_of(judged).render(lang),
        "fixes": judged.fixes,
        "decisions": [str(place) for place in judged.decisions],
        "unresolved": [str(place) for place in judged.unresolved],
        "reasons": [
            *(
                _reason_object(obstacle, lang)
                for obstacle in (*judged.blockers, *judged.optional, *judged.alternatives)
            ),
            *(_reason_object(doubt, lang, decision=True) for doubt in judged.doubts),
        ],
        "builds": [_reason_object(build, lang) for build in judged.builds],
        "unverified": [
            {"package": item.package, "place": item.place, "carries": item.carries} for item in judged.unverified
        ],
        "unread": [unread_object(unread, lang) for unread in judged.unread],
        "files": judged.files,
        "settled": _settled_object(judged.settled, lang) if judged.settled is not None else None,
    }


def unread_object(unread: Unread, lang: str) -> dict[str, Any]:
    """Return something that a program reaches and that was not read as JSON holds it."""
    return {
        "place": unread.place,
        "reason": unread.reason.render(lang),
        "chain": [*map(str, unread.chain), unread.place],
    }


def _settled_object(settled: RehearsedVerdict, lang: str) -> dict[str, Any]:
    """Return what a run said of a verdict as JSON holds it."""
    seen, static = settled.seen, settled.static
    return {
        "command": seen.command,
        "decides": settled.decides,
        "ending": seen.ending.value,
        "message": seen.message.render(lang),
        "what": seen.what,
        "kind": seen.kind,
        "place": seen.place,
        "package": seen.package,
        "exit_code": seen.exit_code,
        "on_card": seen.on_card,
        "notes": [note.render(lang) for note in seen.notes],
        "static": {
            "verdict": static.verdict.value,
            "summary": verdict_of(static).render(lang),
            "fixes": static.fixes,
            "decisions": [str(place) for place in static.decisions],
            "reasons": [_reason_object(obstacle, lang) for obstacle in (*static.blockers, *static.optional)],
        },
        "fault": settled.fault.render(lang) if settled.fault is not None else None,
    }


def _reason_object(obstacle: Obstacle, lang: str, *, decision: bool = False) -> dict[str, Any]:
    """Return one thing that the target does not have as JSON holds it."""
    call_path = obstacle.call_path
    return {
        "what": obstacle.what,
        "code": obstacle.code,
        "place": f"{obstacle.place.path}:{obstacle.place.line}",
        "message": obstacle.message.render(lang),
        "need": call_path.reachability.name.lower(),
        "optional": call_path.reachability is not Reachability.ALWAYS or decision,
        "decision": decision,
        "source": obstacle.source.value,
        "chain": [str(step) for step in call_path.steps],
        "conditions": list(call_path.conditions),
        "options": list(call_path.options),
    }


def package_object(package: Inspected, lang: str) -> dict[str, Any]:
    """Return the known facts about one package as JSON holds it: the weightiest places, all of them counted."""
    return {
        "package": package.package,
        "distribution": package.distribution,
        "version": package.version,
        "state": package.state.value,
        "reason": package_message(package).render(lang),
        "counts": {need.value: count for need, count in package.counts},
        "evidence": [
            {
                "need": item.need.value,
                "path": item.path,
                "line": item.line,
                "where": item.where,
                "what": item.what,
                "parameter": item.parameter,
                "runs": package.runs(item),
            }
            for item in package.evidence[:_MOST_EVIDENCE]
        ],
        "chain": [str(step) for step in package.chain],
        "import_fails": package.import_fails is not None or None,
        "unread": [{"path": path, "reason": why.render(lang)} for path, why in package.unread],
        "unread_count": package.unread_count,
        "problem": package.problem.render(lang) if package.problem is not None else None,
        "editable": package.editable,
    }


def unexamined_object(unexamined: Unexamined, lang: str) -> dict[str, Any]:
    """Return something that was not looked at as JSON holds it."""
    return {
        "place": unexamined.place,
        "reason": unexamined.reason.render(lang),
        "files": unexamined.files,
        "words": unexamined.words,
    }


def finding_object(finding: Finding, lang: str) -> dict[str, Any]:
    """Return one finding as JSON holds it. Lines and columns count from 1, columns in characters."""
    place, anchor = finding.location, finding.anchor
    entry: dict[str, Any] = {
        "code": finding.code,
        "family": family_name(finding.code),
        "about": rule_facts(finding.code).about.value,
        "grade": finding.grade.value,
        "effect": finding.effect.value,
        "blocker": finding.blocker,
        "anchor": {"symbol": anchor.symbol, "text": anchor.text, "ordinal": anchor.ordinal},
        "path": place.path,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "message": finding.message.render(lang),
        "snippet": finding.snippet,
        "fix": [edit.text for edit in finding.edits],
        "history": [
            {"stage": regrading.stage.value, "grade_before": regrading.before.value} for regrading in finding.regradings
        ],
    }
    if place.cell:
        entry["cell"] = place.cell
    if finding.decided_by:
        entry["decided_by"] = finding.decided_by
    origin = finding.origin
    if origin is not None:
        entry["origin"] = {"line": origin.line, "column": origin.column}
        if origin.cell:
            entry["origin"]["cell"] = origin.cell
    return entry
