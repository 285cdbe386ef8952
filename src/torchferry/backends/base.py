"""The interface that describes an accelerator: what each fact means, its type and its default.

A backend is a subclass that sets class attributes. It is made from a vendor's `vendor.toml` (`described.py`), or is
written as a class by another distribution. The attributes of `Backend`, in order, are the specification, and
`torchferry backend show NAME` prints them with the values and their sources. What a table of the vendor says is read
from there (`TableFact`), and not set again. A value nobody has verified stays `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from torchferry.backends.datafile import DATA, DataOwner, data_directory
from torchferry.backends.tables import REWRITTEN, Row, Table, load_table
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.messages import Bilingual


class TableFact:
    """An attribute whose value is in one of the vendor's tables alone, and is read when it is requested.

    Attributes:
        read: Returns the value for a backend, and the source of it.
    """

    def __init__(self, read: Callable[[type[Backend]], tuple[object, str]]) -> None:
        self.read = read

    def __get__(self, instance: object, owner: type[Backend]) -> object:
        return self.read(owner)[0]


def table_fact(read: Callable[[type[Backend]], tuple[object, str]]) -> Any:
    """Return an attribute of `Backend` that is read from a table; its declared type is that of the value."""
    return TableFact(read)


def _cards(backend: type[Backend]) -> tuple[object, str]:
    from torchferry.backends.card_table import described  # imported late, as below: few runs ask for these facts

    cards = described(backend)
    return tuple(card.name for card in cards), _sources(card.source for card in cards)


def _card_memory(backend: type[Backend]) -> tuple[object, str]:
    from torchferry.backends.card_table import described

    cards = described(backend)
    memory = {card.name: card.memory >> 20 for card in cards if not isinstance(card.memory, Unknown)}
    return memory, _sources(card.source for card in cards if card.name in memory)


def _devices_per_card(backend: type[Backend]) -> tuple[object, str]:
    from torchferry.backends.card_table import plugin_of

    plugin = plugin_of(backend)
    return plugin.devices_per_card, "" if isinstance(plugin.devices_per_card, Unknown) else plugin.source


def _management_tool(backend: type[Backend]) -> tuple[object, str]:
    from torchferry.backends.smi import tool

    management_tool = tool(backend)
    return (management_tool.commands[0][0], management_tool.source) if management_tool.commands else (UNKNOWN, "")


def _device_nodes(backend: type[Backend]) -> tuple[object, str]:
    from torchferry.backends.machine import facts

    nodes = facts(backend).nodes
    return ", ".join(node.pattern for node in nodes) or UNKNOWN, _sources(node.source for node in nodes)


def _driver_module(backend: type[Backend]) -> tuple[object, str]:
    from torchferry.backends.machine import facts

    module = facts(backend).kernel_module
    return module.name or UNKNOWN, module.source


def _visible_devices(backend: type[Backend]) -> tuple[object, str]:
    value, source = _variable(backend, "CUDA_VISIBLE_DEVICES")
    return UNKNOWN if value is None else value, source


def _container_visible_devices(backend: type[Backend]) -> tuple[object, str]:
    return _variable(backend, "NVIDIA_VISIBLE_DEVICES")


def _variable(backend: type[Backend], name: str) -> tuple[str | None | Unknown, str]:
    """Return the replacement of an environment variable; None where nothing does."""
    row = backend.table("env").get(name)
    if row is None or row.status == "unknown":
        return UNKNOWN, ""
    return (row.use or name) if row.status in REWRITTEN else None, row.source


def _sources(sources: Iterable[str]) -> str:
    """Return sources, each of them once."""
    return "; ".join(dict.fromkeys(part for source in sources for part in source.split("; ")))


class Backend(DataOwner):
    """One accelerator family and the PyTorch plugin that drives it."""

    # --- identity ---

    NAME: ClassVar[str]
    """Name of the target on the command line."""

    TITLE: ClassVar[str]
    """Maker and family, as shown to the user."""

    TITLE_ZH: ClassVar[str] = ""
    """The same in Chinese."""

    ALIASES: ClassVar[tuple[str, ...]] = ()
    """Other names that the command line accepts."""

    CARDS: ClassVar[tuple[str, ...]] = table_fact(_cards)
    """Cards of the family that the facts speak of: those of `cards.toml`."""

    SOURCES: ClassVar[dict[str, str]] = {}
    """Where each attribute set by the subclass comes from; a test requests one for every fact."""

    DATA_DIRECTORY: ClassVar[Path | None] = None
    """Folder with the tables; None means `vendors/<NAME>` in torchferry."""

    FACADE_DIRECTORY: ClassVar[Path | None] = None
    """Folder with the plugin's packages as a rehearsal has them; None means `plugin` in the folder with the tables."""

    # --- the plugin ---

    PLUGIN: ClassVar[str]
    """Module that a program imports to make the device known to torch."""

    PIP_NAME: ClassVar[str | None | Unknown] = UNKNOWN
    """Distribution name on PyPI; None when the vendor serves it elsewhere (`INSTALL` says how)."""

    INSTALL: ClassVar[Bilingual] = Bilingual("")
    """How to install the plugin, in one sentence."""

    AUTOLOAD_SINCE: ClassVar[str | None | Unknown] = UNKNOWN
    """First plugin version that `import torch` (2.5 and later) loads by itself; None for never."""

    DEFAULT_VERSION: ClassVar[str] = ""
    """Plugin version assumed when the user names none: the newest one whose surface was read."""

    SHADOWS: ClassVar[tuple[str, ...]] = ()
    """Targets whose plugin's name this plugin's installation has as well, so that finding it says nothing."""

    REDIRECTIONS: ClassVar[tuple[str, ...]] = ()
    """Modules that redirect `torch.cuda` to this device when they are imported: the vendor's own, and others'."""

    BUILD_MODULES: ClassVar[dict[str, str]] = {}
    """Modules that the vendor's own build of torch has beside the plugin, and that do not serve the device: each with
    the error of its functions. `is_available` of such a module is False."""

    PLUGIN_AFTER_TORCH: ClassVar[bool] = True
    """Whether the plugin is imported after `import torch` rather than before it."""

    # --- devices and tensors ---

    DEVICE_TYPE: ClassVar[str]
    """Type of the device in `torch.device(...)` and in device strings."""

    DISPATCH_KEY: ClassVar[str] = "PrivateUse1"
    """Dispatch key of torch under which the plugin registers its operators."""

    NAMESPACE: ClassVar[str] = ""
    """What user code writes where it wrote `torch.cuda`; empty when the plugin has no such namespace."""

    IMPORT_NAMESPACE: ClassVar[str] = ""
    """Module path for `from ... import` in place of `torch.cuda`: the module's real home, so that the
    import neither depends on the plugin being loaded nor loads a module twice."""

    DEVICE_FACTORY: ClassVar[str] = ""
    """Function of the plugin that makes a device in place of `torch.device`; empty for torch's own."""

    RUN_PENDING: ClassVar[str] = ""
    """Function of the plugin that runs what a lazy device has put off; empty for a device that puts nothing off."""

    MOVER: ClassVar[str | None | Unknown] = UNKNOWN
    """Method of tensors and modules in place of `.cuda()`; None when there is none (`.to` is used)."""

    MOVER_TAKES_DEVICE: ClassVar[bool | Unknown] = UNKNOWN
    """Whether that method takes a device or its name for a module too, as `.cuda()` does, and not an index alone."""

    PREDICATE: ClassVar[str | None | Unknown] = UNKNOWN
    """Property of tensors in place of `.is_cuda`; None when there is none (`.device.type` is compared)."""

    INTEGER_DEVICE: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `.to(0)` and `torch.device(0)` mean this device, with torch 2.1 and later."""

    DEVICE_GENERATOR: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `torch.Generator(device=...)` works on the device."""

    LOADS_TO_DEVICE: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `torch.load` puts tensors onto the device (`map_location`)."""

    LEFT_OUT_BY_TORCH: ClassVar[tuple[str, ...]] = ()
    """What torch does for a list of devices in which this one is not: `pin_memory`, `dlpack`, `fused` (optimizers)."""

    OUT_OF_MEMORY_TEXT: ClassVar[str | Unknown] = UNKNOWN
    """How the text of the error begins that is raised where the card's memory is exhausted."""

    SHARES_TENSORS_SINCE: ClassVar[str | None | Unknown] = UNKNOWN
    """First plugin version that sends device tensors to other processes (`torch.multiprocessing`) as shared memory;
    None for never."""

    SHARES_EVENTS_SINCE: ClassVar[str | None | Unknown] = UNKNOWN
    """The same of its events."""

    DTYPES: ClassVar[dict[str, str]] = {}
    """Dtypes that do not behave as on CUDA: `missing`, `narrowed`, `emulated` or `limited`. A dtype that is
    absent is not known to differ."""

    DTYPE_NOTES: ClassVar[dict[str, Bilingual]] = {}
    """For each dtype in `DTYPES`, what happens and what to set."""

    # --- distributed ---

    COLLECTIVE: ClassVar[str]
    """Name of the collective backend in place of `nccl`."""

    COMPOSITE_COLLECTIVE: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `"cpu:gloo,<device>:<collective>"` is accepted."""

    GLOO_GROUPS: ClassVar[bool | Unknown] = UNKNOWN
    """Whether the plugin's `torch.distributed` makes groups over gloo, for tensors on the CPU."""

    GLOO_BESIDE_BOUND_GROUP: ClassVar[bool | Unknown] = UNKNOWN
    """Whether a group over gloo can be made after `init_process_group(device_id=...)`."""

    DISTRIBUTED: ClassVar[str] = "torch.distributed"
    """Module that holds the collective functions."""

    # --- precision ---

    TF32_SWITCH: ClassVar[str | None | Unknown] = UNKNOWN
    """Name of the setting in place of `torch.backends.cuda.matmul.allow_tf32`; None when there is none."""

    AUTOCAST: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `torch.autocast("<device type>")` works."""

    # --- profiler ---

    PROFILER_ACTIVITY: ClassVar[str | Unknown] = UNKNOWN
    """Expression in place of `torch.profiler.ProfilerActivity.CUDA`."""

    PROFILER_SORT_KEY: ClassVar[str | None | Unknown] = UNKNOWN
    """`sort_by` prefix of `key_averages().table` in place of `cuda_time`, without `_total`; None when the
    profiler has no table."""

    PROFILER_NAMED_COLUMNS_UNTIL: ClassVar[str | None | Unknown] = UNKNOWN
    """First version of the plugin whose profiler has torch's own columns, where earlier ones had columns that are named
    after the device type alone, such as `acme_time_total`; None where there never were any."""

    # --- extensions and compilers ---

    EXTENSION_MODULE: ClassVar[str | Unknown] = UNKNOWN
    """Module in place of `torch.utils.cpp_extension`."""

    COMPILER: ClassVar[str | Unknown] = UNKNOWN
    """Kernel compiler in place of `nvcc`."""

    TRITON: ClassVar[str | None | Unknown] = UNKNOWN
    """Distribution that provides Triton for the device; None when there is none."""

    # --- machine ---

    VISIBLE_DEVICES: ClassVar[str | Unknown] = table_fact(_visible_devices)
    """Environment variable in place of `CUDA_VISIBLE_DEVICES`, as `env.toml` has it."""

    CONTAINER_VISIBLE_DEVICES: ClassVar[str | None | Unknown] = table_fact(_container_visible_devices)
    """Environment variable that a container runtime reads in place of `NVIDIA_VISIBLE_DEVICES`; from `env.toml`."""

    SMI: ClassVar[str | Unknown] = table_fact(_management_tool)
    """System-management tool in place of `nvidia-smi`, as `[tool]` of `doctor.toml` has it."""

    DRIVER_MODULE: ClassVar[str | Unknown] = table_fact(_driver_module)
    """Kernel module of the driver, as `lsmod` shows it; `[kernel_module]` of `doctor.toml` has it."""

    DEVICE_NODES: ClassVar[str | Unknown] = table_fact(_device_nodes)
    """Device nodes, as shell patterns: every `[[node]]` of `doctor.toml`."""

    CARD_MEMORY: ClassVar[dict[str, int]] = table_fact(_card_memory)
    """Memory of one device in MiB, by card, as a program sees it; from `cards.toml`."""

    DEVICES_PER_CARD: ClassVar[int | Unknown] = table_fact(_devices_per_card)
    """How many torch devices every card of the plugin shows up as, from `[plugin]` of `cards.toml`. Where cards differ,
    each card says it there."""

    # --- tables ---

    @classmethod
    @lru_cache(maxsize=64)
    def table(cls, name: str) -> Table:
        """Return the table `name`, such as `api`: what holds for all targets, what is inherited, then its own rows."""
        inherited = load_table(DATA / "common" / f"{name}.toml")
        for base in reversed(cls.__mro__[1:]):
            if issubclass(base, Backend) and base is not Backend:
                inherited = inherited.extended(load_table(data_directory(base) / f"{name}.toml"))
        return inherited.extended(load_table(data_directory(cls) / f"{name}.toml"))

    @classmethod
    def source_of(cls, attribute: str) -> str:
        """Return where the value of an attribute comes from; empty where nothing is known."""
        for base in cls.__mro__:
            if attribute in vars(base):
                fact = vars(base)[attribute]
                return fact.read(cls)[1] if isinstance(fact, TableFact) else cls.SOURCES.get(attribute, "")
        return ""

    @classmethod
    def api(cls, name: str, version: str = "") -> Row | None:
        """Return the row for the CUDA-side API `name`, or None where nothing is known."""
        return cls.table("api").get(name, version)
