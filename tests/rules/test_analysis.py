"""What only the whole project can tell is found with little work, and is the same however it is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rules.fixture import TARGETS
from torchferry.backends.target import Target
from torchferry.migration.remarks import remarks
from torchferry.rules import analysis
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult
from torchferry.rules.parallel import examine_all
from torchferry.rules.registry import rules
from torchferry.source.tree import Entry, list_files

MAIN = 'if __name__ == "__main__":\n    run()\n'
CELL: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
FILES = {
    "model.py": "import torch\n\n\ndef run(x):\n    return x.cuda()\n",
    "train.py": f"import torch\nfrom model import run\n\nrun(torch.ones(1).cuda())\n{MAIN}",
    "start.py": f"from model import run\n\n{MAIN}",
    "named.py": f"import torch\nimport torch_musa, torch_npu, torch_gcu, torch_sdaa\nfrom model import run\n{MAIN}",
    "late.py": f"from model import run\n\n\ndef go(x):\n    import torch\n    torch.cuda.synchronize()\n\n\n{MAIN}",
    "plain.py": "import torch\nprint(torch.ones(1))\n",
    "tool.py": f"print(1)\n{MAIN}",
    "book.ipynb": json.dumps(
        {
            "cells": [{**CELL, "source": ["import torch\n", "import model\n", "x = torch.ones(1).cuda()\n"]}],
            "metadata": {"language_info": {"name": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ),
}


def _analysed(root: Path, target: str, **settings: Any) -> Analysis:
    for path, text in FILES.items():
        (root / path).write_text(text, encoding="utf-8")
    return analyse(Request(root, list_files(root), Target.named(target), rules(), **settings))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("redirected", [False, True])
def test_an_import_that_was_made_ready_is_the_one_that_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, rewrite: bool, redirected: bool
) -> None:
    found = _analysed(tmp_path, target, rewrite=rewrite, redirected=redirected)
    assert any(finding.code in ("IMP101", "IMP103") for finding in found.findings)
    monkeypatch.setattr(analysis, "_with_import_ready", lambda request, item: item)
    later = _analysed(tmp_path, target, rewrite=rewrite, redirected=redirected)
    assert found.examined == later.examined
    assert all(item.importing is None for item in found.examined)


def test_an_import_is_made_ready_where_the_file_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[str] = []
    made = analysis._with_import

    def with_import(request: Request, item: FileResult, anyhow: bool) -> FileResult:
        late.append(item.path)
        return made(request, item, anyhow)

    def examined(*given: Any, **named: Any) -> list[FileResult]:
        found = examine_all(*given, **named)
        late.clear()
        return found

    monkeypatch.setattr(analysis, "_with_import", with_import)
    monkeypatch.setattr(analysis, "examine_all", examined)
    _analysed(tmp_path, "npu")
    assert late == ["start.py"]  # which speaks of no device, and was not parsed


@pytest.mark.parametrize(
    ("text", "is_looked_at"),
    [
        ("from common import *\nwith amp.autocast(): pass\n", True),
        ("from common import amp\n", True),
        ("from common import *\nexample = stamp = 1\n", False),
        ("from common import other\namp = 1\n", False),
    ],
)
def test_a_file_is_looked_at_again_where_it_may_say_a_name_of_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_looked_at: bool
) -> None:
    (tmp_path / "common.py").write_text("from torch.cuda import amp\nother = 1\n", encoding="utf-8")
    (tmp_path / "user.py").write_text(text, encoding="utf-8")
    again: list[str] = []
    examine = Engine.examine

    def watched(self: Engine, entry: Entry, *, rewrite: bool = False, whole: bool = False) -> FileResult:
        again.extend([entry.path] * whole)
        return examine(self, entry, rewrite=rewrite, whole=whole)

    monkeypatch.setattr(Engine, "examine", watched)
    analyse(Request(tmp_path, list_files(tmp_path), Target.named("npu"), rules()))
    assert again == ["user.py"] * is_looked_at


@pytest.mark.parametrize(
    ("torch", "files"),
    [
        ("torch==2.4.0", {"agent.py"}),
        ("torch>=2.0,<2.5", {"agent.py"}),
        ("torch>=2.5", set()),
        ("torch", set()),
    ],
)
def test_who_starts_it_is_not_known_and_an_older_torch_loads_no_plugin(
    tmp_path: Path, torch: str, files: set[str]
) -> None:
    """`run.py` gets its class by a text of a settings file, so that no program is known to use the device."""
    texts = {
        "run.py": f"import hydra\n\n\ndef run():\n    hydra.utils.get_class(open('c.yaml').read())()\n\n\n{MAIN}",
        "agent.py": "import torch\n\n\nclass Agent:\n    device = torch.device('cuda:0')\n",
        "requirements.txt": f"{torch}\nhydra-core\n",
    }
    for path, text in texts.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    target = Target.named("npu")
    result = analyse(Request(tmp_path, list_files(tmp_path), target, rules()))
    assert not result.entry_points
    assert {finding.location.path for finding in result.findings if finding.code == "IMP101"} == files
    said = " ".join(remark.render("en") for remark in remarks(tmp_path, target, result))
    assert ("loads torch_npu by itself" in said) is not bool(files)
