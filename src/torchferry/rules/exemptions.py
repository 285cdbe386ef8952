"""Code that speaks of CUDA and must stay: what is rewritten there would break, or select a missing kernel."""

from __future__ import annotations

import ast
from collections.abc import Container

from torchferry.core.finding import Stays
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.compile.compilers import compiler_of
from torchferry.rules.target_words import target_words
from torchferry.source.flow.syntax import last_name
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile


class Exemption(NamedTuple):
    """Why a place stays.

    Attributes:
        reason: Why, for the user.
        kind: Why, for the code.
        owner: The statement or expression that the reason is about; None for the whole file.
        included: Whether the place holds for the target too, which is named beside it.
    """

    reason: Message
    kind: Stays
    owner: ast.AST | None = None
    included: bool = False


def exemption_reason(context: PythonContext, node: ast.AST) -> Message | None:
    """Return why a CUDA site is left as it is, or None when it is to be rewritten."""
    exemption = exemption_for(context, node)
    return exemption.reason if exemption is not None else None


def exemption_for(context: PythonContext, node: ast.AST) -> Exemption | None:
    """Return why a CUDA site is left as it is and what else that concerns, or None when it is to be rewritten."""
    if context.patches_cuda:
        return Exemption(say("this file replaces functions of `torch.cuda` itself"), Stays.PATCHES)
    if context.builds_extensions:
        return Exemption(say("in this build script it decides whether CUDA kernels are compiled"), Stays.BUILDS)
    compiler = compiler_of(context, node)
    if compiler is not None:
        reason = say("it names a back end of the compiler {compiler}, not a device", compiler=compiler)
        return Exemption(reason, Stays.CUDA_MODULE, context.file.statement(node))
    has_branch = say("there is already a branch for {target}", target=context.target.title)
    branch = _target_branch(context, node)
    if branch is not None:
        return Exemption(has_branch, Stays.TARGET_BESIDE, branch)
    container = _target_container(context, node)
    if container is not None:
        return Exemption(has_branch, Stays.TARGET_BESIDE, container, _includes(context, container, node))
    only = _cuda_only_branch(context, node)
    if only is not None:
        module, owner = only
        reason = say("this branch uses `{module}`, which supports only CUDA cards", module=module)
        return Exemption(reason, Stays.CUDA_MODULE, owner)
    if _chooses_kernel(context, node):
        owner = node
        while isinstance(owner, ast.expr) and not isinstance(owner, ast.IfExp):
            owner = context.file.parents[owner]
        reason = say("it chooses a compiled CUDA kernel; unchanged, it chooses the other branch")
        return Exemption(reason, Stays.KERNEL, owner)
    return None


def exemption_of_reading(context: PythonContext, node: ast.AST) -> Exemption | None:
    """Return what `exemption_for` does for a place whose value the target refuses; None where it is read there."""
    exemption = exemption_for(context, node)
    return None if exemption is None or _is_read_on_target(context, node, exemption) else exemption


def _is_read_on_target(context: PythonContext, node: ast.AST, exemption: Exemption) -> bool:
    """Whether a place that stays beside the target's name is read on the target all the same.

    That is so behind a condition that holds there: `torch.npu.is_available() and version(torch.version.cuda) > 11`, and
    `not torch.npu.is_available() or ...`. It is so ahead of one, where both have to hold: `hasattr(torch, "cuda") and
    torch.npu.is_available()`. What is read there and refuses the target is no other device's code.
    """
    container = exemption.owner
    if exemption.kind is not Stays.TARGET_BESIDE or not isinstance(container, ast.BoolOp):
        return False
    words = target_words(*context.target.words)
    child = node
    while context.file.parents[child] is not container:
        child = context.file.parents[child]
    is_or = isinstance(container.op, ast.Or)
    position = container.values.index(child)  # type: ignore[arg-type]
    for number, value in enumerate(container.values):
        if value is child or words.search(context.file.text(value)) is None:
            continue
        if number < position:
            return _is_negated(value) == is_or
        return _is_negated(value) == is_or == _is_negated(container.values[position])
    return False


def _is_negated(condition: ast.expr) -> bool:
    return isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)


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
    """Return the list or chain of conditions around `node` of which another item is for the target, or None.

    A test that runs on each device of a list, wherever its elements are written, runs on the target if one names it.
    """
    if not context.mentions_target:
        return None
    words = target_words(*context.target.words)
    container = _container(context, node)
    if container is not None and words.search(context.file.text(container)) is not None:
        return container if _has_counterpart(context, container, node) else None
    part = _parameter_part(context, node)
    lists = context.parameter_lists[part] if part is not None else ()
    named = [each.values for each in lists if not each.shared and words.search(context.file.text(each.values))]
    return named[0] if named and len(named) == len(lists) else None


