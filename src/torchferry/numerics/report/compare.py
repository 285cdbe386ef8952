"""What `torchferry compare -- COMMAND` found: one document over all processes, and its text and table.

Here are also the standards that results can be judged by: what each asks, and where it is written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.framework.launcher import Outcome, last_words


class Described(NamedTuple):
    """What a standard asks of a result, and its source."""

    says: str
    source: str


_CANN_DOUBLE = "CANN double benchmark (gitcode W4termy/cannbot float_compute.md; msprobe standard_config.py)"

STANDARDS = {
    "ours": Described(
        "error within the rounding bound of the operator, or RMSE at most 2 and greatest error at most 10 times "
        "the CPU's in the same dtype",
        "Higham, Accuracy and Stability of Numerical Algorithms, ch. 3 and 4; CANN double benchmark L0; "
        "torch._dynamo.utils.same",
    ),
    "given": Described("every element within atol + rtol * |reference|, as given", "the user"),
    "cann-mixed": Described(
        "99 % of the elements within atol + rtol * |reference|, greatest error at most max(limit, 32 ULP)",
        "CANN opbase mixed tolerance, 2026 (ops-test-kit Precision_Comparison.md)",
    ),
    "cann-mere": Described(
        "MERE below the dtype's limit, and MARE below ten times of it",
        "CANN single benchmark (cann-bench precision_comparison_design.md)",
    ),
    "cann-double": Described("MARE, MERE and RMSE at most 10, 2 and 2 times the CPU's (level L0)", _CANN_DOUBLE),
    "cann-double-l0": Described("MARE, MERE and RMSE at most 10, 2 and 2 times the CPU's", _CANN_DOUBLE),
    "cann-double-l1": Described("MARE, MERE and RMSE at most 5, 1.5 and 1.5 times the CPU's", _CANN_DOUBLE),
    "cann-double-l2": Described("MARE, MERE and RMSE at most 2, 1.2 and 1.2 times the CPU's", _CANN_DOUBLE),
    "ascend-cosine": Described(
        "cosine above 0.99; then greatest error below 0.001, or shares of elements with small relative errors",
        "msprobe acc_check, first pass (mindstudio-probe 26.2)",
    ),
    "torch": Described("every element within the tolerances of torch.testing.assert_close", "torch.testing"),
    "inductor": Described(
        "close, or RMSE at most 2 or 3 times the CPU's in the same dtype", "torch._dynamo.utils.same, as inductor's CI"
    ),
}
"""By the name under which each is asked for."""

NAMES = tuple(STANDARDS)
SOURCES = {name: described.source for name, described in STANDARDS.items()}


SCHEMA = 1
FIELDS = (
    "rank", "operator", "module", "phase", "source", "step", "status", "shape", "dtype", "max_abs", "max_rel",
    "mean_rel", "rmse", "ulp", "rmse_ratio", "of_bound", "cosine", "elements",
    "all_elements", "in_part", "results_left", "off", "drift", "count", "reason",
)  # fmt: skip
"""Columns of the table; those after `rank` are the fields of an operator in the document."""

STATUSES = ("fail", "warn", "untested", "pass", "skipped")
_WORST = 12


def document(
    outcome: Outcome, standard: str, source: str, command: list[str], asked_of_cpu: bool = False
) -> dict[str, Any]:
    """Return what was found in all processes. Processes that compared nothing, such as launchers, are left out.

    Args:
        outcome: What became of the command.
        standard: What results were judged by.
        source: Where that is written.
        command: What was run.
        asked_of_cpu: Whether a run on the CPU alone is what was requested.
    """
    ranks = [result for result in outcome.results if result.get("called") or "error" in result]
    return {
        "schema": SCHEMA,
        "tool": "compare",
        "standard": standard,
        "source": source,
        "command": command,
        "exit_code": outcome.code,
        "asked_of_cpu": asked_of_cpu,
        "broken": list(outcome.broken),
        "ranks": ranks,
    }


def failed(document: dict[str, Any]) -> bool:
    """Whether an operator failed, or a process was lost or could not be examined."""
    return bool(document["broken"]) or any(
        "error" in rank or rank.get("counts", {}).get("fail", 0) for rank in document["ranks"]
    )


def compared(document: dict[str, Any]) -> int:
    """Return how many calls were compared."""
    return sum(
        rank.get("counts", {}).get(status, 0) for rank in document["ranks"] for status in ("pass", "warn", "fail")
    )


def ranks_on_cpu(document: dict[str, Any]) -> tuple[int, ...]:
    """Return the ranks whose processes all ran on the CPU, of the processes that were examined to their end."""
    devices: dict[int, set[str]] = {}
    for rank in document["ranks"]:
        if "error" not in rank:
            devices.setdefault(rank["rank"], set()).add(rank["device"])
    return tuple(sorted(number for number, used in devices.items() if used == {"cpu"}))


WITHOUT_ACCELERATOR = say("NO ACCELERATOR WAS USED: the CPU was compared with itself, which says nothing about a card")
_WITHOUT_ADVICE = say(
    "`torchferry doctor` says whether a card and its plugin are there; --allow-cpu asks for this comparison"
)


def is_without_accelerator(document: dict[str, Any]) -> bool:
    """Whether a rank ran on the CPU alone without `--allow-cpu`: its results say nothing about a card."""
    return compared(document) > 0 and not document.get("asked_of_cpu") and bool(ranks_on_cpu(document))


def _without_accelerator(document: dict[str, Any]) -> Message:
    """Return which ranks used no accelerator, as a sentence."""
    ranks = ranks_on_cpu(document)
    if ranks == tuple(sorted({rank["rank"] for rank in document["ranks"] if "error" not in rank})):
        return WITHOUT_ACCELERATOR
    return ranks_without_accelerator(ranks)


def ranks_without_accelerator(ranks: Sequence[int]) -> Message:
    """Return the sentence for some ranks that used no accelerator while others did; there is at least one."""
    return say(
        "NO ACCELERATOR WAS USED by rank {ranks}: on the CPU, which says nothing about a card",
        ranks=", ".join(map(str, ranks)),
    )


def table(document: dict[str, Any]) -> str:
    """Return a row for each operator and place as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(FIELDS)
    for rank in document["ranks"]:
        for row in rank.get("operators", []):
            values = [row[name] for name in FIELDS[1:]]
            shape = FIELDS.index("shape") - 1
            values[shape] = "x".join(map(str, values[shape]))
            writer.writerow([rank["rank"], *("" if value is None else value for value in values)])
    return file.getvalue()


