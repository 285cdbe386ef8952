"""Notebooks: what is Python, what is shell, and edits that leave every other byte alone."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core.finding import Edit
from torchferry.source.jsontext import NotJsonError
from torchferry.source.notebook import Notebook
from torchferry.source.text import apply_edits


def notebook(*cells: object, indent: int | None = 1, ascii_only: bool = False) -> str:
    document = {
        "cells": [
            {"cell_type": "code", "metadata": {}, "outputs": [{"text": ["cuda\n"]}], "source": cell} for cell in cells
        ],
        "metadata": {"accelerator": "GPU"},
        "nbformat": 4,
    }
    return json.dumps(document, indent=indent, ensure_ascii=ascii_only)


VIEWS = [
    # (cell, its Python view, its shell view)
    ("import torch", "import torch", "            "),
    ("!nvidia-smi -L\nx = 1", "0             \nx = 1", " nvidia-smi -L\n     "),
    ("if a:\n    !ls\n    b()", "if a:\n    0  \n    b()", "     \n     ls\n       "),
    ("%matplotlib inline\nx", "0                 \nx", "                  \n "),
    ("%time y = x.cuda()", "0;    y = x.cuda()", "                  "),
    ("%%time\ny = x.cuda()", "0     \ny = x.cuda()", "      \n            "),
    ("%%bash\npython train.py", "0     \n0              ", "      \npython train.py"),
    ("%%html\n<b>cuda</b>", "0     \n0          ", "      \n           "),
    ("out = !nvidia-smi", "out = 0          ", "       nvidia-smi"),
    ("torch.cuda?", "0          ", "           "),
    ("x = '''\n!not a command\n'''", "x = '''\n!not a command\n'''", "       \n              \n   "),
    ("!python a.py \\\n  --device cuda", "0             \n               ", " python a.py \\\n  --device cuda"),
    ("%pip install flash-attn", "0                      ", " pip install flash-attn"),
    ("%env CUDA_VISIBLE_DEVICES=0", "0                          ", "     CUDA_VISIBLE_DEVICES=0"),
    ("%env DEVICE cuda", "0               ", "     DEVICE=cuda"),
    ("%run a.py --device cuda", "0                      ", "     a.py --device cuda"),
    ("!cat > a.sh <<EOF", "0                ", " cat > a.sh   EOF"),
    ("%%bash\ncat <<EOF\nx\nEOF", "0     \n0        \n0\n0  ", "      \ncat <<EOF\nx\nEOF"),
    ("%%bash\ncat <<'E' <<EOF\nE", "0     \n0              \n0", "      \ncat <<'E'   EOF\nE"),
    ("await f()", "await f()", "         "),
    ("print 'python 2'\nx", "0               \n0", "                \n "),
]


@pytest.mark.parametrize(("cell", "python", "shell"), VIEWS)
def test_views(cell: str, python: str, shell: str) -> None:
    found = Notebook(notebook(cell))
    assert found.python.text == python + "\n"
    assert found.shell.text == shell + "\n"
    ast.parse(found.python.text)


def test_lines_and_columns_count_in_the_cell() -> None:
    found = Notebook(notebook("a", "b\n  cuda"))
    at = found.script.index("cuda")
    assert found.location("n.ipynb", at, at + 4)[1:] == (2, 3, 2, 7, 2)


SOURCES = st.lists(st.text(alphabet='ab "\\\n\té中😀/', max_size=6), max_size=5)


@given(st.lists(SOURCES, min_size=1, max_size=3), st.booleans(), st.booleans(), st.sampled_from([None, 1]), st.data())
def test_edits_change_the_source_and_nothing_else(
    cells: list[list[str]], as_list: bool, ascii_only: bool, indent: int | None, data: st.DataObject
) -> None:
    sources = ["".join(cell).splitlines(keepends=True) for cell in cells]
    # JSON lists of lines, as notebooks are written: every line but the last ends with \n
    given_sources = [source if as_list else "".join(source) for source in sources]
    text = notebook(*given_sources, indent=indent, ascii_only=ascii_only)
    found = Notebook(text)
    cell = data.draw(st.sampled_from(found.cells)) if found.cells else None
    if cell is None or not cell.pieces:
        return
    a, b = sorted((data.draw(st.integers(0, len(cell.text))), data.draw(st.integers(0, len(cell.text)))))
    new = data.draw(st.text(alphabet='xy\n"\\中', max_size=5))
    edit = Edit(cell.start + a, cell.start + b, new)
    if edit.start == edit.end == cell.start and new.endswith("\n"):
        return  # goes to the cell above; see below
    after = json.loads(apply_edits(text, found.edits([edit])))
    before = json.loads(text)
    wanted = cell.text[:a] + new + cell.text[b:]
    assert "".join(after["cells"][cell.number - 1]["source"]) == wanted
    after["cells"][cell.number - 1]["source"] = before["cells"][cell.number - 1]["source"]
    assert after == before


def test_an_inserted_line_becomes_a_line_of_the_list() -> None:
    text = notebook(["import torch\n", "x = 1"])
    found = Notebook(text)
    result = apply_edits(text, found.edits([Edit(13, 13, "import plugin\n")]))
    assert json.loads(result)["cells"][0]["source"] == ["import torch\n", "import plugin\n", "x = 1"]
    assert result.replace('"import plugin\\n",\n    ', "") == text


def test_lines_put_before_a_cell_go_behind_the_statement_above() -> None:
    text = notebook(["import torch"], ["x = 1"])
    found = Notebook(text)
    at = found.cells[1].start
    result = json.loads(apply_edits(text, found.edits([Edit(at, at, "import plugin\n")])))
    assert [cell["source"] for cell in result["cells"]] == [["import torch\n", "import plugin"], ["x = 1"]]


def test_format_3() -> None:
    cells = [{"cell_type": "code", "input": ["x.cuda()"]}]
    assert Notebook(json.dumps({"worksheets": [{"cells": cells}]})).script == "x.cuda()\n"


@pytest.mark.parametrize("text", ["", "{", "not json", '{"cells": [', "[]]"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(NotJsonError):
        Notebook(text)


@pytest.mark.parametrize("text", ["[]", "3", '{"cells": 3}', '{"cells": [{"source": ["x"]}]}', '{"cells": [[[1]]]}'])
def test_what_has_no_cells_has_no_script(text: str) -> None:
    assert Notebook(text).script == ""
