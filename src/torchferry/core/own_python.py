"""The one way to start a Python for a program of torchferry's: no module comes from the current folder.

`python -c` and `python -m` put the current folder first on the path: a clone's `json.py` or `torch/` would run. Python
leaves it out with -P from 3.11 on; -I also leaves out the user's packages and PYTHONPATH, where torch may be. So a
program is a file, whose folder is ours, or a module that `core/start/own_program.py` runs. What is started here gets
the variables of `tool_environment`, unless it starts a program of the user's.

`torchferry.__main__` calls `leave_current_folder` before anything of the standard library is imported, `__future__`
included: this module imports only what every Python has loaded at its start.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_STARTER = os.path.join(_FOLDER, "start", "own_program.py")
_HOME = os.path.dirname(os.path.dirname(_FOLDER))
"""Holds the package torchferry, in which a Python may not find it that has it from a relative entry of PYTHONPATH."""


def module_command(module: str, *arguments: str, python: str = "") -> list[str]:
    """Return the command that runs a module as `python -m` does.

    Args:
        module: One of torchferry's, or a program that is installed, such as `pip`.
        arguments: Its arguments.
        python: The interpreter; empty for ours.
    """
    home = "" if python and python != sys.executable else _HOME
    return [python or sys.executable, _STARTER, home, module, *arguments]


def file_command(file: str, *arguments: str, python: str = "") -> list[str]:
    """Return the command that runs a file of ours; its Python finds modules as the user's programs do.

    Args:
        file: Its path; it takes its own folder off the path.
        arguments: Its arguments.
        python: The interpreter; empty for ours.
    """
    return [python or sys.executable, os.path.abspath(file), *arguments]


def bare_command(*program: str, python: str = "") -> list[str]:
    """Return the command that runs a file, or `-c` and code, which needs the standard library alone.

    Args:
        program: The file or `-c` and the code, and the arguments.
        python: The interpreter; empty for ours.
    """
    return [python or sys.executable, "-I", "-S", *program]


def leave_current_folder() -> None:
    """Take the current folder off the path of this process, where `-m` or PYTHONPATH put it there.

    What Python imported before, at its start, cannot be helped. Absolute entries stay: they are somebody's choice.
    """
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return
    if sys.path[:1] == [folder]:
        del sys.path[0]
    site = sys.modules.get("site")
    trusted = {_HOME, *(site.getsitepackages() if hasattr(site, "getsitepackages") else ())}  # type: ignore[union-attr]
    path = os.environ.get("PYTHONPATH", "")
    named = path.split(os.pathsep) if path else []
    absolute = {os.path.abspath(entry) for entry in named if os.path.isabs(entry)}
    relative = {os.path.abspath(entry) for entry in named if not os.path.isabs(entry)} - absolute - trusted
    sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry) and entry not in relative]
    if sys.pycache_prefix and not os.path.isabs(sys.pycache_prefix):
        sys.pycache_prefix = None
