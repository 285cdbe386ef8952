"""The evidence of `torchferry accept`, as far as a hand-over says something of it.

Figures of a rehearsal, of the baseline's own command and of a run that failed are no figures of the card: what was not
measured there stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchferry.acceptance import evidence as acceptance
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple

_LARGEST = 1 << 24
"""Bytes of the file."""

_LONGEST = 2000
"""Characters of one text that is taken over."""

_AGAIN = say("write it again with `torchferry accept -o DIR`")


class MetricFigures(NamedTuple):
    """One metric on both sides, as texts with their units; empty where a side is not known."""

    name: str
    baseline: str
    measured: str


class AcceptEvidence(NamedTuple):
    """What the evidence says; a text is empty where it says nothing.

    Attributes:
        path: The file.
        rehearsal: Whether it is of a simulated card.
        verdict: `accepted`, `rejected` or `incomplete`.
        target: The target's name.
        card: The card; empty where no run on it ended well.
        project: Name of the project's folder.
        source: `url`, `commit`, `licence`.
        model: `name`, `variant`.
        data: `name`, `split`, `where`.
        baseline_device: Where the baseline was measured.
        versions: Versions of the run on the target.
        metrics: The metrics on both sides.
        command: The command of the run on the target.
        seconds: How long it took, in seconds.
        seconds_per_step: Seconds a step took.
        peak_memory: Bytes.
        date: When, in ISO 8601.
    """

    path: Path
    rehearsal: bool
    verdict: str = ""
    target: str = ""
    card: str = ""
    project: str = ""
    source: Mapping[str, str] = {}
    model: Mapping[str, str] = {}
    data: Mapping[str, str] = {}
    baseline_device: str = ""
    versions: Mapping[str, str] = {}
    metrics: tuple[MetricFigures, ...] = ()
    command: str = ""
    seconds: float | None = None
    seconds_per_step: float | None = None
    peak_memory: float | None = None
    date: str = ""


def verdict_word(evidence: AcceptEvidence | None) -> str:
    """Return what a record says of the evidence: its verdict, `rehearsal`, or nothing where there is none."""
    return "" if evidence is None else "rehearsal" if evidence.rehearsal else evidence.verdict


def read_accept_evidence(path: Path) -> AcceptEvidence:
    """Read the evidence in a folder, or its file.

    The files beside it have to be those that it lists: figures with another log are no evidence.

    Raises:
        TorchferryError: it cannot be read, is damaged, or is not what `accept` writes.
    """
    file = path / acceptance.FILE if path.is_dir() else path
    try:
        document = parsed_json(read_text(file, _LARGEST))
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=file, error=error.strerror or error)) from None
    except (ValueError, RecursionError) as error:
        raise TorchferryError(say("{path} is damaged: {error}", path=file, error=str(error)[:200]), _AGAIN) from None
    if (
        not isinstance(document, dict)
        or document.get("kind") != acceptance.KIND
        or document.get("schema") != acceptance.SCHEMA
    ):
        raise TorchferryError(
            say("{path} is not `torchferry accept` evidence that this version can read", path=file),
            say("name the folder that `torchferry accept -o DIR` wrote"),
        )
    try:
        read = _read(document, file)
        acceptance.check_files(file.parent, document)
        return read
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TorchferryError(
            say("{path} is damaged: {error}", path=file, error=f"{type(error).__name__}: {error}"[:200]), _AGAIN
        ) from None


def _read(document: Mapping[str, Any], file: Path) -> AcceptEvidence:
    rehearsal = document.get("rehearsal")
    if not isinstance(rehearsal, bool):
        raise TypeError("`rehearsal` is not true or false")
    runs = {str(run["name"]): run for run in document.get("runs") or []}
    run = runs.get("target") if not rehearsal else None
    if run is not None and run["exit_code"] != 0:
        run = None  # a run that failed has no time that counts
    baseline = document.get("baseline") or {}
    return AcceptEvidence(
        path=file,
        rehearsal=rehearsal,
        verdict=_text(document.get("verdict")),
        target=_text((document.get("target") or {}).get("name")),
        card="" if run is None else _text((document.get("target") or {}).get("card")),
        project=_text((document.get("project") or {}).get("name")),
        source=_texts(document.get("source")),
        model=_texts(document.get("model")),
        data=_texts(document.get("data")),
        baseline_device=_text(baseline.get("device")),
        versions={} if run is None else _texts(document.get("versions")),
        metrics=_metrics(document, baseline, run),
        command="" if run is None else _text(" ".join(map(str, run.get("command") or []))),
        seconds=None if run is None else _number(run.get("seconds")),
        seconds_per_step=None if run is None else _number(run.get("seconds_per_step")),
        peak_memory=None if run is None else _number(run.get("peak_memory")),
        date=_text(document.get("date")),
    )


def _metrics(
    document: Mapping[str, Any], baseline: Mapping[str, Any], run: Mapping[str, Any] | None
) -> tuple[MetricFigures, ...]:
    measured = {} if run is None else {
        str(metric["name"]): metric for metric in document.get("metrics") or [] if metric["run"] == "target"
    }  # fmt: skip
    named = {str(metric["name"]): metric for metric in baseline.get("metrics") or []}
    return tuple(
        MetricFigures(_text(name), _figure(named.get(name)), _figure(measured.get(name)))
        for name in dict.fromkeys((*named, *measured))
    )


def _figure(metric: Mapping[str, Any] | None) -> str:
    value = None if metric is None else _number(metric.get("value"))
    return "" if metric is None or value is None else f"{value:g} {_text(metric.get('unit'))}".rstrip()


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _texts(value: object) -> dict[str, str]:
    return {str(key): _text(text) for key, text in (value or {}).items()}  # type: ignore[attr-defined]


def _text(value: object) -> str:
    """Return a text on one line, without what a terminal or a table would obey."""
    if value is None:
        return ""
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"{value!r} is not a text")
    shown = "".join(letter if letter.isprintable() else " " for letter in str(value))[:_LONGEST]
    return shown.strip()
