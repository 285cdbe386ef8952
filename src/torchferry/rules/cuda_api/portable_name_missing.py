"""A portable name without a counterpart on the target.

Portable code uses `torchferry.device`, or the file `device_utils.py`, instead of `torch.cuda` (`migrate --style
portable`). If the target has no such function, the call raises and names a replacement; a name of CUDA that becomes one
is a decision before the migration as well. Figures that a device does not report are 0, with a warning, and are not
findings. Restrict the call to the devices that have it: test `ACCELERATOR_TYPE`, or ask the plugin for the name with
`hasattr(accelerator_namespace, "Stream")`.

Why: The program works on other devices and raises on this target.

References:
- table api
- page device-manager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.counterpart import Decision, decide
from torchferry.backends.portable import INSTALLED
from torchferry.backends.target import Target
from torchferry.backends.unknown import UNKNOWN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.core.vendored import FIRST
from torchferry.rules.base import Options, PythonContext, Rule, keyword_of
from torchferry.rules.device.strings import literal_span
from torchferry.rules.distributed.composite_backend import WHOLE, one_backend_alone
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import CUDA_NAMES
from torchferry.source.names import Reference

_COPY = "device_utils"


class PortableNameMissing(Rule):
    """Finds portable names that the target lacks."""

    CODE = "CUD111"
    EFFECT = Effect.RAISES
    WORDS = (INSTALLED, "torchferry import device", _COPY)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Names of CUDA as well, where portable ones are to take their place."""
        return (*self.WORDS, *CUDA_NAMES, "cuda:nccl") if target.module else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use and each import, and for each name of CUDA that a portable one replaces."""
        yield from self._replaced(context)
        modules = (INSTALLED, _COPY, *_copies(context))
        for package in sorted({module.partition(".")[0] for module in modules}):
            for reference in context.names.references(package):
                name = _below_cuda(reference.name, modules)
                owner = context.file.parents.get(reference.node)
                advice = _own_function_raises(context, reference, modules)
                if advice is not None:
                    yield self._raises(context, reference, advice)
                elif context.target.backend.DEVICE_GENERATOR is UNKNOWN and _makes_generator(
                    context, reference, modules
                ):
                    message = say(
                        "whether {target} has device generators is UNKNOWN; if not, generate on the CPU and "
                        "move the result",
                        target=context.target.title,
                    )
                    span = context.file.span(reference.node)
                    yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
                if not name:
                    continue
                if isinstance(owner, ast.Attribute) and _below_cuda(f"{reference.name}.{owner.attr}", modules):
                    continue
                row = context.target.of_vendor(f"{cuda.NAMESPACE}.{name}")
                if decide(context.target, row).decision is not Decision.LACK:
                    continue
                yield self._raises(context, reference, row.remark or say("it has no counterpart"))

    def _replaced(self, context: PythonContext) -> Iterator[Finding]:
        """Yield the names of CUDA whose portable ones raise on the target: the rename is no answer there."""
        module = context.target.module
        if module not in (INSTALLED, _COPY):
            return
        for reference in (each for references in context.references.values() for each in references):
            if reference.is_import or not isinstance(reference.node.ctx, ast.Load):  # type: ignore[union-attr]
                continue
            use = context.target.api(reference.name).use
            name = _below_cuda(use, (module,))
            row = context.target.of_vendor(f"{cuda.NAMESPACE}.{name}")
            if name and decide(context.target, row).decision is Decision.LACK:
                if exemption_for(context, reference.node) is None:
                    advice = row.remark or say("it has no counterpart")
                    yield self._raises(context, reference._replace(name=use), advice)

        if context.target.backend.COMPOSITE_COLLECTIVE is False:
            for node in context.file.strings:
                if node.value in WHOLE and exemption_for(context, node) is None:
                    advice = one_backend_alone(context.target)
                    yield self._raises_at(context, literal_span(context, node), f"{module}.composite_backend", advice)

    def _raises(self, context: PythonContext, reference: Reference, advice: object) -> Finding:
        return self._raises_at(context, context.file.span(reference.node), reference.name, advice)

    def _raises_at(self, context: PythonContext, span: tuple[int, int], use: str, advice: object) -> Finding:
        message = say("`{found}` raises on {target}: {advice}", found=use, target=context.target.title, advice=advice)
        return self.finding(context, span, message, Grade.MANUAL)


def _own_function_raises(context: PythonContext, reference: Reference, modules: Iterable[str]) -> Message | None:
    """Return what does instead of a function of the module that raises on the target; None where it does not."""
    backend, target = context.target.backend, context.target
    module, _, name = reference.name.rpartition(".")
    call = context.file.parents.get(reference.node)
    if module not in modules or not isinstance(call, ast.Call) or call.func is not reference.node:
        return None
    if backend.DEVICE_GENERATOR is False and _makes_generator(context, reference, modules):
        return say("{target} has no device generator: generate on the CPU and move the result", target=target.title)
    if name == "composite_backend" and backend.COMPOSITE_COLLECTIVE is False:
        return one_backend_alone(target)
    return None


def _makes_generator(context: PythonContext, reference: Reference, modules: Iterable[str]) -> bool:
    """Whether a generator is asked for that is the device's own."""
    module, _, name = reference.name.rpartition(".")
    call = context.file.parents.get(reference.node)
    is_called = isinstance(call, ast.Call) and call.func is reference.node and keyword_of(call, "on_cpu") is None
    return is_called and module in modules and name == "create_generator"


def _copies(context: PythonContext) -> Iterator[str]:
    """Yield the modules in packages of the project that a file imports and torchferry wrote."""
    if context.project is None:
        return
    for statement in context.file.imports:
        owner = context.names.imported_module(statement) if isinstance(statement, ast.ImportFrom) else ""
        for alias in statement.names:
            for module in {owner, f"{owner}.{alias.name}"} if owner else {alias.name}:
                relative = module.startswith(".")  # a migration writes none
                path = context.project.module_path(module, context.path) if _COPY in module and not relative else None
                source = context.project.text(path) if path is not None else None
                if source is not None and source.text.startswith(FIRST):
                    yield module


def _below_cuda(qualified: str, modules: Iterable[str]) -> str:
    """Return what a portable name is called below `torch.cuda`, if it raises where there is nothing; else nothing."""
    for module in modules:
        if qualified.startswith(f"{module}."):
            name = qualified[len(module) + 1 :]
            for candidate in (name, f"amp.{name}"):
                if cuda.portable().get(candidate) == "raises":
                    return candidate
    return ""
