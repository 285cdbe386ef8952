"""What torch has of NCCL beside the process group: private functions, methods of the backend, symmetric memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.backends import cuda
from torchferry.rules.base import PythonContext, calls_of
from torchferry.rules.distributed.tensors import HOST, place_of_device

_MODULES = ("torch.distributed.", "torch._C._distributed_c10d.")
_SYMMETRIC = "torch.distributed._symmetric_memory."
_OF_MEMORY = frozenset({"empty", "rendezvous", "enable_symm_mem_for_group"})

_OF_BACKEND = frozenset(
    {
        "comm_split_count", "deregister_mem_pool", "eager_connect_single_device", "mem_allocator",
        "perform_nocolor_split", "register_mem_pool",
    }
)  # fmt: skip
"""Methods of the class of NCCL; which of them the classes of other backends have is not known."""


def nccl_functions(context: PythonContext) -> Iterator[tuple[ast.AST, str]]:
    """Yield the uses of private functions of torch that say in their names that they are NCCL's."""
    for reference in context.names.references("torch"):
        last = reference.name.rpartition(".")[2]
        if reference.is_import or not reference.name.startswith(_MODULES) or "nccl" not in last:
            continue
        if last.startswith("_") and not cuda.api_group(reference.name):
            yield reference.node, reference.name


def unknown_elsewhere(context: PythonContext) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield the uses of what other backends may have or not, with its full name and the last part of it."""
    for reference in context.names.references("torch"):
        last = reference.name.removeprefix(_SYMMETRIC)
        if not reference.is_import and last in _OF_MEMORY:
            yield reference.node, reference.name, last
    for call in calls_of(context, "_get_backend"):
        if any(place_of_device(context, device) == HOST for device in call.args):
            continue
        for value in context.values.of(call).values:
            parent = value.file.parents.get(value.node)
            if isinstance(parent, ast.Attribute) and parent.attr in _OF_BACKEND:
                yield value.left_at or parent, f"ProcessGroupNCCL.{parent.attr}", parent.attr
