"""Code for every device by torch alone: a target whose names are those of `torch.accelerator`."""

from __future__ import annotations

from typing import Any

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.counterpart import Decision, decide
from torchferry.backends.portable import MIXED_PRECISION, PortableTarget, portable_name, without_name
from torchferry.backends.tables import Row
from torchferry.backends.unknown import UNKNOWN
from torchferry.core.messages import Message, say

NAMESPACE = "torch.accelerator"
"""It finds the device of a plugin that torch has loaded, from torch 2.6 on."""

DEVICE_TYPE = f"str({NAMESPACE}.current_accelerator())"
"""The type of the device. Without one it is no device at all, so that the program ends there rather than on the CPU."""

RENAMED = {
    "current_device": "current_device_index",
    "mem_get_info": "get_memory_info",
    "set_device": "set_device_index",
}
"""Names of `torch.cuda` that are called otherwise below `torch.accelerator`."""

KEPT = frozenset(
    {
        "current_stream", "device_count", "empty_cache", "is_available", "max_memory_allocated", "max_memory_reserved",
        "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
        "reset_peak_memory_stats", "set_stream", "synchronize",
    }
)  # fmt: skip
"""Names of `torch.cuda` that are below `torch.accelerator` too."""


class AcceleratorTarget(PortableTarget):
    """A vendor's target, written for every device that `torch.accelerator` finds."""

    def __init__(self, backend: type[Backend], version: str = "") -> None:
        super().__init__(backend, version, NAMESPACE)
        self.module = NAMESPACE

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"installed": self.installed, "vendor": self.vendor}
        return AcceleratorTarget, (self.vendor.backend, self.version), state

    def at(self, path: str) -> AcceleratorTarget:
        """Return itself: torch is found everywhere."""
        return self

    def needs_path(self, path: str) -> bool:
        """Whether the module must be looked for: torch need not."""
        return False

    def import_statement(self, module: str) -> str:
        """Return the statement that binds a module that what is written needs."""
        return "import torch" if module == NAMESPACE else super().import_statement(module)

    @property
    def journal_key(self) -> str:
        """The same for every vendor, since their code is."""
        return "accelerator"

    def refusal(self) -> Message | None:
        """Return why the target cannot run such code; None where it can."""
        row = self.vendor.api(f"{NAMESPACE}.current_accelerator")
        if row.status == "unknown":
            return say(
                "whether `{module}` finds the device of {target} is not known", module=NAMESPACE, target=self.title
            )
        if row.status != "same":
            reason = row.remark or say("it has no such module")
            return say("`{module}` does not find the device of {target}: {reason}", module=NAMESPACE, target=self.title,
                       reason=reason)  # fmt: skip
        loads = self.vendor.autoloads()
        if loads is True:
            return None
        plugin = self.backend.PLUGIN
        if loads is UNKNOWN:
            return say("whether `import torch` loads {plugin} is not known, and without it the program takes the CPU",
                       plugin=plugin)  # fmt: skip
        return say("`import torch` does not load {plugin}, and without it the program takes the CPU", plugin=plugin)

    def _api(self, name: str) -> Row:
        row = self.vendor.api(name)
        if name.startswith(f"{NAMESPACE}.") or name == NAMESPACE:
            return row
        if not name.startswith(f"{cuda.NAMESPACE}."):
            if name in MIXED_PRECISION and self.vendor.backend.AUTOCAST is True:
                return Row(name, "same", name)
            decided = decide(self.vendor, row)
            if decided.decision is not Decision.WRITE or decided.use in ("", name):
                return row
            if not portable_name(name):
                return row._replace(status="same", use=name, note="", note_zh="", extra={})
            return without_name(
                row,
                f"on {self.name} it is `{row.use}`, and torch has no word for both; `--device-module file` has",
                f"在 {self.name} 上为 `{row.use}`，torch 没有通用的写法；`--device-module file` 有",
            )
        below = name[len(cuda.NAMESPACE) + 1 :].removeprefix("memory.").removeprefix("random.").removeprefix("streams.")
        use = f"{NAMESPACE}.{RENAMED.get(below, below)}"
        if below in KEPT or below in RENAMED:
            offered = self.vendor.api(use)
            if offered.status in ("same", "unknown"):
                return Row(name, "renamed" if offered.status == "same" else "unknown", use, extra={"import": NAMESPACE})
        return without_name(
            row,
            "torch.accelerator has nothing like it; `--device-module file` has",
            "torch.accelerator 中没有对应内容；`--device-module file` 有",
        )
