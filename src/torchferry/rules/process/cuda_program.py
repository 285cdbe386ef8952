"""A program of the CUDA toolkit started from Python: `nvidia-smi`, `nvcc`, `nsys`, `trtexec`.

It is not installed on the target's machine, so the call raises or its output is empty. The vendor has its own program
with other options and output, so check the code that reads the output too.

Why: The program is not installed, so the call raises or code that counts cards counts none.

References:
- table tools
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.process.programs import find_programs
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name


class CudaProgram(Rule):
    """Finds programs of the CUDA toolkit in strings that may be commands."""

    CODE = "PRC101"
    EFFECT = Effect.RAISES
    WORDS = (
        "nvidia-smi", "nvcc", "nvprof", "nsys", "gpustat", "nvitop", "cuda-gdb", "cuda-memcheck", "dcgmi", "trtexec",
        "trtllm-", "onnx2trt", "tensorrt_llm.commands",
    )  # fmt: skip

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each program named in a string that is not a text for people."""
        for node in context.file.strings:
            if not isinstance(node.value, str) or not any(word in node.value for word in self.WORDS):
                continue
            if is_text(context, node) or exemption_reason(context, node) is not None:
                continue
            start, end = context.file.literal_span(node)
            for program in find_programs(context.target, context.text, start, end):
                edits = [
                    # what is looked for on the path is a program alone: `shutil.which("npu-smi")`
                    edit._replace(text=edit.text.partition(" ")[0]) if _is_looked_for(context, node) else edit
                    for edit in program.edits
                ]
                yield self.finding(context, (program.start, program.end), program.message, program.grade, edits)


def _is_looked_for(context: PythonContext, node: ast.expr) -> bool:
    call = context.file.parents.get(node)
    return isinstance(call, ast.Call) and last_name(call.func) in ("which", "find_executable")
