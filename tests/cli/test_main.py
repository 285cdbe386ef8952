"""The command's own module."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import gc, sys
from importlib.abc import MetaPathFinder
from torchferry.__main__ import main

states = {}
class Watch(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        states.setdefault(name, gc.isenabled())

sys.meta_path.insert(0, Watch())
sys.argv = ["torchferry", "--version"]
try:
    main()
except SystemExit:
    print(states["click"])
"""


def test_nothing_is_collected_while_the_command_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
