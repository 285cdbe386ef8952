"""Code that speaks of CUDA and must stay: what is rewritten there would break, or select a missing kernel."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from torchferry.core.messages import Message, say
from torchferry.rules.kernel_guards import chooses_kernel

if TYPE_CHECKING:
    from torchferry.backends.target import Target
    from torchferry.rules.base import PythonContext

CUDA_ONLY_MODULES = frozenset({"cuda", "cupy", "pycuda", "tensorrt", "torch2trt", "torch_tensorrt", "nvidia"})
"""Modules that drive a CUDA card by themselves: a branch that uses one runs nowhere else."""

_TAKEN_FOR_ASCII = "\u0130\u0131\u017f\u212a"
"""The letters that a search without regard to case takes for `i`, `s` and `k`."""


class Kept(NamedTuple):
    """Why a place stays.

    Attributes:
        reason: Why, for the user.
        owner: The statement or expression that the reason is about; None for the whole file.
        included: Whether the place holds for the target too, which is named beside it.
        drives_cuda: Whether it stays because a module that drives CUDA cards by itself is used around it.
    """

    reason: Message
    owner: ast.AST | None = None
    included: bool = False
    drives_cuda: bool = False


def reason_to_keep(context: PythonContext, node: ast.AST) -> Message | None:
    """Return why a CUDA site is left as it is, or None when it is to be rewritten."""
    found = kept(context, node)
    return found.reason if found is not None else None


def kept(context: PythonContext, node: ast.AST) -> Kept | None:
    """Return why a CUDA site is left as it is and what else that concerns, or None when it is to be rewritten."""
    if context.patches_cuda:
        return Kept(say("this file replaces functions of `torch.cuda` itself"))
    if context.builds_extensions:
        return Kept(say("in this build script it decides whether CUDA kernels are compiled"))
    beside = say("there is already a branch for {target}", target=context.target.title)
    branch = _target_branch(context, node)
    if branch is not None:
        return Kept(beside, branch)
    container = _target_container(context, node)
    if container is not None:
        return Kept(beside, container, _includes(context, container, node))
    only = _cuda_only_branch(context, node)
    if only is not None:
        module, owner = only
        return Kept(
            say("this branch uses `{module}`, which supports only CUDA cards", module=module), owner, drives_cuda=True
        )
    if chooses_kernel(context, node):
        owner = node
        while isinstance(owner, ast.expr) and not isinstance(owner, ast.IfExp):
            owner = context.file.parents[owner]
        return Kept(say("it chooses a compiled CUDA kernel; unchanged, it chooses the other branch"), owner)
    return None


def _target_branch(context: PythonContext, node: ast.AST) -> ast.AST | None:
    """Return the branch around `node` beside which there is one for the target, or None."""
    if not context.mentions_target:
        return None
    words = target_words(*context.target.words)
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        if isinstance(parent, (ast.If, ast.IfExp)):
            if any(words.search(text) for text in _branches_beside(context, parent, child)):
                return parent
        child, parent = parent, context.file.parents.get(parent)
    return None


def _target_container(context: PythonContext, node: ast.AST) -> ast.AST | None:
    """Return the list or chain of conditions around `node` of which another item is for the target, or None."""
    if not context.mentions_target:
        return None
    words = target_words(*context.target.words)
    container = _container(context, node)
    return container if container is not None and words.search(context.file.text(container)) is not None else None


def _includes(context: PythonContext, container: ast.AST, node: ast.AST) -> bool:
    """Whether what holds `node` holds for the target as well: `cuda or npu`, `not cuda and not npu`, a list of both."""
    if not isinstance(container, ast.BoolOp):
        return True
    positive = True
    child = node
    while child is not container:
        child = context.file.parents[child]
        if isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
            positive = not positive
        if isinstance(child, ast.Compare) and isinstance(child.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot)):
            positive = not positive
    return isinstance(container.op, ast.Or) == positive


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


def names_target(target: Target, text: str) -> bool:
    """Whether a text speaks of a target anywhere."""
    if not any(letter in text for letter in _TAKEN_FOR_ASCII):  # then the lowered bytes hold all that is found below
        lowered = text.encode("utf-8", "surrogatepass").lower()
        if all(word.isascii() and word.lower().encode() not in lowered for word in target.words):
            return False
    return target_words(*target.words).search(text) is not None


@lru_cache(maxsize=16)
def target_words(*words: str) -> re.Pattern[str]:
    """Return a pattern for identifiers and strings that mean a target: `npu`, `is_npu_available`, `"npu:0"`."""
    alternatives = "|".join(sorted({re.escape(word) for word in words}))
    return re.compile(rf"(?<![a-z])(?:{alternatives})(?![a-z])", re.IGNORECASE)


def _cuda_only_branch(context: PythonContext, node: ast.AST) -> tuple[str, ast.AST] | None:
    """Return the CUDA-only module that a branch around `node` uses and what the branch is of, or None.

    A branch is the body of a condition or a whole function; a module imported at the top of the file says
    nothing by itself, its uses do.
    """
    branches = context.cuda_only_branches
    if not branches:
        return None
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while parent is not None:
        module = branches.get(child)
        if module is not None:
            return module, parent
        child, parent = parent, context.file.parents.get(parent)
    return None
