"""Did the two runs draw the same random numbers?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchferry.core.messages import say
from torchferry.numerics.rundiff.alignment import renamed
from torchferry.numerics.rundiff.cause import CERTAIN, POSSIBLE, Cause
from torchferry.numerics.runlog.record import Draw, Rank, Step

_DEVIATIONS = 6.0
"""Standard deviations by which the rates of two masks may differ and still be of one probability."""


def causes(a: Rank, b: Rank, rename: dict[str, str]) -> Iterator[Cause]:
    """Yield the first draw with another probability, and the first with other numbers."""
    others = {step.number: step for step in b.steps}
    told: set[str] = set()
    for step in a.steps:
        other = others.get(step.number)
        if other is None:
            continue
        for name, (one, two) in _paired(step, other, rename).items():
            if one is None or two is None:
                found = _missing(step.number, name, one, two)
            elif one.hash == two.hash or one.shape != two.shape:
                continue
            else:
                found = _differing(step.number, name, one, two)
            if found.cause not in told:
                told.add(found.cause)
                yield found
        if len(told) == 3:
            return


def _missing(step: int, name: str, one: Draw | None, two: Draw | None) -> Cause:
    return Cause(
        "random draws",
        f"step {step}, {name}",
        one.operator if one else "-",
        two.operator if two else "-",
        say("a dropout of probability 0, or eval(), draws nothing; a fused kernel may draw inside"),
        POSSIBLE,
        say("one run drew random numbers where the other did not"),
    )


def _differing(step: int, name: str, one: Draw, two: Draw) -> Cause:
    where = f"step {step}, {name}"
    count = max(1, round(one.kept / one.rate)) if one.rate else 1
    expected = (one.rate + two.rate) / 2
    spread = (2 * max(expected * (1 - expected), 0.0) / count) ** 0.5
    if _is_mask(one) and _is_mask(two) and abs(one.rate - two.rate) > _DEVIATIONS * spread + 1 / count:
        return Cause(
            "dropout probability",
            where,
            _rate(one),
            _rate(two),
            say("set the same probability on both sides, and train() or eval() alike"),
            CERTAIN,
            say("a dropout keeps another share"),
        )
    if _is_mask(one):
        return Cause(
            "dropout mask",
            where,
            f"{_rate(one)}, {one.hash}",
            f"{_rate(two)}, {two.hash}",
            say(
                "devices draw other numbers for the same seed: compare with dropout off, or draw masks on the CPU; "
                "on one kind of device, set the same seed before training"
            ),
            CERTAIN,
            say("a dropout drew another mask, with the same share"),
        )
    return Cause(
        "random numbers",
        where,
        one.hash,
        two.hash,
        say("draw them on the CPU with a seeded generator, and move them to the device"),
        CERTAIN,
        say("other random numbers were drawn"),
    )


def _is_mask(draw: Draw) -> bool:
    base = draw.operator.split(".")[1] if "." in draw.operator else draw.operator
    return base.startswith(("bernoulli", "native_dropout", "dropout"))


def _rate(draw: Draw) -> str:
    return f"keeps {draw.rate:.4f}"


def _paired(a: Step, b: Step, rename: dict[str, str]) -> dict[str, tuple[Draw | None, Draw | None]]:
    of_a, of_b = _named(a, {}), _named(b, rename)
    return {name: (of_a.get(name), of_b.get(name)) for name in [*of_a, *(set(of_b) - set(of_a))]}


def _named(step: Step, rename: dict[str, str]) -> dict[str, Draw]:
    """Return draws by module, kind and occurrence: of `native_dropout` and `bernoulli_`, the mask stands for both."""
    seen: Counter[str] = Counter()
    found: dict[str, Draw] = {}
    for draw in step.draws:
        if draw.operator.startswith("aten.native_dropout") and len(draw.shape) and draw.kept == 0 and draw.rate:
            continue
        kind = "dropout mask" if _is_mask(draw) else draw.operator
        name = f"{renamed(draw.module, rename) or 'outside of modules'} ({draw.phase}), {kind}"
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} #{seen[name]}"] = draw
    return found
