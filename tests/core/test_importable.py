"""A module is importable where a package or a file of its name is; a folder alone is none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from torchferry.core.importable import is_importable


def test_a_folder_of_the_name_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("folder_alone_x", "package_x"):
        (tmp_path / name).mkdir()
    (tmp_path / "package_x" / "__init__.py").touch()
    (tmp_path / "module_x.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "made_x", ModuleType("made_x"))  # find_spec raises for one without a spec
    asked = ("folder_alone_x", "package_x", "module_x", "absent_x", "made_x", "json")
    assert [is_importable(name) for name in asked] == [False, True, True, False, False, True]
