"""The programs of Ansible, which are started and never imported: where they are, what they see of ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.importable import is_importable
from torchferry.core.messages import say
from torchferry.core.tool_environment import find_tool, tool_environment

CONFIGURATION = Path(__file__).parent / "ansible" / "ansible.cfg"
"""How Ansible works for us, whatever the user's own configuration says: that is made for other playbooks."""


def ansible(program: str) -> str:
    """Return the path of a program of Ansible, that of our own environment first.

    Raises:
        UsageError: it is not installed.
    """
    path = find_tool(program, {"PATH": _path()})
    if path is None or not is_importable("ansible_runner"):
        raise UsageError(
            say("Ansible is not installed here"),
            say("pip install 'torchferry[deploy]'"),
        )
    return path


def environment(configuration: Path = CONFIGURATION) -> dict[str, str]:
    """Return the variables that a program of Ansible sees, with its `ansible.cfg`; none of them is a secret."""
    variables = {**tool_environment(), "PATH": _path(), "LC_ALL": "C.UTF-8"}
    for name in [name for name in variables if name.startswith("ANSIBLE_") and name != "ANSIBLE_COLLECTIONS_PATH"]:
        del variables[name]  # what a shell sets for other playbooks
    variables["ANSIBLE_CONFIG"] = str(configuration)
    variables["ANSIBLE_HOST_KEY_CHECKING"] = "True"  # ansible-runner turns it off where nobody says anything
    variables["ANSIBLE_NOCOLOR"] = "True"  # it has a terminal of ansible-runner's, which nobody looks at
    return variables


def _path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), tool_environment().get("PATH", os.defpath)])
