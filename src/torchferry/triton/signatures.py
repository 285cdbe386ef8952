"""The arguments that a kernel is launched with: as a user writes them, and as a launch in the code has them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchferry.core.errors import UsageError
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.triton.kernels import TritonLaunch
from torchferry.source.names import assigned_value
from torchferry.source.project import Project
from torchferry.triton.evaluating import Evaluator, NotToldError
from torchferry.triton.model import (
    DTYPE,
    SCALAR,
    TENSOR,
    VALUE,
    KernelArgument,
    KernelParameter,
    ProjectKernel,
    Signature,
)

DTYPES = frozenset(
    {
        *("fp16", "bf16", "fp32", "fp64", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e4b15", "fp8e5b16"),
        *("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    }
)
"""Dtypes as Triton writes them in signatures."""

SCALARS = frozenset({"i1", "i32", "i64", "u64", "fp32"})
"""What Triton makes of a number of Python's."""

_LANGUAGE_DTYPES = frozenset(
    {
        *("float16", "bfloat16", "float32", "float64", "float8e4nv", "float8e5", "int1", "int8", "int16", "int32"),
        *("int64", "uint8", "uint16", "uint32", "uint64"),
    }
)
_OF_TORCH = {
    "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32", "float64": "fp64",
    "double": "fp64", "int8": "i8", "int16": "i16", "short": "i16", "int32": "i32", "int": "i32", "int64": "i64",
    "long": "i64", "uint8": "u8", "bool": "i1", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
}  # fmt: skip
_ENTRY = lazy_regex(r"\s*(?:(?P<name>[A-Za-z_]\w*)\s*=\s*)?(?P<value>.+?)\s*\Z")
_TYPED = lazy_regex(r"(?P<star>\*k?)?(?P<type>[a-z]+[0-9]\w*)(?::(?P<hint>1|16))?\Z")
_LONGEST = 10_000

_FLOATS = frozenset({"empty", "full", "ones", "rand", "randn", "zeros", "linspace", "eye"})
_INTEGERS = frozenset({"randint", "randperm", "arange"})
_LIKE = frozenset({"empty_like", "full_like", "ones_like", "rand_like", "randn_like", "zeros_like"})
_SAME = frozenset(
    {
        *("clone", "contiguous", "cpu", "cuda", "detach", "expand", "flatten", "flip", "permute", "repeat"),
        *("requires_grad_", "reshape", "squeeze", "t", "to", "transpose", "unsqueeze", "view", "view_as", "zero_"),
        *("new_empty", "new_zeros", "new_ones"),
    }
)
_WHOLE = frozenset({"dim", "numel", "size", "stride", "storage_offset", "element_size", "nelement"})
_FUNCTIONS_OF_NUMBERS = frozenset({"cdiv", "ceil", "floor", "int", "len", "next_power_of_2", "round"})


def given_signatures(texts: Iterable[str], kernels: Iterable[ProjectKernel]) -> dict[tuple[str, str], list[Signature]]:
    """Return the signatures that a user writes: `kernel: *fp32,*fp32,i32,BLOCK=1024`.

    Raises:
        UsageError: one cannot be read, or names no kernel.
    """
    found: dict[tuple[str, str], list[Signature]] = {}
    known = [*kernels]
    for text in texts:
        name, is_named, arguments = text.partition(":")
        name = name.strip()
        fitting = [kernel for kernel in known if name in (kernel.name, f"{kernel.path}:{kernel.name}")]
        if not is_named or not name.isidentifier() or len(text) > _LONGEST:
            raise UsageError(
                say("--signature {text}: no kernel is named", text=text),
                say("write it as `--signature 'add_kernel: *fp32,*fp32,*fp32,i32,BLOCK=1024'`"),
            )
        if not fitting:
            raise UsageError(
                say("--signature {text}: there is no kernel `{name}` in these files", text=text, name=name),
                say("kernels: {names}", names=", ".join(sorted({kernel.name for kernel in known})[:40]) or "-"),
            )
        for kernel in fitting:
            found.setdefault(kernel.key, []).append(_given(text, arguments, kernel))
    return found


