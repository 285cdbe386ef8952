"""How the work for a text grows with its length, in calls: no machine counts them otherwise.

What is done inside of one call of `re` is not seen here; `make growth` measures that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(work: Callable[[], object]) -> int:
    """Return how many calls a piece of work takes, of Python's functions and of others."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def grows_linearly(work: Callable[[str], object], text: str) -> bool:
    """Whether twice as much of a text takes about twice the calls; the whole of it is worked on, too."""
    once, twice = (calls(lambda share=share: work(text[: len(text) // share])) for share in (16, 8))  # type: ignore[misc]
    work(text)
    return twice <= 2.5 * once + 500
