"""Files that nobody vouches for are read whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from torchferry.core.files import read_regular


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 70_000])
def test_a_file_is_read_up_to_the_limit(size: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert read_regular(path) == b"x" * size
    if size <= 10:
        assert read_regular(path, 10) == b"x" * size
        return
    with pytest.raises(OSError, match="more than 10 bytes") as raised:
        read_regular(path, 10)
    assert raised.value.errno == errno.EFBIG


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_file_that_says_that_it_is_empty_is_read_whole() -> None:
    path = "/proc/self/status"
    assert os.stat(path).st_size == 0
    assert b"VmRSS" in read_regular(path)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_regular(path, 10)


def test_what_is_no_regular_file_is_refused_and_closed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = os.listdir("/dev/fd")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(tmp_path / name)
    assert len(os.listdir("/dev/fd")) == len(before)
