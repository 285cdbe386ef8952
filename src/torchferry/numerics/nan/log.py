"""Where NanInfTracker says what it found: standard error, or a file of its rank."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from torchferry.core.messages import say
from torchferry.numerics.framework.bootstrap import known_rank, rank


class Log:
    """Lines on standard error, or in `folder/nan_rank_<n>.log` where a folder is given.

    Args:
        folder: The folder.

    Attributes:
        brief: Whether the first line of each finding is enough, as a summary with all of it follows.
    """

    def __init__(self, folder: Path | None) -> None:
        self.brief = False
        self._folder = folder
        self._stream: Any = None

    def say(self, text: str) -> None:
        """Write a line, or several; on standard error the first says which rank it is, where there are several."""
        file = self._file()
        if file is None:
            number = known_rank()
            text = text if number is None else f"rank {number}: {text}"
        print(text.partition("\n")[0] if self.brief else text, file=file or sys.stderr, flush=True)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _file(self) -> Any:
        """Return the file, which is made when there is something to write: the rank may not be known before."""
        if self._stream is None and self._folder is not None:
            path = self._folder / f"nan_rank_{rank()}.log"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._stream = path.open("a", encoding="utf-8")
            except OSError as error:
                self._folder = None
                self.say(str(say("cannot write {path}: {error}", path=path, error=error.strerror or error)))
        return self._stream
