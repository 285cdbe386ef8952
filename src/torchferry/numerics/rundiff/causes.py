"""Causes of a difference in what a run was given: settings, optimizers, data, random numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchferry.core.messages import Message, say
from torchferry.numerics.rundiff.alignment import renamed
from torchferry.numerics.runlog.record import Batch, Draw, Rank, Record, RecordedStep

# One reason why two runs differ.


CERTAIN, POSSIBLE, NOTE = "certain", "possible", "note"
"""How much a difference explains: it changes the numbers; it may; it is told for completeness."""


@dataclass(frozen=True)
class Cause:
    """A difference that changes numbers, or may.

    Attributes:
        cause: What differs, in stable English words: `data order`.
        where: Which of it: `step 3`, `GPT.blocks.0.drop`, `lr`.
        a: What the first run had.
        b: What the second had.
        advice: What to do.
        grade: `CERTAIN`, `POSSIBLE` or `NOTE`.
        text: The name of the cause for people.
    """

    cause: str
    where: str
    a: str
    b: str
    advice: Message
    grade: str
    text: Message

    def as_dict(self, lang: str) -> dict[str, Any]:
        """Return it for a document."""
        return {
            "cause": self.cause,
            "where": self.where,
            "a": self.a,
            "b": self.b,
            "advice": self.advice.render(lang),
            "grade": self.grade,
        }


def short(value: object, limit: int = 120) -> str:
    """Return a value as a text of one line and of limited length."""
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


_TEXT = 1e-7
"""Relative difference up to which two numbers are one that was written with other digits: that of float32."""


def equal(a: object, b: object) -> bool:
    """Whether two records have the same number, switch, text or list of these.

    NaN is the same as NaN and an infinity as itself: a difference of two infinities says nothing.
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if math.isfinite(a) and math.isfinite(b):
            return abs(a - b) <= _TEXT * max(abs(a), abs(b))
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(value, b[key]) for key, value in a.items())
    return a == b


# Were the two runs set up alike: seeds, switches, versions?

_PRECISION = ("matmul precision", "tf32", "hf32", "reduced_precision")
_STATES = frozenset({"torch state", "random state", "numpy state", "device state"})

_RESTORED = "restored generators"  # recording/facts.py writes it, where torch is

_USUAL = (None, False, "off", "highest", "0")


def _device_type(rank: Rank) -> Any:
    return rank.facts.get("device", {}).get("type")


def causes_in_settings(a: Rank, b: Rank) -> Iterator[Cause]:
    """Yield what was set in another way; whether it changed the numbers is for the comparison to say."""
    for group in ("seeds", "switches", "environment", "device", "versions"):
        of_a, of_b = a.facts.get(group, {}), b.facts.get(group, {})
        for name in sorted(of_a.keys() | of_b.keys(), key=lambda name: (name != _RESTORED, name)):
            value_a, value_b = of_a.get(name), of_b.get(name)
            if equal(value_a, value_b):
                continue
            setting_cause = _setting(group, name, _device_type(a) == _device_type(b))
            if setting_cause is None:
                continue
            cause, grade, text, advice = setting_cause
            if (value_a is None or value_b is None) and (value_a or value_b) in _USUAL:
                grade = NOTE  # a switch that only one device has, and that is off
            yield Cause(cause, name, short(_shown(value_a)), short(_shown(value_b)), advice, grade, text)
    if a.world != b.world:
        yield Cause(
            "world size",
            "ranks",
            str(a.world),
            str(b.world),
            say("results of single ranks cannot be compared; weights, samples, losses and gradients can"),
            NOTE,
            say("the runs had different numbers of ranks"),
        )


