"""Examine files, in several processes where that is worth their start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchferry.rules.engine import Engine
from torchferry.rules.examined import Examined
from torchferry.source.tree import Entry


def examine_all(
    engine: Engine,
    entries: Sequence[Entry],
    rewrite: bool,
    jobs: int,
    progress: Callable[[int], None] | None = None,
) -> list[Examined]:
    """Return the examined files in the order of `entries`."""
    done = []
    for entry in entries:
        done.append(engine.examine(entry, rewrite=rewrite))
        if progress is not None:
            progress(1)
    return done
