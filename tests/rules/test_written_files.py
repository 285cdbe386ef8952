"""Cells of a notebook that write a file: each is examined, and rewritten, as the file that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.migration.plan import plan
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.registry import rules
from torchferry.rules.written_files import _changes
from torchferry.source.text import apply_edits
from torchferry.source.tree import list_files

IMPORTS = "import torch\n"
CELLS = [
    # (cell, what is found in it, its text afterwards)
    (
        "%%writefile train.py\nimport torch\nx = torch.ones(2).cuda()\ny = x.to('cuda:0')",
        {("DEV103", 3, 19), ("DEV101", 4, 10)},
        "%%writefile train.py\nimport torch\nx = torch.ones(2).npu()\ny = x.to('npu:0')",
    ),
    (
        "%%writefile -a 'src/run.py'\nimport torch\nmain(torch.ones(2).cuda())\n",
        {("DEV103", 3, 20), ("IMP101", 3, 1)},
        "%%writefile -a 'src/run.py'\nimport torch\nimport torch_npu\nmain(torch.ones(2).npu())\n",
    ),
    (
        "%%file train.py\nfrom torch import ones\nx = ones(2).cuda()",
        {("DEV103", 3, 13)},
        "%%file train.py\nfrom torch import ones\nx = ones(2).npu()",
    ),
    ("%%capture\n%%writefile a.py\nx = y.cuda()", {("DEV103", 3, 7)}, "%%capture\n%%writefile a.py\nx = y.npu()"),
    ("%%script python3 -u\nx = y.cuda()", {("DEV103", 2, 7)}, "%%script python3 -u\nx = y.npu()"),
    (
        "%%writefile run.sh\nexport CUDA_VISIBLE_DEVICES=0\n",
        {("ENV102", 2, 8)},
        "%%writefile run.sh\nexport ASCEND_RT_VISIBLE_DEVICES=0\n",
    ),
    ("%%writefile conf.yaml\ndevice: cuda\n", {("CFG101", 2, 9)}, "%%writefile conf.yaml\ndevice: npu\n"),
    ("%%shell\nexport CUDA_VISIBLE_DEVICES=0", {("ENV102", 2, 8)}, "%%shell\nexport ASCEND_RT_VISIBLE_DEVICES=0"),
    ("%%cu\n__global__ void f() {}\n", {("EXT102", 2, 1)}, None),
    ("%%writefile broken.py\nx.cuda( = 'cuda'\n", {("FIL103", 2, 1)}, None),
    ("%%writefile notes.txt\nx.cuda()\n", set(), None),
    (
        "%%writefile {path}\nimport torch\nx = torch.ones(2).cuda()",
        {("DEV103", 3, 19)},
        "%%writefile {path}\nimport torch\nx = torch.ones(2).npu()",
    ),
    ("%%writefile $name\nfrom the shop: torch.cuda\n", set(), None),
    ("%%html\nx.cuda()\n", set(), None),
]


def migrated(root: Path, *cells: str) -> tuple[Analysis, list[str] | None]:
    root.mkdir(exist_ok=True)
    code = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(keepends=True)} for cell in cells
    ]
    file = root / "a.ipynb"
    if not file.exists():
        file.write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4}, indent=1), encoding="utf-8")
    choice = registry.choose("npu")
    analysis = analyse(
        Request(root, list_files(root), Target(choice.backend, choice.version), rules(), rewrite=True, account=True)
    )
    assert analysis.failures == []
    after = next((write.after for write in plan(root, analysis).writes if write.path == "a.ipynb"), None)
    if after is None:
        return analysis, None
    file.write_bytes(after)
    return analysis, ["".join(cell["source"]) for cell in json.loads(after)["cells"]]


@pytest.mark.parametrize(("cell", "found", "after"), CELLS, ids=[cell.partition("\n")[0] for cell, _, _ in CELLS])
def test_what_a_cell_writes_is_a_file_of_its_own(
    cell: str, found: set[tuple[str, int, int]], after: str | None, tmp_path: Path
) -> None:
    analysis, cells = migrated(tmp_path, "y = 1\n", cell)
    places = {(f.code, f.location.line, f.location.column) for f in analysis.findings if f.location.cell == 2}
    assert places >= found
    assert bool(places) == bool(found)
    assert cells == (None if after is None else ["y = 1\n", after])
    again, second = migrated(tmp_path)
    assert second is None
    assert not [f for f in again.findings if f.edits]


def test_the_notebook_and_the_files_import_the_plugin_each_for_itself(tmp_path: Path) -> None:
    written = "%%writefile a.py\nimport torch\nprint(torch.ones(1).cuda())\n"
    _, cells = migrated(tmp_path, written, IMPORTS + "x = torch.ones(1).cuda()\n")
    assert cells == [
        "%%writefile a.py\nimport torch\nimport torch_npu\nprint(torch.ones(1).npu())\n",
        "import torch\nimport torch_npu\nx = torch.ones(1).npu()\n",
    ]


def test_names_of_the_notebook_are_none_of_the_file(tmp_path: Path) -> None:
    """`cuda` of the notebook is numba's; that of the file is torch's."""
    _, cells = migrated(
        tmp_path, "from numba import cuda\n", "%%writefile a.py\nfrom torch import cuda\ncuda.empty_cache()\n"
    )
    assert cells is not None
    assert cells[0] == "from numba import cuda\n"
    assert "npu" in cells[1]


@given(
    st.lists(st.sampled_from(["a\n", "b\n", "ab\n", "c"]), max_size=6),
    st.lists(st.sampled_from(["a\n", "bb\n", "ab\n", "c"]), max_size=6),
)
def test_changes_make_one_text_of_the_other(old: list[str], new: list[str]) -> None:
    before, after = "".join(old), "".join(new)
    assert apply_edits("head" + before, _changes(before, after, 4)) == "head" + after
