"""Were the two runs set up alike: seeds, switches, versions?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import Message, say
from torchferry.numerics.rundiff.cause import NOTE, POSSIBLE, Cause, short
from torchferry.numerics.runlog.record import Rank

_PRECISION = ("matmul precision", "tf32", "hf32", "reduced_precision")
_STATES = frozenset({"torch state", "random state", "numpy state", "device state"})

_USUAL = (None, False, "off", "highest", "0")


def causes(a: Rank, b: Rank) -> Iterator[Cause]:
    """Yield what was set in another way; whether it changed the numbers is for the comparison to say."""
    for group in ("seeds", "switches", "environment", "device", "versions"):
        of_a, of_b = a.facts.get(group, {}), b.facts.get(group, {})
        for name in sorted(of_a.keys() | of_b.keys()):
            one, two = of_a.get(name), of_b.get(name)
            if one == two:
                continue
            found = _cause(group, name, a.facts["device"].get("type") == b.facts["device"].get("type"))
            if found is None:
                continue
            cause, grade, text, advice = found
            if (one is None or two is None) and (one or two) in _USUAL:
                grade = NOTE  # a switch that only one device has, and that is off
            yield Cause(cause, name, short(_shown(one)), short(_shown(two)), advice, grade, text)
    if a.world != b.world:
        yield Cause(
            "world size",
            "ranks",
            str(a.world),
            str(b.world),
            say("what a rank computed cannot be laid beside it; weights, samples, losses and gradients are"),
            NOTE,
            say("the runs had another number of ranks"),
        )


def _cause(group: str, name: str, same_device: bool) -> tuple[str, str, Message, Message] | None:
    if group == "seeds":
        if name in _STATES:
            if name == "device state" and not same_device:
                return None
            return (
                "random state",
                POSSIBLE,
                say("a generator had another state at the first step"),
                say("seed after the model is built; something drew numbers before, on one side"),
            )
        return (
            "seed",
            POSSIBLE,
            say("the seed differs"),
            say("call torch.manual_seed with the same number on both sides"),
        )
    if group == "switches":
        lower = name.lower()
        if any(word in lower for word in _PRECISION):
            return (
                "matmul precision",
                POSSIBLE,
                say("matrix products may round their inputs on one side"),
                say("switch it alike on both sides; torch.set_float32_matmul_precision('highest') is full float32"),
            )
        if lower.startswith("autocast") or lower == "default dtype":
            return "autocast", POSSIBLE, say("the runs compute in other dtypes"), say("use the same mixed precision")
        if "threads" in lower:
            return (
                "threads",
                NOTE,
                say("the CPU used another number of threads"),
                say("sums are added in another order"),
            )
        return (
            "setting",
            POSSIBLE if "determin" in lower else NOTE,
            say("a switch of torch differs"),
            say("set it alike on both sides, if the device has it"),
        )
    if group == "environment":
        if "WORLD_SIZE" in name:
            return None
        grade = POSSIBLE if any(word in name.upper() for word in ("TF32", "DETERMINISTIC")) else NOTE
        return (
            "environment",
            grade,
            say("a variable of the environment differs"),
            say("set it alike on both sides"),
        )
    if group == "device":
        return "device", NOTE, say("the device differs"), say("that is what is compared")
    return "version", NOTE, say("a version differs"), say("compare with the same versions where you can")


def _shown(value: object) -> object:
    return "-" if value is None else value