def _has_counterpart(context: PythonContext, container: ast.AST, node: ast.AST) -> bool:
    """Whether an item of a list that names the target may be what `node` is for CUDA.

    In `return torch.npu.device_count(), torch.cuda.mem_get_info()` the one is not the other for another device.
    """
    if isinstance(container, ast.BoolOp):
        return True
    words = target_words(*context.target.words)
    child = node
    while context.file.parents[child] is not container:
        child = context.file.parents[child]
    own = _name_without_device(context, child)
    if not own and isinstance(
        node, ast.Attribute
    ):  # part of an expression: `"allocated" in torch.cuda.memory_summary()`
        own = _name_without_device(context, node)
    items = [item for item in container.elts if words.search(context.file.text(item))]  # type: ignore[attr-defined]
    return not own or any(
        own in names or not names for names in (_names_without_device(context, item) for item in items)
    )


def _names_without_device(context: PythonContext, item: ast.AST) -> set[str]:
    """Return what `_name_without_device` says of what is named in an item, the empty one left out."""
    parts = (part for part in nodes_in(item) if isinstance(part, (ast.Attribute, ast.Call)))
    return {name for part in parts if (name := _name_without_device(context, part))}


def _name_without_device(context: PythonContext, item: ast.AST) -> str:
    """Return the last name of what is called or read, without the word for a device; empty for other expressions."""
    words = target_words("cuda", "gpu", context.target.backend.DEVICE_TYPE, *context.target.words)
    return words.sub("", last_name(item)).replace("__", "_").strip("_")


def _parameter_part(context: PythonContext, node: ast.AST) -> ast.AST | None:
    """Return the part of a list of parameters of tests that holds `node`, or that depends on it alone."""
    parts = context.parameter_lists
    if not parts:
        return None
    child = node
    while child not in parts and not isinstance(child, ast.stmt):
        parent = context.file.parents[child]
        if isinstance(parent, ast.If) and child is parent.test:
            added = [_first_part(statement, parts) for statement in (*parent.body, *parent.orelse)]
            return added[0] if None not in added else None
        child = parent
    return child if child in parts else None


def _first_part(statement: ast.stmt, parts: Container[ast.AST]) -> ast.AST | None:
    return next((node for node in nodes_in(statement) if node in parts), None)


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


_ASKS_FOR_DEVICE = lazy_regex(r"(?i)cuda|gpu|nccl|device|backend|accelerator|platform|hardware|vendor|arch")


def _branches_beside(context: PythonContext, branch: ast.If | ast.IfExp, child: ast.AST) -> list[str]:
    """Return the tests of the other branches of an if/elif ladder, and the statements of its else branch.

    The else branch is one for a device where a test asks for one: what is somewhere in the else of another question,
    such as whether there is a configuration file, is beside nothing.
    """
    file = context.file
    head: ast.AST = branch
    while isinstance(parent := file.parents.get(head), type(branch)) and _items(parent.orelse) == [head]:
        head = parent
    texts: list[str] = []
    words = target_words(*context.target.words)
    asks_for_device = False
    current: ast.AST | None = head
    while isinstance(current, (ast.If, ast.IfExp)):
        test = file.text(current.test)
        asks_for_device = asks_for_device or bool(_ASKS_FOR_DEVICE.search(test) or words.search(test))
        if current is not branch or (child is not current.test and child not in _items(current.body)):
            texts.append(test)
        orelse = _items(current.orelse)
        if len(orelse) == 1 and isinstance(orelse[0], type(branch)):
            current = orelse[0]
            continue
        if child not in orelse and asks_for_device:
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


def _chooses_kernel(context: PythonContext, node: ast.AST) -> bool:
    """Whether `node` is part of a test whose positive outcome runs a CUDA kernel: `if x.is_cuda: return _C.forward(x)`.

    Rewritten for the target, such a test would choose a kernel that is not there; left as it is, it chooses the plain
    fallback beside it.
    """
    file = context.file
    reach = context.kernel_reach
    negated = False
    child: ast.AST = node
    parent = file.parents.get(child)
    while isinstance(parent, (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Attribute, ast.Call)):
        if isinstance(parent, ast.Call) and child is not parent.func:
            return False
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            negated = not negated
        if isinstance(parent, ast.Compare) and any(isinstance(op, (ast.NotEq, ast.NotIn)) for op in parent.ops):
            negated = not negated
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And) and child in parent.values:
            if reach.any(parent.values[parent.values.index(child) + 1 :], 0):
                return True
        child, parent = parent, file.parents.get(parent)
    if isinstance(parent, ast.IfExp) and child is parent.test:
        return reach.any([parent.orelse if negated else parent.body], 0)
    if isinstance(parent, ast.If) and child is parent.test:
        branch = parent.orelse if negated else parent.body
        if negated and not branch and isinstance(parent.body[-1], (ast.Return, ast.Raise)):
            branch = _behind(file, parent)
        return reach.any(branch, 0)
    return False


def _behind(file: PythonFile, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that follow one in the same body."""
    parent = file.parents[statement]
    for field in ("body", "orelse", "finalbody"):
        body = getattr(parent, field, None)
        if isinstance(body, list) and statement in body:
            return body[body.index(statement) + 1 :]
    return []
