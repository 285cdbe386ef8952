"""From the name of a function of `torch.cuda` to what this device has in its place."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from torchferry.core.messages import Message, say
from torchferry.device.facts import DeviceFacts
from torchferry.device.failures import NotOnThisDeviceError, plain
from torchferry.device.torch_import import torch


class DescribedDevice(NamedTuple):
    """A device and the known facts about its kind."""

    facts: DeviceFacts
    device: torch.device


_Function = TypeVar("_Function", bound=Callable[..., Any])


def constant_when_compiled(function: _Function) -> _Function:
    """Let `torch.compile` call a function as it compiles, and take the answer as it is: a plugin cannot be traced.

    It is `torch.compiler.assume_constant_result`, which would import the compiler.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant_when_compiled
def resolve(path: str) -> Any:
    """Return what is at a dotted path; None when it is not there.

    Raises:
        Exception: whatever the import of its first module raises, unless that is not installed.
    """
    parts = path.split(".")
    try:
        value: Any = importlib.import_module(parts[0])
    except ModuleNotFoundError as error:
        if error.name != parts[0]:
            raise
        return None
    for position, part in enumerate(parts[1:], 2):
        member = getattr(value, part, None)
        if member is None and position < len(parts):
            with contextlib.suppress(ImportError):  # a submodule that its package does not import
                member = importlib.import_module(".".join(parts[:position]))
        if member is None:
            return None
        value = member
    return value


def find(facts: DeviceFacts, name: str) -> Any:
    """Return the replacement of `torch.cuda.<name>`; None where there is nothing.

    Where nobody has verified it, the running plugin is asked whether it has the name.
    """
    entry = facts.name_of(name)
    member = resolve(entry.path) if entry.path else None
    if member is None or not (entry.keywords or entry.default_argument):
        return member
    return _taking(member, entry.keywords, entry.default_argument)


def _taking(function: Callable[..., Any], keywords: Mapping[str, str], default: str) -> Callable[..., Any]:
    """Return a function that takes arguments as CUDA's does: by its names for them, and none where that takes none."""

    def call(*values: Any, **options: Any) -> Any:
        if default and not values and not options:
            values = (resolve(default)(),)
        return function(*values, **{keywords.get(name, name): value for name, value in options.items()})

    return call


def required(facts: DeviceFacts, name: str, instead: Message | None = None) -> Any:
    """Return the replacement of `torch.cuda.<name>`.

    Raises:
        NotOnThisDeviceError: there is nothing, or the plugin that is installed does not have it.
    """
    member = find(facts, name)
    if member is not None:
        return member
    entry = facts.name_of(name)
    missing = say("{title} has no counterpart of torch.cuda.{name}", title=facts.title, name=name)
    if entry.path:
        missing = say("the installed {plugin} has no {path}", plugin=facts.plugin or "torch", path=entry.path)
    advice = plain(entry.note) if entry.note.en else instead
    raise NotOnThisDeviceError(missing, advice)


@contextlib.contextmanager
def current(place: DescribedDevice) -> Iterator[None]:
    """Make a device the current one of its kind inside the block, and then the one that was."""
    setter = find(place.facts, "set_device")
    getter = find(place.facts, "current_device")
    if setter is None or getter is None:
        yield  # the CPU, or a plugin with one device
        return
    before = getter()
    setter(place.device.index)
    try:
        yield
    finally:
        setter(before)
