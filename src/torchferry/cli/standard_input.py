"""`-` on the command line: the text on standard input, examined as a file of the project."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchferry.cli.choices import Choices
from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.temporary import temporary_folder
from torchferry.source.kinds import SCRIPT_HEAD, kind_of, script_kind


@contextmanager
def reading_standard_input(choices: Choices) -> Iterator[Choices]:
    """Put the text on standard input, where it is asked for, into a folder of its own for as long as the run takes.

    Raises:
        UsageError: `-` stands beside other paths, or has no name, or one of a kind that is not read.
    """
    dash = Path("-")
    if dash not in choices.paths:
        if choices.stdin_filename is not None:
            raise UsageError(say("--stdin-filename belongs to `-`, which reads standard input"))
        yield choices
        return
    if len(choices.paths) > 1:
        raise UsageError(say("`-` reads standard input and cannot be combined with other paths"))
    if choices.stdin_filename is None:
        raise UsageError(
            say("the text on standard input has no file name, which determines its kind"),
            say("add --stdin-filename train.py"),
        )

    working = Path.cwd()
    named = Path(os.path.abspath(choices.stdin_filename))
    home = working if named.is_relative_to(working) else named.parent
    if named in (working, home):
        raise UsageError(
            say("{path} is a folder", path=choices.stdin_filename),
            say("name one such as train.py, run.sh or config.yaml"),
        )
    if sys.stdin is None:  # it was closed
        raise UsageError(say("standard input cannot be read: {error}", error=os.strerror(errno.EBADF)))
    try:
        text = sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError(say("standard input cannot be read: {error}", error=error.strerror)) from None
    inside = named.relative_to(home)
    if kind_of(inside.as_posix()) is None and script_kind(text[:SCRIPT_HEAD]) is None:
        raise UsageError(
            say("`{path}` is not a kind of file that torchferry reads", path=choices.stdin_filename),
            say("name one such as train.py, run.sh or config.yaml"),
        )
    with temporary_folder("torchferry-stdin-") as folder:
        copy = Path(folder, inside)
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(text)
        except OSError as error:
            raise UsageError(say("cannot write {path}: {error}", path=copy, error=error.strerror)) from None
        yield choices._replace(paths=(copy,), home=home, copied_to=Path(folder))
