"""A command that writes CUDA's words into a file, or looks for them there.

`echo "device: cuda" > conf.yaml`, `cat > conf.yaml <<EOF`, `printf ... | tee run.sh`, `sed -i s/cpu/cuda/ conf.yaml`.
The file is made anew after the migration, and then asks for CUDA. `sed s/cuda/cpu/` finds nothing in a file that the
migration has given the target's words, and says nothing. Neither is rewritten: what a file is for is for a person to
read. Python in a here-document is SHL103.

Why: The file that is written asks for CUDA, or the replacement silently does nothing.

References:
- page migrating
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, heredocs_of
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.shell import Command, Word

_CUDA = lazy_regex(r"(?<![\w/.-])(?:cuda|nccl)(?![\w/-])|\.cuda\b|\b(?:CUDA|PYTORCH_CUDA|NCCL)_[A-Z][A-Z_]+\b")
_REPLACED = lazy_regex(r"(?<![\w.-])(?<!local/)(?:cuda|nccl)(?![\w-])|\.cuda\b|\b(?:CUDA|NCCL)_[A-Z][A-Z_]+\b")
"""The same in the script of `sed`, where `/` may stand around a word that is no path."""

_PRINTING = frozenset({"echo", "printf"})
_REPLACING = frozenset({"sed", "gsed", "perl"})
_REPLACEMENT = lazy_regex(r"(?:\A|[\s'\";{/\d$])(?:s|y)(?P<mark>[/|#,@!:+%])")
_NOT_READ = frozenset({None, Kind.MARKDOWN, Kind.NOTEBOOK})
"""Kinds of file that ask for nothing when they name CUDA, or are no text that a command writes."""


class WrittenText(Rule):
    """Finds commands that write CUDA's words into files."""

    CODE = "SHL107"
    EFFECT = Effect.RAISES
    WORDS = ("cuda", "nccl", "CUDA_", "NCCL_")
    KINDS = JOB_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield one finding for each text, at the first place that names CUDA."""
        for name, start, end in _written(context):
            match = _CUDA.search(context.text, start, end)
            if match is not None:
                message = say(
                    "the text that is written to `{file}` names CUDA (`{found}`) and is not rewritten; write "
                    "what {target} has in its place",
                    file=name,
                    found=match.group(),
                    target=context.target.title,
                )
                yield self.finding(context, match.span(), message, Grade.MANUAL)
        for word in _replacements(context):
            match = _REPLACED.search(context.text, word.start, word.end)
            if match is not None:
                message = say(
                    "this replacement in files names CUDA (`{found}`), but migrated files have the words of "
                    "{target}: change it to these",
                    found=match.group(),
                    target=context.target.title,
                )
                yield self.finding(context, match.span(), message, Grade.MANUAL, effect=Effect.WRONG)


def _written(context: Context) -> Iterator[tuple[str, int, int]]:
    """Yield the files that commands write, each with the span of a text that goes there."""
    commands = commands_of(context)
    for number, command in enumerate(commands):
        if command.program.lstrip("@-") not in _PRINTING:
            continue
        name = _file_of(context, command) or _file_of_tee(context, command, commands[number + 1 : number + 2])
        if name:
            yield name, command.words[0].end, command.words[-1].end
    for heredoc in heredocs_of(context):
        name = _file_of(context, heredoc.command) or _operand(heredoc.command)
        if name and kind_of(name) is not Kind.PYTHON:
            yield name, heredoc.start, heredoc.end


def _file_of(context: Context, command: Command) -> str:
    """Return the file that the output of a command goes to, where it is of a kind that programs read."""
    before: Word | None = None
    for word in command.words:
        if before is not None and context.text[before.end : word.start].strip().endswith(">"):
            return _known(word)
        before = word
    return ""


def _file_of_tee(context: Context, command: Command, following: list[Command]) -> str:
    """Return the file that the next command writes, where the output goes there: `| tee -a conf.yaml`."""
    for other in following:
        between = context.text[command.words[-1].end : other.words[0].start] if other.words else ""
        if between.strip() == "|" and other.program in ("tee", "sudo"):
            return _operand(other)
    return ""


def _operand(command: Command) -> str:
    """Return the file that `tee` is given."""
    if not any(word.value == "tee" for word in command.words):
        return ""
    return next((name for word in command.words[1:] if (name := _known(word))), "")


def _known(word: Word) -> str:
    name = word.value.rpartition("/")[2]
    return word.value if kind_of(name) not in _NOT_READ else ""


def _replacements(context: Context) -> Iterator[Word]:
    """Yield the scripts of `sed` and the like that replace a text."""
    for command in commands_of(context):
        at = next((number for number, word in enumerate(command.words) if _program(word) in _REPLACING), None)
        for word in command.words[at + 1 :] if at is not None else ():
            if _REPLACEMENT.search(word.text):
                yield word


def _program(word: Word) -> str:
    return word.value.rpartition("/")[2].lstrip("@-")
