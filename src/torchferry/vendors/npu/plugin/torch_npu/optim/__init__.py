"""The fused optimizers, which compute what torch's own of the same kind do.

Source: torch_npu/optim of the torch-npu 2.13.0 wheel: arguments, defaults and formulas.
"""

from __future__ import annotations

import torch
from torch.optim.optimizer import required as _required

from torchferry.rehearsal import events as _events
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
    """What the fused optimizers have in common; on the card all parameters of a dtype lie in one tensor."""

    def __init__(self, params, default):
        super().__init__(params, default)

    def zero_grad(self, set_to_none=False):
        """Set gradients to zero; there is no other way."""
        if set_to_none:
            raise _events.refusal(ValueError("set_to_none is not supported in fused optimizers"))
        super().zero_grad(set_to_none=False)

    def clip_grad_norm_fused_(self, max_norm, norm_type=2):
        """Scale the gradients so that their norm is at most `max_norm`, and return what it was."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def get_combined_params(self):
        """Return the tensors in which the parameters lie, which is not rehearsed."""
        return _refuse("get_combined_params")

    def get_combined_grads(self):
        """Return the tensors in which the gradients lie, which is not rehearsed."""
        return _refuse("get_combined_grads")


def _refuse(name):
    path = "torch_npu.optim.NpuFusedOptimizerBase"
    return _facade_support.stubs(path, [name])[name]()


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

    def __init__(self, params, lr=_required, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
        if lr is _required:
            raise _events.refusal(
                ValueError("parameter group didn't specify a value of required optimization parameter lr")
            )
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
