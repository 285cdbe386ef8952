"""The labels: what a person who read a program's code says about it, one file for each kind of repository.

They were written before torchferry ran on these repositories, and hold no code of theirs. Where code or a run showed
later that one is not true of its program, `corrected` keeps the first word beside the reason. A program's verdict is
for the command beside it:

- `ready`: nothing has to change.
- `fixes`: names of CUDA must change, and nobody has to think about any of them.
- `without`: it runs without something that has no form for the card: the import or the use is guarded, an option is
  off by default, or nothing on the path calls it.
- `decisions`: a person must decide something that does not stop the program for good. Another build that is
  imported under the same name is one; so is code that newer torch refuses whatever the device, unless the same can be
  written so that it takes it and means the same.
- `blocked`: as it is started it comes to something that the card does not have and that other code must replace.
- `may_need`: whether it comes to such a thing depends on what no file says: on data, on a checkpoint, on a
  configuration that is not there.
- `not_judged`: its code is not all there, or it computes in another framework.

Where two of them hold, the later one in this list is the label. `arguable` names verdicts that another careful reader
might give; they are counted apart. `corrected` begins with the first word, `was decisions; ...`, or
`was without on npu too; ...` where it changed on one target alone: figures are told with both. What a program needs
stands under `needs` with its `role`: what `blocks` it, what is `optional`, what asks for a `decision`, another
`framework`, or what was `unread`; `chain` leads there from the program, `guarded` says whether the import or the use
is, `option` what changes the verdict, and `targets` where this holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchferry.core.toml import load

LABELS = Path(__file__).parent / "labels"
VERDICTS = ("ready", "fixes", "without", "decisions", "may_need", "blocked", "not_judged")
ROLES = ("blocks", "optional", "decision", "framework", "unread")
TARGETS = ("npu", "musa")
SETS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
"""The sets in the order in which they were made; the first one lies in the folder itself."""

_FIRST = re.compile(r"was (\w+)(?: on (\w+) too)?; ")
"""How a corrected label begins: the verdict that it had first, with the target where it is another one on one alone."""


@dataclass(frozen=True)
class Need:
    """Something that a program comes to.

    Attributes:
        what: The import, the function or the switch.
        role: One of `ROLES`.
        chain: Places from the program to it, as `file:line`; a notebook has no line.
        guarded: Whether the import or the use is guarded; None where this is no question.
        option: What on the command line, or in the configuration, changes the verdict.
        targets: Where it holds.
    """

    what: str
    role: str
    chain: tuple[str, ...]
    guarded: bool | None = None
    option: str = ""
    targets: tuple[str, ...] = TARGETS


@dataclass(frozen=True)
class Program:
    """A program as a person judged it.

    Attributes:
        path: The file that is started.
        command: How the repository says that it is started.
        verdicts: The verdict for each of `TARGETS`.
        reason: Why, in one sentence.
        started_with: The option of the command that the verdict is about, where the program has a label without it too.
        arguable: Other verdicts that a careful reader might give.
        needs: What it comes to.
        unknown_packages: Imports of which nobody has said how they do on the card.
        corrected: What the label was first, and what showed that this is not true of the program; empty for most.
    """

    path: str
    command: str
    verdicts: dict[str, str]
    reason: str
    started_with: str = ""
    arguable: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    unknown_packages: tuple[str, ...] = ()
    corrected: str = ""

    def first_verdict(self, target: str) -> str:
        """Return the verdict that the label had before the tool had run."""
        first = _FIRST.match(self.corrected)
        changed = first is not None and first[2] in (None, target)
        return first[1] if first is not None and changed else self.verdicts[target]

    def blockers(self, target: str) -> tuple[Need, ...]:
        """What blocks it on a target."""
        return tuple(need for need in self.needs if need.role == "blocks" and target in need.targets)


@dataclass(frozen=True)
class Repository:
    """A public repository at one commit, with the programs that were read.

    Attributes:
        name: Its owner and name.
        commit: The commit.
        kind: What it is an example of.
        programs: The programs.
        series: Which labels it is of, `1` to `10`. All but the first were labelled and measured before any rule was
            made with a look at them. Rules were made with those of the second to the fifth since, so that they say no
            longer how right the tool is on what it has not seen: that is what was measured first, in
            docs/en/verdict.md.
    """

    name: str
    commit: str
    kind: str
    programs: tuple[Program, ...]
    series: int


def repositories() -> Iterator[Repository]:
    """Read all labels, kind by kind, the latest last."""
    folders = (LABELS, *(LABELS / name for name in SETS[1:]))
    for series, folder in enumerate(folders, start=1):
        for path in sorted(folder.glob("*.toml")):
            document = load(path)
            for row in document["repository"]:
                programs = tuple(_program(entry) for entry in row["program"])
                yield Repository(row["name"], row["commit"], document["kind"], programs, series)


def _program(entry: dict[str, Any]) -> Program:
    fields = dict(entry)
    npu = fields.pop("npu")
    return Program(
        verdicts={"npu": npu, "musa": fields.pop("musa", npu)},
        arguable=tuple(fields.pop("arguable", ())),
        needs=tuple(_need(need) for need in fields.pop("needs", ())),
        unknown_packages=tuple(fields.pop("unknown_packages", ())),
        **fields,
    )


def _need(entry: dict[str, Any]) -> Need:
    fields = dict(entry)
    fields.update((name, tuple(entry[name])) for name in ("chain", "targets") if name in entry)
    return Need(**fields)
