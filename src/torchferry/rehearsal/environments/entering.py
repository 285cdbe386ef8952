"""Go on in an environment: this process becomes the same command in it, which keeps it in use until it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.own_python import module_command
from torchferry.core.tool_environment import find_tool
from torchferry.rehearsal.environments.store import EnvironmentInUse, KeptEnvironment

_PYTHONS = ("python", "pypy")


def check_program(environment: KeptEnvironment, program: str) -> None:
    """Refuse a program that would run in another environment than this one.

    Raises:
        UsageError: it is another environment's Python, or a program that the environment lacks and ours has.
    """
    scripts = environment.folder / "bin"
    name = os.path.basename(program)
    if os.sep in program:
        if name.startswith(_PYTHONS) and Path(os.path.abspath(program)).parent != scripts:
            raise UsageError(
                say("{program} is not the Python of the environment {name}", program=program, name=environment.name),
                say("write `python`: it is the environment's behind `--with`"),
            )
        return
    search_path = os.pathsep.join([str(scripts), os.environ.get("PATH", os.defpath)])
    found = find_tool(program, {"PATH": search_path})
    ours = Path(sys.executable).parent
    if (scripts / name).exists() or found is None:
        return
    if name.startswith(_PYTHONS) or Path(found).parent == ours or _is_script_of_python(Path(found)):
        raise UsageError(
            say("the environment {name} has no program `{program}`", name=environment.name, program=program),
            say("add the package that has it: `--with {program}`", program=program),
        )


def enter(used: EnvironmentInUse, arguments: list[str]) -> NoReturn:
    """Become `torchferry` with these arguments in an environment."""
    environment = used.environment
    scripts = environment.folder / "bin"
    variables = {
        **os.environ,
        "VIRTUAL_ENV": str(environment.folder),
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", os.defpath)]),
    }
    variables.pop("PYTHONHOME", None)
    used.leave_to_program()
    command = module_command("torchferry", *arguments, python=str(environment.python))
    os.execve(command[0], command, variables)  # noqa: S606 - a program without a shell, by its path


def _is_script_of_python(path: Path) -> bool:
    """Whether a program is a script that names a Python of its own."""
    try:
        with path.open("rb") as file:
            start = file.read(200).lower()
    except OSError:
        return False
    if b"pyenv" in start:  # it starts the program of whichever Python is its choice
        return True
    first = start.partition(b"\n")[0]
    return first.startswith(b"#!") and b"python" in first and b"/env " not in first
