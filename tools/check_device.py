"""Check the C++ of the rehearsal device and the C of the drivers: format, and that it compiles without a warning.

python tools/check_device.py            check
python tools/check_device.py --format   write the format

Where a cross compiler is installed (g++-aarch64-linux-gnu), both are compiled for Arm too: most hosts of the cards are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends import registry
from torchferry.rehearsal.build import SOURCES, recipe
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import SimulatedDriver, load_driver

_ARM_C, _ARM_CXX = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"
_WARNINGS = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only")


def main() -> int:
    """Run the checks; returns 1 when one fails."""
    drivers = [driver for name in registry.built_in() if (driver := load_driver(registry.choose(name).backend))]
    folders = (SOURCES, building.MACHINE, building.OPERATORS.parent, *(driver.folder for driver in drivers))
    files = sorted(str(path) for folder in folders for path in folder.iterdir() if path.suffix in {".h", ".cpp", ".c"})
    formatter = str(Path(sys.executable).with_name("clang-format"))
    if "--format" in sys.argv[1:]:
        return subprocess.run([formatter, "-i", *files], check=False).returncode
    formatted = subprocess.run([formatter, "--dry-run", "-Werror", *files], check=False).returncode
    # The linker's part of the command does nothing under -fsyntax-only.
    compiled = subprocess.run(recipe(_WARNINGS).command(Path("/dev/null")), check=False).returncode
    operators = building.operators_recipe(_WARNINGS).command(Path("/dev/null"))
    compiled |= subprocess.run(operators, check=False).returncode
    compiled |= _for_arm(drivers)
    return int(bool(formatted or compiled or not all(_compiles(driver, building.c_compiler()) for driver in drivers)))


def _for_arm(drivers: list[SimulatedDriver]) -> int:
    """Compile everything for Arm; torch's headers are the same for each machine."""
    absent = [name for name in (_ARM_C, _ARM_CXX) if shutil.which(name) is None]
    if absent:
        print(f"not compiled for aarch64: there is no {', no '.join(absent)}")
        return 0
    recipes = (recipe(_WARNINGS), building.operators_recipe(_WARNINGS))
    commands = [replace(each, compiler=_ARM_CXX).command(Path("/dev/null")) for each in recipes]
    compiled = [subprocess.run(command, check=False).returncode == 0 for command in commands]
    return int(not all([*compiled, *(_compiles(driver, _ARM_C) for driver in drivers)]))


def _compiles(driver: SimulatedDriver, compiler: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "entry_points.c")
        written.write_text(building.stubs(driver), encoding="utf-8")
        call = building.command(driver, compiler, written, Path(folder, "driver.so"), _WARNINGS)
        return subprocess.run(call, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
