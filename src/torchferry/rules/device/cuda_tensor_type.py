"""A tensor type of CUDA: `torch.cuda.FloatTensor`, or its name as a string.

Such types construct tensors, convert them (`x.type(torch.cuda.HalfTensor)`), name the default tensor type, and are
compared with what `x.type()` returns: on the target that string begins with another word, so the comparison is
silently false. Where the plugin has the type, the name changes; where it has not, write the device and the dtype:
`torch.zeros(n, dtype=torch.float32, device=...)`. `torch.set_default_tensor_type` takes types of CUDA and of the CPU
alone: for a plugin's it raises TypeError. Set the default dtype and the default device instead.

Why: Creating the tensor raises. A comparison of type names is silently False.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext
from torchferry.rules.conditions import stored_uses
from torchferry.rules.device.built_tensor_type import WORD, built_type
from torchferry.rules.device.expressions import device_type
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.exemptions import exemption_for, exemption_reason
from torchferry.rules.references import CUDA_NAMES, ReferenceRule, missing, replaced
from torchferry.rules.texts import is_text
from torchferry.source.lexicon import TENSOR_TYPE_SPELLING
from torchferry.source.names import Reference

_DEFAULT = "torch.set_default_tensor_type"
SAMPLE = "torch.cuda.FloatTensor"
"""The type whose name shows with which word the names of types begin on a target."""

_DTYPES = {"BFloat16": "bfloat16", "Double": "float64", "Float": "float32", "Half": "float16"}


class CudaTensorType(ReferenceRule):
    """Finds tensor types of CUDA, as names and as strings."""

    CODE = "DEV105"
    EFFECT = Effect.RAISES
    WORDS = (*CUDA_NAMES, '"cuda.', "'cuda.")
    GROUPS = ("tensor",)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield what there is to say about one use."""
        default = self._default_type(context, reference.node, reference.name)
        if default is not None:
            yield default
        else:
            yield from super().check_reference(context, reference)

    def _default_type(self, context: PythonContext, node: ast.AST, name: str) -> Finding | None:
        """Return the finding for a type that becomes the default one, which a plugin's cannot."""
        dtype = _DTYPES.get(name.rpartition(".")[2].removesuffix("Tensor"))
        if dtype is None or exemption_reason(context, node) is not None or not _becomes_default(context, node):
            return None
        if context.target.of_vendor(name).status == "missing":
            return None  # then the table says what to write
        message = say(
            "`{found}` does not accept tensor types of {target}: write "
            "`torch.set_default_dtype(torch.{dtype})` and `torch.set_default_device({device})`",
            found=_DEFAULT,
            target=context.target.title,
            dtype=dtype,
            device=device_type(context),
        )
        return self.finding(context, context.file.span(node), message, Grade.MANUAL)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use and each string."""
        yield from super().check_python(context)
        for node in context.file.strings:
            if not isinstance(node.value, str):
                continue
            if not TENSOR_TYPE_SPELLING.match(node.value):
                yield from self._built(context, node)
                continue
            default = self._default_type(context, node, node.value)
            if default is not None:
                yield default
                continue
            row = context.target.api(node.value)
            span = literal_span(context, node)
            exemption = exemption_for(context, node)
            if exemption is not None:
                message = say("`{found}` is left as it is: {reason}", found=node.value, reason=exemption.reason)
                yield self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
            elif row.status in REWRITTEN and row.use:
                try:
                    edits = word_edits(context, node, node.value, row.use)
                except ValueError:
                    edits = []
                grade = Grade.SAFE if edits else Grade.MANUAL
                yield self.finding(context, span, replaced(context, node.value, row), grade, edits)
            else:
                message = missing(context, node.value, row)
                yield self.finding(context, span, message, Grade.MANUAL)

    def _built(self, context: PythonContext, node: ast.Constant) -> Iterator[Finding]:
        """Yield the finding for a literal that is a part of a type's name."""
        whole = built_type(context, node) if WORD.search(node.value) else None  # type: ignore[arg-type]
        if whole is None or exemption_reason(context, node) is not None or is_text(context, node):
            return
        default = self._default_type(context, whole, SAMPLE)
        if default is not None:
            yield default
            return
        row = context.target.api(SAMPLE)
        begin = row.use.removesuffix("FloatTensor") if row.status in REWRITTEN else ""
        edits = []
        if begin.startswith("torch.") and not context.target.module:
            edits = word_edits(context, node, "cuda.", begin.removeprefix("torch."))
        message = replaced(context, SAMPLE, row) if edits else missing(context, SAMPLE, row)
        yield self.finding(context, literal_span(context, node), message, Grade.SAFE if edits else Grade.MANUAL, edits)


def _becomes_default(context: PythonContext, node: ast.AST, depth: int = 0) -> bool:
    """Whether a type is given to the function that sets the default one, directly or through names."""
    parent = context.file.parents.get(node)
    while isinstance(parent, ast.IfExp) and node is not parent.test:
        node, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Call) and node in (*parent.args, *(keyword.value for keyword in parent.keywords)):
        return context.names.qualified(parent.func) == _DEFAULT
    return depth < 3 and any(_becomes_default(context, use, depth + 1) for use in stored_uses(context, node))
