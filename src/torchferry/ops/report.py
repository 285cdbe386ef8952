"""What `torchferry ops report` prints: text, JSON, CSV, HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchferry.core.messages import Message, say, say_plural, translatable
from torchferry.core.secrets import masked_command
from torchferry.numerics.report.pages import framed, heading, paragraphs, table
from torchferry.ops.judging import COPIED, MISSING, SUPPORT, UNLISTED, JudgedOperator, consequence
from torchferry.ops.kernels import GROUPS, MustHave, shares
from torchferry.ops.lists import OperatorList
from torchferry.ops.needs import PREDICT, RunNeeds

FORMAT = "torchferry operator report"
VERSION = 1

_SHOWN_UNLISTED = 10
"""Operators of which nothing is known that the text names."""

_COLUMNS = (
    "support", "operator", "calls", "copied_bytes", "phases", "dtypes", "modules", "shapes", "through", "remark",
)  # fmt: skip

_PHASES = {
    "forward": translatable("forward"),
    "backward": translatable("backward"),
    "recompute": translatable("recompute"),
    "optimizer": translatable("optimizer"),
    "gradient scaling": translatable("gradient scaling"),
    "": translatable("not seen by Python"),
}


@dataclass(frozen=True)
class OperatorReport:
    """What a report says.

    Attributes:
        known: What the target's plugin registers.
        run: What a run needs; None where no run is judged.
        operators: What becomes of it.
        kernels: What a device must bring; None where a run is judged.
    """

    known: OperatorList
    run: RunNeeds | None = None
    operators: tuple[JudgedOperator, ...] = ()
    kernels: MustHave | None = None

    @property
    def has_missing(self) -> bool:
        """Whether the run needs something that the plugin lacks."""
        return any(each.support == MISSING for each in self.operators)

    def counts(self) -> dict[str, int]:
        """Return how many operators there are of each kind of support."""
        return {kind: sum(each.support == kind for each in self.operators) for kind in SUPPORT}


def document(report: OperatorReport) -> dict[str, Any]:
    """Return the report in values that JSON has."""
    known = report.known
    result: dict[str, Any] = {
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
    }
    if report.kernels is not None:
        result["coverage"] = _coverage(known, report.kernels)
    if report.run is not None:
        run = report.run
        result["run"] = {
            "how": run.how,
            "command": masked_command(run.command),
            "torch": run.torch,
            "target": run.target,
            "device": run.device,
            "complete": run.is_complete,
            "exit_code": run.exit_code,
            "processes": run.processes,
            "broken": list(run.broken),
            "notes": list(run.notes),
        }
        result["counts"] = report.counts()
        result["operators"] = [_row(each) for each in report.operators]
    return result


def _coverage(known: OperatorList, kernels: MustHave) -> dict[str, Any]:
    registered = known.registered
    groups: list[dict[str, Any]] = []
    for share in shares(kernels, registered or ()):
        entry: dict[str, Any] = {"group": share.group, "total": share.total, "registered": None, "percent": None}
        if registered is not None:
            entry |= {"registered": share.registered, "percent": round(share.percent, 1)}
        groups.append(entry)
    return {"torch": kernels.torch, "source": kernels.source.render("en"), "groups": groups}


def _row(judged: JudgedOperator) -> dict[str, Any]:
    need = judged.need
    return {
        "operator": need.name,
        "support": judged.support,
        "through": judged.through,
        "remark": "" if judged.remark is None else judged.remark.render("en"),
        "refused_dtypes": list(judged.refused),
        "refused_rank": judged.refused_rank,
        "calls": need.calls,
        "copied_bytes": judged.copied_bytes,
        "phases": dict(need.phases),
        "modules": dict(need.modules),
        "dtypes": list(need.dtypes),
        "shapes": dict(need.shapes),
        "schema": need.schema,
    }


def csv_text(report: OperatorReport) -> str:
    """Return a row for each operator, or for each group of kernels."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if report.kernels is not None:
        writer.writerow(("group", "total", "registered", "percent"))
        for entry in _coverage(report.known, report.kernels)["groups"]:
            writer.writerow(["" if value is None else value for value in entry.values()])
        return text.getvalue()
    writer.writerow(_COLUMNS)
    for judged in report.operators:
        row = _row(judged)
        cells = [
            "; ".join(f"{key} {number}" for key, number in value.items()) if isinstance(value, dict)
            else " ".join(value) if isinstance(value, list) else value
            for value in (row[column] for column in _COLUMNS)
        ]  # fmt: skip
        writer.writerow(cells)
    return text.getvalue()


