"""Check the C++ of the rehearsal device: its format, and that it compiles without a warning.

python tools/check_device.py            check
python tools/check_device.py --format   write the format
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.rehearsal.build import SOURCES, recipe

_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only")


def main() -> int:
    """Run the checks; returns 1 when one fails."""
    files = sorted(str(path) for path in SOURCES.iterdir() if path.suffix in {".h", ".cpp"})
    formatter = str(Path(sys.executable).with_name("clang-format"))
    if "--format" in sys.argv[1:]:
        return subprocess.run([formatter, "-i", *files], check=False).returncode
    formatted = subprocess.run([formatter, "--dry-run", "-Werror", *files], check=False).returncode
    # The linker's part of the command does nothing under -fsyntax-only.
    compiled = subprocess.run(recipe(_WARNINGS).command(Path("/dev/null")), check=False).returncode
    return int(bool(formatted or compiled))


if __name__ == "__main__":
    sys.exit(main())
