"""The target that a command is for: that of the command line, else that of the settings file."""

from __future__ import annotations

from pathlib import Path

from torchferry.backends.registry import built_in
from torchferry.backends.target import Target
from torchferry.core.config import load
from torchferry.core.errors import UsageError
from torchferry.core.messages import say


def named_target(option: str, folder: Path) -> Target:
    """Return the target that the command line names, else the settings of a folder.

    Args:
        option: What `--target` was given; empty where it is left out.
        folder: The folder whose settings are read.

    Raises:
        UsageError: neither names a target, or none that is known.
    """
    return required_target(option or load(folder).target)


def required_target(text: str) -> Target:
    """Return the target for a text that the command line or the settings give.

    Raises:
        UsageError: it is empty, or no target is known for it.
    """
    if not text:
        raise UsageError(
            say("no target is named"),
            say("use `--target` with one of {names}, or set `target` in torchferry.toml", names=", ".join(built_in())),
        )
    return Target.requested(text)