def lines(report: OperatorReport, lang: str, *, verbose: bool = False) -> list[str]:
    """Return the report as text; `verbose` names what is native and composed too."""
    written = _head(report.known, lang)
    if report.run is not None:
        written += ["", *_run_lines(report, report.run, lang, verbose=verbose)]
    if report.kernels is not None:
        written += ["", *_coverage_lines(report, report.kernels, lang)]
    return written


def _head(known: OperatorList, lang: str) -> list[str]:
    written = [known.said().render(lang)]
    if known.is_of_another_version:
        written.append(
            say(
                "  no list of {wanted} is known: this is the list of {version}, the nearest",
                version=known.table.version,
                wanted=known.version,
            ).render(lang)
        )
    written.append("  " + say("source: {source}", source=known.table.source).render(lang))
    if known.registered is None:
        written.append("  " + say("on a machine with the plugin, `torchferry ops dump` writes the list").render(lang))
    return written


def _run_lines(report: OperatorReport, run: RunNeeds, lang: str, *, verbose: bool) -> Iterator[str]:
    yield _run_title(report, run).render(lang)
    for remark in _remarks(report, run):
        yield "  " + remark.render(lang)
    counts = report.counts()
    parts = [
        say("{support}: {count}", support=say(SUPPORT[kind]), count=number).render(lang)
        for kind, number in counts.items()
        if number
    ]
    yield "  " + "; ".join(parts)
    refused = [each for each in report.operators if each.refused or each.refused_rank]
    if refused:
        yield ""
        yield say("dtypes and ranks that the card's kernels do not take, by the vendor's published lists").render(lang)
        width = max(len(each.need.name) for each in refused)
        for each in refused:
            yield _operator_line(each, width, lang)
    for kind in SUPPORT:
        operators = [each for each in report.operators if each.support == kind]
        if not operators or (kind not in {*COPIED, UNLISTED} and not verbose):
            continue
        yield ""
        yield _section(kind, report.known).render(lang)
        most = _SHOWN_UNLISTED if kind == UNLISTED and not verbose else len(operators)
        width = max(len(each.need.name) for each in operators[:most])
        for each in operators[:most]:
            yield _operator_line(each, width, lang)
        if len(operators) > most:
            yield "  " + say("... and {count} more; `-v` names them", count=len(operators) - most).render(lang)


def _run_title(report: OperatorReport, run: RunNeeds) -> Message:
    calls = sum(each.need.calls for each in report.operators)
    operators = say_plural("{count} operator", "{count} operators", count=len(report.operators))
    counted = say_plural("{count} call", "{count} calls", count=calls)
    what = say("predicted for {command}", command=" ".join(run.command))
    if run.how != PREDICT:
        what = say("traced in `{command}`", command=" ".join(run.command))
    return say(
        "{what} with torch {torch}: {operators}, {calls}",
        what=what,
        torch=run.torch,
        operators=operators,
        calls=counted,
    )


def _remarks(report: OperatorReport, run: RunNeeds) -> Iterator[Message]:
    known = report.known
    own = f"{known.target}@{known.table.version or known.version}".rstrip("@")
    if run.target not in ("", known.target, own, f"{known.target}@{known.version}"):
        yield say(
            "the run was recorded for {target}, where torch may compose operators differently; "
            "record it again with `--target {own}`",
            target=run.target,
            own=own,
        )
    elif not run.target and run.device not in ("", report.known.target):
        yield say(
            "the run was recorded for no target: torch may compose operators differently with the plugin; "
            "record it again with `--target`"
        )
    if run.exit_code:
        yield say(
            "THE RUN IS NOT COMPLETE: the command ended with exit code {code}, so operators may be missing here",
            code=run.exit_code,
        )
    for process in run.broken:
        if run.how == PREDICT:
            yield say("NOT COMPLETE: the run stopped at {place}; what comes behind it was not seen", place=process)
            continue
        yield say(
            "NOT COMPLETE: {process} was lost; only its calls before its last report are counted", process=process
        )
    if run.processes > 1:
        yield say_plural(
            "{count} process, counted together", "{count} processes, counted together", count=run.processes
        )
    for note in run.notes:
        yield say("{text}", text=note)


