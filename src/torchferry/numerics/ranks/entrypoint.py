"""In an examined process: compare its rank with the others each N steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchferry.numerics.ranks.watch import RankWatch


class _Examined:
    """A watch whose end is a result."""

    def __init__(self, watch: RankWatch) -> None:
        self._watch = watch

    def finish(self) -> dict[str, Any]:
        """End the comparison and return what was found."""
        self._watch.stop()
        return {"ranks": self._watch.document()}


def begin(options: dict[str, Any], folder: Path | None = None) -> _Examined:
    """Begin to compare ranks: each `every` steps, waiting `timeout` seconds for who is late."""
    watch = RankWatch(int(options.get("every", 1)), float(options.get("timeout", 60.0)))
    watch.start()
    return _Examined(watch)
