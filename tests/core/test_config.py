"""Where settings are looked for, by a user who may not look everywhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchferry.core import config
from torchferry.core.errors import UsageError

NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user may enter; those of pytest are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def as_nobody(question: Callable[[], str]) -> str:
    """Return the answer of a process that belongs to a user without rights."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(send, question().encode())
        except BaseException as error:
            os.write(send, repr(error).encode())
        finally:
            os._exit(0)
    os.close(send)
    os.waitpid(child, 0)
    with open(receive, encoding="utf-8") as answer:
        return answer.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [(0o700, 0o644), (0o755, 0o600)])
def test_what_may_not_be_read_is_said(mode: tuple[int, int], open_folder: Path) -> None:
    place = open_folder / "private"
    place.mkdir()
    file = place / "pyproject.toml"
    file.write_text("[tool.torchferry]\n", encoding="utf-8")
    file.chmod(mode[1])
    place.chmod(mode[0])

    def question() -> str:
        try:
            return str(config.load(place))
        except UsageError as error:
            return " | ".join(error.lines())

    said = as_nobody(question)
    assert said.startswith(str(place)), said
    assert said.endswith("cannot be read: Permission denied | run the command in a folder that you may read"), said
