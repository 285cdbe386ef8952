"""What an installed torchferry knows of every device; the single file has a table in place of this module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from torchferry.backends import cuda, registry
from torchferry.backends.base import Backend
from torchferry.backends.counterpart import decide
from torchferry.backends.portable import MEMORY_FORMATS
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.messages import Bilingual
from torchferry.device.facts import DeviceFacts, DtypeFact, Name


@lru_cache(maxsize=1)
def portable_names() -> Mapping[str, str]:
    """Return the names of `torch.cuda` that every device is asked for, and what happens where a plugin lacks one."""
    return cuda.portable()


CUDA = DeviceFacts(
    name="cuda",
    title=Bilingual("NVIDIA CUDA"),
    device_type=cuda.DEVICE_TYPE,
    collective=cuda.COLLECTIVE,
    namespace=cuda.NAMESPACE,
    generator=True,
    autocast=True,
    composite=True,
    profiler_activity="torch.profiler.ProfilerActivity.CUDA",
    profiler_sort_key="cuda_time",
    visible_devices="CUDA_VISIBLE_DEVICES",
    allocator_variable="PYTORCH_CUDA_ALLOC_CONF",
    deterministic_variable="CUBLAS_WORKSPACE_CONFIG=:4096:8",
)
"""The side we come from. Source: documentation of torch.cuda, torch.profiler and torch.use_deterministic_algorithms."""

_WITHOUT_DEVICE = {name: Name("") for name in cuda.portable()}

_OF_TORCH = ("OutOfMemoryError", "amp.GradScaler", "amp.autocast", "amp.custom_bwd", "amp.custom_fwd")
"""What torch has below `torch.cuda` and can be used without a card: mixed precision is then off, as torch warns."""

HOST = DeviceFacts(
    name="cpu",
    title=Bilingual("CPU"),
    device_type="cpu",
    collective="gloo",
    names={**_WITHOUT_DEVICE, **{name: Name(f"{cuda.NAMESPACE}.{name}") for name in _OF_TORCH}},
    generator=True,
    autocast=True,
    composite=False,
    profiler_activity="",
    profiler_sort_key="cpu_time",
    visible_devices="",
    allocator_variable="",
)
"""What runs where there is no accelerator."""


@lru_cache(maxsize=1)
def vendors() -> tuple[DeviceFacts, ...]:
    """Return the known facts about every device, in the order in which they are tried; the CPU is the last.

    Vendors that another distribution describes come first: somebody installed it on purpose.

    Raises:
        TorchferryError: such a distribution is broken.
    """
    own = registry.built_in()
    others = [name for name in registry.names() if name not in own]
    return (*(_facts(registry.load(name)) for name in (*others, *own)), CUDA, HOST)


class _ReadLate(Mapping[str, Name]):
    """The names of one vendor. Its table is read when a name is asked for, since most vendors are not there."""

    def __init__(self, read: Callable[[], dict[str, Name]]) -> None:
        self._read = read
        self._found: dict[str, Name] | None = None

    def _all(self) -> dict[str, Name]:
        if self._found is None:
            self._found = self._read()
        return self._found

    def __getitem__(self, key: str) -> Name:
        return self._all()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _facts(backend: type[Backend]) -> DeviceFacts:
    target = Target(backend)
    activity = target.api("torch.profiler.ProfilerActivity.CUDA")
    return DeviceFacts(
        name=backend.NAME,
        title=target.title,
        device_type=backend.DEVICE_TYPE,
        collective=backend.COLLECTIVE,
        aliases=backend.ALIASES,
        plugin=backend.PLUGIN,
        plugin_before_torch=not backend.PLUGIN_AFTER_TORCH,
        install=backend.INSTALL,
        namespace=backend.NAMESPACE,
        names=_ReadLate(lambda: _names(target)),
        device_factory=backend.DEVICE_FACTORY,
        run_pending=backend.RUN_PENDING,
        dtypes={
            dtype: DtypeFact(state, backend.DTYPE_NOTES.get(dtype, Bilingual("")))
            for dtype, state in backend.DTYPES.items()
        },
        generator=_flag(backend.DEVICE_GENERATOR),
        autocast=_flag(backend.AUTOCAST),
        memory_formats={
            name: row.use
            for name in MEMORY_FORMATS
            if (row := target.api(f"torch.{name}")).status in REWRITTEN and row.use not in ("", f"torch.{name}")
        },
        distributed=backend.DISTRIBUTED,
        composite=_flag(backend.COMPOSITE_COLLECTIVE),
        profiler=_used(target.api("torch.profiler.profile"), "torch.profiler.profile"),
        profiler_activity="" if activity.status == "missing" else _text(backend.PROFILER_ACTIVITY),
        profiler_note=Bilingual(activity.note, activity.note_zh),
        profiler_sort_key=_text(backend.PROFILER_SORT_KEY),
        visible_devices=_text(backend.VISIBLE_DEVICES),
        allocator_variable=_variable(target.row("env", "PYTORCH_CUDA_ALLOC_CONF")),
    )


def _names(target: Target) -> dict[str, Name]:
    """Return the names of `torch.cuda`, its modules too, that are not simply the same below the vendor's namespace."""
    entries = {}
    for name in (*cuda.portable(), *sorted({name.partition(".")[0] for name in cuda.portable() if "." in name})):
        row = target.api(f"{cuda.NAMESPACE}.{name}")
        same = f"{target.backend.NAMESPACE}.{name}" if target.backend.NAMESPACE else ""
        entry = Name(
            decide(target, row).use,
            row.status != "unknown",
            Bilingual(row.note, row.note_zh),
            str(row.extra.get("called", "")),
            row.extra.get("keywords", Name("").keywords),
            row.default_argument,
        )
        if entry != Name(same):
            entries[name] = entry
    return entries


def _used(row: Row, otherwise: str) -> str:
    return row.use or otherwise


def _variable(row: Row) -> str | None:
    return None if row.status == "unknown" else row.use


def _flag(value: bool | Unknown) -> bool | None:
    return None if isinstance(value, Unknown) else value


def _text(value: str | None | Unknown) -> str | None:
    return None if isinstance(value, Unknown) else value or ""
