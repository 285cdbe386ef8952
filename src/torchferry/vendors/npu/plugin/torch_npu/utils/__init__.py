"""Helpers of torch_npu, none of which can be rehearsed."""

from torchferry.rehearsal import vendor_package as _vendor_package

_NAMES = [
    "FlopsCounter",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "register_asd_hook",
    "reset_thread_affinity",
    "save_async",
    "set_asd_loss_scale",
    "set_thread_affinity",
]
globals().update(_vendor_package.stubs(__name__, _NAMES))
__getattr__ = _vendor_package.missing(__name__)
