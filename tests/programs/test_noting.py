"""What is noted of files while they are examined: judging with it says what judging says without."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from torchferry.backends.target import Target
from torchferry.programs.model import Verdict
from torchferry.programs.options.switches import UNDETERMINED, Switch
from torchferry.programs.verdicts.file_facts import FACTS_FOR_JUDGING, FileFacts
from torchferry.programs.verdicts.judging import judge
from torchferry.rules import parallel
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.file_result import Afterwards
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files


def _cell(text: str) -> dict[str, object]:
    return {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None}


NOTEBOOK = {
    "cells": [_cell("!cd tools && python ../eval.py --fast"), _cell("import torch\nimport model\nmodel.cuda()")]
}

FILES = {
    "train.py": "import argparse\nimport torch\nfrom model import Net\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--flash', action='store_true')\nparser.add_argument('--size', type=int)\n"
    "args = parser.parse_args()\nif args.flash:\n    import cupy\nif args.size:\n    import nvidia.dali\n"
    "Net().cuda()\n",
    "eval.py": "import torch\nimport options\nfrom model import Net\nif options.parse().fast:\n    import cupy\n"
    "Net().cuda()\n",
    "options.py": "import click\nimport torch\nfrom dataclasses import dataclass\n\n@dataclass\nclass Options:\n"
    "    fast: bool = False\n    device: str = 'cuda'\n\ndef parse():\n    return Options()\n",
    "model.py": "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        import helpers\n"
    "        return helpers.capability(x.cuda())\n",
    "helpers.py": "import torch\n\ndef capability(x):\n    return torch.cuda.get_gencode_flags()\n",
    "tests/test_net.py": "def test_net():\n    import model\n    model.Net().cuda()\n",
    "tools/plain.py": "def plain():\n    import model\n",
    "run.sh": "export CUDA_VISIBLE_DEVICES=0\ncd tools\npython ../train.py --flash\n",
    "README.md": "# CUDA\n\n```bash\npip install cupy\npython train.py --size 3\n```\n",
    "look.ipynb": json.dumps({**NOTEBOOK, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
}


def _analysed(root: Path, *, noted: bool, jobs: int = 1) -> Analysis:
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    afterwards = FACTS_FOR_JUDGING if noted else None
    return analyse(
        Request(root, list_files(root), Target.named("npu"), rules(), account=True, jobs=jobs, afterwards=afterwards)
    )


@pytest.mark.parametrize("jobs", [1, 3])
def test_with_notes_judging_says_the_same(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_WORTH", 1)
    plain, noted = _analysed(tmp_path, noted=False), _analysed(tmp_path, noted=True, jobs=jobs)
    assert [item._replace(noted=None) for item in noted.examined] == plain.examined
    expected = judge(plain, Target.named("npu"))
    assert judge(noted, Target.named("npu")) == expected
    verdicts = {judged.program.path: judged.verdict for judged in expected}
    assert verdicts.keys() == {"train.py", "eval.py", "look.ipynb"}
    assert verdicts["train.py"] is Verdict.BLOCKED  # by what the command in the document says
    assert len([start for judged in expected for start in judged.program.starts]) == 3


def test_what_is_noted(tmp_path: Path) -> None:
    noted = {item.path: item.noted for item in _analysed(tmp_path, noted=True).examined}
    train, notebook, script = noted["train.py"], noted["look.ipynb"], noted["run.sh"]
    assert isinstance(train, FileFacts)
    assert train.switches is not None
    assert train.switches["size"] == [Switch("size", None, "--size", "train.py", 6, flags=("--size",), is_short=True)]
    assert isinstance(notebook, FileFacts)
    assert notebook.text is not None
    assert "import model" in notebook.text
    assert notebook.outline is not None
    assert notebook.outline.packages == {"torch", "model"}
    assert isinstance(script, FileFacts)
    assert script.commands is not None
    assert [written.place for written in script.commands] == ["run.sh:2", "run.sh:3"]


def test_a_call_that_starts_a_program_is_noted_with_its_place(tmp_path: Path) -> None:
    files = {
        "all.py": "import os\nimport torch\nfor step in 'ab':\n    os.system('cp a b && python train.py -s ' + step)\n"
        "torch.cuda.synchronize()\n",
        "none.py": "import torch\n# a system that runs train.py by os\ntorch.cuda.synchronize()\n",
    }
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    target = Target.named("npu")
    request = Request(tmp_path, list_files(tmp_path), target, rules(), afterwards=FACTS_FOR_JUDGING)
    noted = {item.path: item.noted for item in analyse(request).examined}
    starting = noted["all.py"]
    assert isinstance(starting, FileFacts)
    assert starting.start_calls is not None
    assert [(call.place.line, call.place.column) for call in starting.start_calls] == [(4, 5)]
    assert [word.value for word in starting.start_calls[0].commands[0].words][:2] == ["python", "train.py"]
    assert pickle.loads(pickle.dumps(starting)) == starting
    other = noted["none.py"]
    assert isinstance(other, FileFacts)
    assert other.start_calls == ()


@pytest.mark.parametrize(
    ("path", "text", "is_noted"),
    [
        ("a.yaml", "# python train.py --data a.yaml\nsize: 3\n", True),
        ("a.yaml", "  # python -m train\nsize: 3\n", True),
        ("a.yaml", "command: python train.py\n", False),
        ("a.yaml", "command: echo a # python train.py\n", False),
        ("a.sh", "ls\n", True),
        ("a.sh", "# python train.py\n", False),
        ("a.json", "{}", False),
    ],
)
def test_a_file_without_commands_is_not_read_again(path: str, text: str, is_noted: bool, tmp_path: Path) -> None:
    (tmp_path / path).write_text(text)
    request = Request(tmp_path, list_files(tmp_path), Target.named("npu"), rules(), afterwards=FACTS_FOR_JUDGING)
    noted = next(item.noted for item in analyse(request).examined)
    assert noted == (FileFacts(commands=()) if is_noted else None)


def test_a_program_alone_is_judged_as_among_others(tmp_path: Path) -> None:
    analysis = _analysed(tmp_path, noted=True)
    together = judge(analysis, Target.named("npu"))
    for judged in together:
        alone = judge(analysis, Target.named("npu"), only=(judged.program.path,))
        assert [item for item in alone if item.program.path == judged.program.path] == [judged]


def test_a_value_that_nothing_says_is_the_same_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(Switch("a", UNDETERMINED, "--a", "a.py", 1))).value is UNDETERMINED


def test_files_that_are_asked_again_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process begins with them and keeps them parsed; each file is examined once, in the order of the list."""
    monkeypatch.setattr(parallel, "_WORTH", 1)
    paths = [f"{letter}.py" for letter in "abcdefgh"]
    for path in paths:
        (tmp_path / path).write_text("import torch\ntorch.cuda.synchronize()\n")
    afterwards = Afterwards(asks=lambda path: path > "d", note=lambda data, names, document, context: document.path)
    target = Target.named("npu")
    request = Request(tmp_path, list_files(tmp_path), target, rules(), jobs=2, afterwards=afterwards)
    shares: list[list[str]] = []
    given = parallel._shares

    def handed_out(*arguments: object) -> object:
        found = given(*arguments)  # type: ignore[arg-type]
        shares.extend([entry.path for entry in share] for share in found[0])
        assert found[1] == 5
        return found

    monkeypatch.setattr(parallel, "_shares", handed_out)
    assert [item.path for item in analyse(request).examined] == paths
    assert [path for share in shares for path in share] == [*paths[3:], *paths[:3]]