def _given(text: str, arguments: str, kernel: ProjectKernel) -> Signature:
    named: dict[str, KernelArgument] = {}
    options: dict[str, Any] = {}
    parameters = {each.name for each in kernel.parameters}
    places = [each.name for each in kernel.parameters if not each.is_constant]
    position = 0
    for entry in _entries(arguments):
        match = _ENTRY.match(entry)
        if match is None:
            raise _unreadable(text, entry)
        name = match["name"]
        if name is None:
            if position >= len(places):
                raise UsageError(
                    say(
                        "--signature {text}: the kernel takes {count} arguments, and constants by name",
                        text=text,
                        count=len(places),
                    )
                )
            name, position = places[position], position + 1
        if name in named:
            raise UsageError(say("--signature {text}: `{name}` is given twice", text=text, name=name))
        argument = _argument_of_text(text, name, match["value"])
        if name in parameters:
            named[name] = argument
        elif argument.kind == VALUE:
            options[name] = argument.value
        else:
            raise UsageError(say("--signature {text}: the kernel has no parameter `{name}`", text=text, name=name))
    return _completed(kernel, named, tuple(options.items()), say("--signature"))


def _entries(text: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets or quotes."""
    depth, quote, start = 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:place]
            start = place + 1
    if text[start:].strip():
        yield text[start:]


def _argument_of_text(text: str, name: str, value: str) -> KernelArgument:
    typed = _TYPED.match(value)
    if typed is not None and typed["type"] in DTYPES:
        if typed["star"]:
            return KernelArgument(name, TENSOR, typed["type"], is_aligned=True)
        if typed["type"] not in SCALARS:
            raise UsageError(
                say("--signature {text}: no number becomes `{type}` in Triton", text=text, type=typed["type"]),
                say("a number is one of {types}", types=", ".join(sorted(SCALARS))),
            )
        if typed["hint"] == "1":
            return KernelArgument(name, VALUE, value=1)
        if typed["hint"] and typed["type"] in ("i32", "i64", "u64"):
            return KernelArgument(name, SCALAR, typed["type"], 16 << (40 if typed["type"] != "i32" else 0))
        return KernelArgument(name, SCALAR, typed["type"])
    bare = value.removeprefix("tl.")
    if bare in _LANGUAGE_DTYPES:
        return KernelArgument(name, DTYPE, bare)
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise _unreadable(text, value) from None
    if not isinstance(literal, (bool, int, float, str, type(None))):
        raise _unreadable(text, value)
    return KernelArgument(name, VALUE, value=literal)


def _unreadable(text: str, part: str) -> UsageError:
    return UsageError(
        say("--signature {text}: `{part}` is no type and no value", text=text, part=part.strip()),
        say("a tensor is written as `*fp16`, a number as `i32` or by its value, a constant as `BLOCK=1024`"),
    )


def _completed(
    kernel: ProjectKernel, named: dict[str, KernelArgument], options: tuple[tuple[str, Any], ...], origin: Message,
    assume: str = "",
) -> Signature:  # fmt: skip
    """Return a signature with the known facts about each parameter, in their order."""
    computed = {name for name, _ in kernel.heuristics}
    arguments: list[KernelArgument] = []
    unknown: list[str] = []
    is_assumed = False
    for parameter in kernel.parameters:
        argument = named.get(parameter.name)
        if argument is None and parameter.default is not None:
            if isinstance(parameter.default, ast.Constant):
                arguments.append(KernelArgument(parameter.name, VALUE, value=parameter.default.value))
            continue  # the kernel's own default
        if argument is None:
            if (
                parameter.name not in kernel.tuned
                and parameter.name not in computed
                and not ("*" in computed and parameter.is_constant)
            ):
                unknown.append(parameter.name)
            continue
        if argument.kind == TENSOR and not argument.type:
            if assume:
                argument, is_assumed = argument._replace(type=assume), True
            else:
                unknown.append(parameter.name)
        elif argument.kind == SCALAR and (not argument.type or parameter.is_constant):
            unknown.append(parameter.name)
        arguments.append(argument)
    return Signature(tuple(arguments), options, origin, tuple(unknown), is_assumed)


# --- launches in the code ---


class LaunchReader:
    """Tells the arguments of launches from the text.

    Args:
        project: The project's files.
        assume: The dtype of tensors of which the text does not tell it; empty to leave them unknown.
    """

    def __init__(self, project: Project, assume: str = "") -> None:
        self._project = project
        self._assume = assume

    def signature(self, path: str, launch: TritonLaunch, kernel: ProjectKernel) -> Signature | None:
        """Return what a launch gives a kernel; None where it gives more than the kernel takes."""
        places = [each.name for each in kernel.parameters]
        if len(launch.call.args) > len(places) or any(isinstance(each, ast.Starred) for each in launch.call.args):
            return None
        named: dict[str, KernelArgument] = {}
        options: dict[str, Any] = {}
        by_name = {each.name: each for each in kernel.parameters}
        given = [*zip(places, launch.call.args, strict=False)]
        for keyword in launch.call.keywords:
            if keyword.arg is None:
                return None
            given.append((keyword.arg, keyword.value))
        for name, expression in given:
            if name in by_name:
                argument = self._argument(path, expression, by_name[name], kernel)
                if argument is not None:
                    named[name] = argument
            else:
                value = self._literal(path, expression)
                if value is not None:
                    options[name] = value
        origin = say("the launch in {path}:{line}", path=path, line=launch.call.lineno)
        return _completed(kernel, named, tuple(options.items()), origin, self._assume)

    def _literal(self, path: str, expression: ast.expr) -> Any:
        try:
            value = Evaluator(self._project).value(expression, path)
        except NotToldError:
            return None
        return value if isinstance(value, (bool, int, float, str)) else None

    def _argument(
        self, path: str, expression: ast.expr, parameter: KernelParameter, kernel: ProjectKernel
    ) -> KernelArgument | None:
        """Return the known facts about an argument; None for nothing."""
        name = parameter.name
        if isinstance(expression, ast.Constant):
            return KernelArgument(name, VALUE, value=expression.value) if _is_plain(expression.value) else None
        loaded = self._project.file(path)
        if loaded is None:
            return None
        qualified = loaded[1].qualified(expression) or ""
        language, _, last = qualified.rpartition(".")
        if language == "triton.language" and last in _LANGUAGE_DTYPES:
            return KernelArgument(name, DTYPE, last)
        value = self._local_literal(path, expression)
        if value is not None:
            return KernelArgument(name, VALUE, value=value)
        if parameter.is_constant:
            return None
        dtype = self._dtype(path, expression)
        if dtype is not None:
            return KernelArgument(name, TENSOR, dtype)
        number = self._number(path, expression)
        if number is not None:
            return KernelArgument(name, SCALAR, number)
        return KernelArgument(name, TENSOR) if name in kernel.pointers else None

    def _local_literal(self, path: str, expression: ast.expr) -> Any:
        """Return the value of an expression of literals, and of names that are given one such value alone."""
        value = self._literal(path, expression)
        if value is not None or not isinstance(expression, ast.Name):
            return value
        known = self._single_value(path, expression)
        return None if known is None else self._literal(path, known)

    def _single_value(self, path: str, name: ast.Name) -> ast.expr | None:
        loaded = self._project.file(path)
        if loaded is None:
            return None
        bindings = loaded[1].reaching_bindings(name)
        return assigned_value(loaded[0], bindings[0]) if len(bindings) == 1 else None

    def _dtype(self, path: str, expression: ast.expr, depth: int = 12) -> str | None:
        """Return the dtype of a tensor: empty for a tensor without a known one, None for what may be none."""
        if not depth:
            return None
        if isinstance(expression, ast.Name):
            value = self._single_value(path, expression)
            return None if value is None else self._dtype(path, value, depth - 1)
        if isinstance(expression, ast.Subscript):
            return self._dtype(path, expression.value, depth - 1)
        if not isinstance(expression, ast.Call):
            return None
        loaded = self._project.file(path)
        qualified = (loaded[1].qualified(expression.func) if loaded is not None else None) or ""
        stated = next((keyword.value for keyword in expression.keywords if keyword.arg == "dtype"), None)
        if qualified.startswith("torch."):
            function = qualified.removeprefix("torch.")
            if function in _LIKE and stated is None and expression.args:
                return self._dtype(path, expression.args[0], depth - 1) or ""
            if function in _FLOATS | _INTEGERS | _LIKE | {"tensor", "as_tensor"}:
                if stated is not None:
                    return self._stated_dtype(path, stated)
                return "fp32" if function in _FLOATS else "i64" if function in _INTEGERS else ""
            return None
        if isinstance(expression.func, ast.Attribute):
            return self._of_method(path, expression, expression.func, stated, depth)
        return None

    def _of_method(
        self, path: str, call: ast.Call, method: ast.Attribute, stated: ast.expr | None, depth: int
    ) -> str | None:
        if method.attr in _OF_TORCH and not call.args:
            return _OF_TORCH[method.attr]  # `x.half()`
        if method.attr not in _SAME:
            return None
        for each in (*([stated] if stated is not None else []), *call.args):
            dtype = self._stated_dtype(path, each)
            if dtype:
                return dtype
        return self._dtype(path, method.value, depth - 1)

    def _stated_dtype(self, path: str, expression: ast.expr) -> str:
        """Return the dtype that `torch.float16` is; empty for what the text does not tell."""
        loaded = self._project.file(path)
        qualified = (loaded[1].qualified(expression) if loaded is not None else None) or ""
        return _OF_TORCH.get(qualified.removeprefix("torch."), "") if qualified.startswith("torch.") else ""

    def _number(self, path: str, expression: ast.expr, depth: int = 12) -> str | None:
        """Return the type of a number; None for what may be none."""
        if not depth:
            return None
        if isinstance(expression, ast.Constant) and type(expression.value) in (int, float):
            return "i32" if isinstance(expression.value, int) else "fp32"
        if isinstance(expression, ast.BinOp):
            sides = {self._number(path, expression.left, depth - 1), self._number(path, expression.right, depth - 1)}
            if None in sides:
                return None
            return "fp32" if "fp32" in sides or isinstance(expression.op, (ast.Div, ast.Pow)) else "i32"
        if isinstance(expression, ast.Subscript) and isinstance(expression.value, ast.Attribute):
            return "i32" if expression.value.attr == "shape" else None
        if isinstance(expression, ast.Call):
            function = (
                expression.func.attr
                if isinstance(expression.func, ast.Attribute)
                else getattr(expression.func, "id", "")
            )
            return (
                "i32"
                if function in _WHOLE | _FUNCTIONS_OF_NUMBERS
                else "fp32"
                if function in ("float", "sqrt")
                else None
            )
        return self._of_name(path, expression, depth) if isinstance(expression, ast.Name) else None

    def _of_name(self, path: str, name: ast.Name, depth: int) -> str | None:
        loaded = self._project.file(path)
        bindings = loaded[1].reaching_bindings(name) if loaded is not None else []
        if loaded is None or len(bindings) != 1:
            return None
        binding = bindings[0]
        if isinstance(binding, ast.arg):
            annotated = ast.unparse(binding.annotation) if binding.annotation is not None else ""
            return {"int": "i32", "float": "fp32", "bool": "i1"}.get(annotated)
        parent = loaded[0].parents.get(binding)
        if isinstance(parent, (ast.Tuple, ast.List)):  # `rows, columns = x.shape`
            statement = loaded[0].parents.get(parent)
            value = statement.value if isinstance(statement, ast.Assign) else None
            is_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
            is_size = isinstance(value, ast.Call) and getattr(value.func, "attr", "") in ("size", "stride")
            if is_shape or is_size:
                return "i32"
        value = assigned_value(loaded[0], binding)
        return None if value is None else self._number(path, value, depth - 1)


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float, str, type(None)))


_ADDRESSED = ("load", "store", "make_block_ptr", "make_tensor_descriptor")


def pointers_of(function: ast.FunctionDef) -> frozenset[str]:
    """Return the parameters that are addresses: they, or what is computed of them, are first in a load or store.

    Args:
        function: The kernel.
    """
    parents: dict[str, set[str]] = {}
    waiting: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            base = _base_of(node.value)
            if isinstance(target, ast.Name) and base:
                parents.setdefault(target.id, set()).add(base)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            if node.func.attr in _ADDRESSED or node.func.attr.startswith("atomic_"):
                waiting.append(_base_of(node.args[0]))
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += parents.get(name, ())
    return frozenset(reached)


def _base_of(expression: ast.expr) -> str:
    """Return the name that an address begins with: `x_ptr` of `x_ptr + offsets`; empty for none."""
    while isinstance(expression, ast.BinOp) and isinstance(expression.op, (ast.Add, ast.Sub)):
        expression = expression.left
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        is_address = expression.func.attr in ("make_block_ptr", "advance", "to", "multiple_of")
        first = expression.args[0] if expression.args else expression.func.value
        return _base_of(expression.func.value if expression.func.attr == "to" else first) if is_address else ""
    return expression.id if isinstance(expression, ast.Name) else ""


def suggestion(kernel: ProjectKernel, known: Callable[[str], str] = lambda name: "") -> str:
    """Return a signature to fill in: what is not known is as `?`."""
    parts = []
    for parameter in kernel.parameters:
        if parameter.name in kernel.tuned or parameter.default is not None:
            continue
        text = known(parameter.name)
        if parameter.is_constant:
            parts.append(f"{parameter.name}={text or '?'}")
        else:
            parts.append(text or ("*?" if parameter.name in kernel.pointers else "?"))
    return f"{kernel.name}: {','.join(parts)}"


DTYPE_OF_TORCH = _OF_TORCH
