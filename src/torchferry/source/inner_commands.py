"""Commands inside commands: what `bash -c "..."`, `eval`, `ssh` and a here-document hand to another shell.

A command line that is kept in a variable, `CMD="python train.py --device cuda"`, is one too, and so are arguments kept
in one; a variable whose name says that it holds a text for people is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from torchferry.core.budget import DEEPEST, refuse_nesting, spend
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.shell import Command, Heredoc, Word, parts

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "su"})
_HAND_ON = frozenset({"eval", "ssh", "tmux", "screen", "watch", "parallel", "pdsh", "sshpass"})
"""Programs whose quoted arguments are command lines."""

_BODY_READERS = _SHELLS | {"ssh", "sbatch", "qsub", "bsub", "srun"}
_WRITERS = frozenset({"cat", "tee"})
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset", "set"})
_SCRIPT = lazy_regex(r"\.(?:sh|bash|zsh|slurm|sbatch)[\"']?\Z")
_RUNS = lazy_regex(r"-[a-z]*c\Z")
_ASSIGNED = lazy_regex(r"(?P<name>[A-Za-z_]\w*)(?:\+|[:?!])?=")
TEXT_NAME = lazy_regex(
    r"(?:\A|_)(?:MSG|MESSAGE|HELP|USAGE|TEXT|DESC|DESCRIPTION|TITLE|NOTE|COMMENT)S?\Z", re.IGNORECASE
)
"""Names of variables that hold a text for people."""

_FREE = 4
"""Levels of command lines in command lines that cost nothing; each further one is read again at the file's expense."""


def with_inner(text: str, outer: Iterable[Command | Heredoc]) -> Iterator[Command]:
    """Yield the commands among `outer` and those inside them; one in a substitution may come twice."""
    waiting = [iter(outer)]
    while waiting:
        part = next(waiting[-1], None)
        if part is None:
            waiting.pop()
            continue
        if isinstance(part, Command):
            yield part
            spans = list(_command_lines(part))
        else:
            spans = [(part.start, part.end)] if is_script(part.command) else []
        if spans and len(waiting) > DEEPEST:
            refuse_nesting()
            continue
        if spans:
            if len(waiting) > _FREE:
                spend(sum(end - start for start, end in spans))
            waiting.append(chain.from_iterable(parts(text, *span) for span in spans))


def is_script(command: Command) -> bool:
    """Whether the here-document of a command is a script that a shell reads, now or later."""
    names = {word.value.rpartition("/")[2] for word in command.words[:3]}
    if not command.words or names & _BODY_READERS:
        return True
    return bool(names & _WRITERS) and any(_SCRIPT.search(word.text) for word in command.words)


def _command_lines(command: Command) -> Iterator[tuple[int, int]]:
    """Yield the spans of the quoted words of a command that are command lines themselves."""
    for word in _values(command):
        yield from _line(word)
    hands_on = any(word.value.rpartition("/")[2] in _HAND_ON for word in command.words[:3])
    in_shell = False
    previous = ""
    for word in command.words:
        if hands_on or (in_shell and _RUNS.match(previous)):
            yield from _line(word)
        in_shell = in_shell or word.value.rpartition("/")[2] in _SHELLS
        previous = word.text


def _values(command: Command) -> Iterator[Word]:
    """Yield the values that a command assigns to variables which hold no text for people."""
    for word in (*command.assignments, *(command.words if command.program in _DECLARES else ())):
        match = _ASSIGNED.match(word.text)
        if match is not None and not TEXT_NAME.search(match["name"]):
            yield Word(word.text[match.end() :], word.start + match.end(), word.end)


def _line(word: Word) -> Iterator[tuple[int, int]]:
    """Yield the span inside the quotes of a word that is one text of several words."""
    text = word.text
    if " " not in text and "\n" not in text:
        return
    if text[0] not in "\"'$":  # in the form of a JSON list, words have no quotes of the shell
        yield word.start, word.end
    elif text[0] != "$" and text[-1] == text[0] and text.count(text[0]) == 2 + text.count("\\" + text[0]):
        yield word.start + 1, word.end - 1
