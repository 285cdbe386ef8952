"""A run that was to be redirected and has no card: it ends with the reason, and does not go on on the CPU.

A program that is told that there is no CUDA takes the CPU, computes for days and ends well. So its questions raise, and
`torchferry run`, which finds the mark that is left here, ends with an error where the program catches what they raise.

The same holds for a plugin that is installed and sees no card (`DeviceCountGuard`): the program is told so, rather than
that there is no CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import os
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.backends.visible_cards import shortfall
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.core.terminal import print_notice, print_own_lines
from torchferry.shim.patches import Patches
from torchferry.shim.visible_devices import hidden

MARK = "TORCHFERRY_SHIM_MARK"
"""File that says that some process has begun the redirect; the first one to begin also says what it redirects."""

_SUFFIX = "-refused"

_QUESTIONS = {
    "cuda": ("is_available", "device_count", "_lazy_init"),
    "accelerator": ("is_available", "device_count", "current_accelerator"),
}
"""Modules of torch, and what a program asks them in order to choose its device or to start it."""

QUESTIONS = ("is_available", "device_count")
"""What a plugin is asked for its cards."""

_OF_CACHES = ("cache_clear", "cache_info")

_reasons_shown: list[str] = []


def first() -> bool:
    """Whether this is the first process of the command to begin."""
    return _leave_mark("")


def refused() -> bool:
    """Whether this process was refused."""
    return bool(_reasons_shown)


def refused_somewhere(mark: str) -> bool:
    """Whether a process of the command whose mark is `mark` was refused."""
    return os.path.exists(mark + _SUFFIX)


def refuse(error: BaseException) -> None:
    """Say why the redirect cannot begin, and let the program's questions about its device raise it."""
    import torch

    if not isinstance(error, TorchferryError):
        traceback.print_exception(error)
        error = TorchferryError(
            say("the redirect did not start: {error}", error=in_full(error)),
            say("the traceback above shows where: in the plugin, or in torchferry; then please report the bug"),
        )
    reason = tell(error)

    def ask(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torchferry: {reason}")

    for name, questions in _QUESTIONS.items():
        module = getattr(torch, name, None)
        for question in questions:
            if hasattr(module, question):
                setattr(module, question, ask)


def tell(error: TorchferryError) -> str:
    """Print a reason once in this process, leave the mark, and return the reason."""
    reason = "\n  ".join(error.lines())
    if reason not in _reasons_shown:
        _reasons_shown.append(reason)
        first()
        _leave_mark(_SUFFIX)
        print_own_lines(reason)
    return reason


def ask_the_doctor(target: Target) -> Message:
    """Return the advice for a plugin that does not work, where nothing closer is known."""
    return say("`torchferry doctor --target {name}` finds the cause", name=target.name)


def in_full(error: BaseException) -> str:
    """Return an error and what caused it, each with its type, the last one first."""
    errors: list[str] = []
    errors_seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in errors_seen:
        errors_seen.add(id(cause))
        errors.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n    <- ".join(errors)


def _leave_mark(suffix: str) -> bool:
    """Leave a mark beside the command's; whether there was none yet. Without a command each process is the first."""
    path = os.environ.get(MARK, "")
    if not path:
        return True
    with contextlib.suppress(OSError):
        os.close(os.open(path + suffix, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    return False


class DeviceCountGuard:
    """Whether the plugin has seen a card in this process, or in the one that it was forked from.

    The plugin is asked when somebody asks it, and never before: its count starts the driver, which then reads no other
    list of visible cards and serves no forked child (torch_npu's own tests hold it to that; torch_musa keeps its first
    count).
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen = False
        self._lists_counted: set[str] = set()

    def patch(self, patches: Patches) -> None:
        """Watch what the plugin answers, whoever asks: a library that knows the card would take the CPU as well."""
        from torchferry.shim.resolve import NotThereError, find  # imported late: the command has no torch

        for question in QUESTIONS:
            path = self._path(f"{cuda.NAMESPACE}.{question}")
            module, _, name = path.rpartition(".")
            try:
                owner, original = find(module), find(path)
            except (NotThereError, ValueError):
                continue  # what stands in its place raises, and says so
            patches.set(owner, name, self.watched(original, path), path)

    def watched(self, original: Callable[..., Any], path: str) -> Callable[..., Any]:
        """Return a function that raises where `original` finds no card that it ought to find."""

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if answer:
                self._seen = True
                self._tell_shortfall(answer)
            elif not self._seen and not hidden(self._target) and not self._forked_too_late():
                why = self._why(path, answer)
                reason = tell(TorchferryError(why, ask_the_doctor(self._target)))
                raise RuntimeError(f"torchferry: {reason}")
            return answer

        for name in _OF_CACHES:
            if hasattr(original, name):
                setattr(call, name, getattr(original, name))
        return call

    def _tell_shortfall(self, answer: Any) -> None:
        """Say once that the list of visible cards requests more than the plugin counted; a truth value is no count."""
        variable = str(self._target.backend.VISIBLE_DEVICES)
        value = os.environ.get(variable, "")
        if not value or isinstance(answer, bool) or not isinstance(answer, int) or value in self._lists_counted:
            return
        self._lists_counted.add(value)
        fewer = shortfall(self._target, variable, value, answer)
        if fewer is not None:
            print_notice(f"torchferry: {fewer}")

    def _path(self, name: str) -> str:
        row, namespace = self._target.api(name), self._target.backend.NAMESPACE
        if row.status in REWRITTEN:
            return row.use
        return namespace + name.removeprefix(cuda.NAMESPACE) if namespace else ""

    def _forked_too_late(self) -> bool:
        """Whether the process was forked from one that had started the card, which answers to no child of it."""
        import torch

        module = getattr(torch, self._target.backend.DEVICE_TYPE, None)
        bad = getattr(module, "_is_in_bad_fork", None)
        return bool(bad is not None and bad())

    def _why(self, path: str, answer: Any) -> Message:
        backend = self._target.backend
        why = say(
            "the plugin `{plugin}` of {target} finds no card: {name}() is {answer}",
            plugin=backend.PLUGIN,
            target=self._target.title,
            name=path,
            answer=answer,
        )
        variable = str(backend.VISIBLE_DEVICES)
        value = os.environ.get(variable)
        if value is None:
            return why
        fewer = shortfall(self._target, variable, value)
        if fewer is not None:
            return say("{why}; {fewer}", why=why, fewer=fewer)
        return say("{why}; `{variable}` is `{value}`", why=why, variable=variable, value=value)
