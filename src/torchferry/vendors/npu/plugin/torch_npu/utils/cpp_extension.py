"""Building C++ extensions that call CANN. Source: torch_npu/utils/cpp_extension.py of the torch-npu 2.9.0 wheel."""

from typing import NoReturn

from torchferry.rehearsal import vendor_package as _vendor_package


def NpuExtension(name: str, sources: list[str], *args: object, **kwargs: object) -> NoReturn:  # noqa: N802
    """Describe an extension to setuptools; it cannot be built here."""
    _vendor_package.extensions_unavailable("torch_npu.utils.cpp_extension.NpuExtension")
