"""What is left of the device module: debugging switches, errors and readings that a machine without a card can give."""

from __future__ import annotations

from torchferry.rehearsal import events, torch_versions
from torchferry.rehearsal.device_module.context import DeviceContext

_SYNC_MODES = {"default": 0, "warn": 1, "error": 2}


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the remaining functions, by their name below `torch.cuda`."""
    mode = 0

    def set_sync_debug_mode(debug_mode: int | str) -> None:
        """Say what happens when the program waits for the device; nothing waits on a simulated one."""
        nonlocal mode
        context.initialize()
        value = _SYNC_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
        if value is None or value not in _SYNC_MODES.values():
            raise events.refusal(
                RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
            )
        mode = value

    def get_sync_debug_mode() -> int:
        """Return the value of `set_sync_debug_mode`."""
        context.initialize()
        return mode

    def ipc_collect() -> None:
        """Free what other processes held after its tensors had gone, and hold no longer."""
        context.initialize()
        context.native.collect_shared()

    return {
        "set_sync_debug_mode": set_sync_debug_mode,
        "get_sync_debug_mode": get_sync_debug_mode,
        "ipc_collect": ipc_collect,
        "has_half": True,
        "OutOfMemoryError": torch_versions.OUT_OF_MEMORY,
    }
