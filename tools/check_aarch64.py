"""Compile both devices and every driver for aarch64, as most hosts of the cards are; run what runs without torch.

python tools/check_aarch64.py                   objects against the headers of this environment's torch
python tools/check_aarch64.py --torch FOLDER    libraries, linked with an unpacked torch for aarch64

Needs a cross compiler (g++-aarch64-linux-gnu), and qemu-user to run the drivers; says so where one is not there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends import registry
from torchferry.rehearsal.build import Recipe, recipe
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import load_driver

_C, _CXX, _EMULATOR = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64"
_WARNINGS = ("-Wall", "-Wextra", "-Werror")
_TEST = "tests/rehearsal/test_driver.py"


def main() -> int:
    """Run the checks; returns 1 when one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", type=Path, help="folder of an unpacked torch for aarch64 (`torch` in its wheel)")
    torch_folder: Path | None = parser.parse_args().torch
    absent = [name for name in (_C, _CXX) if shutil.which(name) is None]
    if absent:
        print(f"nothing is compiled for aarch64: there is no {', no '.join(absent)}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        recipes = (recipe(_WARNINGS), building.operators_recipe(_WARNINGS))
        compiled = [_compiles(each, Path(folder), torch_folder) for each in recipes]
        _build_drivers(Path(folder))
    if shutil.which(_EMULATOR) is None:
        print(f"nothing is run: there is no {_EMULATOR}")
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", _TEST, "-k", "aarch64"], check=False)
    return int(not all(compiled) or run.returncode != 0)


def _compiles(device: Recipe, folder: Path, torch_folder: Path | None) -> bool:
    """Compile one device; torch's headers are the same for each machine, its libraries are not."""
    cross = replace(device, compiler=_CXX, torch_folder=torch_folder or device.torch_folder)
    command = cross.command(folder / "device.so")
    if torch_folder is None:
        command = [word for word in command if word != "-shared" and not word.startswith(("-l", "-L", "-Wl,"))] + ["-c"]
    else:
        command.append("-Wl,--allow-shlib-undefined")  # what torch brings is found when it is loaded
    started = time.monotonic()
    done = subprocess.run(command, check=False)
    result = "FAILED" if done.returncode else "compiled"
    print(f"{device.source.name}: {result} in {time.monotonic() - started:.0f} s", flush=True)
    return done.returncode == 0


def _build_drivers(folder: Path) -> None:
    """Build the libraries of every vendor's driver, linked as they are used; raises where one cannot be built."""
    for name in registry.built_in():
        driver = load_driver(registry.choose(name).backend)
        if driver is not None:
            output = folder / name
            output.mkdir()
            building.make(driver, _C, output)
            print(f"the driver of {name}: {len(list(output.glob('*.so')))} libraries")


if __name__ == "__main__":
    sys.exit(main())
