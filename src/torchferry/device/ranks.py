"""Several processes: which device is this one's, and how they talk."""

from __future__ import annotations

import importlib
import os
from typing import Any

from torchferry.core.messages import say, say_plural
from torchferry.device.facts import DeviceFacts
from torchferry.device.failures import DeviceError, NotOnThisDeviceError
from torchferry.device.names import find
from torchferry.device.torch_import import torch


def place_index(facts: DeviceFacts, asked: int | None) -> int:
    """Return the index of this process's device: the one that was asked for, LOCAL_RANK, else the current one.

    Raises:
        DeviceError: there is no device of that index, or LOCAL_RANK is no number.
    """
    counted = find(facts, "device_count")
    count = None if counted is None else int(counted())
    rank = os.environ.get("LOCAL_RANK", "")
    if asked is None and rank:
        if not rank.isdigit():
            raise DeviceError(say("LOCAL_RANK is `{value}`, not a number", value=rank))
        if count is not None and int(rank) >= count:
            raise DeviceError(
                say_plural("LOCAL_RANK is {rank}, and this process sees {count} device",
                        "LOCAL_RANK is {rank}, and this process sees {count} devices", rank=rank, count=count),
                say("start fewer processes, let each see all devices, or name the device: {example}",
                    example=f"{facts.name}:0"),
            )  # fmt: skip
        return int(rank)
    if asked is None:
        present = find(facts, "current_device")
        return 0 if present is None else int(present())
    if asked < 0 or (count is not None and asked >= count):
        raise DeviceError(
            say_plural("{name}:{index} does not exist; this process sees {count} device",
                    "{name}:{index} does not exist; this process sees {count} devices", name=facts.name, index=asked,
                count="?" if count is None else count)
        )  # fmt: skip
    return asked


def collective(facts: DeviceFacts, composite: bool) -> str:
    """Return the backend for `init_process_group`; `composite` also serves tensors on the CPU.

    Raises:
        NotOnThisDeviceError: the device has no composite backend, or nobody has verified that it has one.
    """
    if not composite or (not facts.plugin and not facts.namespace):
        return facts.collective
    if facts.composite is None:
        raise NotOnThisDeviceError(
            say("whether {title} supports composite backends is not known", title=facts.title),
            say("use `{collective}` and move tensors to the device", collective=facts.collective),
        )
    if not facts.composite:
        raise NotOnThisDeviceError(
            say("{title} does not support composite backends", title=facts.title),
            say("use `{collective}` and move tensors to the device", collective=facts.collective),
        )
    if int(torch.__version__.partition(".")[0]) < 2:
        raise NotOnThisDeviceError(
            say("torch {version} does not support composite backends", version=torch.__version__),
            say("use `{collective}` and move tensors to the device", collective=facts.collective),
        )
    return f"cpu:gloo,{facts.device_type}:{facts.collective}"


def distributed(facts: DeviceFacts) -> Any:
    """Return the module with the collective functions: torch's, or the plugin's own.

    Raises:
        NotOnThisDeviceError: the installed plugin does not have it.
    """
    try:
        return importlib.import_module(facts.distributed)
    except ModuleNotFoundError as error:
        raise NotOnThisDeviceError(
            say("the installed {plugin} has no {path}", plugin=facts.plugin, path=facts.distributed)
        ) from error
