"""Begins an operator of one's own, outside of torch's: its definition, the host's part, a kernel, a build, a test.

The definition, the gradient, the check without values and the reference are Python (`torch.library`), so that they
serve on every machine. Only the host's part and the kernel belong to the card.
"""

from __future__ import annotations

import re
import shlex
from string import Template
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.build_facts import build_facts
from torchferry.backends.own_kernels import OwnKernels, own_kernels
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.ops.codegen.upstream import torch_folder
from torchferry.rehearsal.build import compiler

_SCHEMA = re.compile(r"(?P<space>[A-Za-z_]\w*)::(?P<name>[A-Za-z_]\w*)(?P<rest>\(.*)", re.DOTALL)

_EXAMPLE = '"acme::scale(Tensor x, float by) -> Tensor"'

_SCALARS = {"int": ("int64_t", "int64_t"), "float": ("double", "float"), "bool": ("bool", "bool")}
"""For each type of a schema: what the host takes, and what the kernel takes."""


class OwnOperator(NamedTuple):
    """What an operator of one's own begins with.

    Attributes:
        name: Without its namespace.
        files: Contents by name.
        compile_command: How the host's part is compiled on a machine without the card.
        remarks: What the user should know.
    """

    name: str
    files: dict[str, bytes]
    compile_command: str
    remarks: tuple[Message, ...]


class _Parts(NamedTuple):
    """An operator's schema, taken apart: names of tensors, other arguments with their type, number of results.

    `signature` has the arguments in Python, with their defaults: torch leaves out what is equal to its default.
    """

    space: str
    name: str
    schema: str
    tensors: tuple[str, ...]
    scalars: tuple[tuple[str, str], ...]
    order: tuple[str, ...]
    signature: str
    results: int


def begin_own(schema: str, backend: type[Backend]) -> OwnOperator:
    """Return what an operator of one's own begins with on a backend's card; nothing is written.

    Args:
        schema: With the namespace: `acme::scale(Tensor x, float by) -> Tensor`.
        backend: Whose kernel language it is to be written in.

    Raises:
        UsageError: the schema is none, is torch's own, or has what no skeleton is made for.
        TorchferryError: the backend's kernel language is not public.
    """
    language = own_kernels(backend)
    if language is None:
        raise TorchferryError(
            say("how kernels for {target} are written and built is not public", target=backend.NAME),
            say("ask the vendor: `torchferry ops request` writes the request"),
        )
    parts = _parts(schema)
    target = Target(backend, backend.DEFAULT_VERSION)
    facts = build_facts(backend)
    files = {
        f"{parts.name}.py": _definition(parts),
        f"{parts.name}_host.cpp": _host(parts, language, backend),
        f"{parts.name}_kernel{language.suffix}": _kernel(parts, language, backend, facts.language),
        "setup.py": _setup(parts, language, target),
        f"test_{parts.name}.py": _test(parts, backend),
    }
    remarks = []
    if not language.stream:
        remarks.append(say("which stream {plugin} runs on is not public: the kernel is launched on the default one",
                           plugin=backend.PLUGIN))  # fmt: skip
    return OwnOperator(
        parts.name, {name: text.encode() for name, text in files.items()}, _compile_command(parts), tuple(remarks)
    )


def _parts(schema: str) -> _Parts:
    match = _SCHEMA.fullmatch(schema.strip())
    if match is None:
        raise UsageError(
            say("`{schema}` is not an operator schema", schema=schema),
            say("write it with its namespace, such as {example}", example=_EXAMPLE),
        )
    if match["space"] == "aten":
        raise UsageError(
            say("`{schema}`: the namespace aten belongs to torch", schema=schema),
            say("choose another namespace; for a torch operator, give its name without a schema"),
        )
    function = _parsed(match["name"] + match["rest"], schema)
    if function.arguments.kwarg_only:
        raise _not_made(schema, "*")
    tensors, scalars, order, signature = [], [], [], []
    for argument in function.arguments.flat_all:
        kind = str(argument.type)
        order.append(argument.name)
        signature.append(argument.name if argument.default is None else f"{argument.name}={argument.default}")
        if kind == "Tensor" and argument.annotation is None:
            tensors.append(argument.name)
        elif kind in _SCALARS:
            scalars.append((argument.name, kind))
        else:
            raise _not_made(schema, f"{kind} {argument.name}")
    if not tensors:
        raise _not_made(schema, "()")
    for returned in function.returns:
        if str(returned.type) != "Tensor" or returned.annotation is not None:
            raise _not_made(schema, str(returned.type))
    if not function.returns:
        raise _not_made(schema, "-> ()")
    text = " ".join(match["rest"].split())
    return _Parts(
        match["space"], match["name"], text, tuple(tensors), tuple(scalars), tuple(order), ", ".join(signature),
        len(function.returns),
    )  # fmt: skip


