"""What `torch.npu` does beyond the names of `torch.cuda`; what is not done here, `contents.toml` lists.

Sources: torch_npu/npu/__init__.py, npu_config.py, autocast_utils.py, mstx.py and aclnn of the torch-npu 2.9.0 and
2.13.0 wheels.
"""

from __future__ import annotations

import enum
import functools
import os
import re
import sys
import warnings
from types import ModuleType
from typing import NoReturn

import torch

from torchferry.backends.contents import Presence
from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support, torch_versions
from torchferry.rehearsal.plugin_namespace import (
    NEEDED_BY_TORCH,
    Namespace,
    Plugin,
    make_importable,
    presence,
    submodule,
)

# The first versions, each for its torch, of what came with a CANN and so to several torches at once.
_OVER_CANN_8_2 = "2.1.0.post13 2.5.1.post1 2.6.0"
_OVER_CANN_9 = "2.7.1.post4 2.8.0.post4 2.9.0.post2 2.9.1"
_OVER_CANN_9_1 = "2.7.1.post8 2.9.0.post6 2.10.0.post4 2.11.0"
_QUEUED = "2.7.1.post11 2.9.0.post9 2.10.0.post7 2.11.0.post3 2.12.0.post3 2.13.0"


class CubeMathType(enum.IntEnum):
    """How matrix units compute float32."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    FORCE_GRP_ACC_FOR_FP32 = 4
    USE_FP32_ADD = 4


class _Precision(facade_support.Switches):
    """Settings of a kind of operator. The plugin ignores names that it does not know, and answers None for them."""

    def __init__(self, kind: str, *, checked: bool, **values: object) -> None:
        super().__init__(**values)
        self.__dict__["_kind"] = kind
        self.__dict__["_checked"] = checked

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["_values"].get(name)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "cube_math_type" and not isinstance(value, CubeMathType):
            raise _events.refusal(
                TypeError(
                    f"value should be one of Enum CubeMathType when setting cube_math_type, but got {type(value)}"
                )
            )
        if name not in self.__dict__["_values"]:
            return
        if self.__dict__["_checked"]:
            super().__setattr__(name, value)
        else:
            self.__dict__["_values"][name] = bool(value) if name == "allow_hf32" else value
        if name == "allow_hf32":
            # What the program sets is imitated. What the card has on by default is not: results equal the CPU's then.
            facade_support.round_products("hf32", **{self.__dict__["_kind"]: bool(value)})


class GradScaler(torch_versions.grad_scaler()):  # type: ignore[misc]
    """The plugin's own: it takes `dynamic`, hands itself to fused optimizers, and reads no other scaler's state.

    Read in torch_npu/npu/amp/grad_scaler.py of the torch-npu 2.5.1, 2.7.1 and 2.13.0 wheels.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def step(self, optimizer: torch.optim.Optimizer, *args: object, **kwargs: object) -> object:
        """Step an optimizer; one that scales by itself is called with `grad_scaler`, which torch's own refuse."""
        if self._enabled and getattr(optimizer, "_step_supports_amp_scaling", False):
            return optimizer.step(*args, **{**kwargs, "grad_scaler": self})
        return super().step(optimizer, *args, **kwargs)

    get_npu_overflow_flag = staticmethod(facade_support.stub_of("torch.npu.amp.GradScaler.get_npu_overflow_flag"))
    clear_npu_overflow_flag = staticmethod(facade_support.stub_of("torch.npu.amp.GradScaler.clear_npu_overflow_flag"))

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapt the scale, unless it is not dynamic."""
        if self._dynamic or new_scale is not None:
            super().update(new_scale)
        elif self._enabled:
            self._per_optimizer_states.clear()

    def state_dict(self) -> dict[str, object]:
        """Return the state, with `dynamic`."""
        return {**super().state_dict(), "dynamic": self._dynamic} if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Read a state that has `dynamic`."""
        super().load_state_dict(state_dict)
        if self._enabled:
            self._dynamic = bool(state_dict["dynamic"])


class _SettingsModule(ModuleType):
    """A module that is a setting as well."""

    def __init__(self, name: str, settings: _Precision) -> None:
        super().__init__(name, "Settings.")
        self.__dict__.update(_settings=settings, _missing=facade_support.missing(name), __path__=[])

    def __getattr__(self, name: str) -> object:
        value = getattr(self.__dict__["_settings"], name, None)
        return value if value is not None else self.__dict__["_missing"](name)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "allow_hf32":
            setattr(self.__dict__["_settings"], name, value)
        else:
            self.__dict__[name] = value


class _Config:
    """Settings that can be set and not read."""

    def __setattr__(self, name: str, value: object) -> None:
        pass


