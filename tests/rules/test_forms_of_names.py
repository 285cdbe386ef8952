"""What small programs do, beside what is said of them: a name or a device of CUDA in many forms reaches its use.

The programs are run here, with a stand-in in place of torch. What uses CUDA while it runs has a finding; and where a
migration says that nothing is left, the migrated program uses the other card and CUDA no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.programs.small import target_of, write
from tests.rules.stand_in_torch import cards_used
from torchferry.backends.portable import INSTALLED, PortableTarget
from torchferry.backends.target import Target
from torchferry.core.finding import Grade
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

FORMS = Path(__file__).parent / "forms"
IMPORT = "import torch\n"


def forms(name: str) -> Iterator[tuple[str, str]]:
    """Yield the headlines and texts of one file of forms."""
    for part in (FORMS / name).read_text(encoding="utf-8").split("\n## ")[1:]:
        headline, _, text = part.partition("\n")
        yield headline, text.rstrip("\n") + "\n"


SOURCES = {
    name: (*value.split(" ", 1), text)
    for name, value, text in ((*headline.split(" => "), text) for headline, text in forms("names_sources.txt"))
}
CARRIERS = dict(forms("names_carriers.txt"))
USES: dict[str, list[str]] = {}
for headline, _ in forms("names_uses.txt"):
    USES.setdefault(headline[0], []).append(headline.split(" => ")[1])
PLAIN = {"M": "plain", "F": "function plain", "T": "text", "B": "backend"}
TURNS = {kind: cycle(uses) for kind, uses in USES.items()}
PAIRS = [
    *((source, carrier) for source, carrier in zip(SOURCES, cycle(CARRIERS), strict=False) if "?" not in source),
    *((source, "plain") for source in SOURCES),
    *((source, carrier) for source, carrier in zip(cycle(PLAIN.values()), CARRIERS, strict=False)),
]
CASES = [(source, carrier, next(TURNS[SOURCES[source][0]])) for source, carrier in PAIRS]


def files_of(text: str) -> dict[str, str]:
    """Return the files of a form, by their names; the first has none and is the program."""
    first, *others = re.split(r"(?m)^### ", text)
    return {"train.py": first, **dict(other.split("\n", 1) for other in others)}


def program(source: str, carrier: str, use: str) -> dict[str, str]:
    """Return the files of a program in which one source comes to one use by one carrier."""
    _, value, text = SOURCES[source]
    own = files_of(text)
    ahead = IMPORT + own.pop("train.py")
    carried = files_of(CARRIERS[carrier])
    is_elsewhere = any("{s}" in text for text in carried.values())
    for path, text in carried.items():
        text = _USE.sub(lambda match: _used(use, match), text).replace("{v}", value)
        own[path] = text.replace("{s}\n", ahead) if is_elsewhere else ahead + text if path == "train.py" else text
    return own


_USE = re.compile(r"(?P<quoted>\bexec\(\")?\bUSE\((?P<given>(?:[^()]|\([^()]*\))*)\)")


def _used(use: str, match: re.Match[str]) -> str:
    """Return a use of what a carrier gives it, with other quotes inside a text."""
    used = re.sub(r"\bx\b", lambda _: match["given"], use)
    return used if match["quoted"] is None else match["quoted"] + used.replace('"', "'")


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    """Return what programs are migrated to: the card's own names, and portable ones."""
    native = target_of("npu")
    return [native, PortableTarget(native.backend, native.version, INSTALLED)]


@pytest.mark.parametrize(("source", "carrier", "use"), CASES)
def test_what_uses_cuda_is_reported_or_changed(
    source: str, carrier: str, use: str, tmp_path: Path, targets: list[Target]
) -> None:
    files = program(source, carrier, use)
    for number, target in enumerate(targets):
        root = tmp_path / str(number)
        write(root, files)
        if not number:
            assert "cuda" in cards_used(root)
        analysis = analyse(Request(root, list_files(root), target, rules(), rewrite=True))
        assert analysis.failures == []
        if any(finding.grade in (Grade.MANUAL, Grade.UNSAFE) for finding in analysis.remaining):
            continue
        for item in analysis.examined:
            if item.after is not None:
                (root / item.path).write_bytes(item.after)
        if "?" not in source:
            used = cards_used(root)
            assert "cuda" not in used
            assert number or "npu" in used
