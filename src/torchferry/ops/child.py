"""Work in its own process, because torch loads one plugin a process: both ends of it.

The process runs `torchferry.ops.child`, and gets the name of a module whose `main` does the work, and two paths: a
file with its settings, and a file for its result. Both are JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torchferry.core import own_python, reaper, supported_torch
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say
from torchferry.core.shape import checked
from torchferry.core.system import KILL
from torchferry.core.temporary import temporary_folder
from torchferry.core.tool_environment import tool_environment


class LostProcessError(TorchferryError):
    """A process was ended by a signal and left no result; `signal` is its number."""

    def __init__(self, message: Message, advice: Message, number: int) -> None:
        super().__init__(message, advice)
        self.signal = number


def result_of(module: str, settings: Mapping[str, Any], what: Message, python: str = "") -> dict[str, Any]:
    """Return what a module writes in its own process.

    Args:
        module: Its name; its `main` calls `answer`.
        settings: What its work is called with.
        what: What it does, as the subject of a sentence: `the process that ran model.py:build`.
        python: The interpreter; empty for ours.

    Raises:
        TorchferryError: the work raised one, or left no result.
    """
    with temporary_folder("torchferry-ops-") as temporary:
        given, out = temporary / "settings.json", temporary / "result.json"
        given.write_text(json.dumps(settings), encoding="utf-8")
        variables = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}  # one device a process, and imported by us
        with subprocess.Popen(
            own_python.module_command("torchferry.ops.child", module, str(given), str(out), python=python),
            env=tool_environment(variables),
            stdout=sys.stderr,  # what the user's code prints is not our result
        ) as process:
            try:
                reaper.watch(process.pid)
                code = process.wait()
            except BaseException:
                process.kill()
                raise
            finally:
                reaper.release(process.pid)
        try:
            result: dict[str, Any] = checked(parsed_json(out.read_bytes()), {"error?": [str]})
        except (OSError, ValueError):
            raise _left_nothing(what, code) from None
    if result.get("error"):
        message, *advice = result["error"]
        raise TorchferryError(say("{text}", text=message), say("{text}", text=advice[0]) if advice else None)
    return result


def _left_nothing(what: Message, code: int) -> TorchferryError:
    """Return the error for a process that ended before it wrote what it was started for.

    Args:
        what: What it did, as the subject of a sentence: `the process that ran model.py:build`.
        code: How it ended, negative for a signal.
    """
    if code == -KILL:
        return TorchferryError(
            say("{what} was killed (SIGKILL), as the system does when memory runs out; it left no result", what=what),
            say("if memory ran out, provide more, or use a smaller model or batch"),
        )
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return LostProcessError(
            say("{what} was ended by {signal} and left no result", what=what, signal=name),
            say("see its output above for the cause"),
            -code,
        )
    return TorchferryError(
        say("{what} ended with exit code {code} and left no result", what=what, code=code),
        say("see its output above for the cause"),
    )


def answer(work: Callable[..., dict[str, Any]]) -> None:
    """Write the result of work, or why there is none, into the file that this process was given."""
    settings, out = map(Path, sys.argv[2:])
    try:
        result = work(**parsed_json(settings.read_text(encoding="utf-8")))
    except TorchferryError as error:
        result = {"error": error.lines()}
    out.write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()


def main() -> None:
    """Do the work of the module that is named, or say that it needs torch and there is none."""
    try:
        with supported_torch.needed("torchferry ops"):
            module = importlib.import_module(sys.argv[1])
    except TorchferryError as error:
        Path(sys.argv[3]).write_text(json.dumps({"error": error.lines()}), encoding="utf-8")
        return
    module.main()


if __name__ == "__main__":
    main()
