"""The commands that come after a port: how to build it, and how to test it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchferry.backends.build_facts import build_facts
from torchferry.core.messages import Message, say
from torchferry.kernels.planning import PortPlan

_BUILDS = ("setup.py", "CMakeLists.txt")
_MOST_ABOVE = 4
"""Folders above the sources in which a build file is looked for."""


def next_commands(planned: PortPlan, path: Path, has_requests: bool) -> Iterator[tuple[Message, str]]:
    """Yield what to do next, each with what it is for.

    Args:
        planned: The port.
        path: The sources, as the user named them.
        has_requests: Whether requests for kernels were written.
    """
    ported, target = planned.ported, planned.ported.target
    facts = build_facts(target.backend)
    again = f"torchferry port {shlex.quote(os.fspath(path))} --target {target}"
    if ported.kernels and facts.kernels != "port" and not has_requests:
        yield say("kernels to rewrite"), f"{len(ported.kernels)}: {again} --check --requests requests.md"
    if facts.kernels != "port":
        return
    changed = {each.path: each.after for each in planned.builds if each.before != each.after}
    inside = {file.new_path: file.after for file in ported.files if file.builds and file.before != file.after}
    output = planned.place if planned.place is not None else ported.root
    if changed:
        for name in _BUILDS:
            switch = _switch(name, {path.as_posix(): text for path, text in changed.items()}, facts.switch)
            yield from ((say("build"), _build(file.parent, name, switch)) for file in changed if file.name == name)
    elif any(name in inside for name in _BUILDS):
        for name in _BUILDS:
            if name in inside:
                yield say("build"), _build(output, name, _switch(name, inside, facts.switch))
    elif ported.changed:
        found = _nearest(ported.root)
        if found:
            yield say("build"), f"{again} --build {shlex.quote(os.path.relpath(found))}"
    if planned.tests:
        files = [each.path for each in planned.tests if each.before != each.after]
        if files:
            shown = " ".join(shlex.quote(os.path.relpath(file)) for file in files[:4])
            yield (
                say("test"),
                f"python -m pytest -k {target.backend.DEVICE_TYPE} {shown}{' ...' if len(files) > 4 else ''}",
            )


def _switch(name: str, written: Mapping[str, bytes], variable: str) -> str:
    """Return what sets the target's variable for a build, where a file that was written asks for it.

    A CMake file is built with those that it includes. Asked are the files and not the style: where nothing but
    conditions or names changed, there is no branch, and nothing to choose it by.
    """
    suffixes = (".py",) if name.endswith(".py") else ("CMakeLists.txt", ".cmake")
    asked = any(variable.encode() in text for path, text in written.items() if path.endswith(suffixes))
    return f"{variable}=1 " if asked else ""


def _build(folder: Path, name: str, switch: str) -> str:
    shown = shlex.quote(os.path.relpath(folder))
    if name == "setup.py":
        return f"{f'cd {shown} && ' if shown != '.' else ''}{switch}python setup.py build_ext --inplace"
    return f"{switch}cmake -S {shown} -B {shown}/build && cmake --build {shown}/build"


def _nearest(root: Path) -> Path | None:
    """Return the build file of the folder that holds the sources, or of one above it."""
    real = Path(os.path.abspath(root))
    for folder in real.parents[:_MOST_ABOVE]:
        for name in _BUILDS:
            if (folder / name).is_file():
                return folder / name
    return None
