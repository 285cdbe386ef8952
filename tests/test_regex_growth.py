"""No regular expression takes steps that grow with the square of a text, on the texts that its own parts suggest.

The steps are counted, so every machine has the same; see `regex_steps.py`.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import torchferry
from tests.regex_steps import StepCounter, constants, parse
from torchferry.core.lazy_regex import LazyRegex

ROOT = Path(torchferry.__file__).parent
PACKAGES = (
    *("core", "source", "rules", "kernels", "installed", "programs", "migration", "kit", "handover", "report"),
    *("ops", "acceptance", "advice", "assistant", "backends", "cli", "deploy", "device", "doctor", "numerics"),
    *("profiling", "rehearsal", "diagnosis"),
)
"""All but what runs in the user's program alone, which needs a card to be imported: the redirect."""
SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
ANCHORED = {"match", "fullmatch"}
SHORT, LONG = 30, 120
"""Characters of the texts; four times the text may take four times the steps, and something for the start."""


class Used(NamedTuple):
    """A pattern, where it stands, and whether it is searched for."""

    pattern: str | bytes
    flags: int
    where: str
    searched: bool


def methods(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return which methods some modules call on which names."""
    found: dict[str, set[str]] = {}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for name, method in re.findall(r"(\w+)\)?\.(search|finditer|findall|sub|subn|split|match|fullmatch)\b", text):
            found.setdefault(name, set()).add(method)
    return found


@cache
def methods_of_all() -> dict[str, set[str]]:
    return methods(ROOT.rglob("*.py"))


def patterns(package: str) -> Iterator[Used]:
    """Yield the patterns of the modules of a package: those that they hold, and those that are written in a call."""
    everywhere = methods_of_all()
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(("torchferry", *(part for part in parts if part != "__init__"))))
        held = dict(vars(module))
        here = methods([path])
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                held.update(vars(value))
        for name, value in held.items():
            each: Any
            for each in value if isinstance(value, (tuple, list)) else (value,):
                searched = bool((here.get(name) or everywhere.get(name) or SEARCHING) & SEARCHING)
                if isinstance(each, LazyRegex):
                    yield Used(each.pattern, each.compiled().flags, f"{'/'.join(parts)}:{name}", searched)
                elif isinstance(each, re.Pattern):
                    yield Used(each.pattern, each.flags, f"{'/'.join(parts)}:{name}", searched)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                name, pattern = node.func.attr, written(node.args[0])
                if ast.unparse(node.func.value) == "re" and name in SEARCHING | ANCHORED and pattern is not None:
                    flags = re.MULTILINE if "re.M" in ast.unparse(node) else 0
                    yield Used(pattern, flags, f"{'/'.join(parts)}:{node.lineno}", name in SEARCHING)


def written(node: ast.expr) -> str | bytes | None:
    """Return a pattern that is written as a text; what an f-string puts in is a word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "word" for part in node.values)
    return None


CANDIDATES = "a0 _-.\"'\\(/[{<$#*,:=\n;~A"


def example(tree: Any, arm: int, groups: dict[int, str]) -> str:
    """Return a text that a part of a pattern matches; of alternatives the one of this number."""
    text = ""
    for operator, argument in tree:
        name = str(operator)
        if name == "LITERAL":
            text += chr(argument)
        elif name == "IN":
            holding = [each for each in CANDIDATES if re.match(rebuilt(argument), each)]
            text += holding[arm % len(holding)] if holding else chr(first_literal(argument))
        elif name in ("ANY", "NOT_LITERAL"):
            text += "a"
        elif name.endswith("REPEAT"):
            text += example(argument[2], arm, groups) * max(argument[0], (arm + 1) % 2)
        elif name == "BRANCH":
            text += example(argument[1][arm % len(argument[1])], arm, groups)
        elif name == "SUBPATTERN":
            inner = example(argument[3], arm, groups)
            groups[argument[0]] = inner
            text += inner
        elif name == "GROUPREF":
            text += groups.get(argument, "")
        elif name == "ATOMIC_GROUP":
            text += example(argument, arm, groups)
    return text


