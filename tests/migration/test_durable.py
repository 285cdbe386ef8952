"""What is taken is durable and closed at the end of the block, or the end says what is not."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Thread

import pytest

from tests.processes import HANGS
from torchferry.migration import durable
from torchferry.migration.durable import Durable


def _opened(folder: Path, count: int) -> list[int]:
    return [os.open(folder / str(number), os.O_CREAT | os.O_WRONLY) for number in range(count)]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize("threads", [True, False])
def test_all_are_durable_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, threads: bool) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    if not threads:
        monkeypatch.setattr(Thread, "start", _refuse)
    opened = _opened(tmp_path, count)
    with Durable() as block:
        for descriptor in opened:
            block.take(descriptor, tmp_path)
    assert sorted(synced) == sorted(opened)
    assert not any(map(_is_open, opened))


def _refuse(thread: Thread) -> None:
    raise RuntimeError("can't start new thread")


def _take_all(opened: list[int], folder: Path, error: BaseException | None = None) -> None:
    with Durable() as block:
        for number, descriptor in enumerate(opened):
            block.take(descriptor, folder / str(number))
        if error is not None:
            raise error


def test_a_failure_names_its_path_and_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = _opened(tmp_path, 100)

    def full(descriptor: int) -> None:
        if descriptor == opened[50]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        _take_all(opened, tmp_path)
    assert caught.value.filename == str(tmp_path / "50")
    assert not any(map(_is_open, opened))


def test_a_block_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    opened = _opened(tmp_path, 100)
    with pytest.raises(KeyboardInterrupt):
        _take_all(opened, tmp_path, KeyboardInterrupt())
    assert not any(map(_is_open, opened))


def test_a_signal_while_a_thread_starts_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the thread runs, and before it is noted that there is one more to be ended."""
    started: list[Thread] = []

    class InterruptedThread(Thread):
        def start(self) -> None:
            super().start()
            started.append(self)
            if len(started) == 2:
                raise KeyboardInterrupt

    def ended() -> None:
        with pytest.raises(KeyboardInterrupt):
            _take_all(_opened(tmp_path, 4), tmp_path)

    monkeypatch.setattr(durable, "Thread", InterruptedThread)
    waiting = Thread(target=ended, daemon=True)
    waiting.start()
    waiting.join(HANGS)
    for thread in started:
        thread.join(HANGS)
    assert len(started) == 2
    assert not any(thread.is_alive() for thread in (waiting, *started))
