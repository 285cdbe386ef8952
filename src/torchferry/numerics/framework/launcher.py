"""Examine the numbers of a command: what its processes find in their environment, and what they leave behind.

In each process the tool begins when torch is imported. It never breaks `import torch`: what it cannot do it says on
standard error, and the run counts as not examined.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torchferry.core import exitcodes, supported_torch
from torchferry.core.coded_errors import ProgramError
from torchferry.core.command import run as run_command
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.shape import checked
from torchferry.core.terminal import print_notice
from torchferry.core.torch_start import noting, or_end, python_without_torch, search_path, was_refused

SITE = Path(__file__).with_name("site")
"""In front of PYTHONPATH: an entry point by which torch loads the tool."""

FOLDER = "TORCHFERRY_NUMERICS"
"""Set for the processes of an examined command: the folder with the settings, where they leave what they found."""

SETTINGS = "settings.json"

RANK_TOOL = "torchferry.numerics.process_tools:begin_ranks"
"""Compares the ranks of a command with each other; it can go beside another tool."""


@dataclass(frozen=True)
class ToolSettings:
    """Which tool examines a command, and how.

    Attributes:
        tool: What begins in the processes, by its name: `package.module:function`. It gets the options and the folder,
            and returns a `ProcessTool`. Only they import it: it needs torch.
        options: What the tool was asked for: values that JSON has.
        ranks: The only ranks that are examined; all where it is empty.
        check_ranks: Ask each so many steps whether the ranks agree, on all of them; 0 for never.
    """

    tool: str
    options: dict[str, Any] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    check_ranks: int = 0

    def write(self, folder: Path) -> None:
        """Write the settings for the processes."""
        document = {
            "tool": self.tool,
            "options": self.options,
            "ranks": list(self.ranks),
            "check_ranks": self.check_ranks,
        }
        (folder / SETTINGS).write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> ToolSettings:
        """Read the settings that `write` left."""
        document = parsed_json((folder / SETTINGS).read_text(encoding="utf-8"))
        return cls(document["tool"], document["options"], tuple(document["ranks"]), document["check_ranks"])


@dataclass(frozen=True)
class Outcome:
    """What became of an examined command.

    Attributes:
        code: Its exit code.
        results: What each process left, by rank and then by process.
        broken: Processes that began and left nothing, such as killed ones: `rank 1 (process 4711)`.
        without_torch: The Python of a process that looked for torch and has none.
        refused: Whether a process could not begin the tool and said why.
    """

    code: int
    results: tuple[dict[str, Any], ...]
    broken: tuple[str, ...]
    without_torch: str = ""
    refused: bool = False


def run(command: list[str], settings: ToolSettings, folder: Path) -> Outcome:
    """Run a command under a tool.

    Args:
        command: What to run.
        settings: The tool.
        folder: An empty folder, for settings and results.

    Raises:
        UsageError: there is no such command, or its environment keeps torch from loading the tool.
    """
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0":
        raise UsageError(
            say("TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from loading the tool"),
            say("unset it, or use the tool in the program, as docs/en/numerics.md shows"),
        )
    settings.write(folder)
    variables = {FOLDER: str(folder.absolute()), **noting(folder), "PYTHONPATH": search_path(SITE)}
    code = run_command(command, {**os.environ, **variables})
    return outcome(code, folder)


def outcome(code: int, folder: Path) -> Outcome:
    """Return what became of a command whose processes had `folder` in their environment, and that ended with `code`."""
    return Outcome(code, *_collected(folder), python_without_torch(folder), was_refused(folder))


def _collected(folder: Path) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    results = list(_notes(folder, "process-*.json"))
    ended = {result["process"] for result in results}
    begun = list(_notes(folder, "begun-*.json"))
    lost = {process["process"] for process in begun} - ended
    results += [found for found in _notes(folder, "found-*.json") if found["process"] in lost]  # before it was lost
    broken = [
        f"rank {process['rank']} (process {process['process']})" for process in begun if process["process"] not in ended
    ]
    return tuple(sorted(results, key=lambda result: (result["rank"], result["process"]))), tuple(sorted(broken))


def _notes(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    """Yield what processes noted; a note that the program itself spoiled is none, so its process counts as broken."""
    for path in sorted(folder.glob(pattern)):
        with contextlib.suppress(OSError, ValueError):
            yield checked(parsed_json(path.read_bytes()), {"process": int, "rank": int})


def require_examined(outcome: Outcome) -> None:
    """Refuse to report on nothing.

    Raises:
        ProgramError: no process of the command loaded torch under the tool.
    """
    if outcome.results or outcome.broken:
        return
    if outcome.without_torch:
        raise ProgramError(
            exitcodes.without_work(outcome.code),
            say("NOTHING WAS EXAMINED: torch is not installed in {python}", python=outcome.without_torch),
            supported_torch.how_to_install(outcome.without_torch),
        )
    if outcome.refused:
        raise ProgramError(
            exitcodes.without_work(outcome.code),
            say("NOTHING WAS EXAMINED: the tool could not begin, for the reason above"),
        )
    if outcome.code:
        early = say(
            "NOTHING WAS EXAMINED: the command ended with exit code {code} before it loaded torch", code=outcome.code
        )
        raise ProgramError(outcome.code, early)
    raise ProgramError(
        exitcodes.ERROR,
        say("NOTHING WAS EXAMINED: no process of the command loaded torch under torchferry"),
        say("write what you would type without torchferry, such as {example}", example="-- python train.py"),
    )


def last_words(trace: str) -> str:
    """Return the last line of a trace; of an error that torchferry words itself, the words alone."""
    last = trace.strip().rpartition("\n")[2]
    return _OWN_ERROR.sub("", last)


_OWN_ERROR = re.compile(r"^torchferry\.[\w.]+Error: ")


class ProcessTool(Protocol):
    """What examines a process."""

    def finish(self) -> dict[str, Any]:
        """End the examination and return what was found, in values that JSON has."""


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""Where launchers say a process' rank."""


