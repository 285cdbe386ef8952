"""Parallel modules. Source: github.com/mango-MilkT/torch_gcu@14a99843d05c nn/parallel: names and arguments."""

from __future__ import annotations

from typing import Any

import torch

from torch_gcu.nn.parallel import comm
from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["DataParallel", "DistributedDataParallel", "comm", "data_parallel", "gather", "replicate", "scatter"]


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """torch's module of this name under the plugin's arguments.

    Raises:
        RuntimeError: `gradient_as_bucket_view` is set, or more than one device is named.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: Any = None,
        bucket_cap_mb: int = 256,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
    ) -> None:
        if gradient_as_bucket_view and any(each.device.type == "xla" for each in module.parameters()):
            raise _events.refusal(
                RuntimeError(
                    "dtu not support `gradient_as_bucket_view` set to True; set gradient_as_bucket_view to False"
                )
            )
        if device_ids is not None and len(device_ids) > 1:
            raise _events.refusal(RuntimeError("device_ids can only be None or contain a single element."))
        super().__init__(
            module,
            device_ids=device_ids,
            output_device=output_device,
            dim=dim,
            broadcast_buffers=broadcast_buffers,
            process_group=process_group,
            bucket_cap_mb=bucket_cap_mb,
            find_unused_parameters=find_unused_parameters,
        )


globals().update(
    _facade_support.stubs(
        __name__, ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]
    )
)
