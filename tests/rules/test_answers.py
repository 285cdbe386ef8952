"""What comes of a question for CUDA that is no on the target is found behind any number of uses, or is not known."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.rules import answers
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

ASKS = "import torch\nHAS = torch.version.cuda is not None\n"
TELLS = "if {name}:\n    print({number})\n"
REFUSES = "if not {name}:\n    raise RuntimeError\n"
CHOOSES = "step = fast if {name} else slow\n"


def question(root: Path, text: str, others: dict[str, str] | None = None) -> Finding:
    """Return what is found of the question in a file."""
    for name, content in {**(others or {}), "train.py": text}.items():
        (root / name).write_text(content, encoding="utf-8")
    analysis = analyse(Request(root, list_files(root), Target(registry.load("npu")), rules()))
    assert analysis.failures == []
    (found,) = [each for each in analysis.findings if each.location.path == "train.py" and each.location.line == 2]
    return found


def telling(count: int, name: str = "HAS") -> list[str]:
    return [TELLS.format(name=name, number=number) for number in range(count)]


@given(st.integers(0, 80), st.integers(0, 80), st.sampled_from([REFUSES, CHOOSES]))
@settings(max_examples=30)
def test_what_depends_on_an_answer_is_found_wherever_it_stands(before: int, behind: int, depends: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = (ASKS, *telling(before), depends.format(name="HAS"), *telling(behind))
        found = question(Path(folder), "".join(parts))
    assert found.grade is Grade.MANUAL
    assert found.effect is (Effect.RAISES if depends is REFUSES else Effect.WRONG)
    assert f"train.py:{3 + 2 * before}" in found.message.render("en")


def test_a_refusal_behind_many_other_files_is_found(tmp_path: Path) -> None:
    uses = [*telling(49), REFUSES.format(name="HAS")]
    others = {f"m{number:02}.py": f"from train import HAS\n{use}" for number, use in enumerate(uses)}
    found = question(tmp_path, ASKS + "".join(f"import m{number:02}\n" for number in range(50)), others)
    assert found.effect is Effect.RAISES
    assert "m49.py:2" in found.message.render("en")


def test_a_refusal_behind_many_names_is_found(tmp_path: Path) -> None:
    names = ["HAS", *(f"name{number}" for number in range(60))]
    chain = "".join(f"{later} = {name}\n" for name, later in pairwise(names))
    assert question(tmp_path, ASKS + chain + REFUSES.format(name=names[-1])).effect is Effect.RAISES


def test_what_comes_of_more_uses_than_are_followed_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MOST_FOLLOWED", 10)
    found = question(tmp_path, ASKS + "".join(telling(30)))
    assert found.grade is Grade.MANUAL
    assert found.effect is Effect.UNKNOWN
    assert "used in more places than torchferry follows (up to train.py:" in found.message.render("en")
    for number in range(30):
        uses = telling(30)
        uses[number] = REFUSES.format(name="HAS")
        assert question(tmp_path, ASKS + "".join(uses)).grade is Grade.MANUAL


def test_uses_that_are_all_followed_and_only_tell_stay_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "_MOST_FOLLOWED", 10)
    assert question(tmp_path, ASKS + "".join(telling(10))).grade is Grade.NOTE


def test_a_refusal_that_is_met_counts_before_uses_that_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST_FOLLOWED", 40)
    refusing = REFUSES.format(name="HAS")
    assert question(tmp_path, ASKS + refusing * 60).effect is Effect.RAISES


@pytest.mark.parametrize(
    "text",
    ["A = HAS\nHAS = A\n", "def f():\n    return HAS and f()\n", "class C:\n    a = HAS\n    b = a\n    a = b\n"],
)
def test_names_that_go_round_end(text: str, tmp_path: Path) -> None:
    assert question(tmp_path, ASKS + text).grade is Grade.NOTE


def test_many_questions_under_one_name_are_followed_once(tmp_path: Path) -> None:
    text = "import torch\n" + "HAS = torch.version.cuda is not None\nif HAS:\n    print(1)\n" * 520
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    analysis = analyse(Request(tmp_path, list_files(tmp_path), Target(registry.load("npu")), rules()))
    assert {finding.grade for finding in analysis.findings} == {Grade.NOTE}
