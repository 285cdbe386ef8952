"""Tensor and storage types by name, such as `FloatTensor` and `FloatStorage`, for the simulated device."""

from __future__ import annotations

from typing import Any

import torch
from torch._utils import classproperty
from torch.storage import _LegacyStorage

from torchferry.rehearsal.device_module.context import DeviceContext

_DTYPES = {
    "BFloat16": torch.bfloat16,
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "ComplexDouble": torch.complex128,
    "ComplexFloat": torch.complex64,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
}


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the tensor and storage types, by their name below `torch.cuda`."""
    names: dict[str, object] = {}
    for word, dtype in _DTYPES.items():
        names[f"{word}Storage"] = _storage_type(context, f"{word}Storage", dtype)
        if not dtype.is_complex:  # torch.cuda has storages of complex numbers, and no tensors
            names[f"{word}Tensor"] = _tensor_type(context, f"{word}Tensor", dtype)
    return names


def _tensor_type(context: DeviceContext, name: str, dtype: torch.dtype) -> type:
    class TensorType(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return (
                isinstance(instance, torch.Tensor) and instance.dtype == dtype and instance.device.type == context.name
            )

        def __call__(cls, *arguments: Any, device: Any = None) -> torch.Tensor:
            """Make a tensor: of data, of a size, or of nothing."""
            context.initialize()
            target = context.name if device is None else device
            if len(arguments) == 1 and not isinstance(arguments[0], (int, torch.Size)):
                return torch.as_tensor(arguments[0], dtype=dtype).to(target)
            shape = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], torch.Size) else arguments
            return torch.empty(tuple(shape) if shape else (0,), dtype=dtype, device=target)

    # `Tensor.type()` reads the name of the type object as the whole path of the tensor type.
    path = f"{context.namespace}.{name}"
    return TensorType(
        path,
        (),
        {
            "__doc__": f"Tensors of {dtype} on this device.",
            "__module__": context.namespace,
            "__qualname__": name,
            "dtype": dtype,
            "is_cuda": False,
            "is_sparse": False,
        },
    )


def _storage_type(context: DeviceContext, name: str, dtype: torch.dtype) -> type:
    # torch takes the device of a storage type from the last part of `__module__`, and the dtype from the class.
    dtype_of_class: Any = classproperty(lambda cls: dtype)  # type: ignore[no-untyped-call]
    metaclass: Any = type(_LegacyStorage)
    made: type = metaclass(
        name,
        (_LegacyStorage,),
        {
            "__doc__": f"Storages of {dtype} on this device.",
            "__module__": context.namespace,
            "dtype": dtype_of_class,
            "_dtype": dtype_of_class,
        },
    )
    return made
