"""Sees the operators that a process calls on the accelerator, and what torch composes of others there.

What a mode of torch sees is what is called before the device: an operator that torch then composes of others in C++,
such as `embedding`, hides these. So such an operator is opened: its own kernel is called with the mode on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import _disable_current_modes

from torchferry.numerics.framework.attribution import Attribution
from torchferry.numerics.framework.dispatch import WholeMode, is_higher_order, of_modes, unwrap_themselves
from torchferry.numerics.framework.launcher import ProcessTool, note_found
from torchferry.numerics.framework.operators import operator, tensors
from torchferry.ops import unknown_results
from torchferry.ops.composition import DERIVED, NOTHING, composition, derived_from, has_kernel, kernel_key
from torchferry.ops.needs import MOST_MODULES, MOST_SHAPES, OperatorNeed, most_frequent

_ASIDE = frozenset({"prim", "profiler", "prims", "debugprims", "inductor", "streams"})
"""Namespaces of what is no work of a device's."""

CLOSED = frozenset(
    {
        "aten::convolution",
        "aten::convolution_backward",
        "aten::_convolution",
        "aten::convolution_overrideable",
        "aten::convolution_backward_overrideable",
        "aten::copy_",
        "aten::_to_copy",
        "aten::clone",
        "aten::lift_fresh",
        "aten::detach",
        "aten::detach_",
        "aten::alias",
        "aten::item",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
    }
)
"""Composed operators that are not opened: what they are made of depends on the device, and `judging` knows it."""

_LISTS = "aten::_foreach_"
"""How the names of operators begin that do the same with each tensor of lists, as optimizers call them."""

_PLAIN = (bool, int, float)
_MOST_VALUES = 8
_LONGEST_TEXT = 40
"""Of arguments that are no tensors, what is written out."""

_MOST_LISTED = 4
"""Tensors of a list that are written out."""

_MOST_KINDS = 64
"""Kinds of arguments and modules that are counted of one operator while it runs."""


class _Seen:
    """What was seen of one operator."""

    __slots__ = ("bytes", "calls", "dtypes", "inside", "modules", "phases", "shapes")

    def __init__(self) -> None:
        self.calls = 0
        self.bytes = 0
        self.phases: dict[str, int] = {}
        self.modules: dict[str, int] = {}
        self.shapes: dict[str, int] = {}
        self.inside: dict[str, int] = {}
        self.dtypes: set[str] = set()


class _OpenOperators(threading.local):
    """The operators that are open in one thread, outermost first."""

    def __init__(self) -> None:
        self.names: list[str] = []