def _arguments(namespace: Namespace, plugin: Plugin) -> dict[str, object]:
    """Functions and a class that take other arguments than those of CUDA, or other ones by version."""
    capture, is_supported, snapshot = namespace.graph, namespace.is_bf16_supported, namespace.memory_snapshot

    class graph:  # noqa: N801 - the vendor's name
        """Graph capture, which is not rehearsed."""

        def __init__(
            self,
            npu_graph: object,
            pool: object = None,
            stream: object = None,
            auto_dispatch_capture: bool = False,
            capture_error_mode: str = "global",
        ) -> None:
            capture(npu_graph=npu_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode)

    def is_bf16_supported() -> bool:
        """Whether the card computes in bfloat16."""
        return is_supported()

    def is_bf16_supported_or_emulated(including_emulation: bool = False) -> bool:
        """Whether the card computes in bfloat16."""
        return is_supported(including_emulation)

    def memory_snapshot() -> object:
        """Return what the allocator holds."""
        return snapshot()

    def memory_snapshot_of(mempool_id: object = None) -> object:
        """Return what the allocator holds, or one pool of it."""
        return snapshot(mempool_id)

    return {
        "graph": graph,
        "is_bf16_supported": is_bf16_supported_or_emulated if plugin.at_least(_OVER_CANN_9_1) else is_bf16_supported,
        "memory_snapshot": memory_snapshot_of if plugin.at_least("2.13.0") else memory_snapshot,
    }


_ABSENT_MEMBERS = {
    "Stream": ("set_data_preprocess_stream",),
    "Event": ("recorded_time", "reset"),
}
"""Methods of classes that are rehearsed, which are not."""


def _priority_range() -> NoReturn:
    """Refuse in the words of the plugin: `_C` of the wheels from 2.1.0.post17 to 2.13.0 has them."""
    raise _events.refusal(RuntimeError("NPU does not support Stream.priority_range() currently."))


def _add_members(namespace: Namespace) -> None:
    """Give streams and events what they have beyond those of torch; it raises when it is used."""
    namespace.Stream.priority_range = staticmethod(_priority_range)
    for name, members in _ABSENT_MEMBERS.items():
        for member, stub in facade_support.stubs(f"torch.npu.{name}", members).items():
            setattr(getattr(namespace, name), member, stub)
    handle = facade_support.stubs("torch.npu.Event", ["npu_event"])["npu_event"]
    namespace.Event.npu_event = property(handle)
    namespace.Stream.priority = property(facade_support.stubs("torch.npu.Stream", ["priority"])["priority"])


def complete(namespace: Namespace, plugin: Plugin) -> None:
    """Put the plugin's own names into `torch.npu`, and give shared ones the plugin's own behaviour."""
    newer = plugin.at_least(_OVER_CANN_9_1)
    names = _settings(checked=newer, queued=plugin.at_least(_QUEUED))
    names.update(_autocast(plugin))
    names["CubeMathType"] = CubeMathType
    names["get_device_capability"] = _get_device_capability if plugin.at_least(_OVER_CANN_9) else _no_device_capability
    names["mstx"] = _mstx(namespace, newer=newer, with_domains=plugin.at_least(_OVER_CANN_8_2))
    submodule(namespace, "amp").GradScaler = GradScaler
    names.update(_arguments(namespace, plugin))
    for name, value in names.items():
        if name in NEEDED_BY_TORCH or presence(plugin.target, f"torch.npu.{name}") is not Presence.ABSENT:
            setattr(namespace, name, value)
    submodule(namespace, "graphs").graph = names["graph"]
    submodule(namespace, "memory").memory_snapshot = names["memory_snapshot"]
    _add_members(namespace)
    backends = submodule(namespace, "backends")
    backends.fft_plan_cache = facade_support.Switches(size=0, max_size=16, clear=lambda: None)
    make_importable(namespace, plugin.target.backend)
    # On the card a file holds the class of the same name, and nothing else of what the class has.
    marks = ModuleType("torch_npu.npu.mstx", "Range markers.")
    marks.mstx = names["mstx"]
    if newer:
        marks.annotate = names["mstx"].annotate
    sys.modules["torch.npu.mstx"] = sys.modules["torch_npu.npu.mstx"] = marks
    # The setting of `conv` under another name, as a module with others below it.
    aclnn = _SettingsModule("torch_npu.npu.aclnn", namespace.conv)
    namespace.aclnn = sys.modules["torch.npu.aclnn"] = sys.modules["torch_npu.npu.aclnn"] = aclnn


def _settings(*, checked: bool, queued: bool) -> dict[str, object]:
    conv = _Precision("convolution", checked=checked, allow_hf32=True)
    matmul = _Precision("matmul", checked=checked, allow_hf32=False, cube_math_type=None)
    config = _Config()
    state = {"jit": False, "nd": True, "queue": 1}

    def set_option(option: dict[str, object]) -> None:
        """Set options of the compiler, which has nothing to compile here."""
        if not isinstance(option, dict):
            raise _events.refusal(TypeError("npu option must be a dict."))
        if option.get("MM_BMM_ND_ENABLE") in ("enable", "disable"):
            state["nd"] = option["MM_BMM_ND_ENABLE"] == "enable"

    def set_compile_mode(jit_compile: bool = False) -> None:
        """Say whether operators are compiled when they are first used."""
        state["jit"] = bool(jit_compile)

    def is_jit_compile_false() -> bool:
        """Whether operators are not compiled when they are first used."""
        return not state["jit"]

    def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
        """Choose the memory format of matrix products."""
        state["nd"] = bool(is_nd)

    def get_mm_bmm_format_nd() -> bool:
        """Return the memory format of matrix products."""
        return bool(state["nd"])

    names: dict[str, object] = {
        "config": config,
        "conv": conv,
        "matmul": matmul,
        "set_option": set_option,
        "set_compile_mode": set_compile_mode,
        "is_jit_compile_false": is_jit_compile_false,
        "set_mm_bmm_format_nd": set_mm_bmm_format_nd,
        "get_mm_bmm_format_nd": get_mm_bmm_format_nd,
    }
    if queued:

        def set_task_queue_enable(mode: int) -> None:
            """Choose how operators are queued."""
            state["queue"] = mode

        def get_task_queue_enable() -> int:
            """Return how operators are queued."""
            return int(state["queue"])

        names.update(set_task_queue_enable=set_task_queue_enable, get_task_queue_enable=get_task_queue_enable)
    return names