def _parsed(text: str, schema: str) -> Any:
    from torchgen.model import FunctionSchema

    try:
        return FunctionSchema.parse(" ".join(text.split()))
    except (AssertionError, RuntimeError, ValueError, IndexError) as error:
        raise UsageError(
            say("`{schema}` is not an operator schema: {error}",
                schema=schema, error=(str(error).splitlines() or ["?"])[0]),
            say("write it with its namespace, such as {example}", example=_EXAMPLE),
        ) from None  # fmt: skip


def _not_made(schema: str, what: str) -> UsageError:
    return UsageError(
        say("`{schema}`: no skeleton can be written for `{what}`", schema=schema, what=what),
        say("use only arguments Tensor, int, float and bool and results Tensor; then edit the files"),
    )


def _names(count: int) -> list[str]:
    return ["result"] if count == 1 else [f"result{index}" for index in range(count)]


_DEFINITION = Template('''\
"""$space::$name: its definition, its gradient, its results without values, and the CPU's reference.

    import $name                     # loads the card's part where it is built
    torch.ops.$space.$name($called)
"""

import importlib.util

import torch

torch.library.define("$space::$name", "$schema")

if importlib.util.find_spec("${name}_card") is not None:
    torch.ops.load_library(importlib.util.find_spec("${name}_card").origin)


@torch.library.register_fake("$space::$name")
def _without_values($signature):
    return $likes  # TODO: sizes and dtypes of the results


@torch.library.impl("$space::$name", "CPU")
def reference($signature):
    """The result that counts, in float32 or better."""
    raise NotImplementedError("$space::$name has no CPU reference yet")


def _keep(ctx, inputs, output):
    $unpacked = inputs
    ctx.save_for_backward($tensors)


def _gradient(ctx, $gradients):
    raise NotImplementedError("$space::$name has no gradient yet")  # one for each argument, None where there is none


torch.library.register_autograd("$space::$name", _gradient, setup_context=_keep)
''')


def _definition(parts: _Parts) -> str:
    likes = [f"torch.empty_like({parts.tensors[0]})"] * parts.results
    return _DEFINITION.substitute(
        space=parts.space,
        name=parts.name,
        schema=parts.schema,
        called=", ".join(parts.order),
        signature=parts.signature,
        unpacked=", ".join(parts.order) + ("," if len(parts.order) == 1 else ""),
        tensors=", ".join(parts.tensors),
        likes=", ".join(likes),
        gradients=", ".join(f"of_{name}" for name in _names(parts.results)),
    )


_HOST = Template("""\
// The host's part of $space::$name: checks, results, and the call of the kernel in $file.
#include <ATen/DeviceGuard.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <tuple>
$stream
// defined in $file, which the vendor's compiler builds
void launch_$name($launched);

namespace {

$returned $name($parameters) {
$checks
  const c10::DeviceGuard guard($first.device());
$contiguous
$made
  launch_$name($given);
  return $value;
}

}  // namespace

TORCH_LIBRARY_IMPL($space, $key, m) { m.impl("$name", TORCH_FN($name)); }
""")

_STREAM = Template("""\

#if __has_include(<$header>)
#include <$header>
static void* current_stream() { return $stream; }
#else  // without the plugin's headers this only shows that the file compiles
static void* current_stream() { TORCH_CHECK(false, "built without $header of $plugin"); }
#endif
""")