class OperatorMode(WholeMode):
    """Counts the operators that are called on one type of device.

    Args:
        device: The type; empty for whatever is not the CPU.
        has: Whether the device has its own kernel for an operator (`aten::add.out`).
        fake: Whether tensors are fake ones, without values.
    """

    def __init__(self, device: str, has: Callable[[str], bool], *, fake: bool = False) -> None:
        super().__init__()
        self.device = device
        self.calls = 0
        self.counts = True
        """Whether what is called now belongs to what is asked about: not what only builds a model."""
        self.made_up = 0
        """Numbers that a program read from fake tensors, in place of which it got another."""
        self.unopened: set[str] = set()
        """Composed operators that a fake tensor could not show the parts of."""
        self.left_out: frozenset[str] = frozenset()
        """Operators that ended an earlier process, and are not called on fake tensors."""
        self.guessed: dict[str, str] = {}
        """Operators whose results have sizes that nobody knows, or the largest ones: as `unknown_results` says."""
        self.on_call: Callable[[str], None] = lambda _: None
        """Called with the name of an operator before it is called on fake tensors, for a process that may be ended."""
        self.on_count: Callable[[int], None] = lambda _: None
        """Called with the number of calls, at powers of two: for a process that may be killed."""
        self.attribution = Attribution()
        self.devices: set[str] = set()
        """Types of the devices that operators were seen on."""
        self._has = has
        self._fake = self.without_values = fake
        self._counted: dict[str, _Seen] = {}
        self._opens_it: dict[str, bool] = {}
        self._open = _OpenOperators()
        self._names: dict[int, tuple[Any, str]] = {}

    def on_enter(self) -> None:
        """Begin to follow modules and optimizers."""
        self.attribution.start()

    def on_exit(self) -> None:
        """Follow no more."""
        self.attribution.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.uncompiled:
            self.keep_uncompiled()
        if is_higher_order(func):
            return self.opened(func, args, kwargs)[0]
        space = func.namespace
        if space in _ASIDE:
            return func(*args, **kwargs)
        if not self._fake:
            if of_modes(types):
                return func(*args, **kwargs)
            if unwrap_themselves(types):
                return NotImplemented
        name = self._name(func)
        if self._fake:
            self.on_call(name)
        if self._fake and name in self.left_out:
            out = self._guessed(func, name, args, kwargs)
        elif self._fake and name == "aten::_local_scalar_dense":
            out = self._value(func, args[0])
        elif self._fake and name.startswith(_LISTS) and _changes_values_alone(name, args, kwargs):
            out = None
        elif self._opens(name):
            self._open.names.append(name)
            try:
                with self:
                    out = func._op_dk(kernel_key(name), *args, **kwargs)
            except (RuntimeError, DataDependentOutputException, DynamicOutputShapeException):
                if not self._fake:
                    raise
                self.unopened.add(name)  # its kernel looks at memory, which a fake tensor has none of
                out = None
            finally:
                self._open.names.pop()
            if self._fake and (out is None or not all(isinstance(each, FakeTensor) for each in tensors(out))):
                out = self._faked(func, name, args, kwargs)  # a kernel that calls no other knows no fake tensors
        elif self._fake:
            out = self._faked(func, name, args, kwargs)
        else:
            out = func(*args, **kwargs)
        if self.counts:
            self._count(func, name, args, kwargs, out)
        return out

    def _faked(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return the result of an operator on fake tensors, also where torch cannot tell it."""
        given = list(tensors((args, kwargs)))
        is_real = given and all(not isinstance(each, FakeTensor) and each.device.type == "cpu" for each in given)
        if is_real and str(kwargs.get("device") or "cpu") == "cpu":
            with _disable_current_modes():  # numbers that are known, such as the sizes of packed sequences
                return func(*args, **kwargs)
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            if name in ("aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"):
                self.guessed.setdefault(name, unknown_results.LARGEST)
                return func(*unknown_results.with_places(args), **kwargs)
            return self._guessed(func, name, args, kwargs)
        except (UnsupportedOperatorException, UnsupportedFakeTensorException, NotImplementedError):
            return self._guessed(func, name, args, kwargs)
        except RuntimeError:  # such as of lengths on the CPU, which a loss takes
            if not unknown_results.is_known(name):
                raise
            return self._guessed(func, name, args, kwargs)

    def _guessed(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        out, trust = unknown_results.result(func, args, kwargs)
        if trust != unknown_results.KNOWN:
            self.guessed.setdefault(name, trust)
        return out

    def not_seen(self, overload: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note a call that was made without this mode: what it is composed of was not seen."""
        self.unopened.add(overload.name())

    def _name(self, func: Any) -> str:
        entry = self._names.get(id(func))
        if entry is None:
            entry = self._names[id(func)] = (func, func.name())
        return entry[1]

    def _opens(self, name: str) -> bool:
        """Whether an operator is composed of others here, which are to be seen."""
        opens = self._opens_it.get(name)
        if opens is None:
            kind = composition(name)
            opens = kind not in (NOTHING, DERIVED) and name not in CLOSED and not self._has(name)
            self._opens_it[name] = opens
        return opens

    def _value(self, func: Any, tensor: Any) -> Any:
        """Return the number of a fake tensor: what the program wrote there, else one in place of what nobody knows."""
        if not isinstance(tensor, FakeTensor):
            with _disable_current_modes():
                return func(tensor)
        if tensor.constant is not None:
            return func(tensor)
        self.made_up += 1
        if tensor.dtype is torch.bool:
            return True
        return 1.0 if tensor.is_floating_point() else 1

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, out: Any) -> None:
        size = 0
        on_device = False
        kinds: list[str] = []
        dtypes: list[str] = []
        is_plain = True
        """Whether every argument up to here is a tensor: what comes after another one is named."""
        for argument, value in _given(func, args, kwargs):
            if isinstance(value, Tensor):
                text, dtype, count, here = self._described(value)
            elif isinstance(value, (list, tuple)) and value and any(isinstance(each, Tensor) for each in value):
                text, dtype, count, here = self._listed(value)
            else:
                is_plain = False
                if argument.has_default_value() and argument.default_value == value:
                    continue
                written = _written(value)
                if written:
                    kinds.append(f"{argument.name}={written}")
                continue
            kinds.append(text if is_plain else f"{argument.name}={text}")
            dtypes.append(dtype)
            size += count
            on_device = on_device or here
        for tensor in tensors(out):
            _, dtype, count, here = self._described(tensor)
            dtypes.append(dtype)
            size += count
            on_device = on_device or here
        if not on_device:
            return
        self.calls += 1
        where = self.attribution.where(operator(func))
        seen = self._counted.get(name)
        if seen is None:
            seen = self._counted[name] = _Seen()
        seen.calls += 1
        seen.bytes += size
        seen.dtypes.update(dtypes)
        if self._open.names:
            parent = self._open.names[-1]
            seen.inside[parent] = seen.inside.get(parent, 0) + 1
        for counts, key in ((seen.phases, where.phase), (seen.modules, where.module), (seen.shapes, ", ".join(kinds))):
            if key in counts or len(counts) < _MOST_KINDS:
                counts[key] = counts.get(key, 0) + 1
        if self.calls & (self.calls - 1) == 0:
            self.on_count(self.calls)

    def _described(self, tensor: Tensor) -> tuple[str, str, int, bool]:
        """Return a tensor as text, its dtype, its bytes on the device, and whether it is there."""
        device = tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device
        dtype = str(tensor.dtype)[6:]
        kind = device.type
        here = kind == self.device if self.device else kind not in ("cpu", "meta")
        if here:
            self.devices.add(kind)
        if tensor.is_nested:
            return f"{dtype}[nested]", dtype, 0, here
        shape = ",".join(map(str, tensor.shape))
        text = f"{dtype}[{shape}]" if here else f"{kind} {dtype}[{shape}]"
        if tensor.layout is torch.strided and not tensor.is_contiguous():
            text += f"{{{','.join(map(str, tensor.stride()))}}}"
        return text, dtype, tensor.numel() * tensor.element_size() if here else 0, here

    def _listed(self, values: Any) -> tuple[str, str, int, bool]:
        described = [self._described(value) for value in values if isinstance(value, Tensor)]
        texts = [text for text, *_ in described[:_MOST_LISTED]]
        if len(described) > _MOST_LISTED:
            texts.append(f"... {len(described)}")
        inside = "; ".join(texts)
        return f"({inside})", described[0][1], sum(each[2] for each in described), any(each[3] for each in described)

    def needs(self) -> tuple[OperatorNeed, ...]:
        """Return what was seen up to now."""
        return tuple(
            OperatorNeed(
                name,
                seen.calls,
                seen.bytes,
                dict(seen.phases),
                most_frequent(seen.modules, MOST_MODULES),
                tuple(sorted(seen.dtypes)),
                most_frequent(seen.shapes, MOST_SHAPES),
                composition(name),
                derived_from(name),
                schema(name),
                dict(seen.inside),
            )
            for name, seen in list(self._counted.items())
        )


