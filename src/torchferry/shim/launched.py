"""`torchferry run`: the environment of the command, and how the redirect begins in its processes."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from torchferry.backends import cuda
from torchferry.core import env
from torchferry.core.command import run as run_command
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.shim.redirect import Redirect, current, enable
from torchferry.shim.sites import collect

SITE = Path(__file__).with_name("site")
"""In front of PYTHONPATH: an entry point by which torch (2.5 and later) loads the redirect."""

MARK = "TORCHFERRY_SHIM_MARK"
"""File that says that some process has begun the redirect; the first one to begin also says what it redirects."""


def run(command: list[str], target: str, report: Path | None = None) -> int:
    """Run a command with torch.cuda of its processes redirected and return its exit code.

    Args:
        command: What to run.
        target: Where it goes, or `auto`.
        report: File for the lines of the project that went through the redirect.

    Raises:
        UsageError: there is no such command.
    """
    with tempfile.TemporaryDirectory(prefix="torchferry-run-", ignore_cleanup_errors=True) as folder:
        mark = Path(folder) / "begun"
        path = os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH", "")])])
        values = {"TORCHFERRY_SHIM": "1", "TORCHFERRY_SHIM_TARGET": target, MARK: str(mark), "PYTHONPATH": path}
        if report is not None:
            values[env.SITES] = folder
        code = run_command(command, {**os.environ, **values})
        if report is not None:
            report.write_text(collect(Path(folder), target, Path.cwd()), encoding="utf-8")
        if target != cuda.DEVICE_TYPE and not mark.exists():
            print(
                f"torchferry: {say('NOTHING WAS REDIRECTED: no process of the command loaded torch')}", file=sys.stderr
            )
    return code


def begin() -> None:
    """Begin the redirect in this process; where it cannot, show why and let `torch.cuda` raise it."""
    try:
        redirect = enable(env.shim_target())
    except TorchferryError as error:
        _refuse("\n  ".join(error.lines()))
        return
    if _first():
        print(f"torchferry: {opening(redirect)}", file=sys.stderr, flush=True)


def opening(redirect: Redirect) -> str:
    """Return the line that says what is redirected."""
    target = redirect.target
    if target is None:
        return str(say("torch.cuda is CUDA itself here; nothing is redirected"))
    return str(
        say(
            "torch.cuda of this program runs on {target} (`{device}`), {count} names of torch redirected",
            target=target.title,
            device=target.backend.DEVICE_TYPE,
            count=sum(name.startswith("torch.") for name in redirect.names),
        )
    )


def _first() -> bool:
    """Whether this is the first process of the command to begin."""
    path = os.environ.get(MARK, "")
    if not path:
        return True
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    return False


def _refuse(reason: str) -> None:
    """Keep the program from going on without a card, as it would if CUDA were merely not available."""
    import torch

    _first()
    print(f"torchferry: {reason}", file=sys.stderr, flush=True)

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torchferry: {reason}")

    if current() is None:
        for name in ("is_available", "device_count", "_lazy_init"):
            setattr(torch.cuda, name, refuse)
