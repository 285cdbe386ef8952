"""The generated files: a header, and the registrations in as many files as the compiler needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.classify import KernelKind
from torchferry.ops.codegen.stubs import DeclaredStub

if TYPE_CHECKING:
    from torchferry.ops.codegen.registrations import WrittenGroup

SKELETONS, FILLED = "skeletons.cpp", "filled_kernels.cpp"

REGISTRATIONS_A_FILE = 64
"""A file of 1,010 registrations takes g++ 3.6 GB; with this many it stays below 1 GB."""

_INCLUDES = """\
#include <ATen/DeviceGuard.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/_copy_from_and_resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
"""

_RUN_ON_CPU = """
// The CPU's kernel: inputs are copied there, results back.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }
"""


class FileNames(NamedTuple):
    """What the files are called after.

    Attributes:
        vendor: The last part of the namespace: `acme` of `at::acme`.
        namespace: The namespace of the kernels.
    """

    vendor: str
    namespace: str

    @property
    def capital(self) -> str:
        """The vendor's name as it begins the names of files."""
        return self.vendor[:1].upper() + self.vendor[1:]

    @property
    def header(self) -> str:
        """The generated header."""
        return f"{self.capital}NativeFunctions.h"

    def shard(self, index: int) -> str:
        """A file of registrations."""
        return f"Register{self.capital}_{index}.cpp"

    def is_generated(self, name: str) -> bool:
        """Whether a file of this name is generated, by this run or another."""
        stem, dot, suffix = name.removeprefix(f"Register{self.capital}_").rpartition(".")
        is_shard = name.startswith("Register") and stem.isdecimal() and dot + suffix == ".cpp"
        return is_shard or name in {self.header, SKELETONS, FILLED}


class StubKernel(NamedTuple):
    """A kernel that is registered for a stub of torch's."""

    stub: DeclaredStub
    kernel: str
    operator: str


def include_ops(roots: Iterable[str], suffix: str) -> str:
    """Return the lines that include torch's headers of some operators."""
    return "".join(f"#include <ATen/ops/{root}{suffix}.h>\n" for root in sorted(set(roots)))


def _include_stubs(stubs: Iterable[StubKernel]) -> str:
    return "".join(f"#include <ATen/native/{name}>\n" for name in sorted({stub.stub.header for stub in stubs}))


def shards(groups: Sequence[WrittenGroup], count: int | None) -> list[list[WrittenGroup]]:
    """Divide the registrations into files, in order, as even as groups allow.

    Args:
        groups: What is registered, a group together.
        count: How many files; None for as many as keep each below `REGISTRATIONS_A_FILE`.
    """
    total = sum(len(group.rows) for group in groups)
    number = count or max(1, -(-total // REGISTRATIONS_A_FILE))
    number = max(1, min(number, len(groups)))
    files: list[list[WrittenGroup]] = [[] for _ in range(number)]
    done = 0
    for group in groups:
        files[min(number - 1, done * number // max(total, 1))].append(group)
        done += len(group.rows)
    return [file for file in files if file]


def header(
    names: FileNames, groups: Sequence[WrittenGroup], headers: Sequence[str], stubs: Sequence[StubKernel]
) -> str:
    """Return the header: classes of structured kernels, and the functions of all others."""
    declared = list({kernel.declaration: kernel for group in groups for kernel in group.declared}.values())
    metas = include_ops((group.root for group in groups if group.needs_meta), "_meta")
    own = "".join(f'#include "{name}"\n' for name in headers)
    parts = [kernel.meta_class.strip() for kernel in declared if kernel.meta_class]
    parts += [kernel.declaration.strip() for kernel in declared]
    parts += [f"{stub.stub.returns} {stub.kernel}({stub.stub.arguments});" for stub in stubs]
    return (
        "#pragma once\n#include <ATen/TensorIterator.h>\n#include <ATen/TensorMeta.h>\n#include <ATen/core/Tensor.h>\n"
        f"{_include_stubs(stubs)}{metas}{own}\nnamespace {names.namespace} {{\n\n{_lines(parts)}\n"
        f"}}  // namespace {names.namespace}\n"
    )


def _lines(parts: Sequence[str]) -> str:
    return "".join(f"{part}\n" for part in parts)


def shard(names: FileNames, groups: Sequence[WrittenGroup], helpers: str, stubs: Sequence[StubKernel]) -> str:
    """Return a file of registrations."""
    roots = {group.root for group in groups}
    has_fallback = any(row.kind is KernelKind.FALLBACK for group in groups for row in group.rows)
    calls: dict[str, list[str]] = {}
    for group in groups:
        calls.setdefault(group.rows[0].key, []).append(group.calls)
    registered = "\n".join(
        f"TORCH_LIBRARY_IMPL(aten, {key}, m) {{\n{''.join(texts)}}}\n" for key, texts in calls.items()
    )
    registered_stubs = "".join(
        f"REGISTER_PRIVATEUSE1_DISPATCH({stub.stub.name}, &{names.namespace}::{stub.kernel})\n" for stub in stubs
    )
    in_native = f"namespace at::native {{\n{registered_stubs}}}  // namespace at::native\n" if stubs else ""
    return (
        f'{_INCLUDES}{_include_stubs(stubs)}{include_ops(roots, "_native")}#include "{names.header}"\n\n'
        "namespace at {\nnamespace {\n"
        'C10_DIAGNOSTIC_PUSH_AND_IGNORED_IF_DEFINED("-Wunused-function")\n'
        f"{helpers}{_RUN_ON_CPU if has_fallback else ''}C10_DIAGNOSTIC_POP()\n"
        f"{''.join(group.definitions for group in groups)}\n{registered}\n"
        f"}}  // namespace\n}}  // namespace at\n{in_native}"
    )


def not_written(operator: str, vendor: str) -> str:
    """Return what a kernel does that nobody has written: it raises NotImplementedError with the operator's name."""
    return f'  TORCH_CHECK_NOT_IMPLEMENTED(false, "aten::{operator} is not implemented on {vendor} yet");\n'
