"""Code for every device: a target whose names are those of `torchferry.device`, or of the file that it is copied to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from torchferry.backends import cuda, registry
from torchferry.backends.base import Backend
from torchferry.backends.counterpart import Decision, decide
from torchferry.backends.tables import Row
from torchferry.backends.target import InstalledPlugin, Target
from torchferry.backends.unknown import UNKNOWN

INSTALLED = "torchferry.device"
"""The module with the portable names where the file has not been copied into the project."""

_BESIDE = {
    "torch.distributed.is_nccl_available": "is_collective_available",
    "torch.profiler.ProfilerActivity": "ProfilerActivity",
    "torch.profiler.ProfilerActivity.CPU": "ProfilerActivity.CPU",
    "torch.profiler.ProfilerActivity.CUDA": "ProfilerActivity.ACCELERATOR",
    "torch.profiler.profile": "profile",
    "torch.profiler.schedule": "schedule",
    "torch.profiler.tensorboard_trace_handler": "tensorboard_trace_handler",
    "torch.autocast": "autocast_on",
    "torch.amp.autocast": "autocast_on",
    "torch.amp.autocast_mode.autocast": "autocast_on",
    "torch.amp.GradScaler": "scaler_on",
    "torch.amp.grad_scaler.GradScaler": "scaler_on",
    "torch.backends.cuda.is_built": "is_available",
    "torch.accelerator.current_accelerator": "this_device",
    "torch.accelerator.current_device_idx": "current_device",
    "torch.accelerator.current_device_index": "current_device",
    "torch.accelerator.device_index": "device",
    "torch.accelerator.get_device_capability": "",  # a dictionary there, and a pair below torch.cuda
    "torch.accelerator.get_memory_info": "mem_get_info",
    "torch.accelerator.set_device_idx": "set_device",
    "torch.accelerator.set_device_index": "set_device",
    "torch.cuda.amp.autocast_mode.autocast": "amp.autocast",
    "torch.cuda.amp.grad_scaler.GradScaler": "amp.GradScaler",
}
"""Names that have a portable one of another name, or are outside `torch.cuda`."""

MEMORY_FORMATS = ("channels_last", "channels_last_3d")
"""Memory formats of torch that are not the usual one; the portable names are theirs."""

_ACCELERATOR = "torch.accelerator"
"""It finds a device only when the plugin is imported, torch is new, and the device is not of torch's own types."""

_SUBMODULES = ("memory", "random", "streams", "graphs")
"""Modules of `torch.cuda` whose names are in `torch.cuda` as well."""


def without_name(row: Row, note: str, note_zh: str) -> Row:
    """Return what a vendor's row is to code that has no name for it, with the reason."""
    return row._replace(status="missing", use="", note=note, note_zh=note_zh, extra={})


def bound_name(module: str) -> str:
    """Return what code calls the module with the portable names: a project's own is imported from its package."""
    return module if module == INSTALLED or module.startswith("torch.") else module.rpartition(".")[2]


