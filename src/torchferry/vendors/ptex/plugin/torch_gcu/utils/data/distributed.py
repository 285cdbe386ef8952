"""The sampler that divides a data set among processes; torch's own, over the same group."""

from torch.utils.data.distributed import DistributedSampler

__all__ = ["DistributedSampler"]
