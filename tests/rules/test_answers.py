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


HOME = "from torch.utils.cpp_extension import CUDA_HOME\n"
MOVES = "import torch\n{use}x = torch.ones(2)\nif {answer}:\n    x = x.{method}()\n"
KEPT = {
    "a variable": ("HAS = {question}\n", "from gpu import HAS\n", "HAS"),
    "a variable of a module": ("HAS = {question}\n", "import gpu\n", "gpu.HAS"),
    "a global": ("HAS = None\ndef init():\n    global HAS\n    HAS = {question}\n", "import gpu\n", "gpu.HAS"),
    "a star": ("HAS = {question}\n", "from gpu import *\n", "HAS"),
    "a function": ("def has():\n    return {question}\n", "from gpu import has\n", "has()"),
    "two returns": (
        "def has():\n    if {question}:\n        return True\n    return False\n",
        "import gpu\n",
        "gpu.has()",
    ),
    "two branches": ("if {question}:\n    NO = False\nelse:\n    NO = True\n", "from gpu import NO\n", "not NO"),
    "a default": ("HAS = False\nif {question}:\n    HAS = True\n", "from gpu import HAS\n", "HAS"),
    "a conditional": ("HAS = 1 if {question} else 0\n", "from gpu import HAS\n", "HAS"),
    "a class": ("class Gpu:\n    has = {question}\n", "from gpu import Gpu\n", "Gpu.has"),
    "an attribute": (
        "class Gpu:\n    def __init__(self):\n        self.has = {question}\n",
        "from gpu import Gpu\ngpu = Gpu()\n",
        "gpu.has",
    ),
    "an object": (
        "class Gpu:\n    def __init__(self, has):\n        self.has = has\nGPU = Gpu({question})\n",
        "from gpu import GPU\n",
        "GPU.has",
    ),
    "a property": (
        "class Gpu:\n    @property\n    def has(self):\n        return {question}\nGPU = Gpu()\n",
        "import gpu\n",
        "gpu.GPU.has",
    ),
    "a method": (
        "class Gpu:\n    def has(self):\n        return {question}\nGPU = Gpu()\n",
        "from gpu import GPU\n",
        "GPU.has()",
    ),
    "a base class": (
        "class Gpu:\n    has = {question}\n",
        "from gpu import Gpu\nclass Card(Gpu):\n    pass\ncard = Card()\n",
        "card.has",
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Gpu:\n    has: bool\nGPU = Gpu(has={question})\n",
        "from gpu import GPU\n",
        "getattr(GPU, 'has')",
    ),
    "a default of a dataclass": (
        "from dataclasses import dataclass, field\n@dataclass\nclass G:\n"
        "    has: bool = field(default_factory=lambda: {question})\n",
        "from gpu import G\ng = G()\n",
        "g.has",
    ),
    "a named tuple": (
        "from typing import NamedTuple\nclass Gpu(NamedTuple):\n    name: str\n    has: bool\n"
        "def gpu():\n    return Gpu('', {question})\n",
        "from gpu import gpu\n",
        "gpu().has",
    ),
    "a namespace": (
        "from types import SimpleNamespace\nGPU = SimpleNamespace(has={question})\n",
        "from gpu import GPU\n",
        "GPU.has",
    ),
    "a dictionary": ("GPU = {{'has': {question}}}\n", "from gpu import GPU\n", "GPU['has']"),
    "a tuple": ("def gpu():\n    return '', {question}\n", "import gpu\nname, has = gpu.gpu()\n", "has"),
    "another module": ("import state\nstate.HAS = {question}\n", "import gpu, state\n", "state.HAS"),
    "a third module": ("HAS = {question}\n", "from passed import OK\n", "OK"),
    "a package": ("HAS = {question}\n", "from nets import HAS\n", "HAS"),
    "an argument": ("HAS = {question}\n", "from gpu import HAS\ndef ok(has):\n    return has\n", "ok(HAS)"),
}
BESIDE = {
    "state.py": "HAS = None\n",
    "passed.py": "import gpu\nclass Kept:\n    ok = gpu.HAS\nOK = Kept.ok and 1\n",
    "nets/__init__.py": "from gpu import HAS\n",
}


def asked(root: Path, files: dict[str, str]) -> list[Finding]:
    """Return what a person has to decide in the file that asks."""
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    analysis = analyse(Request(root, list_files(root), Target(registry.load("npu")), rules()))
    assert analysis.failures == []
    found = (each for each in analysis.findings if each.location.path == "gpu.py")
    return [each for each in found if each.grade is Grade.MANUAL]


