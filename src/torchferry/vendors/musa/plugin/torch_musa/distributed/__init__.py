"""What torch_musa adds to `torch.distributed`: programs use torch's own functions."""

from torchferry.rehearsal import vendor_package as _vendor_package

__getattr__ = _vendor_package.missing(__name__)
