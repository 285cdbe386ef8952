"""A program of the CUDA toolkit in a script, a Makefile or a Dockerfile: `nvidia-smi`, `nvcc`, `nsys`, `trtexec`.

It is not installed on the target's machine. The vendor has its own program with other options and output, so check
what reads the output too.

Why: The command fails, or a script that counts its lines finds no cards.

References:
- table tools
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, prints_text
from torchferry.rules.process.programs import ProgramUse, find_programs
from torchferry.source.requirements import in_command
from torchferry.source.shell import Command

_PACKAGES = frozenset({"apt", "apt-get", "yum", "dnf", "brew", "apk"})
_LOOKS_FOR = frozenset({"which", "command", "type", "hash", "whereis", "where", "pgrep", "pkill", "killall"})
"""Programs whose arguments are names of programs, without arguments of their own."""


class ShellProgram(Rule):
    """Finds programs of the CUDA toolkit in command lines."""

    CODE = "PRC102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use the target's program"), say("leave the program out"))
    NEEDS_COUNTERPART = True
    WORDS = (
        "nvidia-", "nvcc", "nvprof", "nsys", "gpustat", "nvitop", "nvtop", "cuda-", "ncu", "dcgmi", "trtexec",
        "trtllm-", "polygraphy", "onnx2trt", "tensorrt_llm",
    )  # fmt: skip
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each program, once."""
        seen: set[int] = set()
        for command in commands_of(context):
            if prints_text(command) or not command.words or next(in_command(command), None) is not None:
                continue
            if any(word.value in _PACKAGES for word in command.words[:2]):
                continue
            for program in _programs(context, command):
                if program.start not in seen:
                    seen.add(program.start)
                    span = (program.start, program.end)
                    yield self.finding(context, span, program.message, program.grade, program.edits)


def _programs(context: Context, command: Command) -> Iterator[ProgramUse]:
    """Yield the programs that a command starts or looks for; those inside its substitutions are not its own."""
    text = context.text
    words = iter(command.words)
    word = next(words)
    looks_for = any(part.value.lstrip("@-") in _LOOKS_FOR for part in command.words[:3])  # if ! command -v ...
    for program in find_programs(context.target, text, word.start, command.words[-1].end):
        while word.end < program.end and (following := next(words, None)) is not None:
            word = following
        if not word.start <= program.start or program.end > word.end or "=" in word.text or "$(" in word.text:
            continue
        if word.text[0] in "\"'" and len(word.text.split()) > 1:
            continue  # a text; the command lines among them have been read by themselves
        yield _looked_for(context, program) if looks_for and program.edits else program


def _looked_for(context: Context, program: ProgramUse) -> ProgramUse:
    """Return a program whose name alone is asked for: what takes its place is a name alone too."""
    name = context.text[program.start : program.end]
    row = context.target.row("tools", name)
    message = noted(
        say(
            "`{name}` is a program of NVIDIA; {target} has `{use}`, with other options and output",
            name=name,
            target=context.target.title,
            use=row.use,
        ),
        row.remark,
    )
    if not row.use or " " in row.use:
        return program._replace(message=message, grade=Grade.MANUAL, edits=())
    return program._replace(message=message, edits=(Edit(program.start, program.end, row.use),))
