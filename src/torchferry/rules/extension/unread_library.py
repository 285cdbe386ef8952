"""Compiled code that nobody read.

`ctypes.CDLL(path)`, `torch.ops.load_library(path)`, `torch.ops.mylib.fused(x)`: what the library holds, and whether the
operators exist for the card, stands in no source of the project, or the path is made while the program runs. Where the
project's own sources build the library they are read, and a library of the system is none of the card's.

Build the library for the target, or use operators of torch; a comment `# torchferry: ignore[EXT109] reason` says that
the place is right as it is.

Why: A library that was compiled for CUDA does not load on the target, or its operators fail when they are called.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import Guard, guard_of
from torchferry.rules.loaded_libraries import LOADERS, LibraryLoad, library_loads
from torchferry.source.compiled import library_name
from torchferry.source.flow.syntax import last_name

_SYSTEM = frozenset({
    "c", "m", "dl", "rt", "z", "util", "pthread", "stdc++", "gcc_s", "gomp", "omp", "iomp5", "mkl_rt", "openblas",
    "blas", "lapack", "fftw3", "numa", "tcmalloc", "tcmalloc_minimal", "jemalloc", "mimalloc", "ibverbs", "rdmacm",
    "mpi", "X11", "Xext", "GL", "GLX", "EGL", "GLU", "GLESv2", "OSMesa", "OpenGL", "glfw", "SDL2", "sndfile",
    "portaudio", "asound", "espeak", "espeak-ng", "usb-1", "magic", "fontconfig", "freetype", "crypto", "ssl", "uuid",
    "kernel32", "user32", "gdi32", "shell32", "ole32", "advapi32", "msvcrt", "ucrtbase", "winmm", "psapi", "dwmapi",
    "System", "Foundation", "objc", "CoreFoundation", "CoreGraphics", "ApplicationServices",
})  # fmt: skip
"""Libraries of the system, of the CPU, of windows and of sound: none of them computes on the card of torch."""

_NAMESPACES = frozenset({
    "_c10d_functional", "_c10d_functional_autograd", "_caffe2", "_dtensor", "_native", "_quantized", "_test", "aten",
    "c10d", "c10d_functional", "debugprims", "export", "flex_lib", "fsdp", "higher_order", "inductor",
    "inductor_prims", "mkl", "mkldnn", "mkldnn_prepacked", "onednn", "onnx", "onnx_symbolic", "prim", "prims",
    "profiler", "quantization", "quantized", "quantized_decomposed", "rngprims", "sparse", "static_runtime", "streams",
    "symm_mem", "torchaudio", "torchvision", "image", "video_reader", "xnnpack",
})  # fmt: skip
"""Namespaces of operators that torch, torchvision and torchaudio register themselves."""

_OWNERS = frozenset({"ops", "classes", "ctypeslib"})
"""What `load_library` is a function of, where it loads compiled code: torch and NumPy."""

_OF_OPS = frozenset({"load_library", "loaded_libraries", "import_module"})


class UnreadLibrary(Rule):
    """Finds compiled libraries and operators that no source of the project explains."""

    CODE = "EXT109"
    EFFECT = Effect.UNKNOWN
    WORDS = (*LOADERS, "torch.ops")
    UNRESOLVED = True

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each load, and for the first operator of each namespace."""
        for load in library_loads(context.file, context.names):
            message = self._of_load(context, load)
            if message is not None and self._is_open(context, load.call):
                yield self.finding(context, context.file.span(load.call), message, Grade.MANUAL)
        reported: set[str] = set()
        for reference in context.names.references("torch"):
            parts = reference.name.split(".")
            if len(parts) < 3 or parts[1] != "ops" or parts[2] in _OF_OPS or parts[2] in reported:
                continue
            if reference.is_import or not self._is_unknown(context, parts[2]):
                continue
            if self._is_open(context, reference.node):
                reported.add(parts[2])
                message = say(
                    "no source of the project registers the operators of `torch.ops.{namespace}`; whether {target} has "
                    "them is not known",
                    namespace=parts[2],
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(reference.node), message, Grade.MANUAL)

    def _is_open(self, context: PythonContext, node: ast.AST) -> bool:
        return guard_of(context.file, node) is not Guard.COPES and exemption_reason(context, node) is None

    @staticmethod
    def _of_load(context: PythonContext, load: LibraryLoad) -> Message | None:
        """Return why it is not known what a call loads; None where it is."""
        project = context.project
        arguments = load.call.args
        owner = load.call.func.value if isinstance(load.call.func, ast.Attribute) else None
        if last_name(load.call.func) == "load_library" and (owner is None or last_name(owner) not in _OWNERS):
            return None  # what else is called so
        if any(map(cuda.library, (load.name,) if load.name else load.texts)):
            return None  # another rule's
        if not arguments or (isinstance(arguments[0], ast.Constant) and not isinstance(arguments[0].value, str)):
            return None  # `CDLL(None)` is the program itself; other functions are called so too
        stem = library_name(load.name)
        if stem in _SYSTEM or (stem and project is not None and project.compiled.built(stem) is not None):
            return None
        text = context.file.text(arguments[0])
        if load.name:
            return say(
                "`{text}` is compiled and was not read; it must be built for {target}",
                text=text,
                target=context.target.title,
            )
        return say(
            "which library `{text}` names could not be resolved; it must be built for {target}",
            text=text,
            target=context.target.title,
        )

    @staticmethod
    def _is_unknown(context: PythonContext, namespace: str) -> bool:
        """Whether nobody is known to register operators of a namespace."""
        if namespace in _NAMESPACES or namespace == context.target.backend.PLUGIN:
            return False
        if cuda.package_of_module(namespace) is not None:
            return False
        project = context.project
        if project is None:
            return False
        return project.compiled.operators(namespace) is None and namespace not in project.operator_namespaces
