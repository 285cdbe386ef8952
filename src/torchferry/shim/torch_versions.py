"""What the redirect meets otherwise in an older torch: one answer for every version from 2.1 on."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from torchferry.core import supported_torch

VERSION = supported_torch.release(str(torch.__version__))
"""The first two numbers of the version."""

LOADER_ASKS_CUDA = VERSION < (2, 7)
"""Whether a `DataLoader` that pins memory asks `torch.cuda` for a device; from torch 2.7 on it asks the accelerator."""

FORK_RNG_MEANS_CUDA = inspect.signature(torch.random.fork_rng).parameters["device_type"].default == "cuda"
"""Whether `torch.random.fork_rng` without a type forks CUDA's: up to torch 2.12; from 2.13 on the accelerator's."""


def traced_constant(tensors: Any, tracer: Any, value: Any) -> Any:
    """Return what represents a constant while Dynamo traces.

    Args:
        tensors: The module of Dynamo's that has the variables for tensors.
        tracer: Dynamo's translator of the function.
        value: The constant.
    """
    if hasattr(tensors.VariableTracker, "build"):  # from torch 2.6 on
        return tensors.VariableTracker.build(tracer, value)
    return tensors.ConstantVariable.create(value)