@pytest.mark.parametrize("method", ["cuda", "npu"])  # a migration does not answer the question
@pytest.mark.parametrize("kept", KEPT)
def test_an_answer_that_another_module_keeps_is_decided(kept: str, method: str, tmp_path: Path) -> None:
    keeps, use, answer = KEPT[kept]
    files = {
        **BESIDE,
        "gpu.py": HOME + keeps.format(question="CUDA_HOME is not None"),
        "train.py": MOVES.format(use=use, answer=answer, method=method),
    }
    (found,) = asked(tmp_path, files)
    assert found.code == "CUD116"
    if kept != "an argument":
        assert found.message.render("en").endswith("(the code is in train.py)")


@pytest.mark.parametrize("kept", KEPT)
def test_a_build_of_torch_whose_answer_another_module_keeps_is_decided(kept: str, tmp_path: Path) -> None:
    keeps, use, answer = KEPT[kept]
    files = {
        **BESIDE,
        "gpu.py": "import torch\n" + keeps.format(question="torch.version.cuda is not None"),
        "train.py": MOVES.format(use=use, answer=answer, method="cuda"),
    }
    (found,) = asked(tmp_path, files)
    assert found.code == "CUD109"


OF_TRUTH = {"two returns", "two branches", "a default", "a conditional"}
"""What keeps whether something is so, and not what it is."""


@pytest.mark.parametrize("kept", [each for each in KEPT if each not in OF_TRUTH])
def test_the_name_of_a_card_that_another_module_keeps_is_decided(kept: str, tmp_path: Path) -> None:
    keeps, use, answer = KEPT[kept]
    files = {
        **BESIDE,
        "gpu.py": "import torch\n" + keeps.format(question="torch.cuda.get_device_name()"),
        "train.py": MOVES.format(use=use, answer=f"'H100' in {answer}", method="cuda"),
    }
    (found,) = asked(tmp_path, files)
    assert found.code == "CUD110"


@pytest.mark.parametrize(
    "text",
    [
        "from gpu import HAS\nif HAS:\n    print('cuda')\n",
        "from gpu import HAS\nif HAS:\n    compile_kernels()\n",
        "from gpu import HAS\nif HAS or True:\n    x = x.cuda()\n",
        "import gpu\nif gpu.OTHER:\n    x = x.cuda()\n",
        "from other import HAS\nif HAS:\n    x = x.cuda()\n",
        "class Own:\n    HAS = True\n    def run(self, x):\n        return x.cuda() if self.HAS else x\n",
        "from gpu import HAS\nif HAS:\n    x = x.cuda()\nelif has_npu():\n    x = x.npu()\n",
    ],
)
def test_an_answer_on_which_nothing_of_the_card_depends_stays_one(text: str, tmp_path: Path) -> None:
    files = {
        "gpu.py": f"{HOME}HAS = CUDA_HOME is not None\nOTHER = True\n",
        "other.py": "HAS = True\n",
        "train.py": f"import torch\n{text}",
    }
    assert asked(tmp_path, files) == []


def test_a_program_whose_name_becomes_the_targets_is_no_decision_elsewhere(tmp_path: Path) -> None:
    files = {
        "gpu.py": "import shutil\nHAS = shutil.which('nvidia-smi') is not None\n",
        "train.py": MOVES.format(use="from gpu import HAS\n", answer="HAS", method="cuda"),
    }
    assert asked(tmp_path, files) == []


def test_an_answer_with_more_uses_than_are_followed_is_not_known(tmp_path: Path) -> None:
    uses = "".join(f"if HAS:\n    print({number})\n" for number in range(2_100))
    files = {"gpu.py": f"{HOME}HAS = CUDA_HOME\n{uses}", "train.py": MOVES.format(use="", answer="1", method="cuda")}
    (found,) = asked(tmp_path, files)
    assert found.effect is Effect.UNKNOWN


def test_many_questions_under_one_name_are_followed_once(tmp_path: Path) -> None:
    text = "import torch\n" + "HAS = torch.version.cuda is not None\nif HAS:\n    print(1)\n" * 520
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    analysis = analyse(Request(tmp_path, list_files(tmp_path), Target(registry.load("npu")), rules()))
    assert {finding.grade for finding in analysis.findings} == {Grade.NOTE}
