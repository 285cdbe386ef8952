"""Settings of precision: a CUDA switch turns the card's own, and a switch without counterpart says so, once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.backends.cuda
import torch.backends.cudnn

from torchferry.backends import cuda
from torchferry.backends.tables import Row
from torchferry.core.messages import Message, noted, say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, Resolver, find
from torchferry.shim.signatures import parameters
from torchferry.shim.warned import warn_user

SETTINGS = {
    "torch.backends.cuda.matmul.allow_tf32": (type(torch.backends.cuda.matmul), "allow_tf32"),
    "torch.backends.cudnn.allow_tf32": (type(torch.backends.cudnn), "allow_tf32"),
}
"""Settings of CUDA's precision, and the class whose attribute each one is."""

_BY_OPERATION = {
    "matmul": "torch.backends.cuda.matmul.allow_tf32",
    "conv": "torch.backends.cudnn.allow_tf32",
}
"""Operations of `fp32_precision` (torch 2.9 and later), and the older setting that the card's own stands for."""

_TF32 = "tf32"

_SET_PRECISION = "_set_fp32_precision_setter"
"""Function of `torch._C` behind every spelling of `fp32_precision`."""


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect the settings."""
    settings: dict[str, _Setting] = {}
    for name, (kind, attribute) in SETTINGS.items():
        row = resolver.target.api(name)
        if row.use == name or row.status == "same":
            continue
        setting = settings[name] = _Setting(row, resolver)
        patches.set(kind, attribute, setting, name)
        if "__setattr__" in vars(kind):  # which would come before the property
            patches.set(kind, "__setattr__", _setter(kind.__setattr__, attribute, setting))
        if kind is type(torch.backends.cudnn):
            module: Any = torch.backends.cudnn
            patches.set(module.m, "set_flags", _flags(module.m.set_flags, setting))
        else:
            patches.set(torch, "set_float32_matmul_precision", _precision(setting))
    if settings and hasattr(torch._C, _SET_PRECISION):
        patches.set(torch._C, _SET_PRECISION, _by_operation(settings))
    original = torch.backends.cuda.is_built
    built = resolver.counterpart("torch.backends.cuda.is_built", original)
    patches.set(torch.backends.cuda, "is_built", viewers.answer(original, built))


def _setter(original: Any, attribute: str, setting: _Setting) -> Any:
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name == attribute:
            setting.__set__(self, value)
        else:
            original(self, name, value)

    return set_attribute


def _flags(original: Callable[..., Any], setting: _Setting) -> Callable[..., Any]:
    """Return `torch.backends.cudnn.set_flags`, which `flags(...)` calls as well, with `allow_tf32` for the card."""
    position = parameters(original).index("_allow_tf32")

    @functools.wraps(original)
    def set_flags(*args: Any, **kwargs: Any) -> Any:
        wanted = args[position] if position < len(args) else kwargs.get("_allow_tf32")
        before = setting.__get__(None)
        found = original(*args, **kwargs)
        if wanted is not None:
            setting.put(wanted)
        return (*found[:position], before, *found[position + 1 :])

    return set_flags


def _precision(setting: _Setting) -> Callable[[str], None]:
    """Return `torch.set_float32_matmul_precision`, which on CUDA turns TF32 on, and off again."""
    original = torch.set_float32_matmul_precision

    @functools.wraps(original)
    def set_float32_matmul_precision(precision: str) -> None:
        original(precision)
        setting.__set__(None, precision != "highest")

    return set_float32_matmul_precision


def _by_operation(settings: dict[str, _Setting]) -> Callable[[str, str, str], Any]:
    """Return what sets `fp32_precision`, of all operations or of one, and hands on what that changes for the card."""
    original = getattr(torch._C, _SET_PRECISION)
    told = torch._C._get_fp32_precision_getter  # what counts for an operation, also where a wider setting says it

    @functools.wraps(original)
    def set_fp32_precision(backend: str, operation: str, precision: str) -> Any:
        before = {one: told(cuda.DEVICE_TYPE, one) for one in _BY_OPERATION}
        done = original(backend, operation, precision)
        for one, name in _BY_OPERATION.items():
            now = told(cuda.DEVICE_TYPE, one)
            if now != before[one] and name in settings:
                settings[name].turn(now == _TF32, f"{name.rpartition('.')[0]}.fp32_precision")
        return done

    return set_fp32_precision


class _Setting:
    """A property of a settings object that reads and writes the card's setting."""

    def __init__(self, row: Row, resolver: Resolver) -> None:
        self._row = row
        self._target = resolver.target
        self._value = False
        self._said = False

    def _owner(self) -> tuple[Any, str] | None:
        owner, _, name = self._row.use.rpartition(".")
        try:
            return (find(owner), name) if owner else None
        except NotThereError:
            return None

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        owner = self._owner()
        return self._value if owner is None else getattr(*owner)

    def __set__(self, instance: Any, value: Any) -> None:
        self.turn(value, self._row.name)

    def turn(self, value: Any, name: str) -> None:
        """Set the card's setting, and say once, of the name by which the program turned it on, what that does."""
        served = self.put(value)
        if value and not self._said:
            self._said = True
            warn_user(self._text(served, name))

    def put(self, value: Any) -> bool:
        """Set the card's setting without a word, and return whether it has one."""
        owner = self._owner()
        if owner is None:
            self._value = value
        else:
            setattr(*owner, value)
        return owner is not None

    def _text(self, served: bool, name: str) -> Message:
        values = {"name": name, "use": self._row.use, "target": self._target.title}
        if served:
            text = say("`{name}` sets `{use}` on {target}, whose rounding is its own", **values)
        elif self._row.status == "unknown":
            text = say("nobody has verified what {target} has in place of `{name}`; it sets nothing", **values)
        else:
            text = say("{target} has nothing in place of `{name}`; it sets nothing", **values)
        return noted(text, self._row.remark)
