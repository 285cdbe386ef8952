"""Did the two runs compute with the same operators, told the same, in the same dtypes?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from torchferry.core.messages import say
from torchferry.numerics.framework.kinds import moves
from torchferry.numerics.rundiff.alignment import Alignment, renamed
from torchferry.numerics.rundiff.cause import CERTAIN, POSSIBLE, Cause, short
from torchferry.numerics.runlog.layout import Key
from torchferry.numerics.runlog.record import Rows

_EPSILON = frozenset({"native_layer_norm", "native_group_norm", "native_batch_norm", "_fused_rms_norm", "rms_norm"})
_MODULES = 6


def causes(
    step: int, a: Rows, b: Rows, aligned: Alignment, by_name: Alignment, rename: dict[str, str]
) -> Iterator[Cause]:
    """Yield what differs in the operators of one step.

    Args:
        step: Its number.
        a: The reference.
        b: The other.
        aligned: Rows that are the same numbers.
        by_name: Rows that have the same names.
        rename: Outermost modules of `b` that have another name in `a`.
    """
    yield from _told(step, a, b, aligned)
    yield from _dtypes(step, a, b, aligned)
    yield from _sets(step, a, b, by_name, rename)


def _told(step: int, a: Rows, b: Rows, aligned: Alignment) -> Iterator[Cause]:
    seen: dict[str, Cause] = {}
    more: Counter[str] = Counter()
    for i, j in aligned.pairs:
        one, two = a.arguments[i], b.arguments[j]
        key = a.keys[i]
        if key.phase != "forward" or key.operator != b.keys[j].operator or _equal(one, two):
            continue
        if _numel(a.shapes[i]) != _numel(b.shapes[j]):
            continue  # sizes among the arguments differ with the batch
        more[key.operator] += 1
        epsilon = key.base in _EPSILON
        seen.setdefault(
            key.operator,
            Cause(
                "norm epsilon" if epsilon else "argument of an operator",
                f"step {step}, {key.module or 'outside of modules'}, {key.operator}",
                short(one),
                short(two),
                say("give the layer the same `eps` on both sides")
                if epsilon
                else say("the operator is called with other numbers; look at the module's settings"),
                CERTAIN,
                say("a norm has another epsilon") if epsilon else say("an operator was told something else"),
            ),
        )
    for name, cause in seen.items():
        count = more[name]
        yield cause if count == 1 else replace(cause, where=f"{cause.where} and {count - 1} more")


def _dtypes(step: int, a: Rows, b: Rows, aligned: Alignment) -> Iterator[Cause]:
    found = [(i, j) for i, j in aligned.pairs if a.keys[i].dtype != b.keys[j].dtype]
    if not found:
        return
    i, j = found[0]
    key = a.keys[i]
    yield Cause(
        "dtype",
        f"step {step}, {key.module or key.phase}, {key.operator or key.phase}"
        + (f" and {len(found) - 1} more" if len(found) > 1 else ""),
        key.dtype,
        b.keys[j].dtype,
        say("use the same mixed precision, with the same lists of operators"),
        CERTAIN,
        say("the runs compute in other dtypes"),
    )


def _sets(step: int, a: Rows, b: Rows, aligned: Alignment, rename: dict[str, str]) -> Iterator[Cause]:
    of_a = _by_module(a, aligned.only_a, {})
    of_b = _by_module(b, aligned.only_b, rename)
    modules = [name for name in [*of_a, *(set(of_b) - set(of_a))] if name in of_a or name in of_b]
    if not modules:
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for module in modules:
        pair = (_names(of_a.get(module, [])), _names(of_b.get(module, [])))
        groups.setdefault(pair, []).append(module)
    for (one, two), where in list(groups.items())[:_MODULES]:
        fused = "attention" in one + two or bool(one and two)
        yield Cause(
            "fused kernel" if fused else "operators",
            f"step {step}, {where[0] or 'outside of modules'}"
            + (f" and {len(where) - 1} more" if len(where) > 1 else ""),
            one or "-",
            two or "-",
            say("the module is computed by other operators, with other rounding; choose the same kernel on both sides")
            if fused
            else say("one run computes something that the other does not"),
            POSSIBLE,
            say("a module is computed by other operators"),
        )


def _by_module(rows: Rows, only: list[int], rename: dict[str, str]) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for row in only:
        key = rows.keys[row]
        if key.phase == "forward" and not moves(key.operator):
            found.setdefault(renamed(key.module, rename), []).append(key)
    return found


def _names(keys: list[Key]) -> str:
    return short(", ".join(dict.fromkeys(key.operator for key in keys)), 240)


def _numel(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _equal(a: object, b: object) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-7 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_equal(one, two) for one, two in zip(a, b, strict=True))
    return a == b
