"""Predicts what a model needs, in its own process: see `predicting.py`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.temporary import temporary_folder
from torchferry.ops.child import LostProcessError, result_of
from torchferry.ops.lists import OperatorList, of_target
from torchferry.ops.needs import RunNeeds, from_document

_PLAIN = "card"
_OF_TORCH = (signal.SIGABRT, signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGBUS)
"""Signals by which torch ends a process that it cannot go on with."""

_MOST_LEFT_OUT = 8
"""Operators that may end a process before the prediction is given up."""


def predicted(
    what: str,
    target: Target | None,
    *,
    training: bool = True,
    natives: OperatorList | None = None,
    lang: str = "",
) -> RunNeeds:
    """Return what a function of a file needs, on an accelerator that has no kernels.

    Args:
        what: `FILE.py:FUNCTION`.
        target: Whose composition torch is to follow; None for torch's own.
        training: Whether a model gets a backward and an optimizer's step.
        natives: The list of the target's operators; None for torchferry's.
        lang: Language of the notes; empty for the user's.

    Raises:
        UsageError: there is no such file.
        TorchferryError: the function fails, this torch has no such device, or the process is lost.
    """
    file, function = _named(what)
    settings: dict[str, Any] = {
        "file": str(file),
        "name": function,
        "device": _PLAIN,
        "target": "",
        "registered": [],
        "natives": [],
        "training": training,
        "lang": lang,
    }
    if target is not None:
        known = natives or of_target(target)
        registered = known.registered or frozenset()
        settings |= {
            "device": target.backend.DEVICE_TYPE,
            "target": f"{target.name}@{known.table.version or known.version}".rstrip("@"),
            "registered": sorted(registered - known.autograd),
            "natives": sorted(registered | known.autograd),
        }
    with temporary_folder("torchferry-last-") as folder:
        last = folder / "operator"
        left_out: list[str] = []
        while True:
            try:
                written = result_of(
                    "torchferry.ops.predicting",
                    {**settings, "left_out": left_out, "last": str(last)},
                    say("the process that ran {what}", what=what),
                )
            except LostProcessError as error:
                name = last.read_bytes().rstrip(b"\0").decode("utf-8", "replace") if last.is_file() else ""
                if error.signal not in _OF_TORCH or not name or name in left_out or len(left_out) >= _MOST_LEFT_OUT:
                    raise
                left_out.append(name)
                continue
            return from_document(parsed_json(written["needs"]), what)


def _named(what: str) -> tuple[Path, str]:
    path, colon, function = what.rpartition(":")
    if not colon or not function.isidentifier() or not path.endswith(".py"):
        raise UsageError(
            say("`{what}` is not of the form FILE.py:FUNCTION", what=what), say("write it as in model.py:build")
        )
    file = Path(path).absolute()
    if not file.is_file():
        raise UsageError(say("there is no file {path}", path=path))
    return file, function