def lines(document: dict[str, Any], lang: str) -> Iterator[str]:
    """Yield the summary for people."""
    if is_without_accelerator(document):
        yield _without_accelerator(document).render(lang)
        yield f"  {_WITHOUT_ADVICE.render(lang)}"
    yield say("standard: {name} ({source})", name=document["standard"], source=document["source"]).render(lang)
    for name in document["broken"]:
        yield say("{process} ended without a report: it was killed or crashed", process=name).render(lang)
    for rank in document["ranks"]:
        yield from _rank(rank, lang)
    worst = _worst(document)
    if worst:
        yield ""
        yield from _worst_lines(worst, lang)
    if not compared(document):
        yield say("NOTHING WAS COMPARED: {why}", why=_why_nothing(document)).render(lang)


def _why_nothing(document: dict[str, Any]) -> Message:
    ranks = [rank for rank in document["ranks"] if "error" not in rank]
    if not ranks and (document["ranks"] or document["broken"]):
        return say("no process was examined to its end, for the reasons above")
    if not ranks and document["exit_code"]:
        return say("the command ended with exit code {code} before it called an operator", code=document["exit_code"])
    if not ranks:
        return say("no process called an operator in the requested steps")
    if any(rank["counts"]["untested"] for rank in ranks):
        return say("all calls are untested, for the reasons above")
    unmet = sorted(set.intersection(*(set(rank["unmet"]) for rank in ranks)))
    if unmet:
        return say("no operator with the name {names} was called", names=", ".join(unmet))
    steps = max(rank["steps"] for rank in ranks)
    return say_plural(
        "the program ended after {count} step; see --start-step, --end-step and what was skipped",
        "the program ended after {count} steps; see --start-step, --end-step and what was skipped",
        count=steps,
    )


def _rank(rank: dict[str, Any], lang: str) -> Iterator[str]:
    who = {"rank": rank["rank"], "process": rank["process"]}
    if "error" in rank:
        yield say(
            "rank {rank} (process {process}): the examination failed: {error}", **who, error=last_words(rank["error"])
        ).render(lang)
        return
    counts = ", ".join(f"{rank['counts'][name]} {name}" for name in STATUSES)
    yield say_plural(
        "rank {rank} (process {process}), {count} step on {device}: {counts}",
        "rank {rank} (process {process}), {count} steps on {device}: {counts}",
        **who,
        count=rank["steps"],
        device=rank["device"],
        counts=counts,
    ).render(lang)
    for remark in _remarks(rank):
        yield f"    {remark.render(lang)}"
    first = rank["first_failure"]
    if first is None:
        return
    row = rank["operators"][first]
    yield say(
        "FIRST FAILURE: {operator} in {module} ({phase}), step {step}, {dtype} {shape}",
        operator=row["operator"],
        module=row["module"] or say("no module"),
        phase=_phase(row),
        step=row["step"],
        dtype=row["dtype"],
        shape=row["shape"],
    ).render(lang)
    yield f"    {row['reason']}"
    for path in rank.get("replay", []):
        yield f"    {say('replay it: torchferry replay {path}', path=path).render(lang)}"