class PortableTarget(Target):
    """A vendor's target, written for every device: what it lacks is still its own, what is written is portable.

    Args:
        backend: The vendor whose limits are reported.
        version: The plugin's version.
        module: Module with the portable names.
        modules: For files of the project that import another, its name; see `at`.
        nearby: Files that find their module in their own folder, whatever the program does to Python's path.
    """

    def __init__(
        self,
        backend: type[Backend],
        version: str = "",
        module: str = INSTALLED,
        modules: Mapping[str, str] = MappingProxyType({}),
        nearby: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(_written_for_all(backend, module), version)
        self.vendor = Target(backend, version)
        self.import_module = module
        self.module = bound_name(module)
        self.modules = modules
        self.nearby = nearby
        self._of_module: dict[str, PortableTarget] = {module: self}

    def with_installed(self, plugin: InstalledPlugin) -> PortableTarget:
        """Return this target as an environment has it: what it lacks is what the plugin there lacks."""
        target = super().with_installed(plugin)
        assert isinstance(target, PortableTarget)
        target.vendor = self.vendor.with_installed(plugin)
        target._of_module = {self.import_module: target}
        return target

    def _of_installed(self, row: Row) -> Row:
        """Return a row as the installed plugin has it; a portable name often does without the plugin's."""
        serves = cuda.portable().get(row.use.removeprefix(f"{self.module}."), "raises") != "raises"
        return row if serves else super()._of_installed(row)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.vendor.backend, self.version, self.import_module, dict(self.modules), self.nearby)
        return PortableTarget, arguments, {"installed": self.installed, "vendor": self.vendor}

    @property
    def parts(self) -> tuple[object, ...]:
        """All that it is made of; see `Target.parts`."""
        return (*super().parts, self.vendor.parts, self.import_module, self.modules, self.nearby)

    def at(self, path: str) -> PortableTarget:
        """Return the target as one file of the project sees it, with the module that this file can import."""
        module = self.modules.get(path, self.import_module)
        if module not in self._of_module:
            target = PortableTarget(self.vendor.backend, self.version, module, {}, self.nearby)
            self._of_module[module] = target if self.installed is None else target.with_installed(self.installed)
        return self._of_module[module]

    def import_statement(self, module: str) -> str:
        """Return the statement that binds a module that what is written needs."""
        owner = self.import_module.rpartition(".")[0]
        return f"from {owner} import {module}" if module == self.module != self.import_module else f"import {module}"

    def needs_path(self, path: str) -> bool:
        """Whether a file finds the module only once the program has put the project on Python's path."""
        return self.module != INSTALLED and path not in self.nearby

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Those of every vendor that is known: what is written is not to depend on the one whose limits are listed."""
        backends = [registry.load(name) for name in registry.built_in()]
        return tuple(word for backend in backends for word in (backend.NAME, backend.PLUGIN))

    @cached_property
    def written_modules(self) -> frozenset[str]:
        """The modules with the portable names; a module of the project may also be imported relatively."""
        modules = {self.import_module, *self.modules.values()}
        return frozenset(modules | {f".{module}" for module in modules if module != INSTALLED})

    @cached_property
    def replaced_names(self) -> tuple[str, ...]:
        """The names of `torch` itself that have a portable one."""
        return (*MEMORY_FORMATS, "autocast")

    @property
    def journal_key(self) -> str:
        """The same for every vendor, since their code is."""
        return "portable"

    def of_vendor(self, name: str) -> Row:
        """Return what the plugin itself has for `name`."""
        return self.vendor.api(name)

    @cached_property
    def replaced_modules(self) -> tuple[str, ...]:
        """The modules of torch, outside `torch.cuda`, that have a name with a portable one."""
        owners = {name.rpartition(".")[0] for name in _BESIDE if not name.startswith(cuda.NAMESPACE)}
        return (*sorted(owners - {"torch"}), "import autocast")

    def _api(self, name: str) -> Row:
        row = self.vendor.api(name)
        use = portable_name(name)
        if use:
            arguments = {"lacks_arguments": row.lacks_arguments}
            return Row(name, "renamed", f"{self.module}.{use}", extra={"import": self.module, **arguments})
        if row.status == "equivalent" and row.use == name:  # on this vendor alone it speaks of its device
            return row._replace(status="same", note="", note_zh="")
        decided = decide(self.vendor, row)
        if decided.decision is not Decision.WRITE or decided.use == name or _is_builder(name):
            return row
        if not name.startswith(cuda.NAMESPACE) and not self._is_own_distributed(name):
            return row._replace(status="same", use=name, note="", note_zh="", extra={})
        return without_name(
            row,
            f"on {self.name} it is `{row.use}`: call each behind a test of its device",
            f"在 {self.name} 上为 `{row.use}`：请按设备类型分别调用",
        )

    def _is_own_distributed(self, name: str) -> bool:
        """Whether a name works on process groups, of which the vendor has its own: torch's know nothing of them."""
        if self.vendor.backend.DISTRIBUTED == Backend.DISTRIBUTED:
            return False
        return name.startswith(f"{Backend.DISTRIBUTED}.") or cuda.api_group(name) == "distributed"


def _is_builder(name: str) -> bool:
    return name.startswith("torch.utils.cpp_extension")


MIXED_PRECISION = frozenset(name for name, use in _BESIDE.items() if use in ("autocast_on", "scaler_on"))
"""torch's own mixed precision, which does not serve every device."""


def portable_name(name: str) -> str:
    """Return what a name of torch is called below the portable module, dotted; empty where it has no such name."""
    if name in _BESIDE:
        return _BESIDE[name]
    if name.startswith("torch.") and name[len("torch.") :] in MEMORY_FORMATS:
        return name[len("torch.") :]
    namespace = next((prefix for prefix in (cuda.NAMESPACE, _ACCELERATOR) if name.startswith(f"{prefix}.")), "")
    if not namespace:
        return ""
    below = name[len(namespace) + 1 :]
    module, _, rest = below.partition(".")
    if module in _SUBMODULES and rest in cuda.portable():
        below = rest
    owner = below.rpartition(".")[0]  # a member of a class, as in `Event.record`
    return below if below in ("amp", "nvtx", *cuda.portable()) or owner in cuda.portable() else ""


_DESCRIPTIONS: dict[tuple[type[Backend], str], type[Backend]] = {}


def _written_for_all(backend: type[Backend], module: str) -> type[Backend]:
    """Return a vendor's description in which what would be written into code is portable."""
    cached = _DESCRIPTIONS.get((backend, module))
    if cached is not None:  # one class for each, since its tables are kept by class
        return cached
    written = {
        "__doc__": backend.__doc__,
        "__module__": __name__,
        "NAMESPACE": bound_name(module),
        "IMPORT_NAMESPACE": module,
        "DEVICE_FACTORY": f"{bound_name(module)}.this_device",
        "MOVER": None,
        "PREDICATE": None,
        "INTEGER_DEVICE": UNKNOWN,
        "AUTOCAST": True,
    }
    portable = type(f"Portable{backend.__name__}", (backend,), written)
    return _DESCRIPTIONS.setdefault((backend, module), portable)
