"""Code that speaks of CUDA and must stay: what is rewritten there would break, or select a missing kernel."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from torchferry.core.messages import Message, say
from torchferry.rules.kernel_guards import chooses_kernel

if TYPE_CHECKING:
    from torchferry.rules.base import PythonContext

CUDA_ONLY_MODULES = frozenset({"cuda", "cupy", "pycuda", "tensorrt", "torch2trt", "torch_tensorrt", "nvidia"})
"""Modules that drive a CUDA card by themselves: a branch that uses one runs nowhere else."""


def reason_to_keep(context: PythonContext, node: ast.AST) -> Message | None:
    """Return why a CUDA site is left as it is, or None when it is to be rewritten."""
    if context.patches_cuda:
        return say("this file replaces functions of `torch.cuda` itself")
    if context.builds_extensions:
        return say("this is a build script, where it decides whether CUDA kernels are compiled")
    if _has_target_branch(context, node):
        return say("there is a branch for {target} beside it already", target=context.target.title)
    module = _cuda_only_branch(context, node)
    if module:
        return say("this branch runs on `{module}`, which drives CUDA cards only", module=module)
    if chooses_kernel(context, node):
        return say("it chooses a compiled CUDA kernel; as it stands the code beside it is chosen")
    return None


def _has_target_branch(context: PythonContext, node: ast.AST) -> bool:
    """Whether a branch of the same ladder, or an item of the same list, is for the target."""
    if not context.mentions_target:
        return False
    words = target_words(context.target.name, context.target.backend.PLUGIN)
    file = context.file
    child: ast.AST = node
    parent = file.parents.get(child)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if isinstance(parent, (ast.If, ast.IfExp)):
            if any(words.search(text) for text in _branches_beside(context, parent, child)):
                return True
        child, parent = parent, file.parents.get(parent)
    container = _container(context, node)
    return container is not None and words.search(file.text(container)) is not None


def _branches_beside(context: PythonContext, branch: ast.If | ast.IfExp, child: ast.AST) -> list[str]:
    """Return the tests of the other branches of an if/elif ladder, and the statements of its else branch."""
    file = context.file
    head: ast.AST = branch
    while isinstance(parent := file.parents.get(head), type(branch)) and _items(parent.orelse) == [head]:
        head = parent
    texts: list[str] = []
    current: ast.AST | None = head
    while isinstance(current, (ast.If, ast.IfExp)):
        if current is not branch or (child is not current.test and child not in _items(current.body)):
            texts.append(file.text(current.test))
        orelse = _items(current.orelse)
        if len(orelse) == 1 and isinstance(orelse[0], type(branch)):
            current = orelse[0]
            continue
        if child not in orelse:
            texts += [file.text(statement) for statement in orelse]
        current = None
    return texts


def _items(body: ast.expr | list[ast.stmt]) -> list[ast.AST]:
    return [*body] if isinstance(body, list) else [body]


def _container(context: PythonContext, node: ast.AST) -> ast.AST | None:
    """Return the list, tuple, set or chain of conditions that holds `node` among its items, or None."""
    child = node
    for _ in range(3):
        parent = context.file.parents.get(child)
        if isinstance(parent, (ast.List, ast.Tuple, ast.Set, ast.BoolOp)):
            return parent
        if not isinstance(parent, (ast.Call, ast.Compare, ast.UnaryOp)):
            return None
        child = parent
    return None


@lru_cache(maxsize=16)
def target_words(*words: str) -> re.Pattern[str]:
    """Return a pattern for identifiers and strings that mean a target: `npu`, `is_npu_available`, `"npu:0"`."""
    alternatives = "|".join(sorted({re.escape(word) for word in words}))
    return re.compile(rf"(?<![a-z])(?:{alternatives})(?![a-z])", re.IGNORECASE)


def _cuda_only_branch(context: PythonContext, node: ast.AST) -> str:
    """Return the CUDA-only module that a branch around `node` uses, or the empty string.

    A branch is the body of a condition or a whole function; a module imported at the top of the file says
    nothing by itself, its uses do.
    """
    branches = context.cuda_only_branches
    if not branches:
        return ""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while parent is not None:
        module = branches.get(child)
        if module is not None:
            return module
        child, parent = parent, context.file.parents.get(parent)
    return ""
