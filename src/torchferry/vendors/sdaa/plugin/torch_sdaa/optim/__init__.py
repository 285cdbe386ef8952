"""The fused optimizers. Public programs show their names alone, so the arguments are those of torch's own.

Source: github.com/Tecorigin/teco-modelzoo@1356719059d0.
"""

import torch

__all__ = ["FusedAdam", "FusedSGD"]


class FusedAdam(torch.optim.Adam):
    """Adam over all parameters at once."""


class FusedSGD(torch.optim.SGD):
    """SGD over all parameters at once."""
