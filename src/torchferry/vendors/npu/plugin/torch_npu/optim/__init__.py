"""The fused optimizers, which compute what torch's own of the same kind do.

Source: torch_npu/optim of the torch-npu 2.13.0 wheel: arguments, defaults and formulas.
"""

from __future__ import annotations

import torch
from torch.optim.optimizer import required

from torchferry.rehearsal import facade_support as _facade_support

__all__ = [
    "NpuFusedAdadelta",
    "NpuFusedAdam",
    "NpuFusedAdamP",
    "NpuFusedAdamW",
    "NpuFusedBertAdam",
    "NpuFusedLamb",
    "NpuFusedOptimizerBase",
    "NpuFusedRMSprop",
    "NpuFusedRMSpropTF",
    "NpuFusedSGD",
]


class NpuFusedOptimizerBase(torch.optim.Optimizer):
    """What the fused optimizers have in common."""


class NpuFusedAdadelta(NpuFusedOptimizerBase, torch.optim.Adadelta):
    """Adadelta over all parameters at once."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0):
        torch.optim.Adadelta.__init__(self, params, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)


class NpuFusedAdam(NpuFusedOptimizerBase, torch.optim.Adam):
    """Adam over all parameters at once."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False):
        torch.optim.Adam.__init__(self, params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad)


class NpuFusedAdamW(NpuFusedOptimizerBase, torch.optim.AdamW):
    """AdamW over all parameters at once."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False):
        torch.optim.AdamW.__init__(
            self, params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad
        )


class NpuFusedRMSprop(NpuFusedOptimizerBase, torch.optim.RMSprop):
    """RMSprop over all parameters at once."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False):
        torch.optim.RMSprop.__init__(
            self, params, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered
        )


class NpuFusedSGD(NpuFusedOptimizerBase, torch.optim.SGD):
    """SGD over all parameters at once."""

    def __init__(self, params, lr=required, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
        if lr is required:
            raise ValueError("parameter group didn't specify a value of required optimization parameter lr")
        torch.optim.SGD.__init__(
            self,
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )


__getattr__ = _facade_support.missing(__name__)
