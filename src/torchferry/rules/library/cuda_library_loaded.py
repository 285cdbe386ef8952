"""A library of CUDA that is loaded by its name.

`ctypes.CDLL("libcudart.so")`, `ffi.dlopen("libnccl.so.2")`, `cdll.LoadLibrary(find_library("nvidia-ml"))`: the CUDA
runtime, the driver, cuBLAS, cuDNN, NCCL, NVML and the others are not on a machine without NVIDIA cards. Ask torch or
the vendor's own library instead. A load inside `try`/`except OSError` that goes on without it is only noted.

Why: The load raises OSError, or finds a library of another card that is in the machine too.

References:
- CUDA Toolkit 12 documentation: runtime and driver API, and the API references of its libraries
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import Guard, guard_of, without
from torchferry.rules.loaded_libraries import LOADERS, library_loads


class CudaLibraryLoaded(Rule):
    """Finds libraries of CUDA that are loaded by ctypes or cffi."""

    CODE = "LIB115"
    EFFECT = Effect.RAISES
    WORDS = LOADERS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each such load."""
        for load in library_loads(context.file, context.names):
            texts = (load.name,) if load.name else load.texts
            library = next(filter(None, map(cuda.library, texts)), "")
            if not library or exemption_reason(context, load.call) is not None:
                continue
            guard = guard_of(context.file, load.call)
            grade, effect = without(guard, self.EFFECT)
            message = say(
                "loads `{library}`, which comes with CUDA; {target} does not have it",
                library=library,
                target=context.target.title,
            )
            span = context.file.span(load.call)
            blocker = guard is Guard.NONE
            yield self.finding(context, span, message, grade, effect=effect, blocker=blocker, lacks=library)
