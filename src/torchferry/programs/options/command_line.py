"""What the commands that start a program say: of options, and of variables of the environment."""

from __future__ import annotations

from collections.abc import Sequence

from torchferry.programs.model import Start
from torchferry.programs.options.answers import DefaultValue
from torchferry.programs.options.argument_lists import GivenWords
from torchferry.programs.options.switches import (
    OF_SHELL,
    UNDETERMINED,
    Switch,
    adds_unread_words,
    joined_words,
    options_in,
    said_of,
)


class CommandWords:
    """What the first command of a program says, with the others that the same line may represent.

    Args:
        starts: The commands that start the program.
        added: Words that the program itself may add to what it is started with.
    """

    def __init__(self, starts: Sequence[Start], added: GivenWords, reads_files: bool = False) -> None:
        self._starts = [start for start in starts if start.place == starts[0].place]
        self._options = [options_in(start.arguments) for start in self._starts]
        self._added = options_in(added.words)
        self._says_more = not added.is_whole or any(
            adds_unread_words(start.arguments)
            or (reads_files and any(word.startswith("@") for word in start.arguments))
            for start in self._starts
        )

    def joined(self) -> dict[str, None]:
        """Return the words that may say options by their beginning, or several of them."""
        return dict.fromkeys(word for start in self._starts for word in joined_words(start.arguments))

    def option(self, name: str, switches: Sequence[Switch], joined: Sequence[str] = ()) -> DefaultValue | None:
        """Return what is said of an option or a key: None for nothing, `UNDETERMINED` where it is unknown."""
        values_of_each = [said_of(name, options, switches, joined) for options in self._options]
        if not any(values_of_each):
            may_be_said = self._says_more or said_of(name, self._added, switches) is not None
            return DefaultValue(UNDETERMINED) if may_be_said else None
        flag = switches[0].flag if len(switches) == 1 else ""
        defaults = [DefaultValue(UNDETERMINED if values is None else values[0], flag) for values in values_of_each]
        return defaults[0] if all(each.agrees(defaults[0]) for each in defaults) else DefaultValue(UNDETERMINED)

    def variable(self, name: str) -> DefaultValue | None:
        """Return what a variable of the environment is set to before the program starts."""
        return _one_of([_variable_of(start, name) for start in self._starts])


def _one_of(texts: Sequence[str | None]) -> DefaultValue | None:
    if not texts or all(text is None for text in texts):
        return None
    first = texts[0]
    if first is None or any(text != first for text in texts) or OF_SHELL.search(first):
        return DefaultValue(UNDETERMINED)
    return DefaultValue(first)


def _variable_of(start: Start, name: str) -> str | None:
    """Return what a command sets a variable to, as `NAME=value python train.py` does; None where it does not."""
    words = (*reversed(start.assignments), *start.command.split())
    return next((word.partition("=")[2].strip("\"'") for word in words if word.startswith(f"{name}=")), None)
