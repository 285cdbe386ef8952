"""What torch_gcu adds to `torch.distributed`. Source: github.com/sunnygui-L/torch-gcu@e63ff282355f, the same path."""

from torchferry.rehearsal import vendor_package as _vendor_package


def is_available() -> bool:
    """Whether ECCL is there."""
    return True


__getattr__ = _vendor_package.missing(__name__)
