"""Asks every piece of advice about a project, leaves out what a trace contradicts, and puts the largest share first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from torchferry.advice import batching, distribution, loading, operators, precision, waiting
from torchferry.advice.measured import MeasuredRun
from torchferry.advice.model import Advice, CodePlace, Counsel
from torchferry.advice.question import AdviceQuestion
from torchferry.advice.training_code import TrainingCode, TrainingProgram, place_of
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.finding import Finding
from torchferry.core.messages import Message, say, say_plural
from torchferry.profiling.formatting import printable
from torchferry.profiling.report import notes

PIECES: tuple[Callable[[AdviceQuestion], Iterator[Advice]], ...] = (
    loading.loader_workers,
    waiting.host_waits,
    batching.batch_loop,
    operators.cpu_fallback,
    operators.host_processor,
    operators.slow_operator,
    precision.layout_lost,
    precision.mixed_precision,
    precision.mixed_dtype,
    operators.attention,
    operators.without_flash,
    precision.channels_last,
    precision.float32_switch,
    operators.fused_optimizer,
    operators.optimizer_step,
    operators.compile_backend,
    distribution.bucket_size,
    distribution.unused_parameters,
    loading.pinned_memory,
    loading.persistent_workers,
    loading.batch_size,
    waiting.polling,
)
"""All pieces of advice; where nothing was measured, this is their order."""

_MOST_PROGRAMS = 40
"""Files with steps that are asked about; a folder of examples may hold hundreds."""

_NOTEBOOK = "ipykernel_launcher.py"
"""The program of every notebook."""

_MOST_CLASSES = 3
"""Classes of modules that a message names."""


def advise(
    code: TrainingCode,
    target: Target,
    findings: Sequence[Finding] = (),
    measured: MeasuredRun | None = None,
    notebooks: int = 0,
) -> Counsel:
    """Return what would make the programs of a project faster on a target.

    Args:
        code: The project's code.
        target: Where it is to run.
        findings: What the rules found about attention and packages.
        measured: What a trace says; None without one.
        notebooks: How many notebooks were left out.
    """
    programs = list(code.programs())
    remarks: list[Message] = []
    if len(programs) > _MOST_PROGRAMS:
        remarks.append(
            say(
                "only the first {most} of the files with training steps were examined: name a file to examine another",
                most=_MOST_PROGRAMS,
            )
        )
        programs = programs[:_MOST_PROGRAMS]
    if measured is not None:
        programs = _of_trace(programs, measured)
    trainers = code.library_trainers()
    if trainers:
        remarks.append(
            say(
                "the steps of {libraries} are in these libraries ({place}): only a trace shows what happens in them",
                libraries=", ".join(sorted(trainers)),
                place=next(iter(trainers.values())),
            )
        )
    elif not programs:
        remarks.append(say("no training step was found: nothing here calls backward and steps an optimizer"))
    found: list[Advice] = []
    for program in programs or [TrainingProgram(code, (), ())]:
        asked = AdviceQuestion(program, measured, target, findings)
        for piece in PIECES:
            found += piece(asked)
    remarks += [say("{path} cannot be parsed and was not examined", path=path) for path in sorted(set(code.unread))]
    if notebooks:
        remarks.append(
            say_plural("{count} notebook was not examined", "{count} notebooks were not examined", count=notebooks)
        )
    remarks += _of_measured(measured, code)
    steps = tuple(place_of(step.file, step.node) for program in programs for step in program.steps)
    ordered = sorted(_merged(found), key=lambda advice: -advice.share)  # the order of PIECES among equals
    return Counsel(tuple(ordered), steps, tuple(remarks), measured is not None and measured.has_times)


def _of_trace(programs: list[TrainingProgram], measured: MeasuredRun) -> list[TrainingProgram]:
    """Return the programs that a trace is of; all where it does not say which program it was."""
    recorded = [
        program for program in programs if any(PurePosixPath(path).name == measured.program for path in program.paths)
    ]
    return recorded or programs


def require_same_program(code: TrainingCode, measured: MeasuredRun) -> None:
    """Check that a trace may be of the project.

    Raises:
        TorchferryError: the trace names a program that the project does not have.
    """
    name = measured.program
    if (
        name.endswith(".py")
        and name != _NOTEBOOK
        and not any(PurePosixPath(path).name == name for path in code.project.paths)
    ):
        raise TorchferryError(
            say(
                "the trace is of {program}, and {root} has no such file",
                program=printable(name),
                root=code.project.root,
            ),
            say("give a trace of this project, or use this one anyway with --force"),
        )


def _of_measured(measured: MeasuredRun | None, code: TrainingCode) -> Iterator[Message]:
    """Yield what a reader must know of the trace."""
    if measured is None:
        yield say(
            "nothing was measured: all of this is from the code alone; `torchferry profile -- COMMAND` records a "
            "trace, "
            "and --trace takes it"
        )
        return
    yield from notes(measured.run)
    if measured.is_rehearsed:
        yield say("the trace was rehearsed: only its calls, dtypes and layouts are used, and no times")
    if not measured.program and measured.module_classes:
        texts = [code.project.text(path) for path in sorted(code.project.paths)]
        unknown = sorted(
            name
            for name in measured.module_classes
            if not any(text is not None and name in text.text for text in texts)
        )
        if unknown and len(unknown) == len(measured.module_classes):
            yield say(
                "the outermost modules of the trace are {names}, and this code has none of these names: is "
                "it a trace of this program?",
                names=", ".join(map(printable, unknown[:_MOST_CLASSES])),
            )


def _merged(found: Sequence[Advice]) -> list[Advice]:
    """Return advice with the same piece given for several programs as one."""
    merged: dict[tuple[str, Message], Advice] = {}
    for advice in found:
        key = advice.kind, advice.title
        before = merged.get(key)
        if before is None:
            merged[key] = advice
        else:
            places: tuple[CodePlace, ...] = tuple(dict.fromkeys((*before.places, *advice.places)))
            merged[key] = before._replace(places=places, edits=tuple(dict.fromkeys((*before.edits, *advice.edits))))
    return list(merged.values())
