"""Which programs are started, and with which variables: nothing that the current folder can decide.

`PATH`, `PYTHONPATH`, `LD_LIBRARY_PATH` and their kind name folders. An empty entry, as `export PATH=$PATH:` leaves it,
means the current folder, and a relative entry lies below it: a clone's `git`, `json.py` or `libstdc++.so.6` would be
taken. What torchferry starts for its own work gets these variables without such entries. A program that the user names
gets them as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

SEARCH_PATHS = (
    "PATH", "PYTHONPATH", "LD_LIBRARY_PATH",
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
)  # fmt: skip
"""Variables in which an empty entry is the current folder: for the system, for Python, for a compiler."""

_PYTHON_FOLDERS = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")
"""Variables that name the folder of modules or of compiled ones."""

_INTERACTIVE = ("PYTHONINSPECT", "PYTHONSTARTUP")
"""Variables for a person at the prompt; the first makes Python import `readline` when its path is complete."""


def tool_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables without what names the current folder by an empty or relative entry.

    Args:
        environment: The variables; None for those of this process.
    """
    cleaned = dict(os.environ if environment is None else environment)
    for name in SEARCH_PATHS:
        if name in cleaned:
            separated = cleaned[name].replace(";", os.pathsep) if name == "LD_LIBRARY_PATH" else cleaned[name]
            cleaned[name] = absolute_entries(separated)
            if not cleaned[name]:
                del cleaned[name]
    for name in _PYTHON_FOLDERS:
        if cleaned.get(name) and absolute_entries(cleaned[name]) != cleaned[name]:
            del cleaned[name]
    for name in _INTERACTIVE:
        cleaned.pop(name, None)
    return cleaned


def absolute_entries(search_path: str) -> str:
    """Return a search path without its empty and relative entries."""
    return os.pathsep.join(entry for entry in search_path.split(os.pathsep) if os.path.isabs(entry))


def find_tool(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the path of a program on PATH, never one of the current folder; None where there is none.

    A name with a slash is a path, which somebody named.

    Args:
        name: The program.
        environment: Has the PATH; None for that of this process.
    """
    import shutil  # imported late: it loads what decompresses, and scans of a tree without git start nothing

    variables = os.environ if environment is None else environment
    return shutil.which(name, path=absolute_entries(variables.get("PATH", "")) or os.defpath)
