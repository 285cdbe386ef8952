"""What a program was told besides its numbers: versions, device, seeds, switches. Read without changing any."""

from __future__ import annotations

import hashlib
import os
import platform
import random
import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchferry.backends import registry
from torchferry.core.secrets import masked_command, masked_variables
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.attribution import ModulePaths

_VARIABLES = re.compile(
    r".*DETERMINISTIC.*|.*TF32.*|CUBLAS_WORKSPACE_CONFIG|PYTHONHASHSEED|OMP_NUM_THREADS|MKL_CBWR|TORCHDYNAMO_DISABLE"
    r"|NCCL_(?:ALGO|PROTO)|(?:LOCAL_)?WORLD_SIZE"
)
"""Variables by which numbers change without a line of the program."""

_LIBRARIES = (
    "numpy",
    "transformers",
    "accelerate",
    "deepspeed",
    "diffusers",
    "timm",
    "torchvision",
    "peft",
    "lightning",
)


def _switch(*names: str) -> Callable[[], Any]:
    """Return what reads `torch.<names>`, calling the last where it is a function."""

    def read() -> Any:
        value: Any = torch
        for name in names:
            value = getattr(value, name)
        return value() if callable(value) else value

    return read


_SWITCHES: dict[str, Callable[[], Any]] = {
    "default dtype": lambda: str(torch.get_default_dtype()),
    "deterministic algorithms": _switch("are_deterministic_algorithms_enabled"),
    "float32 matmul precision": _switch("get_float32_matmul_precision"),
    "cuda.matmul.allow_tf32": _switch("backends", "cuda", "matmul", "allow_tf32"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction": _switch(
        "backends", "cuda", "matmul", "allow_fp16_reduced_precision_reduction"
    ),
    "cuda.matmul.allow_bf16_reduced_precision_reduction": _switch(
        "backends", "cuda", "matmul", "allow_bf16_reduced_precision_reduction"
    ),
    "cudnn.enabled": _switch("backends", "cudnn", "enabled"),
    "cudnn.allow_tf32": _switch("backends", "cudnn", "allow_tf32"),
    "cudnn.benchmark": _switch("backends", "cudnn", "benchmark"),
    "cudnn.deterministic": _switch("backends", "cudnn", "deterministic"),
    "sdp flash": _switch("backends", "cuda", "flash_sdp_enabled"),
    "sdp memory efficient": _switch("backends", "cuda", "mem_efficient_sdp_enabled"),
    "sdp math": _switch("backends", "cuda", "math_sdp_enabled"),
    "mkldnn.enabled": _switch("backends", "mkldnn", "enabled"),
    "threads": _switch("get_num_threads"),
}


FORGOTTEN = "restored generators"
"""The fact that a resumed program restored the CPU's random generator, and none of its device."""