def _host(parts: _Parts, language: OwnKernels, backend: type[Backend]) -> str:
    kinds = dict(parts.scalars)
    results = _names(parts.results)
    checks = [
        f'  TORCH_CHECK({name}.scalar_type() == at::kFloat, "{parts.space}::{parts.name}: `{name}` is of ",\n'
        f'              {name}.scalar_type(), "; the kernel is written for float32");'
        for name in parts.tensors
    ]
    stream = ""
    if language.stream:
        stream = _STREAM.substitute(header=language.stream_header, stream=language.stream, plugin=backend.PLUGIN)
    given = ["current_stream()" if language.stream else "nullptr"]
    given += [f"{name}.data_ptr<float>()" for name in results]
    for name in parts.order:
        given += [name] if name in kinds else [f"{name}_.data_ptr<float>()", f"{name}_.numel()"]
    returned = "at::Tensor" if parts.results == 1 else f"std::tuple<{', '.join(['at::Tensor'] * parts.results)}>"
    return _HOST.substitute(
        space=parts.space,
        name=parts.name,
        file=f"{parts.name}_kernel{language.suffix}",
        stream=stream,
        launched=_launched(parts, "double"),
        returned=returned,
        parameters=", ".join(
            f"{_SCALARS[kinds[name]][0]} {name}" if name in kinds else f"const at::Tensor& {name}"
            for name in parts.order
        ),
        checks="\n".join(checks),
        first=parts.tensors[0],
        contiguous="\n".join(f"  const auto {name}_ = {name}.contiguous();" for name in parts.tensors),
        made="\n".join(
            f"  auto {name} = at::empty_like({parts.tensors[0]}_);  // TODO: its size and dtype" for name in results
        ),
        given=", ".join(given),
        value=results[0] if parts.results == 1 else f"{{{', '.join(results)}}}",
        key=backend.DISPATCH_KEY,
    )


def _launched(parts: _Parts, of_float: str) -> str:
    """Return the parameters of the function between host and kernel."""
    kinds = dict(parts.scalars)
    texts = ["void* stream", *(f"float* {name}" for name in _names(parts.results))]
    for name in parts.order:
        if name in kinds:
            texts.append(f"{of_float if kinds[name] == 'float' else _SCALARS[kinds[name]][0]} {name}")
        else:
            texts += [f"float* {name}", f"int64_t {name}_count"]
    return ", ".join(texts)


_KERNEL = Template("""\
// The kernel of $space::$name in $language. It is not written: the launch raises until it is.
$includes
#include <cstdint>
#include <stdexcept>

$qualifiers ${name}_kernel($parameters) {
$hints
}

void launch_$name($launched) {
  // ${name}_kernel$launch($given);
  throw std::runtime_error("$space::$name is not implemented on $target yet");
}
""")


def _kernel(parts: _Parts, language: OwnKernels, backend: type[Backend], name: str) -> str:
    kinds = dict(parts.scalars)
    parameters = [f"{language.pointer} {each}" for each in _names(parts.results)]
    given = list(_names(parts.results))
    for each in parts.order:
        if each in kinds:
            parameters.append(f"{_SCALARS[kinds[each]][1]} {each}")
            given.append(each)
        else:
            parameters += [f"{language.pointer} {each}", f"int64_t {each}_count"]
            given += [each, f"{each}_count"]
    return _KERNEL.substitute(
        space=parts.space,
        name=parts.name,
        language=name,
        includes="\n".join(f"#include <{header}>" for header in language.includes),
        qualifiers=language.qualifiers,
        parameters=", ".join(parameters),
        hints="\n".join(f"  // {hint}" for hint in language.hints),
        launched=_launched(parts, "double"),
        launch=language.launch,
        given=", ".join(given),
        target=backend.NAME,
    )


_SETUP = Template('''\
"""Builds the card's part of $space::$name: python setup.py build_ext --inplace

$how
"""

from setuptools import setup
$imports

setup(
    name="$name",
    version="0.1",
    py_modules=["$name"],
    ext_modules=[$extension(name="${name}_card", sources=$sources$linked)],
    cmdclass={"build_ext": $builder},
)
''')


