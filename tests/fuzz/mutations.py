"""Inputs made of others: trees of JSON whose values change, lines and words of a text, bytes.

All of it follows one generator of random numbers, so that a round can be repeated from its number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

MOST_BYTES = 1 << 16

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 10**30, -(10**30), 2**63, 2**64, 1e30, -1e300, 0.5, float("nan"), float("inf"),
    "", "a", "\ud800", "\udcff", "\x00", "\x1b[31m", "..", "/", "../../etc/passwd", "a" * 300, "9" * 400, "nan",
    "\u2028", "\u202e", "{name}", "%s%n", "$(id)", "[", "](", "<!--", [], {}, [[]], [{}], {"": {}}, [0, 0, 0], [None],
    ["a", 1], {"a": [{"b": None}]}, [["float"]],
)  # fmt: skip
"""Values that readers seldom expect."""

WORDS = (
    "cuda", "[", "]", "[[", "]]", "{", "}", "(", ")", "((((", '"', "'", '"""', "'''", "\\", "\\\n", "\n", "\r",
    "\r\n", "\t", " ", "#", "//", "/*", "*/", "<<EOF", "<<-'E'", "$(", "${", "`", "|", "&&", ";", ":", "=", "==",
    "~=", "@", "@@", "*", "**", "!", "!x", "&a", "*a", "<<: *a", "- ", "? ", "---", "...", "%", "%s", "\x00", "\x0c",
    "\x1b[2J", "\x85", "\u2028", "\u202e", "\ufeff", "\U0001f600", "é", "٣", "²", "0", "-1", "9" * 30, "9" * 400,
    "9" * 5000, "1e999", "nan", "inf", "0x", "1_0", "..", "../..", "/etc/passwd", "~", "true", "null", "None", "if(",
    "endif()", "endfunction()", "FROM", "RUN", "import ", "def f(:", "lambda", "async ", "yield", "f'{", "}'",
    "class A:", "@x", "template<", "<<<", ">>>", "#if", "#endif", "#define A(", "R\"(", "??/", "__global__",
    "torch.cuda", "://", "file://", "[tool.torchferry]", "-r ", "-e ", "--hash=",
)  # fmt: skip
"""Words that open, close or mean something in one of the languages."""


def json_of(document: Any) -> bytes:
    """Return a document as JSON; halves of characters are escapes."""
    return json.dumps(document).encode()


def mutated_json(data: bytes, random: Random) -> bytes:
    """Return JSON of which some values, names or places are others."""
    try:
        document = json.loads(data)
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            document = _changed(document, random)
        return json_of(document)
    except (ValueError, RecursionError):
        return mutated_text(data, random)


def _changed(document: Any, random: Random) -> Any:
    places = _places(document)
    container, key = random.choice(places) if places else (None, None)
    way = random.randrange(8)
    if container is None or random.random() < 0.02:
        return deepcopy(random.choice(VALUES))
    if way < 4:
        container[key] = deepcopy(random.choice(VALUES))
    elif way == 4:
        del container[key]
    elif way == 5:
        other, name = random.choice(places)
        if name in other if isinstance(other, dict) else name < len(other):
            container[key] = deepcopy(other[name])
    elif way == 6 and isinstance(container, dict):
        container[random.choice([value for value in VALUES if isinstance(value, str)])] = container.pop(key)
    elif way == 6:
        container.extend(deepcopy(container[:20]))
    else:
        for _ in range(random.choice((1, 50))):
            container[key] = [container[key]] if random.random() < 0.5 else {"a": container[key]}
    return document


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return each value of a document as what holds it and its name there."""
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting and len(places) < 20_000:
        value = waiting.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, part in inner:
            places.append((value, key))
            waiting.append(part)
    return places


def mutated_lines(data: bytes, random: Random) -> bytes:
    """Return JSON lines of which one is changed as JSON, or the lines as those of a text."""
    lines = data.split(b"\n")
    if random.random() < 0.2:
        return mutated_text(data, random)
    at = random.randrange(len(lines))
    lines[at] = mutated_json(lines[at], random)
    return b"\n".join(lines)


def mutated_text(data: bytes, random: Random) -> bytes:
    """Return a text with other lines, words and characters."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        way = random.randrange(9)
        at = random.randrange(len(text) + 1)
        end = min(len(text), at + random.choice((0, 1, 1, 4, 20)))
        if way < 3:
            text = text[:at] + random.choice(WORDS) + text[end:]
        elif way == 3:
            text = text[:at] + text[end:]
        elif way == 4:
            lines = text.splitlines(keepends=True) or [""]
            first, second = random.randrange(len(lines)), random.randrange(len(lines))
            lines[first], lines[second] = lines[second], lines[first]
            text = "".join(lines)
        elif way == 5:
            lines = text.splitlines(keepends=True) or [""]
            del lines[random.randrange(len(lines))]
            text = "".join(lines)
        elif way == 6:
            text = text[:at] + text[at:end] * random.choice((2, 3, 30)) + text[end:]
        elif way == 7:
            marks = [place for place, letter in enumerate(text) if letter in "=:,\"'([{"][:2000]
            at = random.choice(marks) + 1 if marks else at
            text = text[:at] + random.choice(WORDS) + text[at:]
        else:
            text = text[: random.randrange(len(text) + 1)]
    return text.encode("utf-8", "surrogatepass" if random.random() < 0.05 else "surrogateescape")


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """Return bytes of which some are flipped, moved, numbers at an end of their range, or gone."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        way = random.randrange(6)
        at = random.randrange(len(found) + 1)
        if way == 0 and at < len(found):
            found[at] ^= 1 << random.randrange(8)
        elif way == 1:
            number = random.choice(
                (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
            )
            width = random.choice((1, 2, 4, 8))
            found[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, random.choice(("little", "big")))
        elif way == 2:
            del found[at : at + random.choice((1, 2, 8, 64))]
        elif way == 3:
            found[at:at] = bytes(random.randrange(256) for _ in range(random.choice((1, 4, 16))))
        elif way == 4:
            other = random.randrange(len(found) + 1)
            found[at : at + 16] = found[other : other + 16]
        else:
            del found[random.randrange(len(found) + 1) :]
    return bytes(found)


def mutated_tensors(data: bytes, random: Random) -> bytes:
    """Return a safetensors file whose header is changed as JSON, or any bytes of it."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 0 < size <= len(data) - 8 or random.random() < 0.3:
        return mutated_bytes(data, random)
    header = mutated_json(data[8 : 8 + size], random)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


MUTATORS: dict[str, Callable[[bytes, Random], bytes]] = {
    "json": mutated_json,
    "lines": mutated_lines,
    "text": mutated_text,
    "bytes": mutated_bytes,
    "tensors": mutated_tensors,
}
"""By the form of an input."""


def mutated(data: bytes, form: str, seeds: Sequence[bytes], random: Random) -> bytes:
    """Return an input made of another, in its form for the most part."""
    choice = random.random()
    if choice < 0.05 and seeds:
        other = random.choice(seeds)
        return (data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :])[:MOST_BYTES]
    if choice < 0.12:
        form = random.choice(("text", "bytes"))
    return MUTATORS[form](data, random)[:MOST_BYTES]
