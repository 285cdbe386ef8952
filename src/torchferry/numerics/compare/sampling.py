"""Which calls are compared: the first of each operator, shape and dtype, each again within some steps, and beyond that
what a share of the time allows.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import torch
from torch import Tensor

FIRSTS = 64
"""Kinds of call of one operator that are compared at once; programs whose shapes never repeat go on by the budget."""

YOUNG, SOON = 20, 5
"""In so many steps of a program, each kind of call is compared again within so many."""

LATER, _PART = 50, 2
"""After these, within so many steps, or within this part of the steps so far where that is more; what the budget allows
comes sooner in most programs."""

_SMALL = 64
"""Greater integers are counts and sizes, which change from step to step, and no dimensions or modes."""

_DEBT = 50
"""Steps for which the budget may be spent in advance, on what is compared again soon."""

_UNKNOWN = 0.002
"""Seconds that a comparison is taken to cost before one was made."""


class CallSignature:
    """Calls of one operator with the same shapes, dtypes and strides.

    Attributes:
        calls: How many there were since the last choice.
        skip: How many more go by before one is compared; negative where none is wanted.
        cost: Seconds that a comparison took, of processor time.
        compared: How many were compared.
        taken: How many were handed in to be compared.
        expected: Calls between the last two choices.
        brief: Whether the next is compared by a part where it is large.
        place: The how many-th call of a step is compared next: they take turns.
        looked: The step in which one was compared last.
        widest: The most steps between two that were compared, one after the other.
        called: The last step in which there was one.
    """

    __slots__ = (
        "brief",
        "called",
        "calls",
        "compared",
        "cost",
        "expected",
        "looked",
        "place",
        "skip",
        "taken",
        "widest",
    )

    def __init__(self, skip: int) -> None:
        self.calls = 0
        self.expected = 1
        self.skip = skip
        self.cost = _UNKNOWN
        self.compared = 0
        self.taken = 0
        self.brief = False
        self.place = 0
        self.looked = -1
        self.widest = 0
        self.called = -1


class Sampler:
    """Chooses calls.

    Args:
        every: Compare all of them.
        budget: Share of the time that comparisons may take beyond the first ones, 0.03 for 3 %.
    """

    def __init__(self, every: bool, budget: float) -> None:
        self.every = every
        self._budget = budget
        self._turns: deque[CallSignature] = deque()
        self._allowance = 0.0
        self._since = time.perf_counter()
        self._step = 0
        self.left_to_budget = 0
        """Kinds of call that came too late to be compared at once."""

    def signature(self, first: bool) -> CallSignature:
        """Return a new kind of call, to be compared at once or when its turn comes."""
        signature = CallSignature(0 if first else -1)
        if not first:
            self.left_to_budget += 1
        if not self.every:
            if first:
                self._turns.append(signature)
            else:
                self._turns.appendleft(signature)
        return signature

    def wants(self, signature: CallSignature) -> bool:
        """Whether this call is compared."""
        signature.calls += 1
        if self.every:
            return True
        skip = signature.skip
        if skip < 0:
            return False
        signature.skip = skip - 1
        if skip:
            return False
        if signature.looked >= 0:
            signature.widest = max(signature.widest, self._step - signature.looked)
        signature.looked = self._step
        return True

    def put_off(self, signature: CallSignature) -> None:
        """Let the next call of its kind be compared instead: there was no room for this one."""
        signature.skip = 0

    def spent(self, signature: CallSignature, seconds: float) -> None:
        """Note what a comparison took."""
        first = signature.compared == 0
        signature.compared += 1
        if first:
            signature.cost = seconds  # the first is outside of the budget
        else:
            self._allowance -= seconds - signature.cost
            signature.cost += 0.3 * (seconds - signature.cost)

    def resume(self) -> None:
        """Count time from now on: what ran without the tool pays for no comparison."""
        self._since = time.perf_counter()

    def choose(self) -> None:
        """Choose calls for the time to come; called at the end of steps."""
        now = time.perf_counter()
        gone, self._since = now - self._since, now
        self._step += 1
        if self.every or not self._turns:
            return
        most = max(signature.cost for signature in self._turns)
        self._allowance = min(self._allowance + self._budget * gone, most + self._budget * gone)
        self._allowance = max(self._allowance, -_DEBT * self._budget * gone)
        active = 0
        for signature in self._turns:
            if signature.calls:
                signature.expected = signature.calls
                signature.called = self._step - 1
                active += 1
            signature.calls = 0
        # each of the `active` kinds within as many steps: so many at the end of each, those first that wait longest
        within = SOON if self._step < YOUNG else max(LATER, self._step // _PART)
        due = -(-active // within)
        for _ in range(len(self._turns)):
            signature = self._turns[0]
            if signature.skip >= 0:
                self._turns.rotate(-1)
                continue
            recent = signature.called == self._step - 1
            brief = due > 0 and recent
            if not brief and signature.cost > self._allowance:
                if due > 0:
                    self._turns.rotate(-1)
                    continue  # one that is not called now cannot be looked at
                return  # it waits for its turn, so that large ones have one too
            due -= brief
            self._allowance -= signature.cost
            signature.brief = brief
            signature.skip = signature.place = (signature.place + 1) % signature.expected
            self._turns.rotate(-1)

    def again(self) -> tuple[int, int]:
        """Return within how many steps each kind of call was compared again, and each of the calls of a kind.

        A kind that was called in a step counts, and the steps since it was compared last.
        """
        kinds = places = 0
        for signature in self._turns:
            if signature.looked >= 0 and (signature.called > signature.looked or signature.widest):
                gap = max(signature.widest, signature.called - signature.looked)
                kinds, places = max(kinds, gap), max(places, gap * signature.expected)
        return kinds, places


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Tensor | None]:
    """Return what kind of call it is, and the tensor that decides where it runs: one not on the CPU, if any.

    Numbers with fractions are left out: they change with the step.
    """
    parts: list[Any] = []
    tensor: Tensor | None = None
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            parts += (value.shape, value.dtype)
            if value.layout is torch.strided:
                parts.append(value.stride())
            if tensor is None or (tensor.is_cpu and not value.is_cpu):
                tensor = value
        elif isinstance(value, (list, tuple)):
            parts.append(len(value))
            first = next((item for item in value if isinstance(item, Tensor)), None)
            if first is not None:  # lists of indices have None between them
                last = next(item for item in reversed(value) if isinstance(item, Tensor))
                parts += (first.shape, first.dtype, last.shape, value[0] is None, value[-1] is None)
                if tensor is None or (tensor.is_cpu and not first.is_cpu):
                    tensor = first
            elif value and isinstance(value[0], int):
                parts += value
        elif value is None or isinstance(value, bool):
            parts.append(value)
        elif isinstance(value, int):
            parts.append(value if -_SMALL < value < _SMALL else int)
        elif isinstance(value, (torch.dtype, str)):
            parts.append(value)
    return tuple(parts), tensor
