"""What torch_musa adds to `torch.profiler`: programs use torch's own profiler with ProfilerActivity.MUSA."""

from torchferry.rehearsal import vendor_package as _vendor_package

__getattr__ = _vendor_package.missing(__name__)
