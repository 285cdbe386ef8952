"""Why a run did not end well: how it ended, and what the tables of errors know of what it printed."""

from __future__ import annotations

from torchferry.acceptance.runs import AcceptanceRun
from torchferry.core import supported_torch
from torchferry.core.messages import Bilingual, Message, say
from torchferry.diagnosis.explaining import diagnosed
from torchferry.diagnosis.inputs import LogReader
from torchferry.diagnosis.report import writer_text
from torchferry.numerics.curves.records import lines


def end_of(run: AcceptanceRun) -> Message:
    """Return why a run did not end well."""
    reason = _end_of(run)
    if run.problem is not None or not run.log.is_file():
        return reason
    first = diagnosed(LogReader([run.log])).first
    if first is None or first.entry.role != "cause":
        return reason
    match = first.first.match
    places = Bilingual(*(writer_text(first.first.writer, lang) for lang in ("en", "zh")))
    title = f"{match.entry.code}: " if match.entry.code else ""
    steps = Bilingual(*("; ".join(step.render(lang) for step in match.steps()) for lang in ("en", "zh")))
    if places.en:
        return say(
            "{reason}; cause, {place}: {title}{cause}; {advice}",
            reason=reason, place=places, title=title, cause=match.causes[0], advice=steps,
        )  # fmt: skip
    return say(
        "{reason}; cause: {title}{cause}; {advice}", reason=reason, title=title, cause=match.causes[0], advice=steps
    )


def _end_of(run: AcceptanceRun) -> Message:
    if run.problem is not None:
        return run.problem
    if run.code is None:
        return say("it was stopped at its time limit; if it needs longer, raise `time-limit` in the accept file")
    if run.lost:
        return say(
            "{process} ended without leaving its results, for example because it was killed", process=run.lost[0]
        )
    if run.without_torch and not run.processes:
        return supported_torch.not_in(run.without_torch)
    last = ""
    for line in lines(run.log):
        last = line.text.strip() or last
    return say("the last line of its log: {line}", line=last[:200])
