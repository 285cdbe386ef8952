"""The memory functions at the place where torch_musa keeps them."""

import torch

from torchferry.rehearsal import facade_support as _facade_support

globals().update({name: value for name, value in vars(torch.musa.memory).items() if not name.startswith("__")})
__getattr__ = _facade_support.missing(__name__)
