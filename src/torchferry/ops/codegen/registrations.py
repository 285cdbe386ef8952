"""The C++ of registrations, written by torchgen for the backend's key.

Torchgen knows structured kernels only for torch's own keys. One of these writes code that names no device
(`CompositeExplicitAutogradNonFunctional`: `at::empty`, `OptionalDeviceGuard`), so the classes of a structured kernel
are written as if for that one. Nothing of torchgen is copied or replaced, and no source tree of torch is needed.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from torchgen.api import meta, structured
from torchgen.api.types import kernel_signature
from torchgen.context import native_function_manager
from torchgen.dest.native_functions import compute_native_function_declaration
from torchgen.dest.register_dispatch_key import (
    RegisterDispatchKey,
    StructuredRegisterDispatchKey,
    gen_check_inplace_helper,
    gen_create_out_helper,
    gen_maybe_create_proxy_helper,
    gen_resize_out_helper,
)
from torchgen.gen import compute_meta_function_declaration
from torchgen.model import BackendIndex, BackendMetadata, DeviceCheckType, DispatchKey, Precompute
from torchgen.selective_build.selector import SelectiveBuilder
from torchgen.utils import Target

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.classify import STRUCTURED, KernelKind, Planned
from torchferry.ops.codegen.entries import NONE
from torchferry.ops.codegen.upstream import ChosenOperators

_ACROSS_DEVICES = frozenset(
    {"_copy_from", "_copy_from_and_resize", "copy_", "set_.source_Storage_storage_offset", "set_.source_Storage"}
)
"""Operators whose tensors may be on different devices: a check would refuse every copy from the CPU."""

_CHECK = re.compile(r"c10::impl::check_and_update_common_device\(common_device, (\w+),")
_STRICT, _WITH_SCALARS = "c10::impl::check_and_update_common_device", "check_device_or_cpu_scalar"

SCALAR_CHECK = """
// As torch's own check, but a tensor of one value on the CPU goes with any device, as in `tensor + 2`.
template <typename Argument>
void check_device_or_cpu_scalar(std::optional<Device>& common_device, const Argument& argument,
                                at::CheckedFrom method, at::CheckedFrom name) {
  c10::impl::check_and_update_common_device(common_device, argument, method, name);
}
inline void check_device_or_cpu_scalar(std::optional<Device>& common_device, const Tensor& tensor,
                                       at::CheckedFrom method, at::CheckedFrom name) {
  if (!tensor.defined() || tensor.dim() != 0 || !tensor.device().is_cpu()) {
    c10::impl::check_and_update_common_device(common_device, tensor, method, name);
  }
}
inline void check_device_or_cpu_scalar(std::optional<Device>& common_device, const std::optional<Tensor>& tensor,
                                       at::CheckedFrom method, at::CheckedFrom name) {
  if (tensor.has_value()) {
    check_device_or_cpu_scalar(common_device, *tensor, method, name);
  }
}
"""


class _Structured(StructuredRegisterDispatchKey):  # type: ignore[misc]
    """Writes the classes of a structured kernel so that they name no device."""

    def gen_class_set_output_body(self, k: Any, maybe_create_proxy: bool) -> str:
        return str(StructuredRegisterDispatchKey.gen_class_set_output_body(_nameless(self), k, maybe_create_proxy))

    def gen_class(self, f: Any, k: Any, **names: Any) -> str:
        return str(StructuredRegisterDispatchKey.gen_class(_nameless(self), f, k, **names))


class _Register(RegisterDispatchKey):  # type: ignore[misc]
    """Writes registrations; structured kernels go to `_Structured`."""

    def gen_structured(self, g: Any) -> list[str]:
        kernel = self.backend_index.get_kernel(g)
        functions = g.functions()
        if kernel is None or not kernel.structured:
            return [text for function in functions if (text := self.gen_unstructured(function, g)) is not None]
        writer = _Structured(
            self.backend_index, self.target, self.selector, self.rocm, self.symint, self.class_method_name,
            self.skip_dispatcher_op_registration, g,
        )  # fmt: skip
        return [text for function in functions if (text := writer.gen_one(function)) is not None]


def _nameless(writer: Any) -> Any:
    index = dataclasses.replace(
        writer.backend_index, dispatch_key=DispatchKey.CompositeExplicitAutogradNonFunctional
    )  # fmt: skip
    return dataclasses.replace(writer, backend_index=index)


class DeclaredKernel(NamedTuple):
    """A kernel of the vendor's own.

    Attributes:
        kernel: Its name.
        operator: The operator that it is for, the out form of a structured one.
        schema: Torch's schema of that.
        declaration: What the header has of it: a function, or the class of a structured kernel.
        signature: The beginning of its definition, up to the brace.
        is_structured: Whether it is the calculation of a structured kernel.
        meta_class: The class of its preparation, of a Customized operator; empty for others.
        meta_signature: The beginning of the definition of that.
        arguments: FileNames of its arguments in order.
        outputs: Of these, the results that the caller gives.
        returns: Its C++ type.
    """

    kernel: str
    operator: str
    schema: str
    declaration: str
    signature: str
    is_structured: bool
    meta_class: str = ""
    meta_signature: str = ""
    arguments: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    returns: str = ""


class WrittenGroup(NamedTuple):
    """The registrations of one group for one key.

    Attributes:
        rows: What is registered.
        root: Stem of torch's headers of the operator: `ATen/ops/<root>_native.h`.
        definitions: Classes and functions, in `namespace at`.
        calls: What is in TORCH_LIBRARY_IMPL.
        declared: Kernels of the vendor's that it calls.
        needs_meta: Whether the header needs torch's class of the preparation.
    """

    rows: tuple[Planned, ...]
    root: str
    definitions: str
    calls: str
    declared: tuple[DeclaredKernel, ...]
    needs_meta: bool


class BadPrecomputedError(Exception):
    """torchgen does not understand the lines of `precomputed`; `planned` has the entry."""

    def __init__(self, planned: Planned, reason: str) -> None:
        super().__init__(reason)
        self.planned = planned


class Writer:
    """Writes the registrations of a backend.

    Args:
        chosen: Torch's operators.
        key: The backend's dispatch key.
        namespace: The namespace of its kernels.
    """

    def __init__(self, chosen: ChosenOperators, key: str, namespace: str) -> None:
        self.chosen = chosen
        self.key = key
        self.namespace = namespace
        self._selector = SelectiveBuilder.get_nop_selector()

    def helpers(self) -> str:
        """Return the functions that the definitions call; each file needs them."""
        index = self._index(self.key, {})
        nameless = dataclasses.replace(index, dispatch_key=DispatchKey.CompositeExplicitAutogradNonFunctional)
        return "\n".join([
            *gen_create_out_helper(nameless), *gen_resize_out_helper(index),
            *gen_check_inplace_helper(index), *gen_maybe_create_proxy_helper(nameless), SCALAR_CHECK,
        ])  # fmt: skip

    def _index(self, key: str, kernels: dict[Any, Any]) -> Any:
        return BackendIndex(
            dispatch_key=DispatchKey.parse(key), use_out_as_primary=True, external=False,
            device_guard=not key.startswith("Autograd"), index=kernels,
        )  # fmt: skip

    def write(self, rows: list[Planned]) -> WrittenGroup:
        """Write what is registered for one key of the operators of one group.

        Raises:
            BadPrecomputedError: torchgen does not understand `precomputed`.
            TorchferryError: torchgen writes other code than this module knows.
        """
        group, key = self.chosen.group(rows[0].operator), rows[0].key
        root = str(group.root_name)
        if rows[0].kind is KernelKind.FALLBACK:
            return WrittenGroup(tuple(rows), root, "", "".join(map(_fallback_call, rows)), (), False)
        is_structured = rows[0].kind in STRUCTURED
        group = self._adjusted(group, rows)
        kernels = {
            self.chosen.functions[row.operator].func.name: BackendMetadata(
                kernel=row.kernel, structured=is_structured, cpp_namespace=row.namespace
            )
            for row in rows
        }
        index = self._index(key, kernels)
        definitions, calls = (
            "".join(self._register(index, target, group))
            for target in (Target.ANONYMOUS_DEFINITION, Target.REGISTRATION)
        )
        if any(row.kind is KernelKind.OVERRIDE and not row.entry.device_check for row in rows):
            definitions = self._with_scalars(definitions, rows)
        own = [row for row in rows if row.namespace == self.namespace]
        if is_structured:
            is_customized = rows[0].kind is KernelKind.CUSTOMIZED
            declared = tuple(self._structured_kernel(group, index, row, is_customized) for row in own[:1])
            return WrittenGroup(tuple(rows), root, definitions, calls, declared, bool(own) and not is_customized)
        declared = tuple(self._function(index, row) for row in own)
        return WrittenGroup(tuple(rows), root, definitions, calls, declared, False)

    def _register(self, index: Any, target: Any, group: Any) -> list[str]:
        writer = _Register(index, target, self._selector, False, True, None, False)
        return list(writer(group))

    def _adjusted(self, group: Any, rows: list[Planned]) -> Any:
        """Return torchgen's group with what the entries change."""
        changed = {}
        for row in rows:
            entry, function = row.entry, self.chosen.functions[row.operator]
            check = DeviceCheckType[entry.device_check] if entry.device_check else function.device_check
            if row.operator in _ACROSS_DEVICES and not entry.device_check:
                check = DeviceCheckType.NoCheck
            elif row.kind is KernelKind.OVERRIDE and not entry.device_check:
                check = DeviceCheckType.ExactSame
            guard = function.device_guard if entry.device_guard is None else entry.device_guard
            changed[function.func.name] = dataclasses.replace(function, device_check=check, device_guard=guard)
        if not hasattr(group, "out"):
            return changed[group.func.name]
        functions = {name: getattr(group, name) for name in ("functional", "inplace", "mutable", "out")}
        functions = {
            name: changed.get(function.func.name, function)
            for name, function in functions.items()
            if function is not None
        }
        if rows[0].kind is KernelKind.CUSTOMIZED:
            functions["out"] = self._customized(functions["out"], rows)
        return dataclasses.replace(group, **functions)

    def _customized(self, out: Any, rows: list[Planned]) -> Any:
        row = next(row for row in rows if row.operator == str(out.func.name))
        entry = row.entry
        inherits = out.structured_inherits if not entry.inherits else entry.inherits if entry.inherits != NONE else None
        precomputed = out.precomputed
        if entry.precomputed:
            try:
                precomputed = None if entry.precomputed == (NONE,) else Precompute.parse(list(entry.precomputed))
                return dataclasses.replace(out, structured_inherits=inherits, precomputed=precomputed)
            except (AssertionError, RuntimeError, ValueError, IndexError) as error:
                raise BadPrecomputedError(row, str(error).splitlines()[0] if str(error) else "?") from None
        return dataclasses.replace(out, structured_inherits=inherits)

    def _with_scalars(self, definitions: str, rows: list[Planned]) -> str:
        """Let inputs of one value be on the CPU; what is written to has to be on the device."""
        written: dict[str, set[str]] = {}
        for row in rows:
            function = self.chosen.functions[row.operator]
            written[row.kernel] = {
                argument.name for argument in function.func.arguments.flat_all
                if argument.annotation is not None and argument.annotation.is_write
            }  # fmt: skip
        parts = definitions.split("namespace {")
        result = [parts[0]]
        for part in parts[1:]:
            kernel = re.search(rf"return {re.escape(self.namespace)}::(\w+)\(", part)
            names = written.get(kernel[1], set()) if kernel else set()
            result.append(
                _CHECK.sub(lambda call, names=names: call[0] if call[1] in names  # type: ignore[misc]
                           else call[0].replace(_STRICT, _WITH_SCALARS), part)
            )  # fmt: skip
        changed = "namespace {".join(result)
        if _STRICT not in definitions and any(_has_tensors(self.chosen.functions[row.operator]) for row in rows):
            raise TorchferryError(
                say("torchgen of torch {version} writes device checks in a form that torchferry does not know",
                    version=self.chosen.upstream.full_version),
                say("write `device_check: NoCheck` at {operator}, or use another torch version",
                    operator=rows[0].operator),
            )  # fmt: skip
        return changed

    def _function(self, index: Any, row: Planned) -> DeclaredKernel:
        function = self.chosen.functions[row.operator]
        with native_function_manager(function):
            signature = kernel_signature(function, index)
            return DeclaredKernel(
                row.kernel, row.operator, str(function.func), f"{signature.decl(name=row.kernel)};",
                signature.defn(name=row.kernel), False,
                arguments=tuple(binding.name for binding in signature.arguments()),
                outputs=tuple(argument.name for argument in function.func.arguments.out),
                returns=signature.returns_type().cpp_type(),
            )  # fmt: skip

    def _structured_kernel(self, group: Any, index: Any, row: Planned, is_customized: bool) -> DeclaredKernel:
        declaration = compute_native_function_declaration(group, index)[0].replace("TORCH_API ", "")
        meta_class = meta_signature = ""
        with native_function_manager(group.out):
            arguments = structured.impl_arguments(group)
            texts = ", ".join(argument.decl() for argument in arguments)
            if is_customized:
                name = meta.name(group)
                meta_class = compute_meta_function_declaration(group).replace("TORCH_API ", "")
                declaration = declaration.replace("public at::meta::", f"public {self.namespace}::")
                macro = "TORCH_PRECOMPUTE_META_FUNC" if group.out.precomputed else "TORCH_META_FUNC"
                given = ", ".join(argument.decl() for argument in structured.meta_arguments(group))
                meta_signature = f"{macro}({name})({given})"
        outputs = tuple(argument.name for argument in group.out.func.arguments.out)
        return DeclaredKernel(
            row.kernel, str(group.out.func.name), str(group.out.func), declaration,
            f"TORCH_IMPL_FUNC({row.kernel})({texts})", True, meta_class, meta_signature,
            tuple(argument.name for argument in arguments), outputs, "void",
        )  # fmt: skip


def _has_tensors(function: Any) -> bool:
    return any(argument.type.is_tensor_like() for argument in function.func.arguments.flat_all)


def _fallback_call(row: Planned) -> str:
    return f'm.impl("{row.operator}",\ntorch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());\n'
