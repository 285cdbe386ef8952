"""Work in a process of its own, because torch loads one plugin a process: both ends of `python -m MODULE`.

The process gets two paths: a file with its settings, and a file for its result. Both are JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say


def result_of(
    module: str, settings: Mapping[str, Any], lost: Callable[[int], Message], python: str = ""
) -> dict[str, Any]:
    """Return what a module writes in a process of its own.

    Args:
        module: Its name; its `main` calls `answer`.
        settings: What its work is called with.
        lost: What to say where it left no result, by the code that it ended with.
        python: The interpreter; empty for ours.

    Raises:
        TorchferryError: the work raised one, or left no result.
    """
    with tempfile.TemporaryDirectory(prefix="torchferry-ops-", ignore_cleanup_errors=True) as name:
        given, out = Path(name) / "settings.json", Path(name) / "result.json"
        given.write_text(json.dumps(settings), encoding="utf-8")
        code = subprocess.run(
            [python or sys.executable, "-m", module, str(given), str(out)],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},  # one device a process, and imported by us
            stdout=sys.stderr,  # what the user's code prints is not our result
            check=False,
        ).returncode
        try:
            result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise TorchferryError(lost(code), say("its output is above")) from None
    if "error" in result:
        message, *advice = result["error"]
        raise TorchferryError(say("{text}", text=message), say("{text}", text=advice[0]) if advice else None)
    return result


def answer(work: Callable[..., dict[str, Any]]) -> None:
    """Write the result of work, or why there is none, into the file that this process was given."""
    settings, out = map(Path, sys.argv[1:])
    try:
        result = work(**json.loads(settings.read_text(encoding="utf-8")))
    except TorchferryError as error:
        result = {"error": error.lines()}
    out.write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()
