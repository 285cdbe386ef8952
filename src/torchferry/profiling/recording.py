"""Runs a command and records traces of its steps, on this machine's accelerator or on the simulated card."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.files import make_writable_folder
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.temporary import temporary_folder
from torchferry.numerics.framework import launcher
from torchferry.numerics.framework.launcher import ToolSettings, require_examined
from torchferry.ops.tracing import run_rehearsed
from torchferry.rehearsal.config import VARIABLE, Rehearsal, read, session_folder

_TOOL = "torchferry.profiling.recorder:begin"


@dataclass(frozen=True)
class RecordingOptions:
    """What is recorded.

    Attributes:
        skip_first: Steps at the beginning that are left out; the first one always is.
        wait: Steps that each round begins with and leaves out.
        warmup: Steps in which the profiler runs and its results are thrown away.
        active: Steps that are recorded.
        repeat: Rounds; each writes a trace.
        modules: Mark the forward of each module.
        shapes: Record shapes and dtypes of inputs.
        memory: Record what the allocators hold.
        stack: Record Python's stack; much slower.
        flops: Estimate floating-point operations.
    """

    skip_first: int = 1
    wait: int = 1
    warmup: int = 1
    active: int = 2
    repeat: int = 1
    modules: bool = True
    shapes: bool = True
    memory: bool = False
    stack: bool = False
    flops: bool = False

    @property
    def steps(self) -> int:
        """Return how many steps a program must make for all rounds."""
        return max(self.skip_first, 1) + self.repeat * (self.wait + self.warmup + self.active)


@dataclass(frozen=True)
class Recording:
    """What became of a recorded command.

    Attributes:
        code: Its exit code.
        traces: The traces that were written, by rank.
        notes: What a user must know of the recording.
    """

    code: int
    traces: tuple[Path, ...]
    notes: tuple[Message, ...]


def record(
    command: list[str], options: RecordingOptions, folder: Path, rehearsal: Rehearsal | None = None
) -> Recording:
    """Run a command and record traces of its steps.

    Args:
        command: What to run.
        options: What is recorded.
        folder: Where the traces go, in `worker<rank>`; it must be empty or not be there.
        rehearsal: The simulated card that it runs on; None for this machine's accelerator, or for the simulated card
            of the rehearsal that this process is part of.

    Raises:
        TorchferryError: the folder holds something or cannot be written, or no process loaded torch.
        UsageError: there is no such command, or its environment keeps torch from loading the tool.
    """
    _prepare(folder)
    simulated = read(session_folder()) if rehearsal is None and os.environ.get(VARIABLE) else rehearsal
    described = {
        **asdict(options),
        "folder": str(folder.absolute()),
        "rehearsal": "" if simulated is None else str(simulated.resolved()),
    }
    with temporary_folder("torchferry-profile-") as temporary:
        settings = ToolSettings(_TOOL, described)
        if rehearsal is None:
            outcome = launcher.run(command, settings, temporary)
        else:
            outcome = run_rehearsed(command, settings, temporary, rehearsal)
    require_examined(outcome)
    traces: list[Path] = []
    notes: list[Message] = []
    most = 0
    for result in outcome.results:
        if "error" in result:
            notes.append(
                say("rank {rank}: {error}", rank=result["rank"], error=result["error"].strip().splitlines()[-1])
            )
            continue
        traces += [Path(path) for path in result["traces"]]
        most = max(most, result["steps"])
        if result["problem"]:
            notes.append(say("rank {rank}: the profiler failed: {error}", rank=result["rank"], error=result["problem"]))
    notes += [
        say("{process} ended without writing its trace, for example because it was killed", process=process)
        for process in outcome.broken
    ]
    if traces:  # they are no part of a project: neither git, scan nor handover takes them for one
        try:
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        except OSError as error:
            notes.append(say("cannot write {path}: {error}", path=folder / ".gitignore", error=error.strerror))
    elif any(result.get("problem") for result in outcome.results):
        notes.append(say("NOTHING WAS RECORDED: the profiler failed"))
    else:
        notes.append(_nothing(most, options))
    return Recording(outcome.code, tuple(traces), tuple(notes))


def _prepare(folder: Path) -> None:
    """Make the folder for the traces, and find out now, not after the run, whether it can be written.

    Raises:
        TorchferryError: it is no empty folder, or cannot be made or written.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise TorchferryError(
                say("{path} is not an empty folder", path=folder), say("choose another with --out, or empty it")
            )
        make_writable_folder(folder)
    except OSError as error:
        raise TorchferryError(
            say("cannot write {path}: {error}", path=folder, error=error.strerror), say("choose another with --out")
        ) from None


def _nothing(steps: int, options: RecordingOptions) -> Message:
    if steps == 0:
        return say(
            "NOTHING WAS RECORDED: no step ended. A step ends with optimizer.step(), or, in a program "
            "without an optimizer, with each call of a model under torch.no_grad()"
        )
    return say(
        "NOTHING WAS RECORDED: {ended}, and {needed} are needed; let the program run longer, or give --wait 0 "
        "--warmup 0",
        ended=say_plural("{count} step ended", "{count} steps ended", count=steps),
        needed=options.steps,
    )
