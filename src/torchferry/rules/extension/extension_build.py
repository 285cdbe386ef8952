"""CUDA C++ that is compiled: `CUDAExtension`, `cpp_extension.load`, `CUDA_HOME`.

The sources are CUDA; no rewriting of the build script makes them compile for another card. The kernels are ported
first, and then built by the plugin's own extension builder. A build script is therefore left as it is, tests of
`torch.cuda.is_available()` in it included: on the target they skip the CUDA sources.

Why: The build fails, because no compiler for the target reads CUDA.

References:
- page verdict
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.family import WhenPorted
from torchferry.rules.guarded import Guard, guard_of
from torchferry.source.flow.syntax import string_value
from torchferry.source.names import assigned_value

_BUILDERS = frozenset(
    {
        "torch.utils.cpp_extension.CUDAExtension",
        "torch.utils.cpp_extension.load",
        "torch.utils.cpp_extension.load_inline",
    }
)


class ExtensionBuild(Rule):
    """Finds builders of CUDA extensions."""

    CODE = "EXT101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WHEN_PORTED = WhenPorted.BUILDS_TOO
    WORDS = ("cpp_extension",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each builder that is called, and one for the first other name used."""
        others = []
        for reference in context.references.get("extension", ()):
            call = context.file.parents.get(reference.node)
            if reference.name in _BUILDERS and isinstance(call, ast.Call) and call.func is reference.node:
                yield self._report(context, reference.name, call)
            elif not reference.is_import and reference.name not in _BUILDERS:
                others.append(reference)
        for reference in others[:1]:
            message = say(
                "`{found}` builds CUDA C++; {plugin} builds with `{module}`",
                found=reference.name,
                plugin=context.target.backend.PLUGIN,
                module=context.target.backend.EXTENSION_MODULE,
            )
            yield self.finding(context, context.file.span(reference.node), message, Grade.NOTE, effect=Effect.NOTHING)

    def _report(self, context: PythonContext, name: str, call: ast.Call) -> Finding:
        row = context.target.api(name)
        text = context.file.text(call)
        plain = name.endswith("load") and ".cu" not in text and "cuda" not in text
        plain = plain or (name.endswith("load_inline") and _is_plain_inline(context, call))
        if plain:
            message = say("`{found}` builds C++ that may contain CUDA; check its sources", found=name)
        elif not row.use:
            message = noted(
                say(
                    "`{found}` compiles CUDA C++: port the kernels first; how to build them for {target} is UNKNOWN",
                    found=name,
                    target=context.target.title,
                ),
                row.remark,
            )
        else:
            message = noted(
                say(
                    "`{found}` compiles CUDA C++: port the kernels first, then build them with `{use}`",
                    found=name,
                    use=row.use,
                ),
                row.remark,
            )
        span = context.file.span(call.func)
        built = name.endswith("CUDAExtension") or guard_of(context.file, call) is Guard.NONE
        lacks = "" if plain or name.endswith("CUDAExtension") else self._compiled(call)
        return self.finding(context, span, message, Grade.MANUAL, blocker=built and not plain, lacks=lacks)

    @staticmethod
    def _compiled(call: ast.Call) -> str:
        """Return the name of what a call compiles when it runs."""
        named = [keyword.value for keyword in call.keywords if keyword.arg == "name"] or call.args[:1]
        return (string_value(named[0]) if named else None) or "CUDA C++"


def _is_plain_inline(context: PythonContext, call: ast.Call) -> bool:
    """Whether `load_inline` is given C++ alone, of which every source is written in the file and speaks of no CUDA."""
    if len(call.args) > 2 or any(keyword.arg in (None, "cuda_sources", "with_cuda") for keyword in call.keywords):
        return False
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "cpp_sources")]
    sources = [
        part for value in given for part in (value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value])
    ]
    texts = []
    for source in sources:
        bindings = context.names.bindings(source) if isinstance(source, ast.Name) else []
        written = assigned_value(context.file, bindings[0]) if len(bindings) == 1 else source
        texts.append(string_value(written) if written is not None else None)
    return bool(texts) and all(text is not None and "cuda" not in text.lower() for text in texts)
