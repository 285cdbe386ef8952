"""Cards that a job asks of the scheduler of a cluster, and CUDA that it loads: `--gres=gpu:a100:4`, `module load cuda`.

What the cards of the target and its toolkit are called is for each cluster to say, so nothing is rewritten. Options of
Slurm count in `#SBATCH` lines and in commands of `srun`, `sbatch` and `salloc`; so do those of LSF and PBS.

Why: The scheduler refuses the job, or gives it machines with NVIDIA cards; the module is not there.

References:
- page migrating
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import commands_of
from torchferry.source.kinds import Kind
from torchferry.source.shell import Command

_DIRECTIVE = lazy_regex(r"^#(?:SBATCH|BSUB|PBS)[ \t][^\n]*", re.MULTILINE)
_ASKED = lazy_regex(
    r"(?:--gres(?:=|[ \t]{1,9})\S{0,80}?\bgpu\b\S{0,80}"
    r"|--gpus(?:-per-(?:node|task|socket))?(?:=|[ \t]{1,9})[\w:.${}*]{1,80}|-G[ \t]{1,9}[\w:.${}]{1,80}"
    r"|-gpu[ \t]{1,9}(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|\S{1,80})|-l[ \t]{1,9}\S{0,80}?\bn?gpus=\S{1,80})"
)
_PROGRAM = lazy_regex(r"(?:.*/)?(?:python[\d.]*|bash|sh|torchrun|accelerate|deepspeed|[\w.-]+\.(?:sh|py))\Z")
"""What a scheduler starts: the options behind it are its own."""

_SCHEDULERS = frozenset({"srun", "sbatch", "salloc", "bsub", "qsub"})
_MODULES = lazy_regex(r"(?:cuda|cudnn|nccl|cudatoolkit|nvhpc|nvidia)\b[\w./+-]*\Z", re.IGNORECASE)
"""Modules of CUDA, of any version."""


class SchedulerCards(Rule):
    """Finds requests for GPUs in jobs of a cluster, and modules of CUDA that these load."""

    CODE = "SHL109"
    EFFECT = Effect.RAISES
    ANSWERS = (say("ask for the target's cards as the cluster calls them"),)
    WORDS = ("gres", "gpu", "-G ", "module", "ml ")
    KINDS = (Kind.SHELL, Kind.MAKEFILE)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each option and module."""
        title = context.target.title
        for line in _DIRECTIVE.finditer(context.text):
            yield from self._asked(context, *line.span())
        for command in commands_of(context):
            names = [word.value.rpartition("/")[2] for word in command.words]
            if not _SCHEDULERS.isdisjoint(names[:2]):
                start, end = command.words[0].end, command.words[-1].end
                program = next((word.start for word in command.words[1:] if _PROGRAM.match(word.value)), end)
                yield from self._asked(context, start, program)
            for start, end in _loaded(command, names):
                message = say(
                    "`{found}` loads CUDA: load what the cluster has for {target} instead",
                    found=context.text[start:end],
                    target=title,
                )
                yield self._finding(context, (start, end), message, Effect.UNKNOWN)

    def _asked(self, context: Context, start: int, end: int) -> Iterable[Finding]:
        """Yield a finding for each option in a part of the text."""
        for match in _ASKED.finditer(context.text, start, end):
            message = say(
                "`{found}` asks for GPUs: write how the cluster calls the cards of {target}",
                found=match.group(),
                target=context.target.title,
            )
            yield self._finding(context, match.span(), message, self.EFFECT)

    def _finding(self, context: Context, span: tuple[int, int], message: Message, effect: Effect) -> Finding:
        return self.finding(context, span, message, Grade.MANUAL, effect=effect)


def _loaded(command: Command, names: list[str]) -> Iterable[tuple[int, int]]:
    """Yield the modules of CUDA that a command loads: `module load gcc cuda/12.1`, `ml cuda`."""
    if names[:1] == ["module"] and names[1:2] in (["load"], ["add"], ["swap"]):
        words = command.words[2:]
    elif names[:1] == ["ml"]:
        words = command.words[1:]
    else:
        return
    for word in words:
        if _MODULES.match(word.value):
            yield word.start, word.end
