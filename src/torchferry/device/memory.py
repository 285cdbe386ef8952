"""Memory of a device: one record for every vendor, the cache, and a mode that holds less."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import TracebackType

from torchferry.core.messages import say
from torchferry.device.names import DescribedDevice, find, required
from torchferry.device.torch_import import torch


@dataclass(frozen=True)
class MemoryStatistics:
    """Memory of one device in bytes; None where its plugin does not tell.

    Attributes:
        device: The device, such as `cuda:0`.
        allocated: Held by tensors of this process.
        reserved: Held by the allocator of this process, tensors included.
        peak: The most that tensors of this process held since the start or `reset_peak`.
        free: Free on the device, for all processes.
        total: What the device has.
    """

    device: str
    allocated: int | None = None
    reserved: int | None = None
    peak: int | None = None
    free: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        sizes = {name: value for name, value in asdict(self).items() if name != "device"}
        if all(value is None for value in sizes.values()):
            return say("the memory of {device} is not reported", device=self.device).render()
        return f"{self.device}: " + ", ".join(f"{name} {_readable(value)}" for name, value in sizes.items())


def statistics(place: DescribedDevice) -> MemoryStatistics:
    """Return what the device tells of its memory."""
    free, total = None, None
    both = find(place.facts, "mem_get_info")
    if both is not None:
        free, total = both(place.device)
    return MemoryStatistics(
        str(place.device),
        allocated=_told(place, "memory_allocated"),
        reserved=_told(place, "memory_reserved"),
        peak=_told(place, "max_memory_allocated"),
        free=free,
        total=total,
    )


def release_cache(place: DescribedDevice) -> bool:
    """Give cached memory back to the device; False where there is no call for it, and so nothing was done."""
    release = find(place.facts, "empty_cache")
    if release is None:
        return False
    release()
    return True


def reset_peak(place: DescribedDevice) -> None:
    """Begin to count the peak anew.

    Raises:
        NotOnThisDeviceError: the device counts none.
    """
    required(place.facts, "reset_peak_memory_stats")(place.device)


class MemoryEfficientMode:
    """Less memory without a change of the model; made by `DeviceManager.set_memory_efficient_mode`.

    It is in force when it is made. `undo()`, or the end of a `with` block, takes it back.
    """

    def __init__(self, place: DescribedDevice, gradients: bool, fraction: float | None) -> None:
        self._place = place
        self._fraction = fraction
        self._before = torch.is_grad_enabled()
        self._limit = required(place.facts, "set_per_process_memory_fraction") if fraction is not None else None
        if self._limit is not None:
            self._limit(fraction, place.device)
        self._is_released = release_cache(place)
        self._records = gradients and self._before
        torch.set_grad_enabled(self._records)

    def __str__(self) -> str:
        parts = [
            say("gradients are recorded") if self._records else say("gradients are not recorded"),
            say("the cache was emptied") if self._is_released else say("there is no cache to empty"),
        ]
        if self._fraction is not None:
            parts.append(say("at most {percent:g} % of the device", percent=100 * self._fraction))
        return f"{self._place.device}: " + ", ".join(str(part) for part in parts)

    def undo(self) -> None:
        """Record gradients again if they were, let the process use the whole device, empty the cache."""
        torch.set_grad_enabled(self._before)
        if self._limit is not None:
            self._limit(1.0, self._place.device)
        release_cache(self._place)

    def __enter__(self) -> MemoryEfficientMode:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def _told(place: DescribedDevice, name: str) -> int | None:
    ask = find(place.facts, name)
    return None if ask is None else int(ask(place.device))


def _readable(value: int | None) -> str:
    if value is None:
        # translators: stands for a figure of memory
        return str(say("not reported"))
    size = float(value)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.2f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
