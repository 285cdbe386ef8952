"""An extension of C for `torch.utils.ffi`, which torch has not had since 1.0.

No torch that a target's plugin takes can build or load it. Write it anew with `torch.utils.cpp_extension`, and port its
CUDA kernels; or use what has come into torch and torchvision since (`torchvision.ops.roi_align`, `nms`).
Tests of `torch.cuda.is_available()` in its build script, and of `.is_cuda` in front of its kernels, stay as they are.

Why: No torch that supports the target can build or load the extension.

References:
- page verdict
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.guarded import Guard, guard_of, without


class TorchUtilsFfi(Rule):
    """Finds imports of `torch.utils.ffi`."""

    CODE = "EXT106"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WORDS = ("utils.ffi", "import ffi")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import statement."""
        seen: set[ast.AST] = set()
        for reference in context.names.references("torch"):
            if not (reference.name + ".").startswith("torch.utils.ffi.") or not isinstance(reference.node, ast.alias):
                continue
            statement = context.file.parents[reference.node]
            if statement in seen:
                continue
            seen.add(statement)
            guard = guard_of(context.file, statement)
            message = say(
                "`torch.utils.ffi` was removed in torch 1.0: rewrite the extension with "
                "`torch.utils.cpp_extension` and port its kernels to {target}",
                target=context.target.title,
            )
            grade, effect = without(guard, self.EFFECT)
            span = context.file.span(statement)
            blocker = guard is Guard.NONE
            lacks = "torch.utils.ffi"
            yield self.finding(context, span, message, grade, effect=effect, blocker=blocker, lacks=lacks)
