"""Files that nobody would write, or that broke: each is answered, everything else is done, nothing is lost."""

from __future__ import annotations

import codecs
import json
import os
from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

GOOD = "import torch\nx = torch.zeros(1).cuda()\n"
DEEP = "x = " + "(" * 3000 + "1" + ")" * 3000 + "  # cuda\ny = torch.cuda\n"
LONG = "import torch\nx = [" + ", ".join(f'"{number}"' for number in range(50_000)) + "]\ntorch.cuda.init()\n"

FILES: dict[str, tuple[bytes, str | None]] = {
    # name: content, code of the finding that answers it (None: migrated as any other)
    "gbk.py": ("import torch\nx.cuda()  # 模型\n".encode("gbk"), "FIL102"),
    "gbk_cookie.py": ("# coding: gbk\nimport torch\nx.cuda()  # 模型\n".encode("gbk"), None),
    "latin.py": ("# -*- coding: latin-1 -*-\nimport torch\nx.cuda()  # é\n".encode("latin-1"), None),
    "utf16.py": (codecs.BOM_UTF16_LE + GOOD.encode("utf-16-le"), "FIL102"),
    "bom.py": (codecs.BOM_UTF8 + GOOD.encode(), None),
    "crlf.py": (GOOD.replace("\n", "\r\n").encode(), None),
    "mixed.py": (b"import torch\r\nx.cuda()\ny.cuda()\r\n\rz.cuda()\n", None),
    "formfeed.py": (b"import torch\n\x0c\nx.cuda()\n", None),
    "python2.py": (b"import torch\nprint 'x', x.cuda()\n", "FIL103"),
    "conflict.py": (b"import torch\n<<<<<<< a\nx.cuda()\n=======\n>>>>>>> b\n", "FIL103"),
    "nul.py": (b"import torch\nx.cuda()\0\n", "FIL103"),
    "deep.py": (DEEP.encode(), "FIL103"),
    "long.py": (LONG.encode(), None),
    "huge.py": (b"import torch; x.cuda(); y = '" + b"a" * 10_000_000 + b"'\n", "FIL104"),
    "empty.py": (b"", None),
    "noeol.py": (GOOD.rstrip().encode(), None),
    "broken.ipynb": (b'{"cells": [{"source": ["x.cuda()"', "FIL106"),
    "list.ipynb": (b'[1, 2, "cuda"]', None),
    "anchors.yaml": (b"a: &x {device: cuda}\nb: *x\nb: *x\n? complex\n: cuda\n\tdevice: cuda\n", None),
    "broken.json": (b'{"device": "cuda", ', None),
    "binary.json": (b"\xff\xfe\x00cuda", None),
    "new\nline.py": (GOOD.encode(), None),
    "caf\udce9.py": (GOOD.encode(), None),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files in a folder that no test writes in."""
    root = tmp_path_factory.mktemp("hostile") / "project"
    root.mkdir()
    for name, (data, _) in FILES.items():
        (root / name).write_bytes(data)
    os.symlink(root.parent, root / "out")
    os.symlink(root, root / "loop")
    os.symlink("nowhere.py", root / "dangling.py")
    return root


@pytest.fixture(scope="module")
def analysis(project: Path) -> Analysis:
    """What one process finds in the files."""
    return run(project)


def run(root: Path, jobs: int = 1, name: str = "npu") -> Analysis:
    listing = list_files(root)
    return analyse(Request(root, listing, Target(registry.load(name)), rules(), rewrite=True, jobs=jobs, account=True))


def test_each_is_answered_and_the_rest_is_done(analysis: Analysis) -> None:
    assert analysis.failures == []
    by_path = {item.path: item for item in analysis.examined}
    for name, (data, code) in FILES.items():
        found = by_path[name]
        if code is None:
            assert not [f for f in found.findings if f.code.startswith("FIL")] or name == "binary.json", name
        else:
            assert [finding.code for finding in found.findings] == [code], name
            assert found.after is None, name
        if b".cuda()" in data and code is None and name.endswith(".py"):
            assert found.after is not None, name
            assert b".npu()" in found.after
            back = found.after.replace(b".npu()", b".cuda()")
            assert back.replace(b"import torch_npu\r\n", b"").replace(b"import torch_npu\n", b"") == data, name
    assert {finding.location.path for finding in analysis.skipped} == {"out"}


def test_processes_give_the_same_answer(project: Path, analysis: Analysis) -> None:
    several = run(project, jobs=3)
    assert analysis._replace(project=None, roles=None) == several._replace(project=None, roles=None)


def test_every_file_parses_and_a_second_run_changes_nothing(analysis: Analysis, tmp_path: Path) -> None:
    for item in analysis.examined:
        after = FILES[item.path][0] if item.after is None else item.after
        (tmp_path / item.path).write_bytes(after)
    again = run(tmp_path)
    assert len(again.examined) == len(FILES)
    assert [item.path for item in again.examined if item.after is not None] == []


def test_a_fault_in_a_rule_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("crlf.py", "gbk.py"):
        (tmp_path / name).write_bytes(FILES[name][0])
    rule = next(rule for rule in rules() if rule.CODE == "DEV103")

    def fail(context: object) -> list[object]:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(rule, "check_python", fail)
    analysis = run(tmp_path)
    assert "crlf.py" in {failure.path for failure in analysis.failures}
    assert all("a fault" in failure.what for failure in analysis.failures)
    assert any(item.path == "gbk.py" and item.findings for item in analysis.examined)


def test_a_notebook_keeps_its_outputs_and_layout(tmp_path: Path) -> None:
    document = {
        "cells": [
            {"cell_type": "markdown", "source": ["# cuda\n", "`x.cuda()`"]},
            {"cell_type": "code", "metadata": {"a": "cuda"}, "outputs": [{"text": ["cuda:0\n"]}],
             "source": ["%matplotlib inline\n", "import torch\n", "x = torch.zeros(1).cuda()\n", "!nvidia-smi -L"]},
        ],
        "metadata": {"accelerator": "GPU"},
    }  # fmt: skip
    for indent in (None, 1, 4):
        (tmp_path / "a.ipynb").write_text(json.dumps(document, indent=indent), encoding="utf-8")
        item = next(item for item in run(tmp_path).examined)
        assert item.after is not None
        after = json.loads(item.after)
        source = after["cells"][1].pop("source")
        assert source == [
            "%matplotlib inline\n", "import torch\n", "import torch_npu\n",
            "x = torch.zeros(1).npu()\n", "!nvidia-smi -L",
        ]  # fmt: skip
        before = json.loads(json.dumps(document))
        before["cells"][1].pop("source")
        assert after == before
        assert {(f.code, f.location.cell, f.location.line) for f in item.findings} >= {("DEV103", 2, 3)}
        assert ("PRC102", 2, 4) in {(f.code, f.location.cell, f.location.line) for f in item.findings}
