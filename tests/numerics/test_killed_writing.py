"""What a process that was killed while it wrote left behind is removed by the next one, and nothing else is."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from torchferry.core.abandoned import locked_folder
from torchferry.numerics.callfile import capture, writing
from torchferry.rehearsal import site


def test_a_call_is_written_whole_and_clears_what_was_left(tmp_path: Path) -> None:
    killed, lock = locked_folder(tmp_path, ".aten.add-", ".part")
    (killed / "new").mkdir()
    os.close(lock)
    alive, lock = locked_folder(tmp_path, ".aten.add-", ".part")
    of_others = tmp_path / ".mine.part"
    of_others.mkdir()
    call = capture.capture(torch.ops.aten.add.Tensor, (torch.ones(2), torch.ones(2)), {})
    written = writing.save(tmp_path, call, None, {})
    os.close(lock)
    assert {path.name for path in tmp_path.iterdir()} == {alive.name, of_others.name, written.name}
    assert written.stat().st_mode & 0o777 == 0o755
    assert sorted(path.suffix for path in written.iterdir()) == [".json", ".py", ".safetensors"]


def test_a_session_clears_what_killed_ones_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    filled: list[Any] = []
    monkeypatch.setattr(site, "fill", lambda *given: filled.append(given))
    killed, lock = locked_folder(tmp_path, "torchferry-rehearsal-")
    os.close(lock)
    made = [site.make(None), site.make(None)]  # type: ignore[arg-type]
    assert not killed.exists()
    assert all(folder.is_dir() for folder in made)
    assert len(filled) == 2
