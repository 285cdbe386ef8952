"""Programs with Triton kernels: Triton's own interpreter computes them here, on what the simulated card holds.

A kernel is run as its language means it. What the card's compiler refuses, how its memory is laid out, races between
programs and speed are not seen: the card's own compiler tells them. Each launch is counted by the user's line; a tensor
of the host, a grid or a dtype that the card's compiler is known to refuse, and an access outside of the tensors that
the kernel was given are findings, and raise as the launch would fail.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from torchferry.backends.target import Target
from torchferry.backends.triton_target import TABLE, effect_of, grid_limit, triton_target
from torchferry.core.finding import Effect
from torchferry.core.ownwork import OwnWork
from torchferry.rehearsal import events, triton_launches
from torchferry.shim.patches import Patches

_INTERPRET = "TRITON_INTERPRET"
_CHOSEN = 1.0
"""Milliseconds that every configuration is said to take: the autotuner then takes the first one."""

_DTYPES = {
    torch.float64: "float64",
    torch.float8_e4m3fn: "float8e4nv",
    torch.float8_e5m2: "float8e5",
}
"""Dtypes of tensors that a compiler may refuse, as Triton calls them."""

_LONGEST = 160
"""Characters of an error that are kept."""

_patches = Patches()
"""They stay until the process ends."""


class _RefusedLaunchError(RuntimeError):
    """What the card is known to refuse, which was counted already."""


class Storage(NamedTuple):
    """Memory that a launch may use.

    Attributes:
        start: Its address.
        size: Bytes.
    """

    start: int
    size: int


class _Launch:
    """The launch that is being interpreted in this process."""

    name = ""
    storages: tuple[Storage, ...] = ()


def watch(target: Target) -> None:
    """Let kernels of a program run in the interpreter once it imports Triton; can be called again.

    Args:
        target: What is rehearsed.
    """
    if getattr(torch, "_torchferry_triton_watched", False) or importlib.util.find_spec("triton") is None:
        return
    torch._torchferry_triton_watched = True  # type: ignore[attr-defined]
    if target.backend.TRITON is None:
        _patches.when_imported("triton", functools.partial(_not_for, target))
        return
    events.recorder.at_end(triton_launches.record.document)
    if not isinstance(target.backend.TRITON, str):
        _patches.when_imported("triton", _unverified)
    os.environ.setdefault(_INTERPRET, "1")  # what `triton.jit` makes of a function is decided when it is imported
    _patches.when_imported("triton.runtime.driver", functools.partial(_put_driver, target))
    _patches.when_imported("triton.runtime.interpreter", functools.partial(_watch_interpreter, target))
    _patches.when_imported("triton.language.semantic", _count_masks)


def _not_for(target: Target, module: ModuleType) -> None:
    events.record("missing-api", "triton", f"there is no Triton for {target.title.render('en')}", RuntimeError)


def _unverified(module: ModuleType) -> None:
    events.record("unverified-api", "triton")


# --- the driver ---


class CardProperties:
    """What Triton asks the vendor's extension for."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Return the properties of a card that are known.

        Raises:
            NotImplementedError: nobody has verified any.
        """
        stated = triton_target(self._target.backend)
        if stated is None or not stated.properties:
            raise _not_rehearsed("triton.runtime.driver.active.utils.get_device_properties")
        return dict(stated.properties)


class CardDriver:
    """Stands for the vendor's driver of Triton."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._device = target.backend.DEVICE_TYPE
        self.utils = CardProperties(target)

    def get_current_target(self) -> Any:
        """Return the back end, the architecture and the size of a warp, as the vendor's driver does.

        Raises:
            NotImplementedError: nobody has verified what it returns.
        """
        stated = triton_target(self._target.backend)
        if stated is None:
            raise _not_rehearsed("triton.runtime.driver.active.get_current_target")
        compiler = importlib.import_module("triton.backends.compiler")
        return compiler.GPUTarget(stated.backend, stated.arch, stated.warp_size)

    def get_active_torch_device(self) -> torch.device:
        """Return the current device."""
        return torch.device(self._device, self.get_current_device())

    def get_current_device(self) -> int:
        """Return the number of the current device."""
        return int(self.get_device_interface().current_device())

    def set_current_device(self, device: int) -> None:
        """Make a device the current one."""
        self.get_device_interface().set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """Return 0: nothing is queued here."""
        return 0

    def get_device_interface(self) -> Any:
        """Return torch's module for the device."""
        return getattr(torch, self._device)

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return what runs a call once, and says of each that it takes as long: no speed is measured here."""

        def measure(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> Any:
            call()
            return [_CHOSEN] * len(quantiles) if quantiles else _CHOSEN

        return measure

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return a tensor that a benchmark may clear."""
        return torch.empty(1, dtype=torch.int8, device=self._device)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Clear it."""
        cache.zero_()


def _not_rehearsed(name: str) -> NotImplementedError:
    events.record("not-rehearsed", name, error=NotImplementedError)
    return NotImplementedError(f"{name} is not rehearsed: nobody has verified what it returns")


def _put_driver(target: Target, module: ModuleType) -> None:
    events.recorder.lines.add_library(str(Path(str(module.__file__)).parents[1]))
    module.driver.set_active(CardDriver(target))


# --- launches ---


_OF_COMPILED = frozenset({"warmup", "preload", "cache", "device_caches", "cache_key", "specialize_impl"})
"""What programs ask of a kernel that is compiled, and an interpreted one does not have."""


def _not_of_interpreted(kernel: Any, name: str) -> Any:
    if name in _OF_COMPILED:
        events.record("not-rehearsed", f"triton.jit(...).{name}", error=AttributeError)
    raise AttributeError(f"an interpreted kernel has no {name}")


def _noting_warmup(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("warmup"):  # it gives nothing back here
            events.record("not-rehearsed", "triton.jit(...).warmup")
        return original(self, *args, **kwargs)

    return run


def _watch_interpreter(target: Target, module: ModuleType) -> None:
    module.InterpretedFunction.__getattr__ = _not_of_interpreted
    if hasattr(module.InterpretedFunction, "run"):  # later versions take a call that only compiles
        module.InterpretedFunction.run = _noting_warmup(module.InterpretedFunction.run)
    executor, builder = module.GridExecutor, module.InterpreterBuilder
    original, to_host, to_device = executor.__call__, executor._init_args_hst, executor._restore_args_dev

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        names = inspect.getfullargspec(self.fn).args
        kwargs = {name: value for name, value in kwargs.items() if name in names}  # the others are of a compiler
        _check(target, self, inspect.getcallargs(self.fn, *args, **kwargs))
        before = _Launch.name, _Launch.storages
        _Launch.name = self.fn.__name__
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, _RefusedLaunchError):
                raise cause from None
            detail = f"{type(cause).__name__}: {cause}"[:_LONGEST]
            events.record("not-rehearsed", f"Triton kernel {_Launch.name}", detail, type(error))
            raise
        finally:
            _Launch.name, _Launch.storages = before

    @functools.wraps(to_host)
    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        with OwnWork():
            copies, named = to_host(self, args, kwargs)
        _Launch.storages = tuple(_storages((copies, named)))
        return copies, named

    @functools.wraps(to_device)
    def restore_args(self: Any, *args: Any) -> Any:
        with OwnWork():
            return to_device(self, *args)

    patch_tensor = module._patch_lang_tensor

    @functools.wraps(patch_tensor)
    def patch(tensor: Any, *args: Any) -> Any:
        result = patch_tensor(tensor, *args)
        tensor.__index__ = _number  # Triton asks numpy for a number of an array, which numpy 2.4 and later refuse
        return result

    patch_language = module._patch_lang

    @functools.wraps(patch_language)
    def patch_names(function: Any) -> Any:
        scope = patch_language(function)
        _interpret_names(module, function.__globals__)
        return scope

    module._patch_lang = patch_names  # type: ignore[attr-defined]
    convert = module._implicit_cvt

    @functools.wraps(convert)
    def as_tile(value: Any) -> Any:
        if type(value) is not float:
            return convert(value)
        language, data = module.tl, sys.modules["numpy"].array([value], dtype="float32")
        return language.core.tensor(module.TensorHandle(data, language.float32), language.float32)

    module._patch_lang_tensor = patch  # type: ignore[attr-defined]
    module._implicit_cvt = as_tile  # type: ignore[attr-defined]  # as compiled, a float is one of 32 bits
    executor.__call__, executor._init_args_hst, executor._restore_args_dev = call, init_args, restore_args
    for name, what, pointers, mask in (
        ("create_masked_load", "a load", 0, 1),
        ("create_masked_store", "a store", 0, 2),
        ("create_atomic_rmw", "an atomic operation", 1, 3),
        ("create_atomic_cas", "an atomic operation", 0, -1),
    ):
        setattr(builder, name, _within_bounds(getattr(builder, name), what, pointers, mask))


def _count_masks(semantic: ModuleType) -> None:
    """Let a mask of one element count: Triton 3.2 asks by its value whether there is one."""
    kinds: list[type] = []

    def counting(mask: Any) -> Any:
        tensor = sys.modules["triton.language.core"].tensor
        if not isinstance(mask, tensor):
            return mask
        if not kinds:
            kinds.append(type("Mask", (tensor,), {"__bool__": lambda self: True}))
        return kinds[0](mask.handle, mask.type)

    def masked(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def access(pointer: Any, value: Any, mask: Any, *args: Any) -> Any:
            return original(pointer, value, counting(mask), *args)

        return access

    for name in ("store", "atom_red_typechecking_impl"):
        if hasattr(semantic, name):  # later versions have methods, which ask whether it is None
            setattr(semantic, name, masked(getattr(semantic, name)))


# --- functions that kernels import by their names ---

_OF_NUMPY = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "div_rn": "divide", "div_rz": "divide", "fast_cosf": "cos", "fast_dividef": "divide",
    "fast_expf": "exp", "fast_log2f": "log2", "fast_logf": "log", "fast_powf": "power", "fast_sinf": "sin",
    "fast_tanhf": "tanh", "finitef": "isfinite", "float2int_rn": "rint", "pow": "power", "round": "rint",
}  # fmt: skip
"""Functions of a vendor's library by what numpy calls them, where the names differ."""

