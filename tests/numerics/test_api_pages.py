"""The API pages name every public name and every parameter with its default, in both languages."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("torch")

from torchferry import numerics
from torchferry.numerics.recording.recorder import RecordOptions

DOCS = Path(__file__).parent.parent.parent / "docs"
WRITTEN = {"limit": "1 << 30", "memory_limit": "1 << 30"}


def _parameters(name: str) -> dict[str, object]:
    if name == "Recorder":
        return {one.name: one.default for one in fields(RecordOptions) if one.name not in {"folder", "tensors"}}
    parameters = inspect.signature(getattr(numerics, name)).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty}


def _sections(language: str) -> dict[str, str]:
    page = (DOCS / language / "numerics-api.md").read_text(encoding="utf-8")
    return {part.partition("\n")[0].strip(): part for part in page.split("\n## ")[1:]}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_parameter_is_there_with_its_default(language: str) -> None:
    for name, text in _sections(language).items():
        if name not in numerics.__all__:
            continue
        rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("| `")]
        shown = {one.strip("`"): row[2].strip("`") for row in rows for one in row[1].replace("、", ", ").split(", ")}
        for parameter, default in _parameters(name).items():
            assert shown.get(parameter) == WRITTEN.get(parameter, repr(default).replace("'", '"')), (name, parameter)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_name_is_there(language: str) -> None:
    text = " ".join(_sections(language).values())
    assert [name for name in numerics.__all__ if f"{name}" not in text] == []
