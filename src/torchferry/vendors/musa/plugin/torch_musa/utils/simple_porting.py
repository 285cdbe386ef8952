"""Porting of a folder of CUDA C++: torchferry's `port`, by the vendor's name.

Source: torch_musa/utils/simple_porting.py, 2.7.1: names and arguments. What differs: `<folder>_musa` of an earlier run
is not deleted, and rules that change more than names are named on standard error and not applied.
"""

from torchferry.kernels import simple_porting as _own
from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)


class SimplePorting(_own.SimplePorting):
    """Ports a folder of CUDA C++ to the folder beside it whose name ends in `_musa`."""

    def __init__(
        self,
        cuda_dir_path=None,
        ignore_dir_paths=None,
        mapping_rule=None,
        drop_default_mapping=False,
        mapping_dir_path=None,
    ):
        super().__init__(
            cuda_dir_path or "cuda/",
            ignore_dir_paths,
            mapping_rule,
            drop_default_mapping,
            mapping_dir_path,
            target="musa",
        )
