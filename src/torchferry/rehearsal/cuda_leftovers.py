"""CUDA that is still there at run time: calls of `torch.cuda` and `cuda` given to torch, from the user's own lines.

What is watched goes on to do what it does on a machine without CUDA: `torch.cuda.is_available()` stays False,
`.to("cuda")` raises as it always does.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from multiprocessing import parent_process
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.backends.variable_values import refusal, values_of
from torchferry.core.userlines import NOWHERE, UserLine
from torchferry.rehearsal import events
from torchferry.rehearsal.config import given
from torchferry.shim.visible_devices import is_counted

_QUIET = frozenset({"is_available", "is_initialized", "device_count"})
"""Questions that portable code may ask on any machine: noted only where the user's own line asks them."""

_STAYS_WHERE_ABSENT = "empty_cache"
"""Does nothing on a machine without CUDA and changes no result, so it stays where the card has nothing like it."""

_LONGEST = 160
"""Characters of a warning that are kept."""


_SAME = frozenset({"same", "unknown"})
"""States of a setting that the target reads as CUDA does, or of which nobody knows whether it does."""


def watch(target: Target, folder: Path) -> None:
    """Begin to note remnants of a program that is for `target`; can be called again."""
    if getattr(torch.cuda, "_torchferry_watched", False):
        return
    torch.cuda._torchferry_watched = True  # type: ignore[attr-defined]
    _watch_initialisation()
    _watch_functions(target)
    watch_warnings()
    _watch_device_argument(torch.amp.autocast_mode.autocast)
    if hasattr(torch.amp, "GradScaler"):  # from torch 2.3 on; before, there is none with a device to be named
        _watch_device_argument(torch.amp.GradScaler)
    _put_build_modules(target)
    _watch_settings(target)
    _watch_profiler(target)
    _watch_environment(target, folder)


