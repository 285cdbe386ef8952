"""The interface that describes an accelerator: what each fact means, its type and its default.

A backend is a subclass that sets class attributes; the attributes of `Backend`, in order, are the
specification, and `torchferry backend show NAME` prints them with the values and their sources. A value
nobody has verified stays `UNKNOWN`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from torchferry.backends.tables import Row, Table, load_table
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.messages import Bilingual

DATA = Path(__file__).with_name("data")


class Backend:
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

    CARDS: ClassVar[tuple[str, ...]] = ()
    """Cards of the family that the facts speak of."""

    SOURCES: ClassVar[dict[str, str]] = {}
    """Where each attribute set by the subclass comes from; a test asks for one for every fact."""

    DATA_DIRECTORY: ClassVar[Path | None] = None
    """Folder with the tables; None means `data/<NAME>` beside this module."""

    FACADE_DIRECTORY: ClassVar[Path | None] = None
    """Folder with the plugin's packages as a rehearsal has them; None means the one that torchferry has for it."""

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

    PREDICATE: ClassVar[str | None | Unknown] = UNKNOWN
    """Property of tensors in place of `.is_cuda`; None when there is none (`.device.type` is compared)."""

    INTEGER_DEVICE: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `.to(0)` and `torch.device(0)` mean this device."""

    DEVICE_GENERATOR: ClassVar[bool | Unknown] = UNKNOWN
    """Whether `torch.Generator(device=...)` works on the device."""

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

    # --- extensions and compilers ---

    EXTENSION_MODULE: ClassVar[str | Unknown] = UNKNOWN
    """Module in place of `torch.utils.cpp_extension`."""

    EXTENSION_CLASS: ClassVar[str | Unknown] = UNKNOWN
    """Class in place of `CUDAExtension`."""

    COMPILER: ClassVar[str | Unknown] = UNKNOWN
    """Kernel compiler in place of `nvcc`."""

    KERNEL_SUFFIX: ClassVar[str | Unknown] = UNKNOWN
    """Suffix of kernel sources in place of `.cu`."""

    TRITON: ClassVar[str | None | Unknown] = UNKNOWN
    """Distribution that provides Triton for the device; None when there is none."""

    COMPILE_BACKEND: ClassVar[str | None | Unknown] = UNKNOWN
    """`torch.compile` backends of the device; None when `torch.compile` does not serve it."""

    ATTENTION: ClassVar[str | None | Unknown] = UNKNOWN
    """The target's own fused attention, as an expression; None when there is none."""

    # --- machine ---

    VISIBLE_DEVICES: ClassVar[str | Unknown] = UNKNOWN
    """Environment variable in place of `CUDA_VISIBLE_DEVICES`."""

    CONTAINER_VISIBLE_DEVICES: ClassVar[str | None | Unknown] = UNKNOWN
    """Environment variable that a container runtime reads in place of `NVIDIA_VISIBLE_DEVICES`."""

    SMI: ClassVar[str | Unknown] = UNKNOWN
    """System-management tool in place of `nvidia-smi`."""

    DRIVER_MODULE: ClassVar[str | Unknown] = UNKNOWN
    """Kernel module of the driver, as `lsmod` shows it."""

    DEVICE_NODES: ClassVar[str | Unknown] = UNKNOWN
    """Device nodes, as a shell pattern."""

    SDK_HOME: ClassVar[str | Unknown] = UNKNOWN
    """Where the vendor's toolkit is installed by default."""

    CARD_MEMORY: ClassVar[dict[str, int]] = {}
    """Memory of one device in MiB, by card."""

    DEVICES_PER_CARD: ClassVar[int | Unknown] = UNKNOWN
    """How many torch devices one card shows up as."""

    # --- tables ---

    @classmethod
    @lru_cache(maxsize=64)
    def table(cls, name: str) -> Table:
        """Return the table `name`, such as `api`: what holds for all targets, what is inherited, then its own rows."""
        inherited = load_table(DATA / "common" / f"{name}.toml")
        for base in reversed(cls.__mro__[1:]):
            if issubclass(base, Backend) and base is not Backend:
                inherited = inherited.extended(load_table(_data_directory(base) / f"{name}.toml"))
        return inherited.extended(load_table(_data_directory(cls) / f"{name}.toml"))

    @classmethod
    def api(cls, name: str, version: str = "") -> Row | None:
        """Return the row for the CUDA-side API `name`, or None where nothing is known."""
        return cls.table("api").get(name, version)


def _data_directory(backend: type[Backend]) -> Path:
    return backend.DATA_DIRECTORY or DATA / backend.NAME
