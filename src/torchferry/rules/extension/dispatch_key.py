"""An operator registered in Python for CUDA: `lib.impl("f", f, "CUDA")`, `@impl(lib, "f", "AutogradCUDA")`.

torch calls what is registered for the dispatch key of the tensors it is given. On the target that is another key, so
the registration is never used, and the operator fails, or something slower stands in for it, without a word. The key
changes with `--unsafe-fixes`: the function that is registered must itself run on the target, which a CUDA kernel does
not.

Why: The registration is never used: the operator fails, or a slower one silently replaces it.

References:
- torch 2.13.0 headers: ATen/cuda, c10/cuda, c10/core/DeviceType.h, c10/core/DispatchKey.h, torch/library.h
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name

_KEY = lazy_regex(r"(?P<kind>Autograd|Autocast|Sparse|SparseCsr)?CUDA\Z")
_TAKES_KEY = lazy_regex(r"(?:impl|py_impl|Library|fallback|fallthrough_kernel|DispatchKey|DispatchKeySet)\Z|dispatch")
_ALWAYS = frozenset({None, "Autograd"})
"""Kinds of key that torch has for every device."""


class DispatchKey(Rule):
    """Finds dispatch keys of CUDA in Python."""

    CODE = "EXT107"
    EFFECT = Effect.RAISES
    ANSWERS = (say("name the target's dispatch key"),)
    WORDS = ('"CUDA"', "'CUDA'", "AutogradCUDA", "AutocastCUDA", "SparseCUDA", "SparseCsrCUDA", "DispatchKey")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each key that a call takes, and for each attribute of `DispatchKey`."""
        for node in context.file.strings:
            key = _KEY.match(node.value) if isinstance(node.value, str) else None
            parent = context.file.parents.get(node)
            if isinstance(parent, ast.keyword):
                parent = context.file.parents.get(parent)
            if key is None or not isinstance(parent, ast.Call) or _TAKES_KEY.search(last_name(parent.func)) is None:
                continue
            if exemption_reason(context, node) is None:
                yield self._report(context, node, key)
        for name, attributes in context.file.attributes.items():
            key = _KEY.match(name)
            for attribute in attributes if key is not None else ():
                if last_name(attribute.value) == "DispatchKey" and exemption_reason(context, attribute) is None:
                    assert key is not None
                    yield self._report(context, attribute, key)

    def _report(self, context: PythonContext, node: ast.Constant | ast.Attribute, key: re.Match[str]) -> Finding:
        wanted = context.target.dispatch_key
        message = say(
            "dispatch key `{found}` is `{use}` on {target}: what is registered for CUDA is never called there",
            found=key[0],
            use=f"{key['kind'] or ''}{wanted}" if wanted else "UNKNOWN",
            target=context.target.title,
        )
        if isinstance(node, ast.Attribute):
            return self.finding(context, context.file.span(node), message, Grade.MANUAL)
        span = literal_span(context, node)
        if wanted is None or key["kind"] not in _ALWAYS or context.target.module:
            return self.finding(context, span, message, Grade.MANUAL)
        try:
            edits = word_edits(context, node, "CUDA", wanted)
        except ValueError:
            edits = []
        return self.finding(context, span, message, Grade.UNSAFE if edits else Grade.MANUAL, edits)
