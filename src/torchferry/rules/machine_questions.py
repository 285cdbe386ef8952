"""Questions for CUDA that a machine, a build of torch or a library is asked: a device node, a program, a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.backends import cuda
from torchferry.core.budget import spend
from torchferry.core.lazy_regex import lazy_regex
from torchferry.rules.base import PythonContext
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import assigned_value
from torchferry.source.nodes import nodes_in

_OF_FILES = frozenset(
    {"exists", "lexists", "isfile", "isdir", "is_file", "is_dir", "glob", "iglob", "listdir", "access"}
)
"""Functions and methods that say whether a file or a folder is there."""

_PROBES = frozenset(
    {
        "which", "find_executable", "find_library", "system", "call", "run", "check_call", "check_output", "getoutput",
        "getstatusoutput", "popen", "Popen", "find_spec", "distribution", "startswith",
    }
)  # fmt: skip
"""Functions that say whether a program, a library or a distribution is there, or start it."""

_LISTING = frozenset({"lspci", "lshw", "lsmod", "inxi", "hwinfo"})
"""Programs that list the devices or the modules of a machine."""

_WRAPPING = frozenset({"Path", "PurePath", "join", "str", "expanduser", "abspath", "expandvars"})
_OF_CUDA = lazy_regex(r"(?i)nvidia|cuda")
_FILE_OF_CUDA = lazy_regex(r"(?:/dev|/proc|/sys|/usr|/opt|/etc|/lib)/.*?(?:nvidia|cuda)")
"""Files of the driver and the toolkit; others with such a name are the project's own."""

_PROGRAM_OF_CUDA = lazy_regex(r"nvidia(?:[-_.]|\Z)|cuda(?:rt)?\Z|libcuda|libnvidia")
_BUILD = lazy_regex(r"\+?cu\d*\Z")
"""How a build of torch for CUDA is marked in its version: `+cu121`."""

_ENVIRONMENT = frozenset({"os.environ", "environ"})
_LONGEST = 100


def machine_question(context: PythonContext, text: ast.Constant) -> ast.expr | None:
    """Return the question that a text is a part of: `os.path.exists("/dev/nvidia0")`; None where it is of none."""
    if not isinstance(text.value, str) or len(text.value) > _LONGEST:
        return None
    if _BUILD.match(text.value):
        return _of_version(context, text)
    if not _OF_CUDA.search(text.value):
        return None
    child: ast.expr = text
    while True:  # until something is around it that neither asks nor passes it on
        parent = context.file.parents.get(child)
        if isinstance(parent, ast.Call) and child in parent.args:
            if _asks(context, parent, child, text.value):
                return parent
            if last_name(parent.func) not in _WRAPPING:
                return None
        elif isinstance(parent, ast.Attribute):
            call = context.file.parents.get(parent)
            if not isinstance(call, ast.Call) or call.func is not parent or parent.attr not in _OF_FILES:
                return None
            return call if _FILE_OF_CUDA.match(text.value) else None
        elif isinstance(parent, ast.Compare):
            is_sought = child is parent.left and isinstance(parent.ops[0], (ast.In, ast.NotIn))
            searched = parent.comparators[0]
            is_asked = is_sought and (_is_environment(context, searched) or _lists(context, searched))
            return parent if is_asked else None
        elif isinstance(parent, ast.Subscript):
            return parent if isinstance(parent.ctx, ast.Load) and _is_environment(context, parent.value) else None
        elif not isinstance(parent, (ast.BinOp, ast.JoinedStr, ast.List, ast.Tuple)):
            return None
        spend()
        child = parent


def _asks(context: PythonContext, call: ast.Call, text: ast.expr, word: str) -> bool:
    name = last_name(call.func)
    if name == "hasattr":  # torch has its modules of CUDA in every build, and these functions in those for CUDA alone
        owner = context.names.qualified(call.args[0]) or ""
        return call.args.index(text) == 1 and (owner == "torch._C" or owner.startswith("torch._C."))
    if name in ("get", "getenv"):
        function = context.names.qualified(call.func) or ""
        return call.args[0] is text and function in ("os.environ.get", "os.getenv")
    if name in _OF_FILES:
        return _FILE_OF_CUDA.match(word) is not None
    return name in _PROBES and _PROGRAM_OF_CUDA.match(word) is not None


def _lists(context: PythonContext, expression: ast.expr) -> bool:
    """Whether an expression, or the value of a variable, is what a program writes that lists devices."""
    values = [expression]
    if isinstance(root := _root(expression), ast.Name):
        values += filter(None, (assigned_value(context.file, each) for each in context.names.reaching_bindings(root)))
    parts = (part for value in values for part in nodes_in(value))
    return any((string_value(part) or "").partition(" ")[0].rpartition("/")[2] in _LISTING for part in parts)


def _root(expression: ast.expr) -> ast.expr:
    while isinstance(expression, (ast.Attribute, ast.Call)):
        expression = expression.value if isinstance(expression, ast.Attribute) else expression.func
    return expression


def _is_environment(context: PythonContext, expression: ast.expr) -> bool:
    return context.names.qualified(expression) in _ENVIRONMENT


def _of_version(context: PythonContext, text: ast.Constant) -> ast.expr | None:
    """Return the question for the build of torch: `"+cu" in torch.__version__`."""
    parent = context.file.parents.get(text)
    if isinstance(parent, ast.Compare):
        asked = parent.comparators[0] if parent.left is text else None
    elif isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
        asked = parent.func.value if parent.func.attr in ("endswith", "count", "find") else None
    else:
        return None
    return parent if asked is not None and context.names.qualified(asked) == "torch.__version__" else None


def library_questions(context: PythonContext) -> Iterator[ast.expr]:
    """Yield where a library is asked for CUDA: `numba.cuda.is_available`, `torch.utils.cpp_extension.CUDA_HOME`."""
    tops = {name.partition(".")[0] for name in cuda.asked_of_libraries()}
    for top in sorted(tops & context.names.imported_packages()):
        for reference in context.names.references(top):
            node: ast.AST | None = reference.node
            call = context.file.parents.get(reference.node)
            if isinstance(call, ast.Call) and call.func is node:
                parent = context.file.parents.get(call)
                node = parent if isinstance(parent, ast.Attribute) and _of_library(context, parent) else node
            if isinstance(node, (ast.Name, ast.Attribute)) and _of_library(context, node):
                yield node


def _of_library(context: PythonContext, node: ast.Name | ast.Attribute) -> bool:
    """Whether a name, or an attribute of what one returns, is such a question."""
    name = context.names.qualified(node)
    if name is None and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        name = f"{context.names.qualified(node.value.func)}.{node.attr}"
    return name in cuda.asked_of_libraries() and isinstance(node.ctx, ast.Load)


def is_machine_question(context: PythonContext, node: ast.AST) -> bool:
    """Whether an expression is such a question as a whole."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _of_library(context, node)
    if not isinstance(node, (ast.Call, ast.Compare, ast.Subscript)):
        return False
    texts = (part for part in nodes_in(node) if string_value(part) is not None)
    return any(machine_question(context, text) is node for text in texts)  # type: ignore[arg-type]
