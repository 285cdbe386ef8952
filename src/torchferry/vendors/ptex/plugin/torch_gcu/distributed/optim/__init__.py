"""Optimizers that divide their state among processes."""

from torch.distributed.optim import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
