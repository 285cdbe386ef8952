"""How a rehearsed command ended, and whether the card is the reason: from its events and from what it printed last."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from torchferry.rehearsal.aggregate import Aggregate, EventSum

WELL = "well"
CARD = "card"
PACKAGE = "package"
ITSELF = "itself"
NOT_REHEARSED = "not rehearsed"
TIME = "time"

_SILENT = frozenset({"cuda-remnant", "identity"})
"""Kinds that raise nothing and go wrong: a program that ends well is not right for that."""

_CALMER = frozenset({"cuda-remnant"})
"""Kinds that say least of why a program failed: they are taken when nothing else fits."""

_FRAME = re.compile(r'^[ \t]*(?:\[[^\]\n]*\]:[ \t]*)?File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)
_HEAD = re.compile(r"^[^\n]{0,80}Traceback \(most recent call last\):\s*$", re.MULTILINE)
_ERROR = re.compile(
    r"^(?:\[[^\]]*\]:\s*)?(?P<error>(?:[\w.]+\.)?(?:\w*(?:Error|Exception|Exit|Interrupt|Missing\w{0,60}|Warning)|"
    r"StopIteration)(?::[^\n]*)?)$",
    re.MULTILINE,
)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_CUDA = re.compile(
    r"Torch not compiled with CUDA enabled|deserialize object on a CUDA device|Found no NVIDIA driver|"
    r"No CUDA GPUs are available|CUDA_HOME environment variable is not set|lib(?:cuda|cudart|nccl|cudnn)\w{0,60}\.so|"
    r"\bnvcc\b|Invalid device string: 'cuda|ProcessGroupNCCL|Distributed package doesn't have NCCL"
)
"""What torch and the loader say where a program asks for CUDA and there is none."""

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<package>[\w-]+)")


class End(NamedTuple):
    """How a command ended.

    Attributes:
        why: `well`, `card`, `package` (one could not be imported), `itself`, `not rehearsed` or `time`.
        kind: The kind of event that tells, for `card`.
        subject: What it is about: an operator, a name, a package.
        file: The program's line, where one is known.
        line: Its number.
        error: The last line of the error that ended it.
        package: The installed package in which it failed; empty for the program's own code.
        caught: Failures for the card that did not end the command.
    """

    why: str
    kind: str = ""
    subject: str = ""
    file: str = ""
    line: int = 0
    error: str = ""
    package: str = ""
    caught: tuple[EventSum, ...] = ()


class _Trace(NamedTuple):
    frames: tuple[tuple[str, int], ...]
    error: str


def end_of(aggregate: Aggregate, code: int | None, printed: str, tree: Path) -> End:
    """Return how a command ended.

    Args:
        aggregate: What was seen.
        code: Its exit code; None where the time limit ended it.
        printed: The last of what it printed.
        tree: The folder of the program: its lines are the program's own.
    """
    if code is None:
        return End(TIME, caught=tuple(aggregate.refusals))
    if code == 0:
        silent = next((event for event in aggregate.failures if event.kind in _SILENT), None)
        if silent is not None:
            return _of_event(silent, "")
        return End(WELL, caught=tuple(aggregate.refusals))
    traces = list(_traces(printed))
    frames = {frame for trace in traces for frame in trace.frames}
    file, line, error = _innermost(traces, tree)
    error = error or (traces[-1].error if traces else _last_error(printed))
    package = _package(traces)
    missing = next((match for trace in traces[::-1] if (match := _MISSING.search(trace.error))), None)
    missing = missing or (_MISSING.search(printed) if not traces else None)
    if missing is not None:
        return End(PACKAGE, PACKAGE, missing["name"], file, line, missing[0])
    refusals = aggregate.refusals
    events_there = [event for event in aggregate.events if (event.file, event.line) in frames]
    refused = [event for event in events_there if event in refusals] or ([] if traces else refusals)
    refused.sort(key=lambda event: (event.kind in _CALMER, event.subject not in error))
    if refused:
        return _of_event(refused[0], error, package)
    unrehearsed = next((event for event in events_there if event.kind == "not-rehearsed"), None)
    if unrehearsed is not None:
        return End(NOT_REHEARSED, unrehearsed.kind, unrehearsed.subject, file, line, error, package)
    sign = _CUDA.search(error) or (_CUDA.search(printed[-4000:]) if not error else None)
    if sign is not None:
        return End(CARD, "cuda-remnant", "cuda", file, line, error, package)
    return End(ITSELF, "", "", file, line, error or _last_line(printed), package, tuple(aggregate.refusals))


def _of_event(event: EventSum, error: str, package: str = "") -> End:
    return End(CARD, event.kind, event.subject, event.file, event.line, error, package)


def _traces(printed: str) -> list[_Trace]:
    """Return the tracebacks of a text, in their order."""
    heads = [match.end() for match in _HEAD.finditer(printed)]
    traces = []
    for start, end in pairwise([*heads, len(printed)]):
        part = printed[start:end]
        errors = list(_ERROR.finditer(part))
        frames = tuple((match["file"], int(match["line"])) for match in _FRAME.finditer(part))
        traces.append(_Trace(frames, errors[0]["error"][:400] if errors else ""))
    return traces


def _innermost(traces: list[_Trace], tree: Path) -> tuple[str, int, str]:
    """Return the innermost line of the program in the last traceback that has one, and the error of that."""
    for trace in traces[::-1]:
        for file, line in trace.frames[::-1]:
            if tree in Path(file).parents and not _INSTALLED.search(file):
                return file, line, trace.error
    return "", 0, ""


def _package(traces: list[_Trace]) -> str:
    """Return the installed package whose line is the innermost that is not torch's."""
    for trace in traces[::-1]:
        for file, _ in trace.frames[::-1]:
            installed = _INSTALLED.search(file)
            if installed is None:
                return ""
            if installed["package"] not in ("torch", "torchferry"):
                return installed["package"]
    return ""


def _last_error(printed: str) -> str:
    errors = list(_ERROR.finditer(printed))
    return errors[-1]["error"][:400] if errors else ""


def _last_line(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1][:400] if lines else ""
