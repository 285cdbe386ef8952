"""What torch_npu adds to `torch.distributed`. Source: torch_npu/distributed of the torch-npu 2.9.0 wheel."""

from torchferry.rehearsal import facade_support as _facade_support


def is_available() -> bool:
    """Whether the plugin has collectives."""
    return True


def is_hccl_available() -> bool:
    """Whether HCCL is there."""
    return True


__getattr__ = _facade_support.missing(__name__)