_FORMULAS: dict[str, Callable[..., Any]] = {
    "relu": lambda x: x * (x > 0),
    "rsqrt": lambda x: 1 / x**0.5,
}
_LANGUAGE = "triton.language"
_LIBRARY = "libdevice"


def _interpret_names(interpreter: ModuleType, names: dict[str, Any]) -> None:
    """Let the interpreter compute what a kernel's module has by name: it knows what is asked of `tl` alone."""
    for name, value in [*names.items()]:
        home = str(getattr(value, "__module__", "") or "")
        if isinstance(value, ModuleType) and value.__name__.startswith(_LANGUAGE) and _LIBRARY in value.__name__:
            for inner in [each for each in vars(value) if not each.startswith("_")]:
                if inspect.isfunction(vars(value)[inner]) and not hasattr(vars(value)[inner], "is_interpreted"):
                    setattr(value, inner, _library_function(interpreter, inner))
        elif not inspect.isfunction(value) or not home.startswith("triton."):
            continue
        elif _LIBRARY in home:
            names[name] = _library_function(interpreter, value.__name__)
        else:
            language = interpreter.tl
            patched = getattr(language.math, value.__name__, None) or getattr(language, value.__name__, value)
            names[name] = patched if callable(patched) else value


def _library_function(interpreter: ModuleType, name: str) -> Callable[..., Any]:
    """Return a function of a vendor's library, element by element."""
    numpy, language = sys.modules["numpy"], interpreter.tl
    function = _FORMULAS.get(name) or getattr(numpy, _OF_NUMPY.get(name, name), None)
    if function is None and hasattr(math, name):
        function = numpy.vectorize(getattr(math, name))

    def compute(*args: Any, **_: Any) -> Any:
        if function is None:
            raise _not_rehearsed(f"{_LIBRARY}.{name}")
        first = next(each for each in args if isinstance(each, language.core.tensor))
        result = numpy.asarray(function(*(getattr(getattr(each, "handle", each), "data", each) for each in args)))
        kind = language.int1 if result.dtype == bool else first.dtype.scalar
        data = result if result.dtype == bool else result.astype(first.handle.data.dtype)
        shape = language.block_type(kind, [*result.shape]) if first.type.is_block() else kind
        return language.core.tensor(interpreter.TensorHandle(data, kind), shape)

    compute.is_interpreted = True  # type: ignore[attr-defined]
    return compute


