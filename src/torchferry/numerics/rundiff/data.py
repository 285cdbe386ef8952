"""Were the two runs given the same data, in the same order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchferry.core.messages import say
from torchferry.numerics.rundiff.cause import CERTAIN, NOTE, Cause
from torchferry.numerics.runlog.record import Batch, Record


def causes(a: Record, b: Record) -> Iterator[Cause]:
    """Yield each kind of difference once: of what came in or of labels, at the first step that differs."""
    of_a, of_b = _inputs(a), _inputs(b)
    every_a = Counter(entry for step in of_a.values() for entries in step.values() for entry in entries)
    every_b = Counter(entry for step in of_b.values() for entries in step.values() for entry in entries)
    told: set[str] = set()
    for step in sorted(of_a.keys() & of_b.keys()):
        for name, entries in of_a[step].items():
            other = of_b[step].get(name)
            if other is None or other == entries or name in told:
                continue
            cause = _cause(step, name, entries, other, every_a, every_b, a.world != b.world)
            if cause.cause not in told:
                yield cause
            told |= {name, cause.cause}


def _cause(
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
                say("the ranks share the same samples in another way; gradients are the same but for rounding"),
                NOTE,
                say("the same samples lie in another order in the step"),
            )
        return Cause(
            "order in a batch",
            where,
            _entries(a),
            _entries(b),
            say("make the sampler's generator the same on both sides: `generator=torch.Generator().manual_seed(0)`"),
            CERTAIN,
            say("a batch has the same samples in another order"),
        )
    shared = sum((every_a & every_b).values())
    if len(a) == len(b) == 1 or not shared:
        return Cause(
            "data",
            where,
            _entries(a),
            _entries(b),
            say("compare files, tokenizer, augmentation and their seeds; feed both from one saved batch"),
            CERTAIN,
            say("the runs were given other data"),
        )
    if len(a) != len(b):
        return Cause(
            "batch size",
            where,
            _entries(a),
            _entries(b),
            say("let both runs take the same samples in a step, over all ranks"),
            CERTAIN,
            say("a step takes another number of samples"),
        )
    return Cause(
        "data order",
        where,
        _entries(a),
        _entries(b),
        say("give the DataLoader the same seeded generator, the same workers and the same sampler on both sides"),
        CERTAIN,
        say("the same samples come in another order"),
    )


def _entries(entries: list[str]) -> str:
    shown = ", ".join(entries[:3])
    return f"{len(entries)} x [{shown}{', ...' if len(entries) > 3 else ''}]"


def _inputs(record: Record) -> dict[int, dict[str, list[str]]]:
    """Return what each step was given, by name: the entries of all ranks."""
    found: dict[int, dict[str, list[str]]] = {}
    for rank in record.ranks:
        for step in rank.steps:
            if not step.batch:
                continue
            of_step = found.setdefault(step.number, {})
            seen: Counter[str] = Counter()
            for batch in step.batch:
                seen[batch.name] += 1
                name = batch.name if seen[batch.name] == 1 else f"{batch.name} #{seen[batch.name]}"
                of_step.setdefault(_plain(name, batch), []).extend(batch.hashes)
    return found


def _plain(name: str, batch: Batch) -> str:
    """Return a name for an input that does not depend on the class of the outermost module."""
    root, parenthesis, rest = name.partition("(")
    return f"input{parenthesis}{rest}" if parenthesis and "." not in root and " " not in root else name