def _changes_values_alone(name: str, args: Any, kwargs: Any) -> bool:
    """Whether a call on lists of fake tensors does nothing that can be seen of tensors without values.

    It is so where it writes into the tensors of its first list, and those of all lists are alike, so that nothing is
    refused, converted or broadcast. A fake tensor looks at each of them, which takes most of an optimizer's step.
    """
    if not name.partition(".")[0].endswith("_") or kwargs:
        return False
    lists = [each for each in args if isinstance(each, (list, tuple))]
    if len({len(each) for each in lists}) != 1 or lists[0] is not args[0]:
        return False
    if not all(type(each) in _PLAIN for each in args if not isinstance(each, (list, tuple))):
        return False
    for first, *others in zip(*lists, strict=True):
        if not (isinstance(first, FakeTensor) and first.constant is None and first.is_floating_point()):
            return False
        if torch._debug_has_internal_overlap(first):
            return False
        alike = (first.shape, first.dtype, first.fake_device)
        for each in others:
            if type(each) in _PLAIN:
                continue
            if not isinstance(each, FakeTensor) or (each.shape, each.dtype, each.fake_device) != alike:
                return False
    return True


def _given(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each argument of a call that is given: its description in the schema, and its value."""
    for index, argument in enumerate(func._schema.arguments):
        if index < len(args):
            yield argument, args[index]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _written(value: Any) -> str:
    """Return a value as it is written in a call; empty for what depends on the machine, such as a device."""
    if value is None or type(value) in (bool, int, float):
        return repr(value)
    if isinstance(value, str):
        return repr(value) if len(value) < _LONGEST_TEXT else ""
    if isinstance(value, (list, tuple)) and len(value) <= _MOST_VALUES and all(type(each) in _PLAIN for each in value):
        return repr(list(value))
    return str(value) if isinstance(value, torch.dtype) else ""


def begin(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to count the operators of this process, for `ops trace`; `launcher.py` calls it by its name.

    Args:
        options: `device`: type of the device, empty for whatever is not the CPU.
        folder: The session's folder, for what a killed process leaves.
    """
    return _Tracing(OperatorMode(str(options.get("device", "")), _has), folder)


def _has(name: str) -> bool:
    """Whether the accelerator of this process has its own kernel for an operator."""
    renamed = torch._C._get_privateuse1_backend_name() != "privateuseone"
    return any(has_kernel(name, key) for key in (("PrivateUse1",) if renamed else ("XLA", "CUDA", "XPU")))


class _Tracing:
    """The mode over a whole process."""

    def __init__(self, mode: OperatorMode, folder: Path) -> None:
        self._mode = mode
        mode.on_count = lambda calls: note_found(folder, self._document())
        mode.__enter__()

    def finish(self) -> dict[str, Any]:
        """End, and return what was seen."""
        self._mode.__exit__(None, None, None)
        return self._document()

    def _document(self) -> dict[str, Any]:
        needs = self._mode.needs()
        return {
            "torch": str(torch.__version__).partition("+")[0],
            "devices": sorted(self._mode.devices),
            "needs": [asdict(need) for need in (*needs, *_of_device({need.name for need in needs}))],
        }


def _of_device(seen: Collection[str]) -> Iterator[OperatorNeed]:
    """Yield what only the simulated device saw: what torch calls on it from C++ alone."""
    module = sys.modules.get("torchferry.rehearsal.session")
    session = None if module is None else module.current()
    for name, calls in ({} if session is None else session.native.operators_used()).items():
        if name not in seen and schema(name):
            yield OperatorNeed(
                name,
                calls,
                phases={"": calls},
                composition=composition(name),
                derived_from=derived_from(name),
                schema=schema(name),
            )


def schema(name: str) -> str:
    """Return an operator's schema, as torch writes it; empty for one that torch does not know."""
    base, _, overload = name.partition(".")
    try:
        return str(torch._C._get_schema(base, overload))
    except RuntimeError:
        return ""
