"""The file of `torchferry ops dump`: what a plugin registers, as it was read where it runs.

A file, with the lists that `registrations.toml` has too::

    {"format": "torchferry operator list", "version": 1, "target": "x", "plugin": "torch_x", "plugin_version": "1.2.0",
     "torch": "2.13.0", "source": "...", "unknown": 3,
     "lists": {"registered": ["add.out", ...], "autograd": [...], "sparse": [...], ...}}

It is untrusted: each value is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchferry.backends.operators import NAME
from torchferry.backends.registrations import LISTS
from torchferry.core.json_text import json_text
from torchferry.core.messages import say
from torchferry.ops.listfile import ListFormat, read_list

FORMAT = "torchferry operator list"
VERSION = 1

_FILE = ListFormat(
    FORMAT,
    VERSION,
    16 << 20,
    lambda path: say("{path} is not a list that `ops dump` wrote", path=path),
    say("write it again with `torchferry ops dump`"),
)


@dataclass(frozen=True)
class DumpedList:
    """What a plugin registers.

    Attributes:
        target: Name of the backend.
        plugin: Name of the package.
        version: Its version.
        torch: The torch that it was loaded into.
        source: How it was read.
        lists: By the names of `registrations.LISTS`, operators without `aten::`; a list is absent where this torch has
            no such key.
    """

    target: str
    plugin: str
    version: str
    torch: str
    source: str
    lists: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the text of the file."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "target": self.target,
            "plugin": self.plugin,
            "plugin_version": self.version,
            "torch": self.torch,
            "source": self.source,
            "lists": {name: sorted(names) for name, names in self.lists.items()},
        }
        return json_text(document)


def read_dump(path: Path) -> DumpedList:
    """Return what a file says.

    Raises:
        TorchferryError: it cannot be read, is no such file, is of another version, or is damaged.
    """
    return read_list(path, _FILE, _dumped)


def _dumped(document: dict[str, Any]) -> DumpedList:
    lists: dict[str, frozenset[str]] = {}
    for name, names in document["lists"].items():
        if name not in LISTS:
            raise ValueError(f"`{str(name)[:40]}` is none of the lists {', '.join(LISTS)}")
        if not isinstance(names, list):
            raise TypeError(f"`{name}` is no list")
        for each in names:
            if not isinstance(each, str) or NAME.fullmatch(each) is None:
                raise ValueError(f"`{str(each)[:80]}` is no operator's name such as `add.Tensor`")
        lists[name] = frozenset(names)
    if "registered" not in lists:
        raise KeyError("registered")
    texts = [document[key] for key in ("target", "plugin", "plugin_version", "torch", "source")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is missing")
    target, plugin, version, torch, source = texts
    return DumpedList(target, plugin, version, torch, source, lists)