# --- checks ---


def _number(tile: Any) -> int:
    return int(tile.handle.data.item())


def _check(target: Target, executor: Any, given: dict[str, Any]) -> None:
    """Refuse a launch that the card is known to refuse, and count any other.

    Raises:
        RuntimeError: the card would.
    """
    name = executor.fn.__name__
    grid = executor.grid(given) if callable(executor.grid) else executor.grid
    programs = math.prod(int(size) for size in grid)
    for argument, value in given.items():
        if not isinstance(value, torch.Tensor):
            continue
        if value.device.type != target.backend.DEVICE_TYPE:
            _refuse("mixed-devices", name, f"`{argument}` is on {value.device}")
        row = target.row(TABLE, f"triton.language.{_DTYPES.get(value.dtype, '')}")
        if value.dtype in _DTYPES and row.status == "missing":
            _refuse("kernel-limit", name, f"`{argument}` is {str(value.dtype).removeprefix('torch.')}: {row.note}")
    limit = grid_limit(target)
    if limit is not None and programs > limit.most and effect_of(limit.row) is Effect.RAISES:
        _refuse("kernel-limit", name, f"a grid of {programs:,} programs: {limit.row.note}")
    line = events.recorder.lines.of(sys._getframe(2))
    triton_launches.record.add(executor.fn, given, (line.file, line.line))
    events.recorder.add("interpreted-kernel", name, "x".join(str(int(size)) for size in grid), programs)