def _setting(group: str, name: str, same_device: bool) -> tuple[str, str, Message, Message] | None:
    if group == "seeds":
        if name == _RESTORED:
            return (
                "resume",
                POSSIBLE,
                say("a run went on from a checkpoint with the random generator of the CPU and not with the device's"),
                say("keep the states of the device's generators in the checkpoint, too"),
            )
        if name in _STATES:
            if name == "device state" and not same_device:
                return None
            return (
                "random state",
                POSSIBLE,
                say("the state of a random generator differs at the first step"),
                say("set the seed after the model is built: one side drew random numbers before"),
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
                say(
                    "use the same setting on both sides; torch.set_float32_matmul_precision('highest') is full float32"
                ),
            )
        if lower.startswith("autocast") or lower == "default dtype":
            return (
                "autocast",
                POSSIBLE,
                say("the runs compute in different dtypes"),
                say("use the same mixed precision"),
            )
        if "threads" in lower:
            return (
                "threads",
                NOTE,
                say("the CPU used a different number of threads"),
                say("sums are added in a different order"),
            )
        return (
            "setting",
            POSSIBLE if "determin" in lower else NOTE,
            say("a switch of torch differs"),
            say("set it to the same value on both sides, if the device has it"),
        )
    if group == "environment":
        if "WORLD_SIZE" in name:
            return None
        grade = POSSIBLE if any(word in name.upper() for word in ("TF32", "DETERMINISTIC")) else NOTE
        return (
            "environment",
            grade,
            say("an environment variable differs"),
            say("set it to the same value on both sides"),
        )
    if group == "device":
        return "device", NOTE, say("the device differs"), say("expected if you compare two devices")
    return "version", NOTE, say("a version differs"), say("compare with the same versions where you can")


def _shown(value: object) -> object:
    return "-" if value is None else value


# Did the two runs use the same optimizers, told the same?

