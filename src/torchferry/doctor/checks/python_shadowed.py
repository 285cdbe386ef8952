"""Does a folder hide torch or the plugin? `Please try running Python from a different directory` means this."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, warned


@check("python.shadowed", rank=10, side="python", title=say_in("check", "modules hidden by a folder"))
def python_shadowed(context: CheckContext) -> Iterator[Result]:
    """Look in the working folder and in the folders of PYTHONPATH, which come before installed packages."""
    host = context.host
    inherited = [part for part in host.environment.get("PYTHONPATH", "").split(":") if part]
    folders = [host.cwd] if context.rehearsed else [host.cwd, *inherited]
    hidden = [
        f"{folder.rstrip('/')}/{name}{suffix}"
        for folder in dict.fromkeys(folders)
        for name in ("torch", *context.plugin_modules)
        for suffix in ("", ".py")
        if host.entry(f"{folder.rstrip('/')}/{name}{suffix}") is not None
    ]
    if not hidden:
        yield passed(say("nothing shadows torch or the plugin"))
        return
    yield warned(
        say("{path} is found before the installed package", path=hidden[0]),
        say("Python searches the folder of the program and PYTHONPATH first; source folders lack the built libraries"),
        "cd /  # then start the program by its full path",
        advice=say("rename the folder, or remove its parent from PYTHONPATH"),
    )