def _remarks(rank: dict[str, Any]) -> Iterator[Message]:
    if rank["not_sampled"]:
        yield say_plural(
            "{count} further call was not in the sample; --every compares all",
            "{count} further calls were not in the sample; --every compares all",
            count=rank["not_sampled"],
        )
    if rank["not_sampled"] and rank["again_within"]:
        yield say_plural(
            "each kind in the sample was compared at least every {count} step, and each of its places every {more}",
            "each kind in the sample was compared at least every {count} steps, and each of its places every {more}",
            count=rank["again_within"],
            more=rank["places_within"],
        )
    if rank["in_part"]:
        yield say_plural(
            "{count} call compared in part: one block of large products and lists, which rotates from call to call",
            "{count} calls compared in part: one block of large products and lists, which rotates from call to call",
            count=rank["in_part"],
        )
    if rank["skipped"]:
        classes = ", ".join(f"{count} {name}" for name, count in rank["skipped"].items())
        yield say("skipped by class: {classes}", classes=classes)
    if rank["unmet"]:
        yield say("no operator with the name {names} was called", names=", ".join(rank["unmet"]))
    if rank["in_other_threads"]:
        yield say_plural(
            "{count} forward pass ran in another thread, where nothing is compared",
            "{count} forward passes ran in other threads, where nothing is compared",
            count=rank["in_other_threads"],
        )
    if rank["left_to_budget"]:
        yield say_plural(
            "{count} kind of call was compared only as --budget allowed: its operator has more than 64 kinds",
            "{count} kinds of call were compared only as --budget allowed: their operators have more than 64 kinds",
            count=rank["left_to_budget"],
        )
    if rank["compiled"]:
        yield say("the program uses torch.compile: its compiled regions ran operator by operator during the comparison")
    reasons: dict[tuple[str, str], int] = {}
    for row in rank["operators"]:
        if row["status"] == "untested":
            key = (row["operator"], row["reason"])
            reasons[key] = reasons.get(key, 0) + row["count"]
    for (operator, reason), count in sorted(reasons.items(), key=lambda item: -item[1])[:_WORST]:
        yield say_plural(
            "untested: {operator}, {count} call: {reason}",
            "untested: {operator}, {count} calls: {reason}",
            operator=operator,
            count=count,
            reason=reason,
        )


def extent(row: dict[str, Any]) -> str:
    """Return how many elements of the results were compared, `100`, or of how many they are a part, `25/100`."""
    here, whole = row["elements"], row["all_elements"]
    return str(here) if here == whole else f"{here}/{whole}"


def _phase(row: dict[str, Any]) -> str:
    source = f" of {row['source']}" if row["source"] else ""
    return f"{row['phase']}{source}"


def _worst(document: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows that need attention, worst first; without any, those that came nearest to it."""
    rows = [(rank["rank"], row) for rank in document["ranks"] for row in rank.get("operators", [])]
    measured = [pair for pair in rows if pair[1]["max_abs"] is not None]

    def badness(pair: tuple[int, dict[str, Any]]) -> tuple[int, float]:
        row = pair[1]
        return STATUSES.index(row["status"]), -(row["of_bound"] or 0.0)

    return sorted(measured, key=badness)[:_WORST]


def _worst_lines(rows: list[tuple[int, dict[str, Any]]], lang: str) -> Iterator[str]:
    head = (
        "status",
        "operator",
        "module",
        "step",
        "dtype",
        "max abs",
        "MARE",
        "ULP",
        "RMSE/CPU",
        "of bound",
        "elements",
        "calls",
    )
    cells = [head] + [
        (
            row["status"],
            row["operator"],
            f"{row['module'] or '-'} ({_phase(row)})",
            str(row["step"]),
            row["dtype"],
            *(_short(row[name]) for name in ("max_abs", "max_rel", "ulp", "rmse_ratio", "of_bound")),
            extent(row),
            str(row["count"]),
        )
        for _, row in rows
    ]
    yield say("The operators furthest from the reference:").render(lang)
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return "inf" if value > 1e308 else f"{value:.3g}"
