"""Whatever a report names is answered by `show`: decisions, also settled ones, programs, rules, places."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.cli import decide, scan, show

TREE = {
    "train.py": "import torch\nfrom lab.models import net\n\nif __name__ == '__main__':\n"
    "    if torch.cuda.get_device_properties(0).name == 'A100':\n        print(1)\n    net().cuda()\n",
    "tools/evaluate.py": "import sys\nfrom importlib import import_module\n\nif __name__ == '__main__':\n"
    "    import_module(sys.argv[1])\n",
    "lab/__init__.py": "",
    "lab/models.py": "import xformers.ops\nimport torch\n\n\ndef net():\n    word = 'cuda'\n    note(word)\n"
    "    xformers.ops.memory_efficient_attention()\n    return torch.nn.Linear(1, 1)\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in TREE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(command: object, *words: str) -> str:
    done = CliRunner().invoke(command, [*words, "-t", "npu"])  # type: ignore[arg-type]
    assert done.exit_code in (0, 1), done.output
    return done.stdout


def test_every_name_of_a_report_is_answered_with_its_code(project: Path) -> None:
    folder = str(project)
    document = json.loads(run(scan.command, folder, "-f", "json"))
    names = [each["id"] for each in document["decisions"]] + [each["name"] for each in document["programs"]]
    names += [place for each in document["programs"] for unread in each["unread"] for place in unread["chain"][-1:]]
    names += [each["code"] for each in document["findings"]]
    names += [f"{each['path']}:{each['line']}" for each in document["findings"]]
    assert {"xformers", "train.py", "tools/evaluate.py", "tools/evaluate.py:5"} <= {*names}
    for name in dict.fromkeys(names):
        answer = run(show.command, name, folder)
        assert answer.startswith(name)
        assert re.search(r"\| +\S", answer), name  # some code


ANSWERS = {
    "train.py": ("blocked by xformers", "lab/models.py:1  | import xformers.ops", "Decisions that it waits for: 2"),
    "evaluate.py": ("tools/evaluate.py  ready, except for one place", "tools/evaluate.py:5  | import_module(sys"),
    "tools/evaluate.py:5": ("was not read", "Programs that reach it:\n  tools/evaluate.py: tools/evaluate.py:5"),
    "IMP101": ("one finding", "(IMP101, safe fix, "),
    "DEV102": ("take the fixes of torchferry", "torchferry decide DEV102 fix"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_says(project: Path, name: str) -> None:
    answer = run(show.command, name, str(project))
    assert json.loads(run(show.command, name, str(project), "-f", "json"))
    for words in ANSWERS[name]:
        assert words in answer


def test_a_settled_decision_is_shown_with_who_and_why(project: Path) -> None:
    folder = str(project)
    decisions = json.loads(run(scan.command, folder, "-f", "json"))["decisions"]
    (named,) = (each["id"] for each in decisions if each["code"] == "CUD110")
    run(decide.command, named, "accept", folder, "--by", "Ada Lin", "--why", "only printed")
    answer = run(show.command, named, folder)
    assert "settled: Ada Lin accepted its places as they are (only printed)" in answer
    assert ">     5 |     if torch.cuda" in answer
    assert "Accepted as they are: 1" in run(show.command, "train.py", folder)
    again = CliRunner().invoke(decide.command, [named, "accept", folder, "-t", "npu", "--by", "Bob"])
    assert isinstance(again.exception, Exception)
    assert f"`{named}` is settled: Ada Lin chose `accept`" in str(again.exception)
