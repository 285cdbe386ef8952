"""An operator that torchvision compiles itself: `torchvision.ops.nms`, `torch.ops.torchvision.roi_align`.

torchvision contains such operators for the CPU and for CUDA. On the card they run only if the plugin, another package
or the vendor's build has kernels; otherwise the plugin falls back to the CPU, or the call raises. Each operator is
reported once per file. The detection models of torchvision use `nms` and `roi_align`.

Why: The operator raises or runs on the CPU, depending on the plugin.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import is_guarded
from torchferry.rules.missing_kernel import effect_without_kernel, without_kernel

_OPERATORS = {
    "nms": "nms",
    "batched_nms": "nms",
    "roi_align": "roi_align",
    "RoIAlign": "roi_align",
    "MultiScaleRoIAlign": "roi_align",
    "roi_pool": "roi_pool",
    "RoIPool": "roi_pool",
    "ps_roi_align": "ps_roi_align",
    "PSRoIAlign": "ps_roi_align",
    "ps_roi_pool": "ps_roi_pool",
    "PSRoIPool": "ps_roi_pool",
    "deform_conv2d": "deform_conv2d",
    "DeformConv2d": "deform_conv2d",
}
"""Functions and modules of `torchvision.ops`, and the operator that each calls."""

_MODELS = (
    "fasterrcnn_",
    "maskrcnn_",
    "keypointrcnn_",
    "retinanet_",
    "FasterRCNN",
    "MaskRCNN",
    "KeypointRCNN",
    "RetinaNet",
)


class TorchvisionOperator(Rule):
    """Finds operators that torchvision compiles itself."""

    CODE = "LIB113"
    EFFECT = Effect.RAISES
    ANSWERS = (say("install the target's torchvision package"), say("run it on the CPU"))
    WORDS = ("torchvision",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for the first use of each operator."""
        seen: set[str] = set()
        for node, name, operator in _uses(context):
            row = context.target.row("frameworks", f"torchvision.ops.{operator}")
            if operator in seen or row.status == "same" or (row.use and row.use in context.text):
                continue
            if exemption_reason(context, node) is not None or is_guarded(context, node) or _on_cpu(context, node):
                continue
            seen.add(operator)
            message = say(
                "`{name}` calls an operator that torchvision compiles itself; on {target} {without}",
                name=name,
                target=context.target.title,
                without=without_kernel(context.target),
            )
            # what the card does decides, and not whether a remedy is known
            message, effect = noted(message, row.remark), effect_without_kernel(context.target)
            yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=effect)


def _uses(context: PythonContext) -> Iterator[tuple[ast.expr, str, str]]:
    for reference in context.names.references("torchvision"):
        if isinstance(reference.node, ast.alias):
            continue
        _, _, last = reference.name.rpartition(".")
        if reference.name.startswith("torchvision.ops."):
            if last in _OPERATORS:
                yield reference.node, reference.name, _OPERATORS[last]
        elif reference.name.startswith("torchvision.models.detection.") and last.startswith(_MODELS):
            yield reference.node, reference.name, "nms"
    for reference in context.names.references("torch"):
        if reference.name.startswith("torch.ops.torchvision."):
            operator = reference.name.split(".")[3]
            if operator in _OPERATORS and isinstance(reference.node, ast.expr):
                yield reference.node, f"torch.ops.torchvision.{operator}", _OPERATORS[operator]


def _on_cpu(context: PythonContext, node: ast.expr) -> bool:
    """Whether a call is given what was moved to the CPU: `nms(boxes.cpu(), scores.cpu(), 0.5)`."""
    call = context.file.parents.get(node)
    first = call.args[0] if isinstance(call, ast.Call) and call.func is node and call.args else None
    return isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and first.func.attr == "cpu"
