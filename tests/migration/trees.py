"""Trees of files for the tests of migrations, and what they are byte for byte."""

from __future__ import annotations

import os
import stat
from pathlib import Path

BEFORE = {
    "train.py": b"import torch\r\nx = torch.zeros(1).cuda()\r\n",
    "pkg/__init__.py": b"",
    "pkg/model.py": "# coding: gbk\n# 模型\nimport torch\nd = torch.device('cuda')\n".encode("gbk"),
    "pkg/\xe9 name.py": b"import torch\ny = 'cuda'\nz = torch.ones(2, device=y)",
    "run.sh": b"#!/bin/sh\nCUDA_VISIBLE_DEVICES=0 python train.py\n",
    "notes.txt": b"cuda\x00\xff",
}


def build(root: Path) -> None:
    """Write the tree, with modes that must survive."""
    for name, data in BEFORE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    os.chmod(root / "run.sh", 0o755)
    os.chmod(root / "train.py", 0o640)


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return content, mode and time of every file but torchferry's own."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and ".torchferry" not in path.parts:
            status = path.stat()
            found[str(path.relative_to(root))] = (path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_mtime_ns)
    return found
