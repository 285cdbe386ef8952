"""Cells of notebooks are called as people call them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchferry.core import notebook_cells
from torchferry.core.notebook_cells import cell_name, is_cell

KERNEL = "/tmp/ipykernel_4711/{}.py"
TEXTS = ["import torch", "x = 1", "x = 1", "print(x)"]


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {KERNEL.format(number): number for number in range(1, 5)}
    running = SimpleNamespace(
        compile=SimpleNamespace(_filename_map=names),
        history_manager=SimpleNamespace(input_hist_raw=["", *TEXTS]),
        user_ns={},
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: running))
    monkeypatch.setattr(notebook_cells, "_known", None)
    monkeypatch.setattr(notebook_cells, "_names", {})
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (KERNEL.format(3), "cell In[3]"),
        ("<ipython-input-7-0a1b2c>", "cell In[7]"),
        (KERNEL.format(99), KERNEL.format(99)),  # of another kernel
        ("/tmp/train.py", "/tmp/train.py"),
        ("/tmp/ipykernel_launcher.py", "/tmp/ipykernel_launcher.py"),
        ("<string>", "<string>"),
    ],
)
def test_a_cell_is_called_by_its_input_where_no_notebook_is_known(file: str, name: str) -> None:
    assert cell_name(file) == name
    assert is_cell(file) == ("ipykernel_4711" in file or "ipython" in file)


def test_a_cell_of_a_known_notebook_is_called_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[object] = [{"cell_type": "markdown", "source": "# title"}]
    cells += [{"cell_type": "code", "source": [text, "\n"]} for text in TEXTS[:3]]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    names = [cell_name(KERNEL.format(number)) for number in range(1, 5)]
    assert names == ["train.ipynb:cell 2", "train.ipynb:cell 3", "train.ipynb:cell 4", "cell In[4]"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 3}', '{"cells": [3]}', '{"cells": [{}]}'])
def test_a_damaged_notebook_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(text)
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    assert cell_name(KERNEL.format(1)) == "cell In[1]"
