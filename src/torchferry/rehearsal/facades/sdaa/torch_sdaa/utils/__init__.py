"""Helpers of torch_sdaa."""

from typing import NoReturn

from torchferry.rehearsal import vendor_package as _vendor_package


def __getattr__(name: str) -> NoReturn:
    # `from torch_sdaa.utils import cuda_migrate` asks for the attribute before it looks for a module.
    if name == "cuda_migrate":
        _vendor_package.redirection_unavailable("torch_sdaa.utils.cuda_migrate")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
