"""Automatic mixed precision at the place where torch_musa keeps it."""

import torch

from torchferry.rehearsal import facade_support as _facade_support

globals().update({name: value for name, value in vars(torch.musa.amp).items() if not name.startswith("_")})
for _class in (torch.musa.amp.autocast, torch.musa.amp.GradScaler):
    _class.__module__ = __name__  # where a pickle finds it
__getattr__ = _facade_support.missing(__name__)
