"""Python on a command line that names CUDA: `python -c "import torch; torch.cuda.is_available()"`.

The text between the quotes, or in a here-document, is not rewritten, because quoting and variables of the shell change
it. Often it only prints what is installed.

Why: The command requests CUDA, and a script may stop because of it.

References:
- page migrating
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, heredocs_of
from torchferry.source.shell import Command

_PYTHON = lazy_regex(r"(?:python|pypy|ipython)[\d.]*(?:\.exe)?\Z")
_CUDA = lazy_regex(
    r"torch\.cuda\b|\.cuda\(|(?:\bdevice[ \t]*[=(]|map_location[ \t]*=|\.to\()[ \t]*\\?['\"]cuda(?::\d+)?\b"
    r"|(?:backend[ \t]*=|init_process_group\()[ \t]*\\?['\"]nccl\b|\bpynvml\b|\bcupy\b|\bnvidia_smi\b"
)
_FURTHEST = 6
"""So many words behind its name the code of `python -c` is looked for: `python -u -W ignore -c`."""


class EmbeddedPython(Rule):
    """Finds Python in command lines that names CUDA."""

    CODE = "SHL103"
    EFFECT = Effect.RAISES
    WORDS = ("cuda", "nccl", "pynvml", "cupy", "nvidia_smi")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield one finding for each piece of code, at the first place that names CUDA."""
        seen: set[int] = set()
        for start, end in _code(context):
            match = _CUDA.search(context.text, start, end)
            if match is not None and match.start() not in seen:
                seen.add(match.start())
                message = say(
                    "Python in a command line names CUDA (`{found}`) and is not rewritten; check it for {target}",
                    found=match.group(),
                    target=context.target.title,
                )
                yield self.finding(context, match.span(), message, Grade.MANUAL)


def _code(context: Context) -> Iterator[tuple[int, int]]:
    for command in commands_of(context):
        at = _interpreter(command)
        words = command.words[at + 1 : at + 1 + _FURTHEST] if at >= 0 else ()
        for option, word in pairwise(words):
            if option.text == "-c":
                yield word.start, word.end
                break
    for heredoc in heredocs_of(context):
        if _interpreter(heredoc.command) >= 0:
            yield heredoc.start, heredoc.end


def _interpreter(command: Command) -> int:
    """Return the index of the word that names a Python interpreter; -1 where none does."""
    for index, word in enumerate(command.words):
        if _PYTHON.match(word.value.rpartition("/")[2].lstrip("@-")):
            return index
    return -1
