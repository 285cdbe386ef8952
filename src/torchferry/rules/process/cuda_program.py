"""A program of the CUDA toolkit started from Python: `nvidia-smi`, `nvcc`, `nsys`, `trtexec`.

It is not installed on the target's machine, so the call raises or its output is empty. The vendor has its own program
with other options and output, so check the code that reads the output too.

Why: The program is not installed, so the call raises or code that counts cards counts none.

References:
- table tools
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Effect, Finding
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.process.programs import find_programs
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name, string_value


class CudaProgram(Rule):
    """Finds programs of the CUDA toolkit in strings that may be commands."""

    CODE = "PRC101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use the target's program"), say("leave the program out"))
    NEEDS_COUNTERPART = True
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
            yield from self._programs(context, node)

    def _programs(self, context: PythonContext, node: ast.Constant) -> Iterator[Finding]:
        """Yield a finding for each program in one string."""
        words = _words_from(context, node)
        start, end = context.file.literal_span(node)
        if words is None:
            for program in find_programs(context.target, context.text, start, end):
                edits = [
                    # what is looked for on the path is a program alone: `shutil.which("npu-smi")`
                    edit._replace(text=edit.text.partition(" ")[0]) if _is_looked_for(context, node) else edit
                    for edit in program.edits
                ]
                yield self.finding(context, (program.start, program.end), program.message, program.grade, edits)
            return
        given = [string_value(word) for word in words]
        line = " ".join(_UNREAD if word is None else word for word in given)
        for program in find_programs(context.target, line, 0, len(line)):
            if program.start < len(given[0] or ""):
                edits = [_split(context, words, line, edit) for edit in program.edits]
                at = context.text.find(line[program.start : program.end], start, end)
                span = (start, end) if at < 0 else (at, at + program.end - program.start)
                yield self.finding(context, span, program.message, program.grade, edits)


_UNREAD = "$"
"""What stands for a word that nobody can tell."""

_WITHOUT_SHELL = frozenset({"run", "Popen", "call", "check_call", "check_output"})


def _words_from(context: PythonContext, node: ast.expr) -> list[ast.expr] | None:
    """Return the words of a command that is given word by word, from one on; None where a shell divides the text."""
    parent = context.file.parents.get(node)
    if " " in (string_value(node) or ""):
        return None
    if isinstance(parent, (ast.List, ast.Tuple)) and node in parent.elts:
        place = parent.elts.index(node)
        if place and string_value(parent.elts[place - 1]) == "-c":
            return None
        above = context.file.parents.get(parent)
        more = [above] if isinstance(above, ast.BinOp) and above.left is parent else []
        return [*parent.elts[place:], *more]
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return None
    if last_name(parent.func) == "create_subprocess_exec":
        return parent.args[parent.args.index(node) :]
    return [node] if _is_whole_program(context, parent) and node is parent.args[0] else None


def _is_whole_program(context: PythonContext, call: ast.Call) -> bool:
    """Whether the text that a call is given is the name of a program: no shell divides it."""
    name = context.names.qualified(call.func) or ""
    owner, _, function = name.rpartition(".")
    return owner == "subprocess" and function in _WITHOUT_SHELL and keyword_of(call, "shell") is None


def _split(context: PythonContext, words: list[ast.expr], line: str, edit: Edit) -> Edit:
    """Return the edit that writes a command word by word in place of some of the words."""
    replaced = len(line[edit.start : edit.end].split(" "))
    start, end = context.file.span(words[0])[0], context.file.span(words[replaced - 1])[1]
    quote = context.text[end - 1]
    before, behind = line[: edit.start], line[edit.end :].partition(" ")[0]
    written = ", ".join(f"{quote}{word}{quote}" for word in f"{before}{edit.text}{behind}".split(" "))
    call = context.file.parents.get(words[0])
    is_text = isinstance(call, ast.Call) and _is_whole_program(context, call)
    return Edit(start, end, f"[{written}]" if is_text else written)


def _is_looked_for(context: PythonContext, node: ast.expr) -> bool:
    call = context.file.parents.get(node)
    return isinstance(call, ast.Call) and last_name(call.func) in ("which", "find_executable")
