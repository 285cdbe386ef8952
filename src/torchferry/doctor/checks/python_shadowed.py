"""Does a folder hide torch or the plugin? `Please try running Python from a different directory` means this."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, passed, warned

CODE = "python.shadowed"
RANK = 10
SIDE = "python"
TITLE = say_in("check", "modules hidden by a folder")


def check(patient: Patient) -> Iterator[Result]:
    """Look in the working folder and in the folders of PYTHONPATH, which come before installed packages."""
    machine = patient.machine
    inherited = [part for part in machine.environment.get("PYTHONPATH", "").split(":") if part]
    folders = [machine.cwd] if patient.rehearsed else [machine.cwd, *inherited]
    hidden = [
        f"{folder.rstrip('/')}/{name}{suffix}"
        for folder in dict.fromkeys(folders)
        for name in ("torch", *patient.plugin_modules)
        for suffix in ("", ".py")
        if machine.entry(f"{folder.rstrip('/')}/{name}{suffix}") is not None
    ]
    if not hidden:
        yield passed(say("nothing hides torch or the plugin"))
        return
    yield warned(
        say("{path} is found before the installed package", path=hidden[0]),
        say("Python looks in the folder of the program and in PYTHONPATH first; sources have not the built libraries"),
        "cd /  # then start the program by its full path",
        advice=say("rename the folder, or take its parent out of PYTHONPATH"),
    )
