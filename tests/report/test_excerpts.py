"""The code around a place is that of its line, as lines are counted where the place was found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchferry.core.finding import Location
from torchferry.report import excerpts
from torchferry.report.excerpts import CodeReader


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_in_the_file(tmp_path: Path, end: str) -> None:
    (tmp_path / "a.py").write_bytes(end.join(f"x{number}" for number in range(1, 20)).encode())
    lines = CodeReader(tmp_path).around(Location("a.py", 9, 1, 9, 2))
    assert lines == [(number, f"x{number}") for number in range(6, 13)]


def test_a_cell_has_lines_of_its_own(tmp_path: Path) -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": [f"a{n}\n", f"b{n}"]}
        for n in (1, 2)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert CodeReader(tmp_path).around(Location("n.ipynb", 2, 1, 2, 2, 2)) == [(1, "a2"), (2, "b2")]


def test_what_cannot_be_read_has_no_lines(tmp_path: Path) -> None:
    reader = CodeReader(tmp_path)
    (tmp_path / "a.py").mkdir()
    (tmp_path / "n.ipynb").write_text("{", encoding="utf-8")
    for path in ("a.py", "gone.py", "image.png", "n.ipynb"):
        assert reader.around(Location(path, 1, 1, 1, 2)) == []


def test_files_that_are_many_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpts, "_MOST_FILES", 1)
    reader = CodeReader(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    for name in ("a.py", "b.py", "a.py"):
        assert reader.around(Location(name, 1, 1, 1, 2)) == [(1, name)]
