"""The program that stands for each kind of event of a rehearsal, as `tools/judges.toml` has them; see there."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from torchferry.core import toml

FILE = Path(__file__).parents[2] / "tools" / "judges.toml"

PROFILE = """\
missing = ["sinc"]
fallback = "error"
[dtypes]
int16 = "missing"
int64 = "narrowed"
complex64 = "limited"
"""
"""What the card is said to lack."""

BEFORE = """
import os, tempfile, warnings, torch, torch_npu
import torch.distributed as dist
import torch.multiprocessing as mp
d = torch.device("npu:0")
def send(inbox, outbox):
    outbox.put(torch.ones(3, device=d))
    inbox.get()
def double(y):
    return y * 2
"""
STARTED = """
x = torch.ones(3, device=d)
if "RANK" not in os.environ:
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    where = "file://" + tempfile.mktemp()
else:
    where = "env://"
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("hccl", init_method=where, rank=rank, world_size=ranks)
gloo = dist.new_group(backend="gloo")
"""


class Planted(NamedTuple):
    """One program.

    Attributes:
        kind: The kind of event that it stands for.
        code: Its lines.
        simulated: The kind that the simulated plugin reports; empty for none.
        plugin: The kind that the vendor's own plugin reports; empty for none.
        alone: Whether it runs in a process of its own.
        ranks: How many processes run it.
        card: What its card is said to lack, for one that runs alone.
        races: Whether it is rehearsed with `--races`.
        needs: A package that the environment of the tests does not have.
    """

    kind: str
    code: str
    simulated: str = ""
    plugin: str = ""
    alone: bool = False
    ranks: int = 1
    card: str = PROFILE
    races: bool = False
    needs: str = ""

    def said_by(self, judge: str) -> str:
        """Return the kind that a judge reports."""
        return self.plugin if judge == "plugin" else self.simulated


def programs() -> list[Planted]:
    """Return the programs."""
    rows: list[dict[str, Any]] = toml.loads(FILE.read_text(encoding="utf-8"))["program"]
    return [Planted(**{key: row[key] for key in Planted._fields if key in row}) for row in rows]


def composed(planted: list[Planted]) -> tuple[str, dict[str, range]]:
    """Return one text of several programs, each of which catches what it raises, and the lines of each."""
    guarded = any(each.alone for each in planted)
    text = BEFORE + ('if __name__ == "__main__":\n' + textwrap.indent(STARTED, "    ") if guarded else STARTED)
    places: dict[str, range] = {}
    for each in planted:
        part = (
            "try:\n" + textwrap.indent(each.code.strip(), "    ") + "\nexcept Exception as error:\n    told = error\n"
        )
        begin = text.count("\n") + 1
        text += textwrap.indent(part, "    ") if guarded else part
        places[each.kind] = range(begin, text.count("\n") + 1)
    return text, places
