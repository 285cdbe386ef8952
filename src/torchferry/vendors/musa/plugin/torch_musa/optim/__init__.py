"""The fused optimizers, which compute what torch's own of the same kind do. Source: torch_musa/optim, 2.7.1."""

import torch

from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["FusedAdam", "FusedAdamW", "FusedLAMB"]


class FusedAdam(torch.optim.Adam):
    """Adam over all parameters at once."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class FusedAdamW(torch.optim.AdamW):
    """AdamW over all parameters at once."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


__getattr__ = _facade_support.missing(__name__)
