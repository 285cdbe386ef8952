"""Files that a program names and that no reader reads are searched to their end; what cannot be searched is said."""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.config import unread_files
from torchferry.rules.registry import rules
from torchferry.source.project import Project
from torchferry.source.tree import list_files

PARTS = ["cuda", "cuda:1", ",", ";", "|", "\t", " ", "\n", "=", ">", "<", '"', "x", "é", "_"]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=25).map("".join)
HOLDS = "`{}` holds a device that the program may read, in a format that torchferry does not read; look at it yourself"
PATTERNS = (unread_files._CELL, unread_files._VALUE)


@given(TEXTS, st.integers(1, 20))
def test_how_a_file_comes_in_pieces_says_nothing_of_what_it_holds(text: str, size: int) -> None:
    content = text.encode()
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    for pattern in PATTERNS:
        is_there = re.search(pattern.pattern, content) is not None
        assert unread_files._is_in(pieces, pattern) is is_there


@pytest.mark.parametrize("before", [0, (1 << 22) - 3, (1 << 22) + 5, 3 << 20])
@pytest.mark.parametrize(("name", "value"), [("sweep.csv", b"3,cuda"), ("hparams.txt", b"device=cuda:0")])
def test_a_device_is_found_wherever_it_stands(name: str, value: bytes, before: int, tmp_path: Path) -> None:
    line = b"1,cuda_kernels\n"
    (tmp_path / name).write_bytes(line * (before // len(line)) + b"1" * (before % len(line)) + b"\r\n" + value)
    assert said(tmp_path, name) == [HOLDS.format(name)]


@pytest.mark.parametrize(
    "content",
    [codecs.BOM_UTF8 + b"cuda\n", codecs.BOM_UTF16_LE + "device=cuda\r\n".encode("utf-16-le"),
     codecs.BOM_UTF16_BE + "é=cuda:1".encode("utf-16-be"), b"a=1\rdevice = 'cuda'\rb=2"],
)  # fmt: skip
def test_a_device_is_found_however_it_is_encoded(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "values.txt").write_bytes(content)
    assert len(said(tmp_path, "values.txt")) == 1


def test_a_large_file_without_a_device_is_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_bytes(b"The cuda toolkit, and cuda_kernels.\n" * 200_000)
    assert said(tmp_path, "corpus.txt") == []


def test_a_file_that_is_larger_than_what_is_searched_is_said(tmp_path: Path) -> None:
    with (tmp_path / "data.csv").open("wb") as file:
        file.truncate((1 << 30) + 1)
    assert said(tmp_path, "data.csv") == [
        "`data.csv` was not read (it has more than 1073741824 bytes); it may name a CUDA device"
    ]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "values.txt").write_text("a=1\n", encoding="utf-8")

    def denied(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(unread_files, "open_regular", denied)
    assert said(tmp_path, "values.txt") == ["`values.txt` was not read (Permission denied); it may name a CUDA device"]


def test_of_links_those_that_leave_the_project_are_said(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("a=1\n", encoding="utf-8")
    (root / "conf" / "real").write_text("device=cuda\n", encoding="utf-8")
    (root / "conf" / "real.yaml").write_text("device: cuda\n", encoding="utf-8")
    names = ("out.txt", "gone.txt", "inside.txt", "read.txt", "nowhere.txt", "loop.txt")
    leads = ("../outside.txt", "../absent.txt", "conf/real", "conf/real.yaml", "absent.txt", "loop.txt")
    for name, to in zip(names, leads, strict=True):
        os.symlink(to, root / name)
    messages = {name: said(root, name) for name in names}
    outside = "`{}` was not read (it is a link that leaves the project); it may name a CUDA device"
    assert messages.pop("out.txt") == [outside.format("out.txt")]
    assert messages.pop("gone.txt") == [outside.format("gone.txt")]
    assert messages.pop("inside.txt") == [HOLDS.format("inside.txt")]
    assert messages.pop("loop.txt")[0].startswith("`loop.txt` was not read (")
    assert messages == {"read.txt": [], "nowhere.txt": []}


@pytest.mark.parametrize("name", ["a" * 300 + ".txt", "a/" * 3000 + "b.txt", "a\0.txt", "/etc/x.txt", "../x.txt"])
def test_a_text_that_can_be_no_file_of_the_project_is_none(name: str, tmp_path: Path) -> None:
    assert Project(tmp_path, ()).unread_file(name, "train.py") is None


def test_where_nobody_may_look_a_file_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "lstat", denied)
    assert Project(tmp_path, ()).unread_file("conf/values.txt", "train.py") == "conf/values.txt"


def said(root: Path, name: str) -> list[str]:
    """Return what is said of a program that names a file."""
    (root / "train.py").write_text(f"import torch\nrows = open({name!r}).read()\n", encoding="utf-8")
    request = Request(root, list_files(root), Target(registry.load("npu")), rules())
    analysis = analyse(request)
    assert analysis.failures == []
    return [
        finding.message.render("en")
        for finding in analysis.findings
        if finding.location.path == "train.py" and finding.code == "CUD113"
    ]
