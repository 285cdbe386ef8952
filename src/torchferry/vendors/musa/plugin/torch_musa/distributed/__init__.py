"""What torch_musa adds to `torch.distributed`: programs use torch's own functions."""

from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)