def facts(device: torch.device | None, forgotten: str = "") -> dict[str, dict[str, Any]]:
    """Return groups of facts: what this torch lacks is left out.

    Args:
        device: Where the program's parameters are.
        forgotten: The type of the device whose generators a resumed program did not restore; empty for none.
    """
    kind = device.type if device is not None else "cpu"
    return {
        "versions": _versions(),
        "device": _device(kind, device),
        "seeds": {**_seeds(kind), **({FORGOTTEN: f"cpu, not {forgotten}"} if forgotten else {})},
        "switches": _switches(kind),
        "environment": masked_variables(
            {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
        ),
        "program": {"command": masked_command(sys.argv), "folder": os.getcwd()},
    }


def world() -> dict[str, int]:
    """Return how many ranks there are, and which this is."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return {"size": torch.distributed.get_world_size(), "rank": torch.distributed.get_rank()}
    return {"size": int(os.environ.get("WORLD_SIZE", "1") or 1), "rank": int(os.environ.get("RANK", "0") or 0)}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    plugins = [registry.load(name).PLUGIN for name in registry.built_in()]
    for name in (*plugins, *_LIBRARIES):
        module = sys.modules.get(str(name))
        if module is None:
            continue
        version = getattr(module, "__version__", None)
        try:
            versions[str(name)] = str(version) if version is not None else metadata.version(str(name))
        except metadata.PackageNotFoundError:
            continue
    return versions


def _device(kind: str, device: torch.device | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": kind, "machine": platform.machine()}
    if kind == "cpu" or not hasattr(torch, kind):
        facts["name"] = torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else ""
        return facts
    facts["name"] = _asked(_switch(kind, "get_device_name"))
    facts["count"] = _asked(_switch(kind, "device_count"))
    return facts


def _seeds(kind: str) -> dict[str, Any]:
    seeds: dict[str, Any] = {
        "torch": torch.initial_seed(),
        "torch state": _digest(torch.get_rng_state().numpy().tobytes()),
        "random state": _digest(repr(random.getstate()).encode()),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        seeds["numpy state"] = _digest(repr(state[0]).encode() + state[1].tobytes() + repr(state[2:]).encode())
    if kind != "cpu" and hasattr(torch, kind):
        seeds["device"] = _asked(_switch(kind, "initial_seed"))
        state = _asked(_switch(kind, "get_rng_state"))
        seeds["device state"] = _digest(state.numpy().tobytes()) if isinstance(state, torch.Tensor) else state
    return seeds


def _switches(kind: str) -> dict[str, Any]:
    every = dict(_SWITCHES)
    for target in registry.built_in():
        backend = registry.load(target)
        if kind == backend.DEVICE_TYPE and isinstance(backend.TF32_SWITCH, str):
            every[backend.TF32_SWITCH.removeprefix("torch.")] = _switch(*backend.TF32_SWITCH.split(".")[1:])
    switches = {name: _asked(read) for name, read in every.items()}
    state = _asked(lambda: torch_versions.autocast_state(kind))
    switches["autocast"] = state[1] if isinstance(state, tuple) and state[0] else "off"
    return {name: _plain(value) for name, value in switches.items() if not str(value).startswith(_UNKNOWN)}


_UNKNOWN = "unknown: "


def _asked(question: Callable[[], Any]) -> Any:
    """Return an answer, or why there is none: this torch, or a vendor's change of it, lacks what is asked."""
    try:
        return question()
    except Exception as error:
        return f"{_UNKNOWN}{error!r}"


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    return str(value).removeprefix("torch.")


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


# Parameters, buffers, gradients and optimizers: what a run starts from, and what each step makes of it.

_LARGEST = 1 << 15
"""Parameters that are followed by name."""


def local(tensor: Tensor) -> Tensor | None:
    """Return the values of a tensor that lie here: of a DTensor, its part; None where there are none to read."""
    part = getattr(tensor, "_local_tensor", None)
    tensor = (part if isinstance(part, Tensor) else tensor).detach()
    if type(tensor) not in torch_versions.OWN_CLASSES:
        return None
    if tensor.device.type == "meta" or tensor.is_nested or tensor.layout is not torch.strided or tensor.numel() == 0:
        return None
    return tensor if tensor.dtype.is_floating_point or tensor.dtype.is_complex else None


class Tracked:
    """The parameters and buffers of the modules that have run, by their paths."""

    def __init__(self, paths: ModulePaths) -> None:
        self._paths = paths
        self._roots: set[int] = set()
        self.parameters: dict[str, nn.Parameter] = {}
        self.buffers: dict[str, Tensor] = {}
        self.sharded = False
        self._names: dict[int, str] = {}

    def name(self, parameter: Tensor) -> str:
        """Return the name by which a parameter is followed; empty where no module that has run holds it."""
        if len(self._names) != len(self.parameters):
            self._names = {id(held): name for name, held in self.parameters.items()}
        return self._names.get(id(parameter), "")

    def add(self, root: nn.Module) -> bool:
        """Take in what an outermost module holds; returns whether it was new."""
        if id(root) in self._roots:
            return False
        self._roots.add(id(root))
        for module in root.modules():
            path = self._paths.of(module)
            for name, parameter in module._parameters.items():
                if parameter is not None and len(self.parameters) < _LARGEST:
                    self.parameters.setdefault(self._paths.parameter(parameter) or f"{path}.{name}", parameter)
                    self.sharded = self.sharded or name == "_flat_param" or hasattr(parameter, "_local_tensor")
            for name, buffer in module._buffers.items():
                if buffer is not None and len(self.buffers) < _LARGEST:
                    self.buffers.setdefault(f"{path}.{name}", buffer)
        return True

    def gradients(self) -> Iterator[tuple[str, Tensor]]:
        """Yield name and gradient of each parameter that has one."""
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                part = local(parameter.grad)
                if part is not None:
                    yield name, part


def settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Return what each group of parameters is told: numbers and switches, and how many parameters it has."""
    groups = []
    for group in optimizer.param_groups:
        options = {key: _number(value) for key, value in group.items() if key != "params"}
        groups.append({"parameters": len(group["params"]), **options})
    return groups


def stepped(optimizer: Optimizer) -> Iterator[tuple[int, int, Tensor]]:
    """Yield group, place and each parameter that the optimizer changes in this step: those that have a gradient."""
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            if parameter.grad is not None:
                yield number, place, parameter


def states(optimizer: Optimizer, parameter: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield name and values of what an optimizer keeps of a parameter, more than one number each: `exp_avg`."""
    state = optimizer.state.get(parameter)
    for name, value in state.items() if isinstance(state, dict) else ():
        part = local(value) if isinstance(value, Tensor) else None
        if part is not None and part.numel() > 1:
            yield str(name), part


def norm(parts: list[Tensor]) -> Tensor:
    """Return the norm of all elements of some tensors, as one number on the first one's device."""
    norms = torch._foreach_norm(parts)
    device = norms[0].device
    total: Tensor = torch.linalg.vector_norm(
        torch.stack([gradient_norm.to(device, torch.float32) for gradient_norm in norms])
    )
    return total


def _number(value: Any) -> Any:
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 and value.device.type == "cpu" else "a tensor"
    if isinstance(value, (list, tuple)):
        return [_number(part) for part in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else type(value).__name__