def rebuilt(items: Any) -> str:
    """Return a set of characters as it is written."""
    classes = {"WORD": r"\w", "NOT_WORD": r"\W", "SPACE": r"\s", "NOT_SPACE": r"\S", "DIGIT": r"\d", "NOT_DIGIT": r"\D"}
    pieces = []
    for operator, argument in items:
        if operator is constants.NEGATE:
            pieces.append("^")
        elif operator is constants.LITERAL:
            pieces.append(re.escape(chr(argument)))
        elif operator is constants.RANGE:
            pieces.append(f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}")
        else:
            pieces.append(classes[str(argument).removeprefix("CATEGORY_")])
    return f"[{''.join(pieces)}]"


def first_literal(items: Any) -> int:
    """Return a character of a set that none of the candidates is in."""
    return next((a if op is constants.LITERAL else a[0] for op, a in items if op is not constants.NEGATE), 97)


def pumps(tree: Any, arm: int, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield what stands before each unbounded repetition of a pattern, and what it repeats."""
    for position, (operator, argument) in enumerate(tree):
        name = str(operator)
        ahead = before + example(list(tree)[:position], arm, {})
        if name.endswith("REPEAT"):
            if argument[1] > 20:
                yield ahead, example(argument[2], arm, {}) or "a"
            yield from pumps(argument[2], arm, ahead)
        elif name == "BRANCH":
            for each in argument[1]:
                yield from pumps(each, arm, ahead)
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from pumps(argument[3] if name == "SUBPATTERN" else argument, arm, ahead)
        elif name.startswith("ASSERT"):
            yield from pumps(argument[1], arm, ahead)


def texts(tree: Any) -> set[tuple[str, str]]:
    """Return beginnings and what is repeated behind them."""
    found: set[tuple[str, str]] = set()
    for arm in range(4):
        for before, body in pumps(tree, arm):
            found |= {(before, body), ("", before + body), ("", body)}
        whole = example(tree, arm, {})
        found |= {("", whole[:end]) for end in range(1, min(len(whole), 12) + 1)}
    return found | {("", each) for each in ("a", " ", "0", "\n", '"', '\\"', "a.", "a ", ",")}


@cache  # some modules hold the pattern of another
def growth(pattern: str | bytes, flags: int, searched: bool) -> tuple[float, str]:
    """Return how often as many steps a text of four times the length takes, and which text takes the most."""
    tree = parse(pattern, flags)
    counter = StepCounter(pattern, flags)
    count = counter.search if searched else counter.match
    worst = (0.0, "")
    for (before, body), after in product(sorted(texts(tree)), ("\x01", "\n", "")):
        short, long = (before + body * (length // len(body) + 1) + after for length in (SHORT, LONG))
        if (many := count(long)) > 12 * LONG:
            worst = max(worst, (many / count(short), f"{before!r} + {body!r} * n + {after!r}"))
    return worst


def repeats(pattern: str | bytes, flags: int) -> bool:
    """Whether a pattern has a repetition without a bound."""
    return any(True for _ in pumps(parse(pattern, flags), 0))


BOUNDED = {
    # what a pattern is asked of, where it is no text of any length
    "source/kinds:_NAMED": "names of files",
    "rules/container/base_image:_DEFAULT": "one place, where it is matched",
    "kernels/requests:_ON_CPU": "paths of files",
    "rules/runtime/report:_NAME": "names of 200 characters",
    "kernels/device_macros:_PASTED": "1,000 characters of a macro",
    "kernels/gates/compiling:_ERROR": "lines that a compiler prints",
    "device/small_file:396": "modules of torchferry's own",
    "kernels/gates/compiling:_NOT_FOUND": "lines that a compiler prints",
}


@pytest.fixture(autouse=True)
def _deep_recursion() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_pattern_takes_steps_that_grow_with_the_square(package: str) -> None:
    for used in {each for each in patterns(package) if each.where not in BOUNDED}:
        if repeats(used.pattern, used.flags):
            times, text = growth(used.pattern, used.flags, used.searched)
            assert times < 7, f"{used.where}: {used.pattern!r} takes {times:.0f} times the steps on {text}"


@pytest.mark.parametrize(
    ("pattern", "text", "grows"),
    [
        (r"\w*cuda", "a", True),
        (r"(?<!\w)\w*cuda", "a", False),
        (r'"(?:[^"\\]|\\.)*"', '\\"', True),
        (r'"(?:[^"\\]|\\.)*"?', '\\"', False),
        (r"\s*,?\s*\)", " ", True),
    ],
)
def test_steps_are_counted_as_re_takes_them(pattern: str, text: str, grows: bool) -> None:
    few, many = (StepCounter(pattern).search(text * count) for count in (10, 40))
    assert (many > 7 * few) is grows
