"""Check the C++ of the rehearsal device and the C of the drivers: format, and that it compiles without a warning.

python tools/check_device.py            check
python tools/check_device.py --format   write the format
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends import registry
from torchferry.rehearsal.build import SOURCES, recipe
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import SimulatedDriver, load_driver
from torchferry.rehearsal.races import watching

_TESTS = Path(__file__).parent.parent / "tests" / "rehearsal"
_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only")


def main() -> int:
    """Run the checks; returns 1 when one fails."""
    drivers = [driver for name in registry.built_in() if (driver := load_driver(registry.choose(name).backend))]
    folders = (
        SOURCES,
        watching.SOURCE.parent,
        building.MACHINE,
        building.OPERATORS.parent,
        _TESTS,
        *(driver.folder for driver in drivers),
    )
    files = sorted(str(path) for folder in folders for path in folder.rglob("*") if path.suffix in {".h", ".cpp", ".c"})
    formatter = str(Path(sys.executable).with_name("clang-format"))
    if "--format" in sys.argv[1:]:
        return subprocess.run([formatter, "-i", *files], check=False).returncode
    formatted = subprocess.run([formatter, "--dry-run", "-Werror", *files], check=False).returncode
    # The linker's part of the command does nothing under -fsyntax-only.
    compiled = subprocess.run(recipe(_WARNINGS).command(Path("/dev/null")), check=False).returncode
    operators = building.operators_recipe(_WARNINGS).command(Path("/dev/null"))
    compiled |= subprocess.run(operators, check=False).returncode
    races = recipe(_WARNINGS, source=watching.SOURCE).command(Path("/dev/null"))
    compiled |= subprocess.run(races, check=False).returncode
    return int(bool(formatted or compiled or not all(_compiles(driver) for driver in drivers)))


def _compiles(driver: SimulatedDriver) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "entry_points.c")
        written.write_text(building.stubs(driver), encoding="utf-8")
        call = building.command(driver, building.c_compiler(), written, Path(folder, "driver.so"), _WARNINGS)
        return subprocess.run(call, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