def rank() -> int:
    """Return this process' rank: what torch.distributed says once it is initialised, what launchers set, or 0.

    A program that starts its processes itself says the rank only when it initialises torch.distributed: who asks for
    the rank asks as late as it can.
    """
    stated = known_rank()
    return 0 if stated is None else stated


def known_rank() -> int | None:
    """Return this process' rank, or None where nobody has said it up to now."""
    distributed: Any = sys.modules.get("torch.distributed")
    initialised = getattr(distributed, "is_initialized", None)  # absent while torch is being imported, or built without
    if initialised is not None and initialised():
        return int(distributed.get_rank())
    for name in _RANKS:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def is_selected_rank(ranks: Collection[int] | None) -> bool:
    """Whether this process is among the ranks that are asked for; all are where it is None.

    A process whose rank nobody has said yet may be; it is to be asked again.
    """
    if ranks is None:
        return True
    stated = known_rank()
    return stated is None or stated in ranks


def autoload() -> None:
    """Begin the tool that the environment orders."""
    named = os.environ.get(FOLDER, "")
    if not named:
        return
    or_end(_require_torch)
    folder = Path(named)
    try:
        settings = ToolSettings.read(folder)
        # this rank answers the others also where it is not examined itself
        watch = _begin(RANK_TOOL, {"every": settings.check_ranks}, folder) if settings.check_ranks else None
        if not is_selected_rank(settings.ranks or None):
            return
        begun = folder / f"begun-{os.getpid()}.json"
        _note(begun, {"rank": rank(), "process": os.getpid()})
        tool = _begin(settings.tool, settings.options, folder)
    except BaseException as error:
        why = error if isinstance(error, TorchferryError) else repr(error)
        print_notice(f"torchferry: {say('the examination did not begin: {error}', error=why)}")
        _leave(folder, {"error": traceback.format_exc()})
        return
    process = os.getpid()

    def leave() -> None:
        if os.getpid() != process:
            return  # a fork has what its parent found so far, and must not report it again
        try:
            document = {**tool.finish(), **({} if watch is None else watch.finish())}
        except BaseException:
            traceback.print_exc()
            document = {"error": traceback.format_exc()}
        if settings.ranks and rank() not in settings.ranks:
            begun.unlink(missing_ok=True)  # its rank was not known when it began
            return
        _leave(folder, document)

    _before_others(leave)


def _before_others(leave: Callable[[], None]) -> None:
    """Call `leave` once when the process ends, before whatever else is registered for that, also later.

    A plugin registers its own end when it is imported, which is later than now, and is called first then: it gives up
    the device and pinned memory, where the tool still has tensors.
    """
    register: Any = atexit.register
    left = False

    def once() -> None:
        nonlocal left
        if not left:
            left = True
            leave()

    @functools.wraps(register)
    def registered(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = register(function, *args, **kwargs)
        atexit.unregister(once)
        register(once)
        return result

    register(once)
    replaced: Any = registered
    atexit.register = replaced


def _leave(folder: Path, document: dict[str, Any]) -> None:
    process = os.getpid()
    said = {"rank": rank(), "process": process, "command": sys.argv[:1]}
    _note(folder / f"process-{process}.json", {**said, **document})


def _require_torch() -> None:
    """Refuse a torch that is too old: the command would run to its end, and nothing would be examined."""
    import torch  # it is what calls us

    supported_torch.require(str(torch.__version__), say("the numerics tools"))


def _begin(name: str, options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin the tool of a name."""
    module, _, function = name.partition(":")
    begin: Callable[[dict[str, Any], Path], ProcessTool] = getattr(importlib.import_module(module), function)
    return begin(options, folder)


def note_found(folder: Path, document: dict[str, Any]) -> None:
    """Leave what was found up to now, for a process that may be killed before it ends."""
    process = os.getpid()
    _note(folder / f"found-{process}.json", {"rank": rank(), "process": process, **document})


def _note(path: Path, content: dict[str, Any]) -> None:
    """Write whole or not at all, so that a killed process leaves no half file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)
