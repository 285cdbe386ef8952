"""What a trace says of operators that a vendor is asked for: calls in a step, and the share of its time.

Time is that of the device's work which the calls start, with all that they call. An operator that went to the CPU takes
the host's time, since the host waits for the result; so does every operator of a trace without work of a device.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say, say_plural
from torchferry.ops.call_code import seen_tensors
from torchferry.ops.needs import OperatorNeed
from torchferry.ops.request import OperatorTime, Requested
from torchferry.profiling.comparison import ProfiledRun
from torchferry.profiling.formatting import printable
from torchferry.profiling.reading import DTYPES_AFTER
from torchferry.profiling.report import headline, notes
from torchferry.profiling.summary import Summary

_MOST_NAMES = 5
_MOST_SHAPES = 3

_PROGRAM = re.compile(r"\.py(?=\s|$)")
"""How a program is told in a command; `model.py:build` of a prediction names none that a trace could name."""

_NOT_A_PROGRAM = frozenset({"ipykernel_launcher.py", "__main__.py"})
"""What runs notebooks and packages: a command says these otherwise."""


def with_times(asked: Requested, run: ProfiledRun, *, force: bool = False) -> Requested:
    """Return the request with what a trace says of each operator.

    Args:
        asked: What is asked for.
        run: The traces of a run of the same program, on any device; those of the lowest rank count.
        force: Take a trace that names another program.

    Raises:
        TorchferryError: the trace is of another program, or has none of the operators.
    """
    summary = run.first
    same = _same_program(asked.command, run, force)
    calls: dict[str, list[int]] = {}
    for index in summary.links.operators:
        call = summary.trace.calls[index]
        if summary.window[0] <= call.start < summary.window[1]:
            calls.setdefault(call.name, []).append(index)
    operators = {name for name in calls if "::" in name and not name.startswith(("autograd::", "torch::autograd::"))}
    if not operators:
        raise TorchferryError(
            say(
                "{path} has no operators of torch in its steps, so none of the request's operators can be found",
                path=run.path,
            ),
            say("record the program with `torchferry profile -- COMMAND`, which records them"),
        )
    items = tuple(item._replace(time=_time(item.need, summary, calls)) for item in asked.items)
    if not any(item.time for item in items):
        most = [row.name for row in summary.rows() if row.name in operators][:_MOST_NAMES]
        raise TorchferryError(
            say("{path} has no call of {names}", path=run.path, names=_some([item.need.name for item in asked.items])),
            say_plural(
                "its steps have {count} operator ({names}): is it a trace of this program?",
                "its steps have {count} operators, and most of the time is in {names}: is it a trace of this program?",
                count=len(operators),
                names=", ".join(map(printable, most)),
            ),
        )
    named = replace(run, path=Path(run.path.name))  # a vendor is not told where the trace lies
    return asked._replace(items=items, trace=(headline(named, summary), same, *notes(named)))


def _same_program(command: str, run: ProfiledRun, force: bool) -> Message:
    """Return the known facts about whether the trace is of the command.

    Raises:
        TorchferryError: it names another program.
    """
    program = run.first.trace.settings.get("program", "")
    if not program.endswith(".py") or program in _NOT_A_PROGRAM:
        return say("whether the trace is of the same program was not judged: it names no program")
    if re.search(rf"(?:^|[\s/\\]){re.escape(program)}(?=[\s:]|$)", command):
        return say("the trace is of {program}, as the request is", program=printable(program))
    if _PROGRAM.search(command) is None:
        return say(
            "the trace is of {program}; whether the request is of the same program was not judged: its "
            "run names no program",
            program=printable(program),
        )
    if not force:
        raise TorchferryError(
            say("the trace is of {program}, and the request is of `{command}`",
                program=printable(program), command=printable(command)),
            say("give a trace of that program, or use this one anyway with --force"),
        )  # fmt: skip
    return say(
        "THE TRACE IS OF ANOTHER PROGRAM, {program}, and was used because of --force", program=printable(program)
    )


def _time(need: OperatorNeed, summary: Summary, calls: dict[str, list[int]]) -> OperatorTime | None:
    """Return what the steps say of an operator; None without a call of it."""
    base = need.name.partition(".")[0]
    names = {base}
    if "out" in need.name.partition(".")[2] or base not in calls:
        names.add(f"{base}_")  # in place is computed by the form with `out`, which CUDA and the CPU call directly
    links, trace = summary.links, summary.trace
    outermost: list[int] = []
    for index in (each for name in names for each in calls.get(name, ())):
        outer = links.operator[index]
        while outer >= 0 and trace.calls[outer].name not in names:
            outer = links.operator[outer]
        if outer < 0:
            outermost.append(index)
    if not outermost:
        return None
    steps = len(summary.steps)
    to_cpu = {name for name, _ in summary.fallbacks}
    of_host = not summary.on_device or not to_cpu.isdisjoint((*names, need.name))
    if of_host:
        time = sum(trace.calls[index].end - trace.calls[index].start for index in outermost)
    else:
        time = sum(links.device[index] for index in outermost)
    says_nothing = bool(trace.settings.get("rehearsal")) or (summary.on_device and not any(links.device))
    return OperatorTime(
        len(outermost) / steps,
        None if says_nothing else time / steps,
        statistics.fmean(summary.step_times),
        of_host,
        _other_shapes(need, [trace.calls[index].detail for index in outermost]),
    )


def _other_shapes(need: OperatorNeed, details: list[str]) -> tuple[str, ...]:
    """Return the shapes of the trace's calls where the first tensor never has a shape that the run shows."""
    seen = {"x".join(map(str, tensors[0].size)) for shape in need.shapes if (tensors := seen_tensors(shape))}
    shapes = dict.fromkeys(shape for detail in details if (shape := detail.partition(DTYPES_AFTER)[0]))
    if not seen or not shapes or any(shape.partition(" ")[0] in seen for shape in shapes):
        return ()
    return tuple(map(printable, shapes))[:_MOST_SHAPES]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
