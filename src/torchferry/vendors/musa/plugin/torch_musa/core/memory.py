"""The memory functions at the place where torch_musa keeps them."""

import torch

from torchferry.rehearsal import vendor_package as _vendor_package

globals().update({name: value for name, value in vars(torch.musa.memory).items() if not name.startswith("__")})
__getattr__ = _vendor_package.missing(__name__)