def _setup(parts: _Parts, language: OwnKernels, target: Target) -> str:
    facts = build_facts(target.backend)
    classes = []
    for name, own in (("CUDAExtension", facts.extension), ("BuildExtension", facts.builder)):
        row = target.api(f"torch.utils.cpp_extension.{name}")
        classes.append(own or row.use or f"torch.utils.cpp_extension.{name}")
    kernel = f"{parts.name}_kernel{language.suffix}"
    sources, linked, how = [f"{parts.name}_host.cpp", kernel], "", f"Facts: {language.source}."
    if language.compile:
        command = language.compile.format(kernel=kernel, library=f"lib{parts.name}_kernel.so")
        how = f"The kernel first, because the extension class takes C++ alone:\n    {command}\n{how}"
        sources = sources[:1]
        linked = (
            f', library_dirs=["."], libraries=["{parts.name}_kernel"],\n'
            '                            extra_link_args=["-Wl,-rpath,$ORIGIN"]'
        )
    modules: dict[str, list[str]] = {}
    for name in classes:
        module, _, attribute = name.rpartition(".")
        modules.setdefault(module, []).append(attribute)
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items())]
    return _SETUP.substitute(
        space=parts.space,
        name=parts.name,
        how=how,
        imports="\n".join(imports),
        extension=classes[0].rpartition(".")[2],
        builder=classes[1].rpartition(".")[2],
        sources=str(sources).replace("'", '"'),
        linked=linked,
    )


_TEST = Template('''\
"""Tests of $space::$name: python -m pytest test_$name.py

On every machine: results without values and gradients (`opcheck`). Where the card's part is built: against the CPU.
"""

import importlib.util

import pytest
import torch

$plugin
import $name  # noqa: F401, E402 - the definition

DEVICE = "$device"
ON_CARD = torch._C._dispatch_has_kernel_for_dispatch_key("$space::$name", "$key")


def arguments(size, device="cpu"):
    return $arguments  # TODO: what the operator takes


SIZES = [(4, 5), (1,), (0, 3), (2, 3, 4)]


@pytest.mark.parametrize("size", SIZES)
def test_definition(size):
    torch.library.opcheck(torch.ops.$space.$name, arguments(size))


@pytest.mark.skipif(not ON_CARD, reason="the card's part is not built or not loaded")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("strided", [False, True])
def test_card_against_reference(size, strided):
    given = arguments(size)
    if strided:
        given = [each.mT if isinstance(each, torch.Tensor) and each.dim() > 1 else each for each in given]
    there = [each.to(DEVICE) if isinstance(each, torch.Tensor) else each for each in given]
    expected, actual = torch.ops.$space.$name(*given), torch.ops.$space.$name(*there)
    leaves = torch.utils._pytree.tree_leaves
    for one, other in zip(leaves(actual), leaves(expected)):
        assert one.device.type == DEVICE
        torch.testing.assert_close(one.cpu(), other)
''')

_EXAMPLES = {"int": "2", "float": "0.5", "bool": "True"}


def _test(parts: _Parts, backend: type[Backend]) -> str:
    kinds = dict(parts.scalars)
    given = [_EXAMPLES[kinds[name]] if name in kinds else "torch.randn(size, device=device)" for name in parts.order]
    return _TEST.substitute(
        space=parts.space,
        name=parts.name,
        plugin=f'if importlib.util.find_spec("{backend.PLUGIN}") is not None:\n'
        f"    import {backend.PLUGIN}  # noqa: F401 - the device\n",
        device=backend.DEVICE_TYPE,
        key=backend.DISPATCH_KEY,
        arguments=f"({', '.join(given)}{',' if len(given) == 1 else ''})",
    )


def _compile_command(parts: _Parts) -> str:
    """Return the command that compiles the host's part where the card's compiler is not installed."""
    include = torch_folder() / "include"
    words = (
        compiler(), "-std=c++20", "-fsyntax-only", "-isystem", str(include),
        "-isystem", str(include / "torch" / "csrc" / "api" / "include"), f"{parts.name}_host.cpp",
    )  # fmt: skip
    return shlex.join(words)
