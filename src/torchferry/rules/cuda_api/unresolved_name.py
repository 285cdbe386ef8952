"""A name that may be one of `torch.cuda` and could not be resolved.

`from common import *` where `common` makes its names while it runs, a star import or an import by name from a package
that is not known (`from lab import torch`), a value that a function returned (`get_torch().cuda.synchronize()`), a
parameter, an attribute, a part of torch whose name is made while the program runs (`getattr(torch, name).set_device`):
where such an expression reads like a name of `torch.cuda`, it is reported, and no verdict says that all is ready before
somebody has looked. So are names that torch alone has (`DataParallel`, `autocast`) from a module that was not read, and
a method whose name speaks of CUDA (`engine.cuda_context()`) which nothing in the project defines, and a file that the
program names, in a form that is not read here, such as a table, and that holds a CUDA device. Such a file is searched
to its end; one that cannot be searched, since it may not be read, is a link that leaves the project or has more than a
gigabyte, may hold one, and is reported too.

Import torch by its name in the file, or write what the target has; a comment `# torchferry: ignore[CUD113] reason` says
that the place is right as it is.

Why: On a machine without CUDA such a place raises, or `is_available()` is false and the program goes on on the CPU,
without a word.

References:
- table api
"""

from __future__ import annotations

import ast
import builtins
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.config.unread_files import ENDINGS, NamedFile, unread_files_with_device
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.mentions import STEMS, speaks_of_cuda
from torchferry.source.flow.assembled import folded
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import import_calls
from torchferry.source.names import assigned_value

_TORCH = "torch"

_PIECES = 2
"""Pieces of an f-string that is a beginning and a name."""

_DEEPEST = 8
"""Variables that are followed to a text."""

_COMMON_WORDS = frozenset({"device", "Device", "Stream", "Event", "init", "stream", "random", "memory", "streams"})
"""Last names of `torch.cuda` that other libraries and options have too: `args.cuda.device`, `ctx.cuda.Stream()`."""

_OF_OTHER_PARTS = frozenset({"device", "init", "memory", "random"})
"""Names of `torch.cuda` that other parts of torch have too."""

_ASKING = frozenset({"getattr", "hasattr", "setattr", "vars", "dir", "print", "isinstance", "reload"})
"""Functions that ask what they are given for something, and hand nothing on."""

_OF_TORCH = {
    "CUDAExtension": "torch.utils.cpp_extension.CUDAExtension",
    "CUDAGraph": "torch.cuda.CUDAGraph",
    "DataParallel": "torch.nn.DataParallel",
    "DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "GradScaler": "torch.amp.GradScaler",
    "autocast": "torch.autocast",
    "custom_bwd": "torch.amp.custom_bwd",
    "custom_fwd": "torch.amp.custom_fwd",
    "flex_attention": "torch.nn.attention.flex_attention",
    "init_process_group": "torch.distributed.init_process_group",
    "sdpa_kernel": "torch.nn.attention.sdpa_kernel",
}
"""Names that torch alone has, which other rules look at where they are known to be torch's, with the whole names."""


