"""The entries with which an operator of torch's begins in a list: all members of its group, for one kind of kernel."""

from __future__ import annotations

import re
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.classify import KernelKind
from torchferry.ops.codegen.stubs import Stubs
from torchferry.ops.codegen.upstream import ChosenOperators

KINDS: dict[str, KernelKind] = {
    "legacy": KernelKind.LEGACY,
    "legacy-meta": KernelKind.LEGACY_META,
    "customized": KernelKind.CUSTOMIZED,
    "override": KernelKind.OVERRIDE,
    "unstructured": KernelKind.UNSTRUCTURED,
    "shared": KernelKind.SHARED,
    "fallback": KernelKind.FALLBACK,
}
"""The kinds of kernel that an operator can begin with, by the name on the command line."""

STRUCTURED_KINDS = ("legacy", "legacy-meta", "customized", "override")
"""Kinds that only an operator has which torch divides into preparation and calculation."""


class NewEntry(NamedTuple):
    """An entry: the operator with its overload, and its lines in the list."""

    operator: str
    lines: tuple[str, ...]


def default_kind(chosen: ChosenOperators, operator: str) -> str:
    """Return the kind that leaves least to be written and still has a kernel of one's own."""
    return "legacy-meta" if chosen.is_structured(operator) else "unstructured"


def root_name(chosen: ChosenOperators, operator: str) -> str:
    """Return what a group is called: `tril` of `tril.out` and `tril_`."""
    members = chosen.members(operator)
    base = members[0].partition(".")[0]
    return base if base.startswith("__") else base.rstrip("_") or base


def kernel_name(operator: str) -> str:
    """Return a name for a kernel in C++: `TrilOut` of `tril.out`, `AddTensor_` of `add_.Tensor`."""
    base = operator.partition(".")[0]
    in_place = base.endswith("_") and not base.startswith("__")
    words = [word for word in re.split(r"[._]+", operator) if word]
    return "".join(word[:1].upper() + word[1:] for word in words) + ("_" if in_place else "")


def new_entries(
    chosen: ChosenOperators, operator: str, kind: str, key: str, stub: str, headers: Path
) -> list[NewEntry]:
    """Return the entries of an operator's group.

    Args:
        chosen: Torch's operators, at least those of the group.
        operator: Any member of the group.
        kind: One of `KINDS`.
        key: Dispatch key of the backend.
        stub: For `legacy`, the stub that the kernel is registered for; empty to look for the only one there is.
        headers: Folder of torch's headers, for the stubs.

    Raises:
        UsageError: the operator cannot be of this kind; says why and which it can be.
    """
    structured = chosen.is_structured(operator)
    if structured and kind in ("unstructured", "shared"):
        raise UsageError(
            say("torch has `{operator}` in structured form, so `{kind}` is not possible", operator=operator, kind=kind),
            say("use --kind with one of {names}", names=", ".join((*STRUCTURED_KINDS, "fallback"))),
        )
    if not structured and kind in STRUCTURED_KINDS:
        raise UsageError(
            say("torch does not have `{operator}` in structured form, so `{kind}` is not possible",
                operator=operator, kind=kind),
            say("use --kind with one of {names}", names="unstructured, shared, fallback"),
        )  # fmt: skip
    if structured:
        return _structured(chosen, operator, kind, key, stub, headers)
    entries = []
    for member in _with_kernel(chosen, operator):
        lines = [f"- func: {member}"]
        if kind == "fallback":
            lines.append("  fallback: cpu")
        elif kind == "shared":
            lines.append(f"  shared: at::native::{_common_kernel(chosen, member)}")
        else:
            lines += ["  dispatch:", f"    {key}: {kernel_name(member)}"]
        entries.append(NewEntry(member, tuple(lines)))
    return entries


def _with_kernel(chosen: ChosenOperators, operator: str) -> list[str]:
    """Return the members of a group that torch makes of no others, and the one that was asked for."""
    return [
        member
        for member in chosen.members(operator)
        if member == operator or not chosen.functions[member].has_composite_kernel
    ]


def _common_kernel(chosen: ChosenOperators, member: str) -> str:
    on_cpu, on_cuda = chosen.kernel(member, "CPU"), chosen.kernel(member, "CUDA")
    if not on_cpu or on_cpu != on_cuda:
        raise UsageError(
            say("`{operator}` cannot be shared: torch has different kernels for CPU ({cpu}) and CUDA ({cuda})",
                operator=member, cpu=on_cpu or "-", cuda=on_cuda or "-"),
            say("use --kind with one of {names}", names="unstructured, fallback"),
        )  # fmt: skip
    return on_cpu


def _structured(
    chosen: ChosenOperators, operator: str, kind: str, key: str, stub: str, headers: Path
) -> list[NewEntry]:
    out = str(chosen.group(operator).out.func.name)
    entries = []
    for member in chosen.members(operator):
        lines = [f"- func: {member}"]
        if kind == "override":
            lines += _override_lines(chosen, member, out)
            lines += ["  dispatch:", f"    {key}: {kernel_name(member)}"]
        elif member != out:
            lines.append(f"  structured_delegate: {out}")
        elif kind == "fallback":
            lines.append("  fallback: cpu")
        elif kind == "legacy":
            lines += ["  stub:", f"    {_stub(root_name(chosen, operator), stub, headers)}: {kernel_name(member)}"]
        else:
            lines.append("  structured: True")
            if kind == "customized":
                inherited = chosen.functions[out].structured_inherits
                lines.append(f"  structured_inherits: {inherited or 'at::impl::MetaBase'}")
            lines += ["  dispatch:", f"    {key}: {kernel_name(member)}"]
        entries.append(NewEntry(member, tuple(lines)))
    return entries


def _override_lines(chosen: ChosenOperators, member: str, out: str) -> list[str]:
    if member != out:
        return ["  structured_delegate: none"]
    function = chosen.functions[out]
    lines = ["  structured: false"]
    if function.structured_inherits:
        lines.append("  structured_inherits: none")
    if function.precomputed:
        lines.append("  precomputed: none")
    return lines


def _stub(root: str, stub: str, headers: Path) -> str:
    stubs = Stubs(headers)
    if stub:
        return stub  # `codegen` says it where torch's headers do not declare it
    near = stubs.of(root)
    if len(near) == 1:
        return near[0]
    if near:
        raise UsageError(
            say("torch's headers declare several stubs for `{operator}`", operator=root),
            say("name one with --stub: {names}", names=", ".join(near)),
        )
    raise UsageError(
        say("torch's headers declare no stub for `{operator}`", operator=root),
        say("use --kind legacy-meta, or name the stub with --stub"),
    )
