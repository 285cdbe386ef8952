"""What torch_gcu adds to `torch.distributed`. Source: github.com/sunnygui-L/torch-gcu@e63ff282355f, the same path."""

from torchferry.rehearsal import facade_support as _facade_support


def is_available() -> bool:
    """Whether ECCL is there."""
    return True


__getattr__ = _facade_support.missing(__name__)