class UnresolvedName(Rule):
    """Finds what reads like a name of `torch.cuda` and begins with a name that was not resolved."""

    CODE = "CUD113"
    EFFECT = Effect.UNKNOWN
    WORDS = (*STEMS, "Cuda", "CUDA", "getattr", "import_module", *_OF_TORCH, *ENDINGS)
    UNDER_REDIRECT = UnderRedirect.NOTHING
    BINDS = True
    UNRESOLVED = True

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each such expression."""
        resolved = {reference.node for reference in context.names.references(_TORCH)}
        reported: set[int] = set()  # where expressions begin: a longer one is the same place
        for part in (*context.file.attributes.get("cuda", ()), *context.file.names.get("cuda", ())):
            whole = _outermost(context, part)
            if not isinstance(part.ctx, ast.Load) or whole in resolved:
                continue
            reason = self._why(context, part)
            if reason is not None and exemption_reason(context, whole) is None:
                reported.add(context.file.span(whole)[0])
                yield self.finding(context, context.file.span(whole), reason, Grade.MANUAL)
        for node, reason in (
            *self._of_unread_modules(context),
            *self._asked_by_name(context),
            *self._of_torch_as_value(context),
            *self._in_pieces(context),
        ):
            start = context.file.span(node)[0]
            if start not in reported and exemption_reason(context, node) is None:
                reported.add(start)
                yield self.finding(context, context.file.span(node), reason, Grade.MANUAL)

    def check_rest(self, context: PythonContext, findings: Sequence[Finding]) -> Iterable[Finding]:
        """Yield a finding for each file that is not read, and each method of CUDA by its name that nothing defines."""
        for named in unread_files_with_device(context):
            yield self.finding(context, context.file.literal_span(named.literal), _of_file(named), Grade.MANUAL)
        if context.project is None:
            return
        reported = sorted(context.source.span(finding.location) for finding in findings)
        begins = [first for first, _ in reported]
        ends = [*accumulate((last for _, last in reported), max)]  # of a span and all that begin before it
        for word, attributes in context.file.attributes.items():
            if not speaks_of_cuda(word.encode()):
                continue
            for attribute in attributes:
                if not _is_called(context, attribute) or self._is_explained(context, attribute):
                    continue  # a flag that is read, or a name of a module
                start, end = context.file.span(attribute)
                at = end - len(word)
                before = bisect_right(begins, at)
                if before and at < ends[before - 1]:
                    continue
                if not context.project.defines(word) and exemption_reason(context, attribute) is None:
                    message = say(
                        "`{text}` is not resolved: nothing in the project defines `{word}`",
                        text=context.snippet(start, end),
                        word=word,
                    )
                    yield self.finding(context, (start, end), message, Grade.MANUAL)

    @staticmethod
    def _is_explained(context: PythonContext, attribute: ast.Attribute) -> bool:
        """Whether an attribute is a name of a module: of torch, or of another package, whichever that is."""
        root = _inwards(attribute)[-1]
        return isinstance(root, ast.Name) and context.names.origin(root) is not None

    def _of_unread_modules(self, context: PythonContext) -> Iterator[tuple[ast.expr, Message]]:
        """Yield names that torch has for CUDA, and that come from modules which nobody read."""
        names = context.names
        for word, whole in _OF_TORCH.items():
            for name in context.file.names.get(word, ()):
                if isinstance(name.ctx, ast.Load) and (unread := names.unread_stars(name)):
                    yield name, self._of_star(word, unread[0], whole)
            for attribute in context.file.attributes.get(word, ()):
                root = _inwards(attribute)[-1]
                origin = names.qualified(root) if isinstance(root, ast.Name) else None
                if origin is not None and names.origin(root) is not None and _is_unread(context, origin):  # type: ignore[arg-type]
                    yield attribute, self._unresolved(context.file.text(attribute), whole)

    def _asked_by_name(self, context: PythonContext) -> Iterator[tuple[ast.expr, Message]]:
        """Yield what is asked of a part of torch whose name is made while the program runs.

        `getattr(torch, backend).synchronize()`, `import_module(f"torch.{backend}")`; what is named by the type of a
        device is the device's own part.
        """
        for call in (*_parts_of_torch(context), *_modules_of_torch(context)):
            for used in (call, *_uses_of_value(context, call)):
                asked = context.file.parents.get(used)
                asked_for = _asked_name(asked, used)
                name = f"{cuda.NAMESPACE}.{asked_for}"
                if isinstance(asked, ast.expr) and _is_listed(name) and asked_for not in _OF_OTHER_PARTS:
                    yield asked, self._unresolved(context.file.text(asked), name)

    def _of_torch_as_value(self, context: PythonContext) -> Iterator[tuple[ast.expr, Message]]:
        """Yield where torch is handed on as a value, and `cuda` is taken of what holds it: `self.lib.cuda.Stream()`."""
        for reference in context.names.references(_TORCH):
            node, parent = reference.node, context.file.parents.get(reference.node)
            if reference.name != _TORCH or not isinstance(node, ast.expr) or isinstance(parent, ast.Attribute):
                continue
            if isinstance(parent, ast.Call) and last_name(parent.func) in _ASKING:
                continue  # of torch itself, which other rules see
            for value in context.values.of(node).values:
                asked = value.file.parents.get(value.node)
                if _asked_name(asked, value.node) != cuda.DEVICE_TYPE or not isinstance(asked, ast.expr):
                    continue
                if (value.names.qualified(asked) or "").startswith(cuda.NAMESPACE):
                    continue
                yield value.left_at or asked, self._unresolved(value.file.text(asked), cuda.NAMESPACE)  # type: ignore[misc]

    def _in_pieces(self, context: PythonContext) -> Iterator[tuple[ast.expr, Message]]:
        """Yield names that are put together of literal parts, or taken one after the other.

        `import_module("torch." + "cuda")`, `reduce(getattr, ["cuda", "synchronize"], torch)`.
        """
        for call in import_calls(context.file):
            asked = call.args[0] if call.args else None
            name = folded(asked) if asked is not None and not isinstance(asked, ast.Constant) else None
            if name is not None and f"{name}.".startswith(f"{cuda.NAMESPACE}."):
                yield call, self._unresolved(context.file.text(call), name)
        for call in context.file.calls_by_name("reduce"):
            if len(call.args) != 3 or last_name(call.args[0]) != "getattr":
                continue
            if context.names.qualified(call.args[2]) == _TORCH and speaks_of_cuda(context.file.text(call).encode()):
                yield call, self._unresolved(context.file.text(call), cuda.NAMESPACE)

    def _why(self, context: PythonContext, part: ast.Name | ast.Attribute) -> Message | None:
        """Return what is not known of an expression that holds `cuda`; None where it is known to be something else."""
        chain = _inwards(part)
        root, before = chain[-1], chain[1] if len(chain) > 1 else None
        says_torch = _last_word(before) == _TORCH
        parent = context.file.parents.get(part)
        if _is_called(context, part):
            return None  # a method of that name is another rule's
        shown = parent if isinstance(parent, ast.Attribute) else part
        name = f"{cuda.NAMESPACE}.{parent.attr}" if isinstance(parent, ast.Attribute) else cuda.NAMESPACE
        is_name = _is_listed(name)
        is_call = _is_called(context, shown) and _is_of_cuda_alone(name)
        makes_names = isinstance(root, ast.Name) and before is not None and self._is_of_open_module(context, before)
        if not says_torch and not makes_names and not (is_name if before is None else is_call):
            return None
        text = context.file.text(shown)
        if not isinstance(root, ast.Name):
            return self._unresolved(text, name)
        unread = context.names.unread_stars(root)
        if unread:
            return self._of_star(text, unread[0], name)
        if not context.names.bindings(root) and not hasattr(builtins, root.id):
            return self._unbound(root.id, text, name) if says_torch or is_call else None
        origin = context.names.qualified(root if before is None else before)
        if makes_names:
            return self._unresolved(text, name) if is_name or part is shown else None
        is_unread = origin is None or origin.endswith(f".{_TORCH}") or (is_call and _is_unread(context, origin))
        return self._unresolved(text, name) if is_unread and (says_torch or is_call) else None

    @staticmethod
    def _is_of_open_module(context: PythonContext, owner: ast.expr) -> bool:
        """Whether an expression is a module of the project that makes names when it is asked, and binds no `cuda`."""
        origin, project = context.names.qualified(owner), context.project
        if origin is None or project is None or project.module_path(f"{origin}.cuda", context.path) is not None:
            return False
        path = project.module_path(origin, context.path)
        exports = project.exports(path) if path is not None else None
        return exports is not None and exports.is_open and cuda.DEVICE_TYPE not in exports.origins

    @staticmethod
    def _of_star(text: str, module: str, name: str) -> Message:
        return say(
            "`{text}` is not resolved: `from {module} import *` was not read; if it is `{name}`, import torch "
            "here by its name",
            text=text,
            module=module.lstrip("."),
            name=name,
        )

    @staticmethod
    def _unbound(identifier: str, text: str, name: str) -> Message:
        return say(
            "`{text}` is not resolved: nothing in this file binds `{identifier}`; if it is `{name}`, import torch here",
            text=text,
            identifier=identifier,
            name=name,
        )

    @staticmethod
    def _unresolved(text: str, name: str) -> Message:
        return say("`{text}` is not resolved; if it is `{name}`, import torch here by its name", text=text, name=name)


def _of_file(named: NamedFile) -> Message:
    path, reason = named.path, named.why_unread
    if reason is not None:
        return say("`{file}` was not read ({reason}); it may name a CUDA device", file=path, reason=reason)
    return say(
        "`{file}` holds a device that the program may read, in a format that torchferry does not "
        "read; look at it yourself",
        file=path,
    )


def _is_unread(context: PythonContext, origin: str) -> bool:
    """Whether a name is taken from a module, and is neither a module itself nor of a package that is known."""
    top, backend = origin.partition(".")[0], context.target.backend
    if "." not in origin.lstrip(".") or cuda.package_of_module(top) is not None:
        return False
    if top in (backend.PLUGIN, backend.IMPORT_NAMESPACE.partition(".")[0]):
        return False  # what a migration wrote
    return context.project is None or context.project.module_path(origin, context.path) is None


def _asked_name(asked: ast.AST | None, owner: ast.expr) -> str:
    """Return the name that an expression takes of its owner: `lib.cuda`, `getattr(lib, "cuda")`; empty for none."""
    if isinstance(asked, ast.Attribute):
        return asked.attr
    if not isinstance(asked, ast.Call) or last_name(asked.func) != "getattr" or len(asked.args) < 2:
        return ""
    return (folded(asked.args[1]) or "") if asked.args[0] is owner else ""


def _is_open(context: PythonContext, node: ast.expr, depth: int = 0) -> bool:
    """Whether nobody can tell what text an expression is: neither a text of the file, nor the type of a device."""
    if string_value(node) is not None or "device" in _last_word(node) or _last_word(node) == "type":
        return False
    if not isinstance(node, ast.Name) or depth > _DEEPEST:
        return True
    values = [assigned_value(context.file, binding) for binding in context.names.bindings(node)]
    return not values or any(value is None or _is_open(context, value, depth + 1) for value in values)


def _parts_of_torch(context: PythonContext) -> Iterator[ast.Call]:
    """Yield where a part of torch is taken by a name that is made: `getattr(torch, name)`."""
    for callee in context.file.names.get("getattr", ()):
        call = context.file.parents.get(callee)
        if isinstance(call, ast.Call) and call.func is callee and len(call.args) > 1:
            if context.names.qualified(call.args[0]) == _TORCH and _is_open(context, call.args[1]):
                yield call


def _modules_of_torch(context: PythonContext) -> Iterator[ast.Call]:
    """Yield where a module below torch is imported by a name that is made: `import_module(f"torch.{name}")`."""
    for call in import_calls(context.file):
        asked = call.args[0] if call.args else None
        if isinstance(asked, ast.JoinedStr) and len(asked.values) == _PIECES:
            begin, last = string_value(asked.values[0]), asked.values[1]
            last = last.value if isinstance(last, ast.FormattedValue) else last
        elif isinstance(asked, ast.BinOp) and isinstance(asked.op, (ast.Add, ast.Mod)):
            begin, last = string_value(asked.left), asked.right
        else:
            continue
        is_known = isinstance(last, ast.Attribute) and last.attr == "type"
        if begin in ("torch.", "torch.%s") and not is_known and "device" not in _last_word(last):
            yield call


def _uses_of_value(context: PythonContext, value: ast.expr) -> Iterator[ast.Name]:
    """Yield where the variable is used that an expression is assigned to."""
    parent = context.file.parents.get(value)
    for target in parent.targets if isinstance(parent, ast.Assign) else ():
        if isinstance(target, ast.Name):
            yield from context.names.uses_of(target)


def _is_listed(name: str) -> bool:
    """Whether `torch.cuda` is known to have a name, which is written with all its parts."""
    return cuda.api_group(name) not in ("unlisted", "namespace")


def _is_of_cuda_alone(name: str) -> bool:
    """Whether `torch.cuda` is known to have a name, and other parts of torch and other libraries have none like it."""
    return _is_listed(name) and name.rpartition(".")[2] not in _COMMON_WORDS


def _inwards(node: ast.expr) -> list[ast.expr]:
    """Return an expression and what its attributes are taken of, down to what is no attribute."""
    chain = [node]
    while isinstance(inner := chain[-1], ast.Attribute):
        chain.append(inner.value)
    return chain


def _outermost(context: PythonContext, node: ast.expr) -> ast.expr:
    while isinstance(parent := context.file.parents.get(node), ast.Attribute):
        node = parent
    return node


def _last_word(node: ast.expr | None) -> str:
    """Return the last name of an expression, underscores around it and the brackets of a call left out."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.strip("_").removeprefix("get_").removeprefix("import_")


def _is_called(context: PythonContext, node: ast.expr) -> bool:
    parent = context.file.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node