def _section(kind: str, known: OperatorList) -> Message:
    if kind == MISSING:
        return say("{support}: {consequence}", support=say(SUPPORT[kind]), consequence=consequence(known))
    if kind == UNLISTED:
        return say("{support}: no list says whether the plugin has them", support=say(SUPPORT[kind]))
    return say("{support}", support=say(SUPPORT[kind]))


def _operator_line(judged: JudgedOperator, width: int, lang: str) -> str:
    need = judged.need
    copied = amount(judged.copied_bytes) if judged.support in COPIED else ""
    phases = ", ".join(say(_PHASES.get(phase, phase)).render(lang) for phase in need.phases)
    parts = [f"  {need.calls:>7} {copied:>10}  {need.name:<{width}}  {phases}", " ".join(need.dtypes)]
    if judged.through:
        parts.append(say("through {operator}", operator=judged.through).render(lang))
    if judged.remark is not None:
        parts.append(judged.remark.render(lang))
    return "  ".join(part for part in parts if part)


def amount(number: int) -> str:
    """Return a number of bytes as text: `12.3 MiB`."""
    size = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _coverage_lines(report: OperatorReport, kernels: MustHave, lang: str) -> Iterator[str]:
    coverage = _coverage(report.known, kernels)
    title = say("operators of torch {version} for which a device must provide a kernel", version=coverage["torch"])
    yield title.render(lang)
    yield "  " + say("source: {source}", source=kernels.source).render(lang)
    for entry in coverage["groups"]:
        if entry["registered"] is None:
            share = say("{total}; registered: unknown", total=entry["total"])
        else:
            share = say(
                "{registered} of {total} registered ({percent} %)",
                registered=entry["registered"],
                total=entry["total"],
                percent=f"{entry['percent']:.1f}",
            )
        yield "  " + say("{group}: {share}", group=say(GROUPS[entry["group"]]), share=share).render(lang)


def page(report: OperatorReport, lang: str) -> str:
    """Return the report as an HTML page."""
    title = say("torchferry: operators on {target}", target=report.known.target).render(lang)
    body = [paragraphs(_head(report.known, lang))]
    if report.run is not None:
        run = report.run
        body.append(heading(_run_title(report, run).render(lang)))
        body.append(paragraphs(remark.render(lang) for remark in _remarks(report, run)))
        head = [say(text).render(lang) for text in _HEADS]
        rows = [_cells(each, lang) for each in report.operators]
        kinds = {MISSING: "fail"}
        body.append(table(head, rows, [kinds.get(each.support, "warn" if each.support in COPIED else "")
                                       for each in report.operators]))  # fmt: skip
    if report.kernels is not None:
        body.append(paragraphs(_coverage_lines(report, report.kernels, lang)))
    return framed(title, not report.has_missing, body, lang)


_HEADS = (
    translatable("support"),
    translatable("operator"),
    translatable("calls"),
    translatable("copied"),
    translatable("phases"),
    translatable("dtypes"),
    translatable("modules"),
    translatable("arguments"),
    translatable("remark"),
)


def _cells(judged: JudgedOperator, lang: str) -> list[str]:
    need = judged.need
    remark = "" if judged.remark is None else judged.remark.render(lang)
    through = say("through {operator}", operator=judged.through).render(lang) if judged.through else ""
    return [
        say(SUPPORT[judged.support]).render(lang),
        need.name,
        str(need.calls),
        amount(judged.copied_bytes) if judged.support in COPIED else "",
        ", ".join(f"{say(_PHASES.get(phase, phase)).render(lang)} {count}" for phase, count in need.phases.items()),
        " ".join(need.dtypes),
        ", ".join(need.modules),
        "; ".join(need.shapes),
        " ".join(filter(None, (through, remark))),
    ]
