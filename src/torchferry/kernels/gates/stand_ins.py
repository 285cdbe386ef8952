"""Headers that let a machine with CUDA's compiler read a port: the target's names given back to CUDA's.

The namespaces of the target's plugin are not: they hold what the plugin declares (`surface_stubs.py`).

They are written into a folder of their own for each run. What the installed torch lacks of its CUDA side, and the
headers of CUDA's libraries that are not installed, are there with what torch's own headers need of them, and are
used only where no true header is found.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path, PurePosixPath

from torchferry.kernels.gates.audit import TokenChange
from torchferry.kernels.gates.surface_stubs import SurfaceStubs

_OWN_TO_TORCH = "privateuse"
"""A part of names that every torch has for accelerators of others: they need no stand-in."""

_HANDLE = """#pragma once
#include <cuda_runtime_api.h>
typedef struct {name}Context* {name}Handle_t;
typedef enum {{ {upper}_STATUS_SUCCESS = 0 }} {name}Status_t;
"""

_SOLVER = ", ".join(
    f"CUSOLVER_STATUS_{name}"
    for name in (
        *("SUCCESS", "NOT_INITIALIZED", "ALLOC_FAILED", "INVALID_VALUE", "ARCH_MISMATCH"),
        *("EXECUTION_FAILED", "INTERNAL_ERROR", "MATRIX_TYPE_NOT_SUPPORTED"),
    )
)

LIBRARY_HEADERS: Mapping[str, str] = {
    "cublas_v2.h": _HANDLE.format(name="cublas", upper="CUBLAS")
    + "typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;\n"
    + "typedef enum { CUBLAS_DEFAULT_MATH = 0 } cublasMath_t;\n",
    "cublas.h": '#pragma once\n#include "cublas_v2.h"\n',
    "cublasLt.h": '#pragma once\n#include "cublas_v2.h"\ntypedef struct cublasLtContext* cublasLtHandle_t;\n',
    "cusparse.h": _HANDLE.format(name="cusparse", upper="CUSPARSE")
    + "typedef struct cusparseMatDescr* cusparseMatDescr_t;\n"
    + 'extern "C" const char* cusparseGetErrorString(cusparseStatus_t status);\n',
    "cusolver_common.h": "#pragma once\n#include <cuda_runtime_api.h>\n"
    f"typedef enum {{ {_SOLVER} }} cusolverStatus_t;\n",
    "cusolverDn.h": '#pragma once\n#include "cusolver_common.h"\n'
    "typedef struct cusolverDnContext* cusolverDnHandle_t;\n",
}
"""Headers of CUDA's libraries: the opaque types that torch's headers name, and no function of the libraries."""

TORCH_HEADERS: Mapping[str, str] = {
    "c10/cuda/impl/cuda_cmake_macros.h": "#pragma once\n",
    "THC/THCAtomics.cuh": "#pragma once\n#include <ATen/cuda/Atomic.cuh>\n",
}
"""Headers that a build of torch with CUDA has, or an older one had."""


class StandIns:
    """The folders and the header of one run.

    Attributes:
        missing: Folder for what neither the toolkit nor torch has; the last that is searched.
        headers: Folder with the target's headers, each of which includes CUDA's.
        names: The header with the names, which is read before each file of the port.
    """

    def __init__(self, folder: Path) -> None:
        self.missing = folder / "missing"
        self.headers = folder / "headers"
        self.names = folder / "names.h"

    def write(
        self,
        renamed: Iterable[TokenChange],
        macros: Container[str],
        own: Container[str],
        paths: set[str],
        stubs: SurfaceStubs | None = None,
    ) -> None:
        """Write all of them.

        Args:
            renamed: What the port changed.
            macros: Names that the compiler defines: each is given back only where CUDA's is defined.
            own: Names of the project, renamed where they are defined, too.
            paths: Paths of the ported tree, whose headers are there.
            stubs: What the namespaces of the plugin hold, where its names are listed and torch's headers are there.
        """
        for name, text in {**LIBRARY_HEADERS, **TORCH_HEADERS}.items():
            _write(self.missing / name, text)
        ends = {path.rpartition("/")[2] for path in paths}
        lines: dict[str, str] = {}
        includes: dict[str, list[str]] = {}
        for change in sorted(renamed):
            if change.is_header:
                place = PurePosixPath(change.after)
                is_of_the_tree = place.name in ends and any(
                    path == change.after or path.endswith(f"/{change.after.lstrip('./')}") for path in paths
                )
                if not is_of_the_tree and ".." not in place.parts and not place.is_absolute():
                    includes.setdefault(change.after, []).append(change.before)
            elif stubs is not None and (change.before, change.after) == ("cuda", stubs.namespace):
                continue  # a namespace of its own, with what the plugin declares
            elif change.after not in lines and change.before not in own and _OWN_TO_TORCH not in change.after.lower():
                line = f"#define {change.after} {change.before}\n"
                if change.before in macros:
                    line = f"#ifdef {change.before}\n{line}#endif\n"
                lines[change.after] = line
        self.names.write_text("".join(lines.values()), encoding="latin-1")
        for name, originals in includes.items():
            text = "".join(f"#include <{original}>\n" for original in originals)
            if stubs is not None and any(original.startswith(("ATen/", "c10/")) for original in originals):
                text = f"#pragma once\n{text}{stubs.text(originals)}"
            _write(self.headers / name, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="latin-1")