def _autocast(plugin: Plugin) -> dict[str, object]:
    def get_amp_supported_dtype() -> list[torch.dtype]:
        """Return the dtypes that `torch.autocast` accepts."""
        half = [torch.float16, torch.bfloat16] if torch.npu.is_bf16_supported() else [torch.float16]
        return [*half, torch.float32]

    return {"get_amp_supported_dtype": get_amp_supported_dtype, **torch_versions.autocast_functions(plugin.native)}


def _get_device_capability(device: object = None) -> tuple[int, int] | None:
    """Return what TORCH_NPU_DEVICE_CAPABILITY says as MAJOR.MINOR, or None; the plugin warns each time."""
    said = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY", "")
    number = re.fullmatch(r"(\d+)\.(\d+)", said)
    if said and number is None:
        warnings.warn(f"torch.npu.get_device_capability can't parse TORCH_NPU_DEVICE_CAPABILITY: {said}", stacklevel=2)
        return None
    warnings.warn("torch.npu.get_device_capability does not represent the capability of the NPU device", stacklevel=2)
    return None if number is None else (int(number[1]), int(number[2]))


def _no_device_capability(device: object = None) -> None:
    """Return None; only newer versions read a capability from the environment."""
    warnings.warn("torch.npu.get_device_capability isn't implemented!", stacklevel=2)


def _mstx(namespace: Namespace, *, newer: bool, with_domains: bool) -> type:
    markers = namespace.mstx.__dict__

    def mark(message: str, stream: object = None, domain: str = "default") -> None:
        markers["mark"](message)

    def range_start(message: str, stream: object = None, domain: str = "default") -> int:
        return markers["range_start"](message)

    def range_end(range_id: int, domain: str = "default") -> None:
        markers["range_end"](range_id)

    def mstx_range(message: str, stream: object = None, domain: str = "default") -> object:
        def decorate(function: object) -> object:
            @functools.wraps(function)
            def inner(*args: object, **kwargs: object) -> object:
                handle = range_start(message, stream, domain)
                result = function(*args, **kwargs)
                range_end(handle, domain)
                return result

            return inner

        return decorate

    def plain_mark(message: str = "") -> None:
        mark(message)

    def plain_range_start(message: str, stream: object = None) -> int:
        return range_start(message)

    def plain_range_end(range_id: int) -> None:
        range_end(range_id)

    def plain_mstx_range(message: str, stream: object = None) -> object:
        return mstx_range(message)

    functions = {"mark": mark, "range_start": range_start, "range_end": range_end, "mstx_range": mstx_range}
    if not with_domains:
        plain = (plain_mark, plain_range_start, plain_range_end, plain_mstx_range)
        functions = dict(zip(functions, plain, strict=True))
    members: dict[str, object] = {name: staticmethod(function) for name, function in functions.items()}
    if newer:

        def range_push(message: str, stream: object = None, domain: str = "default") -> int:
            return markers["range_push"](message)

        def range_pop(domain: str = "default") -> int:
            return markers["range_pop"]()

        members.update(
            range_push=staticmethod(range_push),
            range_pop=staticmethod(range_pop),
            annotate=_annotate_class(range_start, range_end),
        )
    return type("mstx", (), {"__doc__": "Range markers, as static methods.", **members})


def _annotate_class(range_start: object, range_end: object) -> type:
    class annotate:  # noqa: N801 - the vendor's name
        """Mark a block or a function."""

        def __init__(self, message: str = "", stream: object = None, domain: str = "default") -> None:
            self.message, self.stream, self.domain = message, stream, domain
            self.range_id: int | None = None

        def __enter__(self) -> annotate:
            self.range_id = range_start(self.message, self.stream, self.domain)
            return self

        def __exit__(self, *exception: object) -> None:
            if self.range_id is not None:
                range_end(self.range_id, self.domain)
                self.range_id = None

        def __call__(self, function: object) -> object:
            @functools.wraps(function)
            def inner(*args: object, **kwargs: object) -> object:
                with annotate(self.message or function.__name__, self.stream, self.domain):
                    return function(*args, **kwargs)

            return inner

    return annotate