_NAMES: dict[str, tuple[str, Message]] = {
    "lr": ("learning rate", say("the learning rate differs")),
    "initial_lr": ("learning rate", say("the learning rate differs")),
    "weight_decay": ("weight decay", say("the weight decay differs")),
    "eps": ("optimizer epsilon", say("the optimizer's epsilon differs")),
    "betas": ("optimizer betas", say("the optimizer's betas differ")),
    "momentum": ("momentum", say("the momentum differs")),
}
_WITHOUT_EFFECT = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Settings that choose how a step is computed: they change its rounding."""


def causes_in_optimizers(a: Rank, b: Rank) -> Iterator[Cause]:
    """Yield each setting that differs, at the first step at which it does."""
    reported: set[tuple[str, str]] = set()
    others = {step.number: step for step in b.steps}
    for step in a.steps:
        other = others.get(step.number)
        if other is None or not (step.optimizers and other.optimizers):
            continue
        if list(step.optimizers) != list(other.optimizers):
            if ("", "") not in reported:
                reported.add(("", ""))
                yield Cause(
                    "optimizer",
                    f"step {step.number}",
                    ", ".join(step.optimizers),
                    ", ".join(other.optimizers),
                    say("use the same optimizer, with the same settings"),
                    CERTAIN,
                    say("the optimizer differs"),
                )
            continue
        for name, groups in step.optimizers.items():
            others_groups = other.optimizers[name]
            if len(groups) != len(others_groups) and (name, "") not in reported:
                reported.add((name, ""))
                yield Cause(
                    "optimizer groups",
                    f"step {step.number}, {name}",
                    str(len(groups)),
                    str(len(others_groups)),
                    say("group the parameters in the same way on both sides"),
                    CERTAIN,
                    say("the optimizer's parameter groups differ"),
                )
                continue
            for number, (group, two) in enumerate(zip(groups, others_groups, strict=False)):
                for key in sorted(group.keys() & two.keys()):
                    if not equal(group[key], two[key]) and (name, key) not in reported:
                        reported.add((name, key))
                        yield _of_optimizers(step.number, name, number, key, group[key], two[key])


def _of_optimizers(step: int, name: str, group: int, key: str, a: Any, b: Any) -> Cause:
    what, text = _NAMES.get(key, (f"optimizer {key}", say("the optimizer's setting {name} differs", name=key)))
    effect = key not in _WITHOUT_EFFECT
    return Cause(
        what,
        f"step {step}, {name}, group {group}, {key}",
        short(a),
        short(b),
        say("set the same value on both sides; a scheduler may change it")
        if effect
        else say("the steps are computed differently, so their rounding differs"),
        CERTAIN if effect else NOTE,
        text,
    )


# Were the two runs given the same data, in the same order?


def causes_in_data(a: Record, b: Record) -> Iterator[Cause]:
    """Yield each kind of difference once: of what came in or of labels, at the first step that differs."""
    of_a, of_b = _inputs(a), _inputs(b)
    every_a = Counter(entry for step in of_a.values() for entries in step.values() for entry in entries)
    every_b = Counter(entry for step in of_b.values() for entries in step.values() for entry in entries)
    reported: set[str] = set()
    for step in sorted(of_a.keys() & of_b.keys()):
        for name, entries in of_a[step].items():
            other = of_b[step].get(name)
            if other is None or other == entries or name in reported:
                continue
            cause = _of_data(step, name, entries, other, every_a, every_b, a.world != b.world)
            if cause.cause not in reported:
                yield cause
            reported |= {name, cause.cause}


def _of_data(
    step: int, name: str, a: list[str], b: list[str], every_a: Counter[str], every_b: Counter[str], ranks: bool
) -> Cause:
    where = f"step {step}, {name}"
    if Counter(a) == Counter(b):
        if ranks:
            return Cause(
                "order of samples in a step",
                where,
                _entries(a),
                _entries(b),
                say("the ranks divide the same samples differently; gradients agree up to rounding"),
                NOTE,
                say("the same samples are in a different order within the step"),
            )
        return Cause(
            "order in a batch",
            where,
            _entries(a),
            _entries(b),
            say("make the sampler's generator the same on both sides: `generator=torch.Generator().manual_seed(0)`"),
            CERTAIN,
            say("a batch has the same samples in a different order"),
        )
    shared = sum((every_a & every_b).values())
    if len(a) == len(b) == 1 or not shared:
        return Cause(
            "data",
            where,
            _entries(a),
            _entries(b),
            say("compare files, tokenizer, augmentation and their seeds; feed both runs from one saved batch"),
            CERTAIN,
            say("the runs received different data"),
        )
    if len(a) != len(b):
        return Cause(
            "batch size",
            where,
            _entries(a),
            _entries(b),
            say("use the same samples in a step on both sides, over all ranks"),
            CERTAIN,
            say("a step takes a different number of samples"),
        )
    return Cause(
        "data order",
        where,
        _entries(a),
        _entries(b),
        say("use the same seeded generator, workers and sampler in the DataLoader on both sides"),
        CERTAIN,
        say("the same samples come in a different order"),
    )


def _entries(entries: list[str]) -> str:
    shown = ", ".join(entries[:3])
    return f"{len(entries)} x [{shown}{', ...' if len(entries) > 3 else ''}]"


def _inputs(record: Record) -> dict[int, dict[str, list[str]]]:
    """Return what each step was given, by name: the entries of all ranks."""
    inputs: dict[int, dict[str, list[str]]] = {}
    for rank in record.ranks:
        for step in rank.steps:
            if not step.batch:
                continue
            of_step = inputs.setdefault(step.number, {})
            seen: Counter[str] = Counter()
            for batch in step.batch:
                seen[batch.name] += 1
                name = batch.name if seen[batch.name] == 1 else f"{batch.name} #{seen[batch.name]}"
                of_step.setdefault(_plain(name, batch), []).extend(batch.hashes)
    return inputs


def _plain(name: str, batch: Batch) -> str:
    """Return a name for an input that does not depend on the class of the outermost module."""
    root, parenthesis, rest = name.partition("(")
    return f"input{parenthesis}{rest}" if parenthesis and "." not in root and " " not in root else name


# Did the two runs draw the same random numbers?

_DEVIATIONS = 6.0
"""Standard deviations by which the rates of two masks may differ and still be of one probability."""


def causes_in_randomness(a: Rank, b: Rank, rename: dict[str, str]) -> Iterator[Cause]:
    """Yield the first draw with another probability, and the first with other numbers."""
    others = {step.number: step for step in b.steps}
    reported: set[str] = set()
    for step in a.steps:
        other = others.get(step.number)
        if other is None:
            continue
        for name, (draw_a, draw_b) in _paired(step, other, rename).items():
            if draw_a is None or draw_b is None:
                cause = _missing(step.number, name, draw_a, draw_b)
            elif draw_a.hash == draw_b.hash or draw_a.shape != draw_b.shape:
                continue
            else:
                cause = _differing(step.number, name, draw_a, draw_b)
            if cause.cause not in reported:
                reported.add(cause.cause)
                yield cause
        if len(reported) == 3:
            return


def _missing(step: int, name: str, draw_a: Draw | None, draw_b: Draw | None) -> Cause:
    return Cause(
        "random draws",
        f"step {step}, {name}",
        draw_a.operator if draw_a else "-",
        draw_b.operator if draw_b else "-",
        say("compare dropout probabilities and train() or eval(): p=0 draws nothing; a fused kernel may draw inside"),
        POSSIBLE,
        say("one run drew random numbers where the other did not"),
    )


def _differing(step: int, name: str, draw_a: Draw, draw_b: Draw) -> Cause:
    where = f"step {step}, {name}"
    count = max(1, round(draw_a.kept / draw_a.rate)) if draw_a.rate else 1
    expected = (draw_a.rate + draw_b.rate) / 2
    spread = (2 * max(expected * (1 - expected), 0.0) / count) ** 0.5
    if _is_mask(draw_a) and _is_mask(draw_b) and abs(draw_a.rate - draw_b.rate) > _DEVIATIONS * spread + 1 / count:
        return Cause(
            "dropout probability",
            where,
            _rate(draw_a),
            _rate(draw_b),
            say("use the same probability and the same mode, train() or eval(), on both sides"),
            CERTAIN,
            say("a dropout keeps a different share of its inputs"),
        )
    if _is_mask(draw_a):
        return Cause(
            "dropout mask",
            where,
            f"{_rate(draw_a)}, {draw_a.hash}",
            f"{_rate(draw_b)}, {draw_b.hash}",
            say(
                "devices draw different numbers for the same seed: compare with dropout off, or draw masks on the CPU; "
                "on one kind of device, set the same seed before training"
            ),
            CERTAIN,
            say("a dropout drew a different mask, which keeps the same share of its inputs"),
        )
    return Cause(
        "random numbers",
        where,
        draw_a.hash,
        draw_b.hash,
        say("draw them on the CPU with a seeded generator, and move them to the device"),
        CERTAIN,
        say("different random numbers were drawn"),
    )


def _is_mask(draw: Draw) -> bool:
    base = draw.operator.split(".")[1] if "." in draw.operator else draw.operator
    return base.startswith(("bernoulli", "native_dropout", "dropout"))


def _rate(draw: Draw) -> str:
    return f"keeps {draw.rate:.4f}"


def _paired(a: RecordedStep, b: RecordedStep, rename: dict[str, str]) -> dict[str, tuple[Draw | None, Draw | None]]:
    of_a, of_b = _named(a, {}), _named(b, rename)
    return {name: (of_a.get(name), of_b.get(name)) for name in [*of_a, *(set(of_b) - set(of_a))]}


def _named(step: RecordedStep, rename: dict[str, str]) -> dict[str, Draw]:
    """Return draws by module, kind and occurrence: of `native_dropout` and `bernoulli_`, the mask represents both."""
    seen: Counter[str] = Counter()
    draws: dict[str, Draw] = {}
    for draw in step.draws:
        if draw.operator.startswith("aten.native_dropout") and len(draw.shape) and draw.kept == 0 and draw.rate:
            continue
        kind = "dropout mask" if _is_mask(draw) else draw.operator
        name = f"{renamed(draw.module, rename) or 'outside of modules'} ({draw.phase}), {kind}"
        seen[name] += 1
        draws[name if seen[name] == 1 else f"{name} #{seen[name]}"] = draw
    return draws
