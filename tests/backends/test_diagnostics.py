"""The tables of variables that make a vendor's software say more."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.diagnostics import LEVELS, _read, diagnostics


@pytest.mark.parametrize("target", registry.built_in())
def test_the_tables_are_read_and_say_more_from_level_to_level(target: str) -> None:
    backend = registry.load(target)
    variables = diagnostics(backend)
    assert len({variable.name for variable in variables}) == len(variables)
    assert all(variable.note.zh and variable.source for variable in variables)
    said = [{variable.name for variable in variables if level in variable.values} for level in LEVELS]
    assert said == sorted(said, key=len)
    assert said[0] <= said[1] <= said[2] == said[3]
    assert diagnostics(None) == variables[: len(diagnostics(None))]
    assert diagnostics(backend, alone=True) == variables[len(diagnostics(None)) :]


@pytest.mark.parametrize(
    "table",
    [
        'name = "A"\nvalues = { loud = "1" }',
        'name = "A"\nvalues = { info = 1 }',
        'name = "A"\nvalues = {}',
        'values = { info = "1" }',
        'name = "A"\nvalues = { info = "1" }\nvalue = "1"',
    ],
    ids=["a level", "a number", "none", "no name", "a key"],
)
def test_a_wrong_table_is_said(table: str, tmp_path: Path) -> None:
    path = tmp_path / "diagnostics.toml"
    path.write_text(f'[sources]\nA = "a"\n[[variable]]\nsource = "A"\n{table}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"diagnostics\.toml"):
        _read(path)