MODULE = """\
import torch
import other

def public(model):
    return torch.nn.DataParallel(model)

def _private():
    return torch.cuda.get_device_capability()[0] > 7
"""


@pytest.mark.parametrize(
    ("text", "decisions"),
    [
        (MODULE, {"net.py:5"}),  # what nobody calls is not called, and what others define is not offered by this file
        (MODULE + "\ndef more():\n    return _private()\n", {"net.py:5", "net.py:8"}),
        (MODULE + "\nclass Net:\n    def step(self):\n        return other.use()\n", {"net.py:5", "other.py:3"}),
        (MODULE + "\nif __name__ == '__main__':\n    _private()\n", {"net.py:8"}),
    ],
)
def test_a_module_that_is_asked_for_is_judged_by_what_it_offers(text: str, decisions: set[str], tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(text)
    (tmp_path / "other.py").write_text(
        "import torch\ndef use():\n    return torch.cuda.get_device_capability()[1] > 3\n"
    )
    (tmp_path / "main.py").write_text("import net\nif __name__ == '__main__':\n    print(1)\n")
    target = Target.named("npu")
    analysis = analyse(Request(tmp_path, list_files(tmp_path), target, rules(), afterwards=FACTS_FOR_JUDGING))
    (judged,) = judge(analysis, target, only=("net.py",))
    assert {f"{place.path}:{place.line}" for place in judged.decisions} == decisions
    assert "net.py" not in {each.program.path for each in judge(analysis, target)} or "__main__" in text
