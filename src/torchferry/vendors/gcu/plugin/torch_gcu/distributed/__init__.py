"""What torch_gcu adds to `torch.distributed`. Source: github.com/sunnygui-L/torch-gcu@e63ff282355f, the same path."""

from torchferry.rehearsal import vendor_package as _vendor_package


def is_available() -> bool:
    """Whether ECCL is there."""
    return True


globals().update(
    _vendor_package.stubs(
        __name__,
        [
            "all_gather_into_tensor_v",
            "all_reduce_outplace",
            "all_to_all_vd",
            "get_unique_id",
            "reduce_scatter_tensor_v",
        ],
    )
)
__getattr__ = _vendor_package.missing(__name__)
