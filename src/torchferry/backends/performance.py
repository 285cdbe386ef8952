"""What is published about the speed of a target: what helps, by how much, and who says so.

They are rows of `performance.toml`, in the folder of a backend or in `common`::

    [sources]
    SRC = "https://...: what stands there"

    [[fact]]
    about = "fused_optimizer"                  # one of SUBJECTS
    replaces = ["torch.optim.AdamW"]           # absent: the fact is about no name
    use = "torch_acme.optim.FusedAdamW"        # what to write; absent: nothing is written
    arguments = ["lr", "betas"]                # keywords that it takes, where these are known
    speed = [1.08, 1.35]                       # the least and the most, as a factor of the speed before
    up_to = 3.0                                # or the most alone, where nothing else is published
    measured = "ResNet-50 on an Acme A1"       # what was measured, with measured_zh; needed beside `speed`
    note = "it takes more memory"              # with note_zh
    unless = ["fully_shard"]                   # names of code beside which it does not work, or nobody knows
    convolutions = false                       # absent: true. A switch of products alone, not of convolutions
    helps = false                              # absent: true. It is known to be of no use there
    source = "SRC"

A fact without `speed` says that something helps, and that nobody has published by how much. `speed` below 1 is a loss.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DATA, DataFile, data_file
from torchferry.core.messages import Bilingual, Message, say
from torchferry.core.record import NamedTuple

SUBJECTS = frozenset(
    {
        "float32_switch",  # float32 products in a shorter format: TF32 and its like
        "mixed_precision",  # the dtype of autocast that the card computes natively
        "channels_last",
        "attention",  # the fused attention of the target, beside the plain formula
        "without_flash",  # plain attention where a package of flash attention was
        "fused_optimizer",
        "optimizer_step",  # a function that steps the optimizer in place of its own method
        "compile",  # the backend of torch.compile
        "loader_workers",
        "persistent_workers",
        "pinned_memory",
        "host_wait",
        "cpu_fallback",
        "unused_parameters",
        "bucket_size",
    }
)
"""What a fact can be about."""

_FILE = "performance.toml"
_KEYS = frozenset(
    {
        "about",
        "replaces",
        "use",
        "arguments",
        "speed",
        "up_to",
        "measured",
        "measured_zh",
        "note",
        "note_zh",
        "helps",
        "convolutions",
        "unless",
        "source",
    }
)


class PerformanceFact(NamedTuple):
    """One published fact.

    Attributes:
        about: One of `SUBJECTS`.
        source: Where it is published.
        replaces: Names that `use` replaces.
        use: What to write; empty for nothing.
        arguments: Keywords that `use` takes; empty where these are not known.
        speed: The least and the most that was measured, as a factor of the speed before; the least is None where
            only the most is published, and all where nothing is.
        measured: What was measured.
        note: What else is to be known.
        helps: Whether it helps at all.
        convolutions: Whether a switch of products concerns convolutions too.
        unless: Names of code beside which it does not work, or nobody knows whether it does.
    """

    about: str
    source: str
    replaces: tuple[str, ...] = ()
    use: str = ""
    arguments: tuple[str, ...] = ()
    speed: tuple[float | None, float] | None = None
    measured: Bilingual = Bilingual("")
    note: Bilingual = Bilingual("")
    helps: bool = True
    convolutions: bool = True
    unless: tuple[str, ...] = ()


def performance_facts(backend: type[Backend]) -> tuple[PerformanceFact, ...]:
    """Return what is published about a target, its own facts first, then what holds wherever torch runs.

    Raises:
        ValueError: a file is wrong; says which and where.
    """
    own = data_file(backend, _FILE)
    paths = [*([own] if own is not None else []), DATA / "common" / _FILE]
    return tuple(fact for path in paths for fact in read(path))


def times_the_speed(speed: tuple[float | None, float]) -> Message:
    """Return a factor of the speed before, as facts have it, in words."""
    least, most = speed
    if least is None:
        return say("up to {most} times the speed", most=f"{most:g}")
    return say("{least} to {most} times the speed", least=f"{least:g}", most=f"{most:g}")


@lru_cache(maxsize=32)
def read(path: Path) -> tuple[PerformanceFact, ...]:
    """Return the facts of one file; raises what `performance_facts` raises."""
    file = DataFile(path)
    file.check_keys(file.document, frozenset({"sources", "fact"}), "the file")
    return tuple(_fact(file, row) for row in file.tables("fact"))


def _fact(file: DataFile, row: dict[str, Any]) -> PerformanceFact:
    about = file.text(row, "about", "a fact")
    file.check_keys(row, _KEYS, about)
    if about not in SUBJECTS:
        raise file.wrong(f"`{about}` is none of {', '.join(sorted(SUBJECTS))}")
    speed = row.get("speed", [None, row["up_to"]] if "up_to" in row else None)
    if speed is not None:
        if not isinstance(speed, list) or len(speed) != 2 or not _is_range(*speed):
            raise file.wrong(f"{about}: `speed` is the least and the most, `up_to` the most; all are above 0")
        if not file.text(row, "measured", about):
            raise file.wrong(f"{about}: what was measured is missing beside the figure")
    return PerformanceFact(
        about,
        file.cited(row, about),
        file.texts(row, "replaces", about),
        file.text(row, "use", about),
        file.texts(row, "arguments", about),
        None if speed is None else (None if speed[0] is None else float(speed[0]), float(speed[1])),
        Bilingual(file.text(row, "measured", about), file.text(row, "measured_zh", about)),
        Bilingual(file.text(row, "note", about), file.text(row, "note_zh", about)),
        row.get("helps", True) is True,
        row.get("convolutions", True) is True,
        file.texts(row, "unless", about),
    )


def _is_range(least: object, most: object) -> bool:
    if not isinstance(most, (int, float)) or most <= 0:
        return False
    return least is None or (isinstance(least, (int, float)) and 0 < least <= most)