def watch_warnings() -> None:
    """What is shown as a warning is an event too; a program that catches warnings keeps them to itself.

    Called again where a plugin has put a function of its own in the place of ours.
    """
    original = warnings.showwarning

    @functools.wraps(original)
    def show(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        text = str(message).strip().partition("\n")[0]
        events.recorder.add("warning", category.__name__, text[:_LONGEST])
        original(message, category, *args, **kwargs)

    warnings.showwarning = show


def _watch_initialisation() -> None:
    """`.to("cuda")`, `torch.zeros(..., device="cuda")` and `.cuda()` all end in `torch.cuda._lazy_init`."""
    original: Callable[[], None] = torch.cuda._lazy_init

    @functools.wraps(original)
    def lazy_init() -> None:
        if not _asks_inductor():
            events.recorder.add("cuda-remnant", "cuda", "a device `cuda` was asked for")
        original()

    torch.cuda._lazy_init = lazy_init


_CACHE_KEY = ("get_system", f"torch{os.sep}_inductor{os.sep}")
"""The function in which inductor asks for CUDA's device to name its cache, and goes on without; and where it stands."""


def _asks_inductor() -> bool:
    """Whether inductor asks for its own sake, whatever the program compiles and for which device."""
    name, folder = _CACHE_KEY
    frame = sys._getframe(2)
    for _ in range(_NEAR):
        if frame.f_code.co_name == name and folder in frame.f_code.co_filename:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


_NEAR = 4
"""Frames between that function and `torch.cuda._lazy_init`, ours among them."""


def _watch_functions(target: Target) -> None:
    for name in torch.cuda.__all__:
        if name == _STAYS_WHERE_ABSENT and target.api(f"torch.cuda.{name}").status == "missing":
            continue
        original = getattr(torch.cuda, name, None)
        if name.startswith("_") or not callable(original) or isinstance(original, type):
            continue
        setattr(torch.cuda, name, _noting_use(name, original))
    for kind in (torch.cuda.Stream, torch.cuda.Event):  # they stay classes: programs ask `isinstance`
        kind.__new__ = staticmethod(_noting_use(kind.__name__, kind.__new__))  # type: ignore[method-assign]


def _noting_use(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if events.recorder.called_by_user():
            events.recorder.add("cuda-question" if name in _QUIET else "cuda-remnant", f"torch.cuda.{name}")
        return original(*args, **kwargs)

    return call


def _watch_device_argument(kind: Any) -> None:
    """`torch.autocast("cuda")` and `GradScaler("cuda")` are switched off on such a machine, with a warning at most.

    A library decorates functions with autocast that the program may never call: what is not the user's own line is
    noted when it is entered.
    """
    original = kind.__init__
    original_enter = getattr(kind, "__enter__", None)

    def note(device: object) -> None:
        events.recorder.add("cuda-remnant", f"{kind.__name__}({device!r})", "it is off on this machine")

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        device = kwargs.get("device_type", kwargs.get("device", args[0] if args else "cuda"))
        if str(device).partition(":")[0] == "cuda" and kwargs.get("enabled", True):
            if original_enter is None or events.recorder.called_by_user():
                note(device)
            else:
                self._torchferry_remnant = device
        original(self, *args, **kwargs)

    kind.__init__ = init
    if original_enter is not None:

        @functools.wraps(original_enter)
        def enter(self: Any) -> Any:
            if "_torchferry_remnant" in vars(self):
                note(self._torchferry_remnant)
            return original_enter(self)

        kind.__enter__ = enter


def _watch_settings(target: Target) -> None:
    """Switches of `torch.backends.cuda` and cuDNN that the target has elsewhere or not at all: they change nothing."""

    def note(name: str) -> None:
        row = target.api(name)
        if row.status not in _SAME and events.recorder.called_by_user(above=1):
            events.recorder.add("cuda-setting", name, row.use)

    def noting(kind: Any, path: str) -> None:
        original = kind.__setattr__

        @functools.wraps(original)
        def set_attribute(self: Any, name: str, value: Any) -> None:
            note(f"{path}.{name}")
            original(self, name, value)

        kind.__setattr__ = set_attribute

    noting(type(torch.backends.cuda.matmul), "torch.backends.cuda.matmul")
    noting(type(torch.backends.cudnn), "torch.backends.cudnn")
    for name, value in list(vars(torch.backends.cuda).items()):
        if callable(value) and name.startswith(("enable_", "allow_", "preferred_", "sdp_kernel")):
            setattr(
                torch.backends.cuda, name, _noting_call(value, functools.partial(note, f"torch.backends.cuda.{name}"))
            )


def _noting_call(original: Any, note: Callable[[], None]) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        note()
        return original(*args, **kwargs)

    return call


def _watch_profiler(target: Target) -> None:
    """A profiler that is asked for CUDA sees nothing of the card; where nothing else sees it, that is no remnant."""
    activity = torch.profiler.ProfilerActivity
    has_own = target.api("torch.profiler.ProfilerActivity.CUDA").status in REWRITTEN
    kinetic, legacy = torch.profiler.profiler._KinetoProfile, torch.autograd.profiler.profile

    def activities(kwargs: dict[str, Any]) -> str:
        given = kwargs.get("activities")
        named = isinstance(given, (list, tuple, set, frozenset)) and activity.CUDA in given
        return "ProfilerActivity.CUDA" if named and has_own else ""

    def device(kwargs: dict[str, Any]) -> str:
        if kwargs.get("use_cuda"):
            return "profile(use_cuda=True)"
        return "profile(use_device='cuda')" if kwargs.get("use_device") == cuda.DEVICE_TYPE else ""

    _watch_initialiser(kinetic, activities)
    _watch_initialiser(legacy, device, by_user=True)  # torch's own profiler makes one of these


def _watch_initialiser(kind: Any, asked: Callable[[dict[str, Any]], str], *, by_user: bool = False) -> None:
    original = kind.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        name = asked(kwargs)
        if name and (not by_user or events.recorder.called_by_user()):
            events.recorder.add("cuda-remnant", name, "the card is not profiled")
        original(self, *args, **kwargs)

    kind.__init__ = init


def _watch_environment(target: Target, folder: Path) -> None:
    """The choice of CUDA's devices by the program itself, before torch is imported or after: the card reads another.

    A value that the card's own variables refuse ends the program where the plugin first allocates.
    """
    settings = {row.use: row for row in target.backend.table("env") if row.use and "values" in row.extra}
    for name in settings.keys() & os.environ.keys():
        _note_refused(target, settings[name], os.environ[name], _line_of_main(name))
    variable, own = cuda.VISIBLE_DEVICES, target.backend.VISIBLE_DEVICES
    try:
        at_first = given(folder)
    except (OSError, ValueError):
        return
    detail = "" if isinstance(own, Unknown) else f"the card reads {own}"

    def note(place: UserLine | None = None) -> None:
        if isinstance(own, Unknown) or own not in os.environ:
            events.recorder.add("cuda-setting", variable, detail, place=place)

    if os.environ.get(variable) != at_first and parent_process() is None:
        note(_line_of_main(variable))
    environment: Any = type(os.environ)
    original = environment.__setitem__

    @functools.wraps(original)
    def set_item(self: Any, name: Any, value: Any) -> None:
        if name in settings and self is os.environ:
            _note_refused(target, settings[name], str(value))
        if name == own and self is os.environ and os.environ.get(own) != value and is_counted(target):
            events.recorder.add("late-setting", f"{own}={value}", "processes that it starts read the new list")
        original(self, name, value)
        if name == variable and self is os.environ:
            note()

    environment.__setitem__ = set_item


def _note_refused(target: Target, row: Row, value: str, place: UserLine | None = None) -> None:
    """Note a value that is none for a variable of the target; lists of cards are read elsewhere."""
    refused = None if values_of(row).numbers else refusal(target, row._replace(name=row.use), value)
    if refused is not None:
        events.recorder.add("refused-setting", row.use, refused.render("en"), place=place)


def _line_of_main(word: str) -> UserLine:
    """Return the first line of the program's main file that has `word`; nowhere where there is none, as in a script."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines() if file else []
    except OSError:
        return NOWHERE
    line_number = next((number for number, line in enumerate(lines, 1) if word in line), 0)
    return UserLine(str(file), line_number) if line_number else NOWHERE


class _BuildModule(ModuleType):
    """A module that the vendor's own build of torch has, and that does not serve the device."""

    def __init__(self, name: str, error: str) -> None:
        super().__init__(name, "In the vendor's build of torch; the plugin serves the device, and this does not.")
        self.__dict__["_error"] = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path, error = f"{self.__name__}.{name}", self.__dict__["_error"]

        def call(*args: Any, **kwargs: Any) -> bool:
            events.recorder.add("unverified-api", path, "it does not serve the device")
            if name == "is_available":
                return False
            raise RuntimeError(error)

        return call


def _put_build_modules(target: Target) -> None:
    for path, error in target.backend.BUILD_MODULES.items():
        name = path.removeprefix("torch.")
        if not hasattr(torch, name):
            setattr(torch, name, _BuildModule(path, error))
