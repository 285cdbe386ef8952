"""From a row of the api table to what the program gets in place of a CUDA name."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any, NoReturn

import torch

from torchferry.backends import cuda
from torchferry.backends.counterpart import Decision, decide, lacking
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say
from torchferry.core.ranges import Ranges
from torchferry.shim.caller_policy import CallerPolicy, warn_user
from torchferry.shim.devices import Devices, Parameters
from torchferry.shim.patches import ABSENT


class NotThereError(LookupError):
    """The plugin that is installed does not have what the table says."""


def find(path: str) -> Any:
    """Return the object at a dotted path; modules on the way are imported.

    Raises:
        NotThereError: there is no such thing.
    """
    parts = path.split(".")
    try:
        value: Any = importlib.import_module(parts[0])
    except ImportError as error:
        raise NotThereError(path) from error
    for position, part in enumerate(parts[1:], 2):
        owner, value = value, getattr(value, part, ABSENT)
        if value is ABSENT:
            if not isinstance(owner, ModuleType):
                raise NotThereError(path)
            try:
                value = importlib.import_module(".".join(parts[:position]))
            except ImportError:
                raise NotThereError(path) from None
    return value


def _has(path: str) -> bool:
    """Whether torch has what a row prefers to the plugin's own: an older torch may not."""
    try:
        find(path)
    except NotThereError:
        return False
    return True


class Resolver:
    """Makes the card's counterparts of CUDA's names."""

    def __init__(self, target: Target, devices: Devices, policy: CallerPolicy) -> None:
        self.target = target
        self.devices = devices
        self._policy = policy
        self.parameters = Parameters(target.backend, devices)
        self._nvtx_functions = nvtx_functions(target)

    def counterpart(self, name: str, original: Any, *, quiet: bool = False) -> Any:
        """Return the replacement of the CUDA name `name`, whose value is `original`.

        A name that the card does not have becomes a function, or a class, that raises when it is used and says why.

        Args:
            name: The name, fully qualified.
            original: Its value.
            quiet: Say nothing at the first call of what is not quite the same.
        """
        row = self.target.api(name)
        decision, use = decide(self.target, row)
        if decision is Decision.TRY and use:
            if callable(original):
                return self._when_used(row, use, original)  # the installed plugin tells what no source does
        elif decision is not Decision.WRITE:
            return self._lacking(name, row, original)
        elif "called" in row.extra and _has(row.extra["called"]):
            return original  # torch's own serves the card better than the plugin's, and its device is translated
        try:
            return self._adapted(row, find(use), original, quiet)
        except NotThereError:
            return self._lacking(name, row, original, absent=True)

    def _when_used(self, row: Row, use: str, original: Any) -> Any:
        """Return a function or class that looks for its counterpart when it is used."""

        @lru_cache(maxsize=1)
        def counterpart() -> Any:
            try:
                return self._adapted(row, find(use), original, quiet=True)
            except NotThereError:
                return self._lacking(row.name, row, original, absent=True)

        def call(*args: Any, **kwargs: Any) -> Any:
            return counterpart()(*args, **kwargs)

        if isinstance(original, type):
            if issubclass(original, (BaseException, Enum)):  # OptState of the scaler, before torch 2.3
                return original
            call = _Late(original.__name__, (), {"found": staticmethod(counterpart), "__doc__": original.__doc__})
        call.__name__ = call.__qualname__ = row.name.rpartition(".")[2]
        return call

    def _adapted(self, row: Row, value: Any, original: Any, quiet: bool) -> Any:
        keywords: Mapping[str, str] = row.extra.get("keywords", {})
        kind = type(value)  # objects that torch deprecates warn when they are asked for their class
        if issubclass(kind, ModuleType):
            return value
        if issubclass(kind, type):
            return self._class(row, value, original, keywords)
        if callable(value):
            if self.devices.call_sites is not None:
                value = self.devices.call_sites.counting_calls(row.name, value)
            first = None if quiet or row.status != "partial" else lambda: say_once(row, self.target)
            return _taking(row, self.parameters.translated(value, original, keywords=keywords, first=first))
        return _Current(row.use) if issubclass(kind, tuple) else value  # filled once the device is used

    def _class(self, row: Row, value: type, original: Any, keywords: Mapping[str, str]) -> type:
        """Return a class whose call makes an object of the card's class, with its arguments translated.

        `isinstance` asks the card's class, so that objects made by the plugin itself belong to it.
        """
        like = original if isinstance(original, type) else value
        adapted = keywords or row.lacks_arguments or self.parameters.takes_any(like)
        if not adapted and self.devices.call_sites is None:
            return value
        make = _taking(row, self.parameters.translated(value, like, keywords=keywords))
        if self.devices.call_sites is not None:
            make = self.devices.call_sites.counting_calls(row.name, make)

        class RedirectedMeta(type(value)):  # type: ignore[misc]
            def __call__(cls, *args: Any, **kwargs: Any) -> Any:
                return make(*args, **kwargs) if cls is redirected else super().__call__(*args, **kwargs)

            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, value) if cls is redirected else super().__instancecheck__(instance)

            def __subclasscheck__(cls, subclass: type) -> bool:
                # An abstract class asks its subclasses, of which this one is one: the plain question does not.
                plain = type.__subclasscheck__
                return plain(value, subclass) if cls is redirected else super().__subclasscheck__(subclass)

        try:
            redirected = RedirectedMeta(
                value.__name__, (value,), {"__doc__": value.__doc__, "__module__": value.__module__}
            )
        except TypeError:  # a class that takes no subclasses
            return value
        return redirected

    def _warning_no_op(self, row: Row, original: Any, *, absent: bool) -> Any:
        warned = False

        @wraps(original)
        def nothing(*args: Any, **kwargs: Any) -> None:
            nonlocal warned
            if not warned:
                warned = True
                text = say("`{name}` does nothing on {target}", name=row.name, target=self.target.title)
                if absent and row.use:
                    text = say("{message}; the call does nothing", message=self.why(row.name, row, absent=True))
                warn_user(noted(text, row.remark))

        return nothing

    def _lacking(self, name: str, row: Row, original: Any, *, absent: bool = False) -> Any:
        if cuda.changes_nothing(name) and callable(original):
            return self._warning_no_op(row, original, absent=absent)
        instead = self._nvtx_functions.get(name)
        if instead is None:
            return self.refusal(name, row, original, absent=absent)
        return instead if self.devices.call_sites is None else self.devices.call_sites.counting_calls(name, instead)

    def refusal(self, name: str, row: Row, original: Any, *, absent: bool = False) -> Any:
        """Return what raises when the program uses a name that the card does not have.

        torch's own modules ask `torch.cuda` on behalf of other devices, too. They are answered by torch's own function,
        as they are without the redirect, and get the reason only where that one raises.
        """
        message = self.why(name, row, absent=absent)

        def fail(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"torchferry: {message}")

        if original is not None and not callable(original):
            return _Refused(fail)
        if isinstance(original, type):
            if issubclass(original, BaseException):
                return original  # it stands in `except`, where it catches nothing
            return _Lacking(original.__name__, (), {"__init__": fail, "__doc__": str(message), "__module__": __name__})
        refuse = fail
        if callable(original) and not cuda.is_measured(name):
            refuse = self._policy.dispatch_by_caller(_with_reason(original, message), fail)
        refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
        return refuse

    def why(self, name: str, row: Row, *, absent: bool = False) -> Message:
        """Return why the card has nothing in place of a CUDA name."""
        title = self.target.title
        if absent and row.use:
            return say(
                "`{name}` would be `{use}` on {target}, which the installed plugin does not have",
                name=name,
                use=row.use,
                target=title,
            )
        if row.status == "unknown":
            return say("nobody has verified the counterpart of `{name}` on {target}", name=name, target=title)
        return noted(say("{target} has no `{name}`", name=name, target=title), row.remark)


