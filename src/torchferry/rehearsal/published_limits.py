"""The published limits of the card's kernels, as a rehearsal hands them from process to process and to the device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from torchferry.backends.kernel_limits import CODES, KernelLimit
from torchferry.rehearsal.aggregate import Aggregate

MODES = ("refuse", "report", "ignore")
"""What happens with a dtype or a rank that no published list has: it raises, it is only noted, or nobody looks."""

_EVERY = (1 << 64) - 1


class FormulaNesting:
    """Tells the device which formulas are under way that represent one kernel: no limit holds for what they consist of.

    Attributes:
        enter: Called with 1 where one begins in this thread, and with -1 where it ends.
    """

    def __init__(self) -> None:
        self.enter: Callable[[int], None] = lambda more: None


formulas = FormulaNesting()


def text_of(limits: Mapping[str, Iterable[KernelLimit]]) -> str:
    """Return limits as text: a line for each argument, with tabs between its fields.

    The fields are the operator, the argument (`->` for the result), the letters of the dtypes (`*` for all) and of
    those that are named (`*` where nobody names any), the highest rank (0 for none), the letters of slow dtypes, the
    function and where its list is published.
    """
    return "".join(
        "\t".join(
            (
                f"aten::{operator}",
                limit.argument,
                _letters(limit.dtypes),
                _letters(limit.named),
                str(limit.rank),
                "".join(CODES[name] for name in sorted(limit.slow)),
                limit.function,
                limit.source,
            )
        )
        + "\n"
        for operator, rows in limits.items()
        for limit in rows
    )


def _letters(dtypes: frozenset[str] | None) -> str:
    return "*" if dtypes is None else "".join(CODES[name] for name in sorted(dtypes))


def for_device(text: str, numbers: Mapping[str, int]) -> str:
    """Return the same with numbers in place of letters, a bit for each dtype.

    Args:
        text: What `text_of` returned.
        numbers: The number of each dtype in `c10::ScalarType`; what has none there cannot be refused.
    """
    bits = {CODES[name]: 1 << number for name, number in numbers.items() if name in CODES}
    unknown = _EVERY & ~sum(bits.values())
    masks: dict[str, str] = {"*": str(_EVERY)}

    def mask(letters: str, otherwise: int) -> str:
        return str(sum(bits.get(letter, 0) for letter in letters) | otherwise)

    lines = []
    for line in text.splitlines():
        operator, argument, letters, named, rank, slow, function, source = line.split("\t")
        for each in (letters, named):
            if each not in masks:
                masks[each] = mask(each, unknown)
        lines.append(
            "\t".join((operator, argument, masks[letters], masks[named], rank, mask(slow, 0), function, source))
        )
    return "\n".join(lines)


def operators_in(text: str) -> frozenset[str]:
    """Return the operators of whose dtypes a text of `text_of` says something, with `aten::`."""
    rows = (line.split("\t", 4) for line in text.splitlines())
    return frozenset(operator for operator, _, letters, named, _ in rows if (letters, named) != ("*", "*"))


def unknown_among(used: Iterable[str], text: str) -> list[str]:
    """Return the operators that ran, compute something, and have no published limits.

    What only looks at a tensor or makes one is left out: no kernel of the card computes for it.
    """
    known = operators_in(text)
    return sorted(
        name
        for name in used
        if name.startswith("aten::")
        and " " not in name
        and name not in known
        and name.removeprefix("aten::").partition(".")[0] not in _WITHOUT_KERNEL
    )


def unknown_in(aggregate: Aggregate, text: str) -> list[str]:
    """Return the operators of a rehearsal of whose limits nothing is known, by a text of `text_of`.

    What ran on the CPU each time has no kernel there. What had a dtype of which the vendor does not say whether the
    kernel takes it is among them.
    """
    on_the_cpu: Counter[str] = Counter()
    for event in aggregate.of("fallback"):
        on_the_cpu[event.subject] += event.times
    ran = [name for name, times in aggregate.operators.items() if on_the_cpu[name] < times]
    unlisted = {event.subject for event in aggregate.of("unlisted-dtype")}
    unlisted |= {event.subject for event in aggregate.of("contradiction") if event.subject in ran}
    return sorted({*unknown_among(ran, text), *unlisted})


_NAMES = """
alias as_strided as_strided_ chunk contiguous detach diagonal empty empty_like empty_permuted empty_strided expand
expand_as flatten is_pinned is_same_size lift lift_fresh movedim narrow new_empty new_empty_strided numpy_T permute
record_stream reshape resize_ resize_as_ select set_ slice split split_with_sizes squeeze squeeze_ swapaxes t t_
transpose transpose_ unbind unfold unsqueeze unsqueeze_ view view_as _reshape_alias _unsafe_view _lazy_clone
_local_scalar_dense _to_copy copy_ _copy_from _copy_from_and_resize _pin_memory item view_as_real
view_as_complex _conj _neg_view conj resolve_conj resolve_neg real imag is_set_to
_has_compatible_shallow_copy_type
"""

_WITHOUT_KERNEL = frozenset(_NAMES.split())
"""Operators that look at a tensor, make an empty one, or move its bytes."""
