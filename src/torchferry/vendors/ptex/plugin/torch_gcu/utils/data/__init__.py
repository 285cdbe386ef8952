"""Helpers for data."""

from torch_gcu.utils.data.distributed import DistributedSampler

__all__ = ["DistributedSampler"]