def _taking(row: Row, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises for an argument of CUDA's that the card's function does not take, and says so."""
    if not row.lacks_arguments:
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refused = lacking(row, len(args), kwargs)
        if refused is not None:
            raise NotImplementedError(f"torchferry: {refused}")
        return function(*args, **kwargs)

    return call


def _with_reason(original: Callable[..., Any], message: Message) -> Callable[..., Any]:
    """Return `original`, whose errors of a torch without CUDA are followed by the reason."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except (AssertionError, RuntimeError) as error:
            raise NotImplementedError(f"torchferry: {message}") from error

    return call


class _Current(Sequence[Any]):
    """What the plugin has at a path by now, such as the generators of its devices."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getitem__(self, index: Any) -> Any:
        return find(self._path)[index]

    def __len__(self) -> int:
        return len(find(self._path))


class _Refused:
    """Stands for a list or a table that the card does not have; raises when the program looks into it."""

    def __init__(self, fail: Any) -> None:
        self._fail = fail

    def __getitem__(self, key: Any) -> Any:
        return self._fail()

    def __iter__(self) -> Any:
        return self._fail()

    def __len__(self) -> int:
        return int(self._fail())


class _Lacking(type):
    """Class of the classes that the card does not have: what a program asks of one is answered by the reason."""

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"torchferry: {cls.__doc__}", name=name, obj=cls)


class _Late(type):
    """Class of the classes that look for their counterpart when they are used."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return vars(cls)["found"].__func__()(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, vars(cls)["found"].__func__())


def say_once(row: Row, target: Target) -> None:
    """Say how the card differs from CUDA, at the program's own line."""
    warn_user(noted(say("`{name}` differs slightly on {target}", name=row.name, target=target.title), row.remark))


_NVTX = f"{cuda.NAMESPACE}.nvtx"


def nvtx_functions(target: Target) -> dict[str, Callable[..., Any]]:
    """Return the functions of `torch.cuda.nvtx` by their full names, as marks in torch's profiler.

    A mark changes no result, so a program need not end where the card has none of its own; that it is elsewhere is
    said once.

    Results are those of NVTX: the level of a range from 0, and -1 from a pop where nothing is open.
    """
    ranges = Ranges(torch.autograd.profiler.record_function)
    handles = itertools.count(1)
    started: dict[int, Any] = {}
    warned = False

    def range_start(msg: str) -> int:
        """Begin a range that may end in another thread, and return its handle."""
        handle = next(handles)
        record: Any = torch.autograd.profiler.record_function(msg)
        started[handle] = record.__enter__()
        return handle

    def range_end(range_id: int) -> None:
        """End the range of a handle."""
        record = started.pop(range_id, None)
        if record is not None:
            record.__exit__(None, None, None)

    def warning_once(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal warned
            if not warned:
                warned = True
                title = target.title
                text = say("{target} has no `{name}`: markers appear in torch.profiler", target=title, name=_NVTX)
                warn_user(text)
            return function(*args, **kwargs)

        return call

    functions_of_ranges = (ranges.range_push, ranges.range_pop, ranges.mark, ranges.range)
    functions: tuple[Callable[..., Any], ...] = (*functions_of_ranges, range_start, range_end)
    return {f"{_NVTX}.{function.__name__}": warning_once(function) for function in functions}
