"""One line about a device while a program works: for the page of a web demo, a log, or the end of a script."""

from __future__ import annotations

from torchferry.core.messages import Message, say
from torchferry.device.memory import _readable
from torchferry.device.names import DescribedDevice, find
from torchferry.device.torch_import import torch


def status_text(place: DescribedDevice, dtype: torch.dtype) -> str:
    """Return the device, its card, a dtype, and what it tells of its memory."""
    return str(
        say(
            "{device} ({name}), {dtype}: {memory}",
            device=place.device,
            name=card_name(place),
            dtype=str(dtype).replace("torch.", ""),
            memory=_memory_text(place),
        )
    )


def card_name(place: DescribedDevice) -> str:
    """Return what the plugin calls the card; the vendor's name where it does not say."""
    ask = find(place.facts, "get_device_name")
    return str(place.facts.title if ask is None else ask(place.device.index))


def _memory_text(place: DescribedDevice) -> str | Message:
    """Return what the device tells: its tensors, the most they held, and the whole card, whoever uses it."""
    allocated, most = find(place.facts, "memory_allocated"), find(place.facts, "max_memory_allocated")
    whole = find(place.facts, "mem_get_info")
    parts = []
    try:
        if allocated is not None:
            parts.append(str(say("tensors {size}", size=_readable(int(allocated(place.device))))))
        if most is not None:
            parts.append(str(say("at most {size}", size=_readable(int(most(place.device))))))
        if whole is not None:
            free, total = whole(place.device)
            parts.append(
                str(say("{used} of {total} in use", used=_readable(int(total - free)), total=_readable(int(total))))
            )
    except RuntimeError as error:  # a page that shows this goes on without it
        return say("memory cannot be read: {error}", error=str(error).partition("\n")[0])
    return ", ".join(parts) or say("memory not reported")
