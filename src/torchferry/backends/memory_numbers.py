"""What the numbers in a message about the device's memory say: who has the memory that is missing.

The forms are those of torch since 1.x (`10.24 GiB already allocated; 19.52 MiB free; 10.65 GiB reserved in total`),
which plugins keep, and of torch 2.1 and later (`of which 14.94 MiB is free`, `is allocated by PyTorch`).
"""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_AMOUNT = r"(?P<number>\d{1,12}(?:\.\d{1,6})?) (?P<unit>bytes|[KMGT]iB)"
_FORMS = {
    "wanted": lazy_regex(f"Tried to allocate {_AMOUNT}"),
    "total": lazy_regex(f"{_AMOUNT} total capacity"),
    "total_of": lazy_regex(f"total capacity of {_AMOUNT}"),
    "free": lazy_regex(f"{_AMOUNT} (?:is )?free"),
    "allocated": lazy_regex(f"{_AMOUNT} (?:already allocated|is allocated by PyTorch)"),
    "reserved": lazy_regex(f"{_AMOUNT} reserved in total"),
    "unused": lazy_regex(f"{_AMOUNT} is reserved by PyTorch but unallocated"),
    "process": lazy_regex(f"this process has {_AMOUNT} memory in use"),
}

_MUCH = 0.15
"""Share of the card that another process must have before it counts as the reason; a runtime of its own takes some."""


class MemoryNumbers(NamedTuple):
    """Bytes in a message; None where it does not say.

    Attributes:
        wanted: What was to be allocated.
        total: What the card has.
        free: What nobody has.
        allocated: What tensors of this process have.
        reserved: What the allocator of this process has, tensors included.
    """

    wanted: float | None
    total: float | None
    free: float | None
    allocated: float | None
    reserved: float | None


def numbers_of(text: str) -> MemoryNumbers:
    """Return the numbers of a message about memory."""
    amounts: dict[str, float] = {}
    for name, form in _FORMS.items():
        match = form.search(text)
        if match is not None:
            amounts[name] = float(match["number"]) * _UNITS[match["unit"]]
    allocated, reserved = amounts.get("allocated"), amounts.get("reserved")
    if reserved is None and allocated is not None and "unused" in amounts:
        reserved = allocated + amounts["unused"]
    total = amounts.get("total", amounts.get("total_of"))
    return MemoryNumbers(amounts.get("wanted"), total, amounts.get("free"), allocated, reserved)


def is_elsewhere(text: str) -> bool:
    """Whether much of the card is taken, and not by this process."""
    numbers = numbers_of(text)
    if numbers.total is None or numbers.free is None or numbers.reserved is None:
        return False
    return (
        numbers.total - numbers.free - numbers.reserved > _MUCH * numbers.total and numbers.reserved < numbers.total / 2
    )


def is_fragmented(text: str) -> bool:
    """Whether the allocator has more without tensors in it than was wanted."""
    numbers = numbers_of(text)
    if is_elsewhere(text) or numbers.wanted is None or numbers.reserved is None or numbers.allocated is None:
        return False
    return numbers.reserved - numbers.allocated > max(numbers.wanted, 0.1 * numbers.reserved)


def is_unsaid(text: str) -> bool:
    """Whether the message does not say who has the memory: it was cut, or is of another form."""
    numbers = numbers_of(text)
    return numbers.total is None or numbers.reserved is None


def is_full(text: str) -> bool:
    """Whether the message says who has the memory, and neither of the others holds."""
    return not is_unsaid(text) and not is_elsewhere(text) and not is_fragmented(text)
