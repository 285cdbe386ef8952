"""Runs a module as `python -m` does, but with no module from the current folder. Runs on Python 3.8 and later.

Arguments: a folder in which torchferry is looked for last (empty for none), the module, the arguments of the module.
Python puts the folder of this file on the path, where `-m` and `-c` put the current one. It holds nothing but this
file, and is removed before anything is imported that Python itself has not loaded.
"""

import os
import sys


def main() -> None:
    """Take the folder of this file off the path, and run the module."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):  # with PYTHONSAFEPATH it is not there
        del sys.path[0]
    sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
    home, module = sys.argv[1:3]
    if home and home not in sys.path:
        sys.path.append(home)
    sys.argv[1:3] = []
    import runpy

    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
