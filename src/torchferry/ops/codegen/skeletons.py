"""A beginning for each kernel that is not written: it compiles at once, and raises with the operator's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Template
from typing import TYPE_CHECKING

from torchferry.backends.kernel_libraries import KernelLibrary
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.defined import Definitions
from torchferry.ops.codegen.entries import Body
from torchferry.ops.codegen.sources import FileNames, StubKernel, include_ops, not_written

if TYPE_CHECKING:
    from torchferry.ops.codegen.registrations import DeclaredKernel


class Skeletons(NamedTuple):
    """The file of skeletons: its text, empty where every kernel is written, and the kernels that are in it."""

    text: str
    kernels: frozenset[str]


def missing(kernels: Sequence[DeclaredKernel], definitions: Definitions) -> list[tuple[DeclaredKernel, bool, bool]]:
    """Return the kernels that are not written whole: with whether the preparation is absent, and the calculation."""
    rows = []
    for kernel in kernels:
        meta = bool(kernel.meta_class) and _meta_name(kernel) not in definitions.preparations
        known = definitions.implementations if kernel.is_structured else definitions.functions
        if meta or kernel.kernel not in known:
            rows.append((kernel, meta, kernel.kernel not in known))
    return rows


def _meta_name(kernel: DeclaredKernel) -> str:
    return kernel.meta_signature.partition("(")[2].partition(")")[0]


def skeletons(
    names: FileNames,
    kernels: Sequence[DeclaredKernel],
    stubs: Sequence[StubKernel],
    definitions: Definitions,
    library: Callable[[DeclaredKernel], KernelLibrary | None],
) -> Skeletons:
    """Return the file with a skeleton for each kernel that the definitions lack."""
    parts, absent = [], set()
    for kernel, without_meta, without_kernel in missing(kernels, definitions):
        body = not_written(kernel.operator, names.vendor)
        absent.add(kernel.kernel)
        if without_meta:
            parts.append(f"// prepares {kernel.schema}\n{kernel.meta_signature} {{\n{body}}}\n")
        if without_kernel:
            steps = _steps(library(kernel), kernel)
            parts.append(f"// {kernel.schema}\n{kernel.signature} {{\n{steps}{body}}}\n")
    for stub in stubs:
        if stub.kernel not in definitions.functions:
            absent.add(stub.kernel)
            signature = f"{stub.stub.returns} {stub.kernel}({stub.stub.arguments})"
            told = not_written(stub.operator, names.vendor)
            parts.append(f"// calculates {stub.operator}\n{signature} {{\n{told}}}\n")
    if not parts:
        return Skeletons("", frozenset())
    text = f'#include "{names.header}"\n\nnamespace {names.namespace} {{\n\n' + "\n".join(parts)
    return Skeletons(f"{text}\n}}  // namespace {names.namespace}\n", frozenset(absent))


def _steps(library: KernelLibrary | None, kernel: DeclaredKernel) -> str:
    """Return the steps of a library's kernel as comments; a structured, out or in-place kernel gets its results."""
    if library is None:
        return ""
    lines = [f"  // with {library.name} ({library.header}; {library.source})"]
    is_given = kernel.is_structured or kernel.outputs or kernel.returns.endswith("&")
    steps = [step for step in library.steps if not (is_given and step.is_for_result)]
    for number, step in enumerate(steps, 1):
        lines.append(f"  // {number}. {step.text}")
        lines += [f"  //    {line}" for line in step.calls]
    return "".join(f"{line}\n" for line in lines)


class Filled(NamedTuple):
    """A kernel whose body is made from a template."""

    kernel: DeclaredKernel
    text: str


def fill(kernel: DeclaredKernel, body: Body, template: str) -> Filled:
    """Return a kernel with the body that its entry asks for.

    In the template, `$call` is the entry's `call`, `$inputs`, `$outputs` and `$arguments` are names of the kernel's
    arguments, and `$result` is what is returned.

    Raises:
        ValueError: the template has another placeholder, or the result's size or dtype is not known.
    """
    inputs = [name for name in kernel.arguments if name not in kernel.outputs]
    result, made, returned = ", ".join(kernel.outputs), "", ""
    if not kernel.outputs:
        if kernel.returns.replace("const ", "").rstrip("&").strip().removeprefix("at::") != "Tensor":
            raise ValueError(kernel.returns)
        if kernel.returns.endswith("&"):  # in place
            result = "self"
        else:
            if not body.size or not body.dtype:
                raise ValueError("size, dtype")
            size = f"{body.size}.sizes()" if body.size in kernel.arguments else body.size
            options = f"{body.dtype}.options()" if body.dtype in kernel.arguments else (
                f"{inputs[0]}.options().dtype({body.dtype})"
            )  # fmt: skip
            made = f"  Tensor result = at::empty({size}, {options});\n"
            result = "result"
    if not kernel.is_structured:
        many = len(kernel.outputs) > 1
        returned = f"  return std::forward_as_tuple({result});\n" if many else f"  return {result};\n"
    values = {
        "call": body.call,
        "inputs": ", ".join(inputs),
        "outputs": result,
        "result": result,
        "arguments": ", ".join(kernel.arguments),
    }
    try:
        text = Template(template).substitute(values)
    except KeyError as error:
        raise ValueError(str(error.args[0])) from None
    return Filled(kernel, f"// {kernel.schema}\n{kernel.signature} {{\n{made}  {text.strip()}\n{returned}}}\n")


def filled_file(names: FileNames, kernels: Sequence[Filled], roots: Sequence[str]) -> str:
    """Return the file of the kernels that templates fill.

    Args:
        names: What the files are called after.
        kernels: The kernels.
        roots: Stems of torch's headers of their operators, whose functions a template may call.
    """
    body = "\n".join(kernel.text for kernel in kernels)
    return (
        f'#include "{names.header}"\n{include_ops(["empty", *roots], "")}\n'
        f"namespace {names.namespace} {{\n\n{body}\n}}  // namespace {names.namespace}\n"
    )
