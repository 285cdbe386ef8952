"""The table of readers, and what its rows are made with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import click

from torchferry.core.errors import TorchferryError
from torchferry.core.importable import is_importable
from torchferry.core.messages import say

ROOT = Path(__file__).parent.parent.parent
SEEDS = Path(__file__).parent / "seeds"
CORPUS = Path(__file__).parent / "corpus"

_LARGEST_SEED = 20_000


class Reader(NamedTuple):
    """One reader of what others wrote.

    Attributes:
        name: What it reads; the name of its folders of seeds and of kept inputs.
        read: Gives it an input, in an empty folder that it may fill.
        form: How inputs are changed: a key of `mutations.MUTATORS`.
        covers: The modules that read, below `src/torchferry`.
        more: Makes further inputs that it reads.
        needs: Modules that it needs and that may be absent.
    """

    name: str
    read: Callable[[Path, bytes], object]
    form: str
    covers: tuple[str, ...]
    more: Callable[[], list[bytes]]
    needs: tuple[str, ...]

    @property
    def is_available(self) -> bool:
        """Whether what it needs is there."""
        return all(map(is_importable, self.needs))

    def seeds(self) -> list[bytes]:
        """Return inputs that it reads without an error."""
        return [*_stored(SEEDS / self.name), *self.more()]

    def kept(self) -> list[bytes]:
        """Return the inputs that once found a fault."""
        return _stored(CORPUS / self.name)


READERS: dict[str, Reader] = {}
"""By their names; filled by the modules that `readers.py` imports."""

Read = Callable[[Path, bytes], object]


def reader(
    name: str, form: str, *covers: str, more: Callable[[], list[bytes]] = list, needs: tuple[str, ...] = ()
) -> Callable[[Read], Read]:
    """Add a reader to the table; the arguments are those of `Reader`."""

    def add(read: Read) -> Read:
        assert name not in READERS, name
        READERS[name] = Reader(name, read, form, covers, more, needs)
        return read

    return add


def _stored(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*"))]


def examples(*patterns: str, most: int = 8) -> Callable[[], list[bytes]]:
    """Return what finds the smallest of the examples' files whose names fit."""

    def find() -> list[bytes]:
        found = {path for pattern in patterns for path in (ROOT / "examples").rglob(pattern) if path.is_file()}
        contents = sorted((path.read_bytes() for path in sorted(found)), key=len)
        return [data for data in contents if 0 < len(data) < _LARGEST_SEED][:most]

    return find


def as_json(value: Any) -> bytes:
    """Return a document as JSON."""
    return json.dumps(value).encode()


def text_of(data: bytes) -> str:
    """Return an input as a tool's output is read."""
    return data.decode("utf-8", "replace")


def written(folder: Path, name: str, data: bytes) -> Path:
    """Write a file below a folder, and return it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def is_chosen(data: bytes, one_of: int = 8) -> bool:
    """Return whether an input is one of the few that are given to what takes long: the same in each round."""
    return crc32(data) % one_of == 0


def run_command(*arguments: object) -> int:
    """Run a command in this process, and return its exit code; what is uncaught goes on.

    Raises:
        TorchferryError: it was refused.
    """
    from torchferry.cli import cli

    code = 0
    try:
        cli.main([str(argument) for argument in arguments], prog_name="torchferry", standalone_mode=False)
    except click.ClickException as error:
        raise TorchferryError(say("{text}", text=error.message)) from None
    except SystemExit as end:
        code = int(end.code or 0)
    assert code in (0, 1, 2), code
    return code
