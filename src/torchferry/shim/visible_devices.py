"""`CUDA_VISIBLE_DEVICES`: which of the machine's cards a process sees, under the name that the card's driver reads.

A driver reads its list when the device is first used, so what a program sets before that counts, as on CUDA. A program
that was meant for card 3 would otherwise take card 0, which may be somebody else's.
"""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import Any

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.backends.variable_values import cards_listed, names_nvidia_card, refusal
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say
from torchferry.core.terminal import print_notice
from torchferry.shim.patches import Patches

VARIABLE = "CUDA_VISIBLE_DEVICES"
MARK = "TORCHFERRY_SHIM_VISIBLE"
"""The list that was handed on: a child finds by it that the card's own list is ours, and follows the child's."""


def patch(patches: Patches, target: Target) -> None:
    """Hand on the list that there is, and every later one.

    Raises:
        UsageError: it names cards in a way that the card's driver does not take.
    """
    if target.backend.VISIBLE_DEVICES == VARIABLE:
        return
    cards_own_list = _CardsOwnList(target)
    patches.at_end(cards_own_list.end)
    cards_own_list.begin()
    putenv, unsetenv = os.putenv, os.unsetenv
    own = str(target.backend.VISIBLE_DEVICES)

    # What `os.environ` calls for each of its changes; the variable itself is set as the program wants it.
    def put(name: Any, value: Any, /) -> None:
        if os.fsdecode(name) == VARIABLE:
            try:
                cards_own_list.follow(os.fsdecode(value))
            except UsageError as error:
                raise ValueError(f"torchferry: {error}") from None
        is_new = os.fsdecode(name) == own and os.fsdecode(value) != os.environ.get(own)
        putenv(name, value)
        if is_new:  # what CUDA's variable says is handed on, and comes here, too
            tell_late(target, own, os.fsdecode(value))

    def unset(name: Any, /) -> None:
        unsetenv(name)
        if os.fsdecode(name) == VARIABLE:
            cards_own_list.end()

    patches.set(os, "putenv", put)
    patches.set(os, "unsetenv", unset)


def is_counted(target: Target) -> bool:
    """Whether the plugin has started the device in this process, so that it reads no other list of cards."""
    namespace = getattr(sys.modules.get("torch"), target.backend.DEVICE_TYPE, None)
    ask = getattr(namespace, "is_initialized", None)
    return bool(ask is not None and ask())


def late(name: str, value: str) -> Message:
    """Return what is said of a list of cards that is set once the device is in use."""
    return say(
        "`{name}={value}` was set after the device was first used: this process keeps its cards, and processes that it "
        "starts read the new list; set it before the first use, best where the program is started",
        name=name,
        value=value,
    )


_late_lists: set[tuple[str, str]] = set()


def tell_late(target: Target, name: str, value: str) -> None:
    """Say of a list of cards that it comes too late, once for each list."""
    if (name, value) not in _late_lists and is_counted(target):
        _late_lists.add((name, value))
        print_notice(f"torchferry: {late(name, value)}")


def hidden(target: Target) -> bool:
    """Whether the list that the card's driver reads hides every card on purpose: it is empty, or begins like `-1`."""
    value = os.environ.get(str(target.backend.VISIBLE_DEVICES))
    if value is None:
        return False
    first = value.partition(",")[0].strip()
    return not first.isdecimal() and not any(letter.isalpha() for letter in first)  # some have identities


class _CardsOwnList:
    """The card's own list while ours is in it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._before: str | None = None
        self._ours: str | None = None

    @cached_property
    def _row(self) -> Row:
        """Looked up when there is a list: most programs see all cards."""
        return self._target.row("env", VARIABLE)

    def begin(self) -> None:
        """Hand on the list that the process began with; one that names the card's driver itself comes first."""
        wanted = os.environ.get(VARIABLE)
        if wanted is None:
            return
        set_already = os.environ.get(self._row.use) if self._row.use else None
        if set_already is None or set_already == os.environ.get(MARK):
            self.follow(wanted)
        elif set_already != self._listed(wanted):
            text = say(
                "`{variable}={value}` is not used, since `{use}={own}` is set as well",
                variable=VARIABLE,
                value=wanted,
                use=self._row.use,
                own=set_already,
            )
            print_notice(f"torchferry: {text}")

    def follow(self, wanted: str) -> None:
        """Set the card's own list to what a list of CUDA means."""
        if not self._row.use:
            text = say(
                "nobody has verified which variable of {target} replaces `{variable}`; `{variable}` hides no card here",
                target=self._target.title,
                variable=VARIABLE,
            )
            print_notice(f"torchferry: {text}")
            return
        listed = self._listed(wanted)
        if self._ours is None:
            self._before = os.environ.get(self._row.use)
        self._ours = os.environ[self._row.use] = os.environ[MARK] = listed

    def end(self) -> None:
        """Put back what stood there, unless somebody else has set it since."""
        if self._ours is not None and os.environ.get(self._row.use) == self._ours:
            os.environ.pop(MARK, None)
            if self._before is None:
                del os.environ[self._row.use]
            else:
                os.environ[self._row.use] = self._before
        self._ours = None

    def _listed(self, wanted: str) -> str:
        """Return the numbers of a list as CUDA reads it, up to the first entry that is none; `-1` for no card."""
        if names_nvidia_card(wanted):
            raise UsageError(
                say("`{variable}={value}` names cards of NVIDIA", variable=VARIABLE, value=wanted),
                say("name the cards by their numbers, as in `{variable}=0,1`", variable=VARIABLE),
            )
        listed = ",".join(map(str, cards_listed(wanted)))
        refused = refusal(self._target, self._row, listed)
        if refused is not None:
            raise UsageError(refused)
        return listed or "-1"
