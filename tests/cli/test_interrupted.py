"""Ctrl-C ends the command line with one line and 130, whenever it comes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from torchferry import __main__, cli
from torchferry.core import own_python


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.enable()


def _interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


class _Importing:
    """Is met by what is imported and was not before."""

    find_spec = staticmethod(_interrupt)


@pytest.mark.parametrize("when", ["before imports", "in imports", "in the command line"])
def test_ctrl_c_is_no_traceback(when: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if when == "before imports":
        monkeypatch.setattr(own_python, "leave_current_folder", _interrupt)
    elif when == "in imports":
        monkeypatch.setattr(own_python, "leave_current_folder", lambda: None)
        monkeypatch.delitem(sys.modules, "torchferry.cli")
        monkeypatch.delattr("torchferry.cli")
        monkeypatch.setattr(sys, "meta_path", [_Importing])
    else:
        monkeypatch.setattr(own_python, "leave_current_folder", lambda: None)
        monkeypatch.setattr(cli, "main", _interrupt)
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
