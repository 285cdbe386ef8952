"""One value of a configuration file, whatever the file's form."""

from __future__ import annotations

from torchferry.core.record import NamedTuple


class Setting(NamedTuple):
    """One scalar value.

    Attributes:
        path: The keys that lead to it, outermost first; list items have no key of their own.
        value: The value without quotes, as written: escapes in it are not resolved.
        start: Offset of its first character, inside the quotes.
        end: Offset behind its last character.
    """

    path: tuple[str, ...]
    value: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """The innermost key; empty where there is none."""
        return self.path[-1] if self.path else ""
