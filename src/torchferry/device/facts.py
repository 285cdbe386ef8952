"""The known facts about a device: the records that detection and every function of the manager read.

In a field, None says that nobody has verified it, and an empty text that there is no such thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torchferry.core.messages import Bilingual


class Name(NamedTuple):
    """The replacement of a name of `torch.cuda`.

    Attributes:
        path: Dotted path of what to call; empty where there is nothing.
        verified: Whether somebody has verified that; if not, the running plugin is asked.
        note: What to know, or what to do instead.
        called: Dotted path of a class of torch that takes its place where this torch has it; its first argument is the
            device's type.
        keywords: Names of CUDA's arguments, and what the plugin's function calls them.
        default_argument: Dotted path of the function whose result the plugin's is given where CUDA's is given nothing.
    """

    path: str
    verified: bool = True
    note: Bilingual = Bilingual("")
    called: str = ""
    keywords: Mapping[str, str] = {}
    default_argument: str = ""


class DtypeFact(NamedTuple):
    """How a dtype differs from the same on CUDA.

    Attributes:
        state: `missing`, `narrowed`, `emulated` or `limited`.
        note: What happens.
    """

    state: str
    note: Bilingual = Bilingual("")


class DeviceFacts(NamedTuple):
    """The known facts about one kind of device.

    Attributes:
        name: What the user calls it.
        title: Maker and family.
        device_type: Type in `torch.device(...)`.
        collective: Name of the collective backend.
        aliases: Other names that the user may write.
        plugin: Module that makes the device known to torch; empty for a device that torch itself drives.
        plugin_before_torch: Whether that module must be imported before torch.
        install: How to install the plugin.
        namespace: The replacement of `torch.cuda`; empty when there is no such module.
        names: Names of `torch.cuda` that are not the same below `namespace`, or that nobody has verified.
        device_factory: Function that makes a device in place of `torch.device`; empty for torch's own.
        run_pending: Function that runs what a lazy device has put off; empty for a device that puts nothing off.
        dtypes: Dtypes that differ from CUDA's.
        generator: Whether `torch.Generator(device=...)` works.
        autocast: Whether `torch.autocast(device_type)` works.
        distributed: Module with the collective functions.
        memory_formats: Memory formats of torch that the plugin refuses, and what takes their place.
        composite: Whether `"cpu:gloo,<type>:<collective>"` is accepted.
        profiler: Class in place of `torch.profiler.profile`.
        profiler_activity: In place of `ProfilerActivity.CUDA`.
        profiler_note: What to know about it.
        profiler_sort_key: Column of the profiler's table, without `_total`.
        visible_devices: Environment variable that chooses the cards of a process.
        allocator_variable: Environment variable with the settings of the allocator.
        deterministic_variable: `NAME=VALUE` that deterministic kernels need in the environment.
    """

    name: str
    title: Bilingual
    device_type: str
    collective: str
    aliases: tuple[str, ...] = ()
    plugin: str = ""
    plugin_before_torch: bool = False
    install: Bilingual = Bilingual("")
    namespace: str = ""
    names: Mapping[str, Name] = {}
    device_factory: str = ""
    run_pending: str = ""
    dtypes: Mapping[str, DtypeFact] = {}
    generator: bool | None = None
    autocast: bool | None = None
    distributed: str = "torch.distributed"
    memory_formats: Mapping[str, str] = {}
    composite: bool | None = None
    profiler: str = "torch.profiler.profile"
    profiler_activity: str | None = None
    profiler_note: Bilingual = Bilingual("")
    profiler_sort_key: str | None = None
    visible_devices: str | None = None
    allocator_variable: str | None = None
    deterministic_variable: str = ""

    def name_of(self, name: str) -> Name:
        """Return the replacement of `torch.cuda.<name>`."""
        entry = self.names.get(name)
        if entry is not None:
            return entry
        return Name(f"{self.namespace}.{name}" if self.namespace else "")
