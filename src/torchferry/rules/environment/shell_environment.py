"""An environment variable of CUDA in a script, a Makefile, a Dockerfile or a compose file.

`export CUDA_VISIBLE_DEVICES=0,1`, `CUDA_VISIBLE_DEVICES=0 python train.py`, `${CUDA_VISIBLE_DEVICES:-0}`, `-e NAME=`,
`ENV NAME=`: the program on the target does not read it, and takes card 0 of everybody else. Text that is printed stays,
as do comments; a variable inside printed text is a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Finding
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import commands_of, prints_text
from torchferry.rules.environment.variables import replacement
from torchferry.source.dockerfile import instructions
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings
from torchferry.source.shell import Command

_NAME = re.compile(
    r"(?<![A-Za-z0-9_])(?:TORCH_)?(?:CUDA|CUDNN|CUBLAS|NCCL|NVIDIA|PYTORCH_CUDA|PYTORCH_NO_CUDA)_[A-Z0-9_]+"
)
_DECLARES = frozenset({"export", "unset", "declare", "readonly", "local", "typeset", "env", "set", "setenv", "%env"})
_PASSES = frozenset({"-e", "--env", "-x", "-v"})
_ASSIGNS = re.compile(r"[ \t]*(?:\+|[:?!])?=")


class ShellEnvironment(Rule):
    """Finds environment variables of CUDA where commands are written."""

    CODE = "ENV102"
    CHINESE = """脚本、Makefile、Dockerfile 或 compose 文件中的 CUDA 环境变量。

`export CUDA_VISIBLE_DEVICES=0,1`、`CUDA_VISIBLE_DEVICES=0 python train.py`、`${CUDA_VISIBLE_DEVICES:-0}`、`-e NAME=`、
`ENV NAME=`：目标平台上的程序不会读取，于是去抢大家的 0 号卡。打印的文本与注释保持不变；打印文本中的变量仍是变量。
"""
    WORDS = ("CUDA_", "NCCL_", "NVIDIA_", "CUDNN_", "CUBLAS_")
    KINDS = (Kind.SHELL, Kind.MAKEFILE, Kind.DOCKERFILE, Kind.COMPOSE, Kind.YAML)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each place, once."""
        places = self._yaml(context) if context.kind in (Kind.COMPOSE, Kind.YAML) else self._shell(context)
        for start, end in sorted(set(places)):
            found = replacement(context.target, context.text[start:end])
            if found is not None:
                edits = [Edit(start, end, found.use)] if found.use else []
                yield self.finding(context, (start, end), found.message, found.grade, edits)

    def _shell(self, context: Context) -> Iterator[tuple[int, int]]:
        text = context.text
        for command in commands_of(context):
            for index, word in enumerate((*command.assignments, *command.words)):
                for match in _NAME.finditer(text, word.start, word.end):
                    if self._is_variable(context, command, index, match):
                        yield match.span()
        if context.kind is Kind.DOCKERFILE:
            for instruction in instructions(text):
                if instruction.keyword in ("ENV", "ARG"):
                    for match in _NAME.finditer(text, instruction.start, instruction.end):
                        before = text[instruction.start : match.start()].strip()
                        if not before or before[-1] in "\\${" or _ASSIGNS.match(text, match.end()):
                            yield match.span()

    def _is_variable(self, context: Context, command: Command, index: int, match: re.Match[str]) -> bool:
        text = context.text
        words = (*command.assignments, *command.words)
        word = words[index]
        before = text[word.start : match.start()]
        if before.endswith(("$", "${", "$(", "$${", "${!", "${#")):
            return True
        if prints_text(command):
            return False
        at_start = before.strip("\"'") in ("", "-e", "--env=", "-D", "-x", "@", "-")
        assigned = _ASSIGNS.match(text, match.end()) is not None
        if at_start and assigned:
            return True
        previous = words[index - 1].text if index else ""
        return at_start and match.end() >= word.end - 1 and (command.program in _DECLARES or previous in _PASSES)

    def _yaml(self, context: Context) -> Iterator[tuple[int, int]]:
        text = context.text
        environment = False
        for setting in settings(context.kind, text):
            environment = any(key in ("environment", "env", "variables", "args") for key in setting.path[:-1])
            listed = setting.key in ("environment", "env")
            match = _NAME.match(setting.value)
            if listed and match is not None:  # - NAME=value
                yield setting.start, setting.start + match.end()
            elif environment and _NAME.fullmatch(setting.key):
                at = text.rfind(setting.key, 0, setting.start)
                yield at, at + len(setting.key)
            for used in re.finditer(r"\$\{?(" + _NAME.pattern + ")", setting.value):
                yield setting.start + used.start(1), setting.start + used.end(1)
