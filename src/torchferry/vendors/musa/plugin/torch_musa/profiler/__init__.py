"""What torch_musa adds to `torch.profiler`: programs use torch's own profiler with ProfilerActivity.MUSA."""

from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)
