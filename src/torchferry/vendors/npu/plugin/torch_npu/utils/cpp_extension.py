"""Building C++ extensions that call CANN. Source: torch_npu/utils/cpp_extension.py of the torch-npu 2.9.0 wheel."""

from typing import NoReturn

from torchferry.rehearsal import facade_support as _facade_support


def NpuExtension(name: str, sources: list[str], *args: object, **kwargs: object) -> NoReturn:  # noqa: N802
    """Describe an extension to setuptools; it cannot be built here."""
    _facade_support.extensions_unavailable("torch_npu.utils.cpp_extension.NpuExtension")
