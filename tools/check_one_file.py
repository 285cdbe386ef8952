"""Check the types of the single file that `torchferry device vendor` writes, as the package's own are checked.

It runs behind mypy of the project, whose cache then holds torch: by itself it would read all of torch's types again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from torchferry.device.one_file import one_file

ROOT = Path(__file__).parent.parent
NAME = "device_utils.py"


def main() -> int:
    """Write the file to a folder of its own and run mypy on it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, NAME)
        path.write_text(one_file(NAME), encoding="utf-8")
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