def _refuse(kind: str, name: str, detail: str) -> None:
    events.record(kind, f"Triton kernel {name}", detail, RuntimeError)
    raise _RefusedLaunchError(f"Triton kernel {name}: {detail}")


def _storages(values: Any) -> Iterator[Storage]:
    """Yield the memory of the tensors among some values."""
    if isinstance(values, torch.Tensor):
        memory = values.untyped_storage()
        yield Storage(memory.data_ptr(), memory.nbytes())
    elif isinstance(values, dict):
        yield from _storages(tuple(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _storages(value)
    elif hasattr(values, "base"):  # a descriptor of a tensor
        yield from _storages(values.base)


def _within_bounds(original: Callable[..., Any], what: str, pointers: int, mask: int) -> Callable[..., Any]:
    """Return a step of the interpreter that refuses addresses outside of the tensors of the launch.

    Args:
        original: The step.
        what: What it does.
        pointers: The place of the addresses among its arguments.
        mask: The place of the mask; -1 where there is none.
    """

    @functools.wraps(original)
    def step(self: Any, *args: Any) -> Any:
        numpy, at = sys.modules["numpy"], args[pointers]
        addresses = numpy.asarray(at.data).reshape(-1)
        if mask >= 0 and args[mask] is not None:
            live = numpy.broadcast_to(args[mask].data, at.data.shape).reshape(-1).astype(bool)
            addresses = addresses[live]
        if addresses.size and not _inside(addresses, max(1, at.get_element_ty().primitive_bitwidth // 8)):
            detail = f"{what} outside of the tensors that it was given"
            events.record("out-of-bounds", f"Triton kernel {_Launch.name}", detail, RuntimeError)
            raise _RefusedLaunchError(f"Triton kernel {_Launch.name}: {detail}")
        return original(self, *args)

    return step


def _inside(addresses: Any, width: int) -> bool:
    """Whether elements of so many bytes at some addresses lie in the memory of the launch."""
    low, high = int(addresses.min()), int(addresses.max()) + width
    if any(each.start <= low and high <= each.start + each.size for each in _Launch.storages):
        return True
    inside = sys.modules["numpy"].zeros(addresses.shape, dtype=bool)
    for each in _Launch.storages:
        inside |= (addresses >= each.start) & (addresses + width <= each.start + each.size)
    return bool(inside.all())
