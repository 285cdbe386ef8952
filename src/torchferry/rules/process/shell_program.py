"""A program of the CUDA toolkit in a script, a Makefile or a Dockerfile: `nvidia-smi`, `nvcc`, `nsys`.

It is not installed on the target's machine: the command fails, or what counts its lines counts none. The maker has a
program of its own, with other options and other output, so what reads the output must be looked at too.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Finding
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import COMMAND_KINDS, commands_of, prints_text
from torchferry.rules.process.programs import find_programs
from torchferry.source.requirements import in_command

_PACKAGES = frozenset({"apt", "apt-get", "yum", "dnf", "brew", "apk"})


class ShellProgram(Rule):
    """Finds programs of the CUDA toolkit in command lines."""

    CODE = "PRC102"
    CHINESE = """脚本、Makefile 或 Dockerfile 中的 CUDA 工具：`nvidia-smi`、`nvcc`、`nsys`。

目标平台的机器上没有安装：命令失败，或数到 0 行。厂商有自己的程序，选项与输出都不同，读取输出的代码也必须检查。
"""
    WORDS = ("nvidia-", "nvcc", "nvprof", "nsys", "gpustat", "nvitop", "nvtop", "cuda-", "ncu", "dcgmi")
    KINDS = COMMAND_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each program, once."""
        seen: set[int] = set()
        for command in commands_of(context):
            if prints_text(command) or not command.words or next(in_command(command), None) is not None:
                continue
            if any(word.value in _PACKAGES for word in command.words[:2]):
                continue
            last = command.words[-1].end
            for word in command.words:
                if "=" in word.text or "$(" in word.text:
                    continue
                for program in find_programs(context.target, context.text, word.start, last):
                    if program.start not in seen and program.end <= word.end:
                        seen.add(program.start)
                        span = (program.start, program.end)
                        yield self.finding(context, span, program.message, program.grade, program.edits)
