"""When vendors and other authorities take a training curve for the reference's: named rules, each with its source.

They are rows of `curves.toml`, in the folder of a backend or in `common`::

    [sources]
    SRC = "https://...: what stands there"

    [[rule]]
    name = "acme"                # on the command line
    title = "loss of the zoo"    # with title_zh
    from_step = 21               # absent: 1. The 21st step and those after it are judged
    advised_steps = 1000         # absent: none. With fewer steps the source advises against a verdict
    source = "SRC"

    [[rule.need]]                # every need is to be met, each by any of its limits
    any = [{ measure = "mean_relative", below = 0.02 }, { measure = "mean_absolute", at_most = 0.001 }]

A rule is written as its source has it, also where that is weak: `MEASURES` says what is averaged with its sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends import registry
from torchferry.backends.datafile import DATA, DataFile
from torchferry.core.errors import unknown_name
from torchferry.core.messages import Bilingual, Message

MEASURES = (
    "mean_relative",  # mean of |target - reference| / |reference|
    "mean_absolute",  # mean of |target - reference|
    "signed_relative",  # mean of (target - reference) / reference: errors of both signs cancel
    "signed",  # mean of (target - reference): errors of both signs cancel
    "max_relative",
    "max_absolute",
    "first_relative",  # of the first step that is judged
    "first_absolute",
    "final_relative",  # of the last step that is judged
    "final_absolute",
)
"""What a limit can be set on; relative ones are shares of 1."""

SIGNED = frozenset({"signed_relative", "signed"})
"""Measures that a target below its reference always meets."""

_FILE = "curves.toml"
_RULE = frozenset({"name", "title", "title_zh", "from_step", "advised_steps", "source", "need"})


@dataclass(frozen=True)
class Limit:
    """One bound of one measure: `measure` is below `value`, or at most `value` where `inclusive`."""

    measure: str
    value: float
    inclusive: bool

    def met(self, measured: float | None) -> bool:
        """Say whether `measured` keeps the bound; what is undefined (None) does not, nor does NaN."""
        if measured is None:
            return False
        return measured <= self.value if self.inclusive else measured < self.value


@dataclass(frozen=True)
class AcceptanceRule:
    """A named condition for taking one curve for another.

    Attributes:
        name: As the user writes it.
        title: What it was made for.
        needs: All are to be met, each by any of its limits.
        from_step: The first step that counts, from 1.
        advised_steps: How many steps the source advises to judge at least; 0 where it says nothing.
        source: Where the rule stands, in full; empty for a rule of torchferry's own.
    """

    name: str
    title: Bilingual | Message
    needs: tuple[tuple[Limit, ...], ...]
    from_step: int = 1
    advised_steps: int = 0
    source: str = ""


@lru_cache(maxsize=1)
def rules() -> tuple[AcceptanceRule, ...]:
    """Return the rules of all targets and the common ones, by name.

    Raises:
        ValueError: a file lacks a field, has one it should not have, or cites a source it does not name.
    """
    by_name: dict[str, AcceptanceRule] = {}
    for path in (DATA / "common" / _FILE, *registry.data_files(_FILE)):
        for rule in read(path):
            if rule.name in by_name:
                raise ValueError(f"{path}: rule `{rule.name}` stands in another file as well")
            by_name[rule.name] = rule
    return tuple(by_name[name] for name in sorted(by_name))


def find(name: str) -> AcceptanceRule:
    """Return the rule called `name`.

    Raises:
        UsageError: there is none; the nearest known one is suggested.
    """
    for rule in rules():
        if rule.name == name:
            return rule
    # translators: the kind of a name that is unknown, as in "unknown rule `x`"; here a rule that judges training curves
    raise unknown_name("rule", name, [rule.name for rule in rules()])


def read(path: Path) -> tuple[AcceptanceRule, ...]:
    """Read the rules of one file.

    Raises:
        ValueError: the file is not of the form above.
    """
    file = DataFile(path)
    file.check_keys(file.document, frozenset({"sources", "rule"}), "the file")
    return tuple(_rule(file, table) for table in file.tables("rule"))


def _rule(file: DataFile, table: dict[str, Any]) -> AcceptanceRule:
    name = file.text(table, "name", "a rule")
    where = f"rule `{name}`"
    file.check_keys(table, _RULE, where)
    needs = table.get("need", [])
    if not name or not isinstance(needs, list) or not needs:
        raise file.wrong(f"{where} needs a name and at least one [[rule.need]]")
    return AcceptanceRule(
        name=name,
        title=Bilingual(file.text(table, "title", where), file.text(table, "title_zh", where)),
        needs=tuple(_need(file, need, where) for need in needs),
        from_step=_count(file, table, "from_step", 1, where),
        advised_steps=_count(file, table, "advised_steps", 0, where),
        source=file.cited(table, where),
    )


def _need(file: DataFile, need: dict[str, Any], where: str) -> tuple[Limit, ...]:
    file.check_keys(need, frozenset({"any"}), where)
    limits = need.get("any", [])
    if not isinstance(limits, list) or not limits:
        raise file.wrong(f"{where}: `any` is a list of limits")
    return tuple(_limit(file, limit, where) for limit in limits)


def _limit(file: DataFile, limit: dict[str, Any], where: str) -> Limit:
    file.check_keys(limit, frozenset({"measure", "below", "at_most"}), where)
    measure = file.text(limit, "measure", where)
    if measure not in MEASURES:
        raise file.wrong(f"{where}: `{measure}` is none of {', '.join(MEASURES)}")
    bounds = [key for key in ("below", "at_most") if key in limit]
    if len(bounds) != 1 or not isinstance(limit[bounds[0]], (int, float)) or isinstance(limit[bounds[0]], bool):
        raise file.wrong(f"{where}: a limit has one number, `below` or `at_most`")
    return Limit(measure, float(limit[bounds[0]]), bounds[0] == "at_most")


def _count(file: DataFile, table: dict[str, Any], key: str, default: int, where: str) -> int:
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < default:
        raise file.wrong(f"{where}: `{key}` is a whole number from {default}")
    return value
