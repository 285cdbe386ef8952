"""The commands that come after a port: how to build it, and how to test it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from torchferry.backends.build_facts import build_facts
from torchferry.core.messages import Message, say
from torchferry.kernels.planning import PortPlan

_BUILDS = ("setup.py", "CMakeLists.txt")
_MOST_ABOVE = 4
"""Folders above the sources in which a build file is looked for."""


def next_commands(planned: PortPlan, path: Path, build_style: str, has_requests: bool) -> Iterator[tuple[Message, str]]:
    """Yield what to do next, each with what it is for.

    Args:
        planned: The port.
        path: The sources, as the user named them.
        build_style: How build files outside of the tree were changed.
        has_requests: Whether requests for kernels were written.
    """
    ported, target = planned.ported, planned.ported.target
    facts = build_facts(target.backend)
    again = f"torchferry port {shlex.quote(os.fspath(path))} --target {target.name}"
    if ported.kernels and facts.kernels != "port" and not has_requests:
        yield say("kernels to rewrite"), f"{len(ported.kernels)}: {again} --check --requests requests.md"
    if facts.kernels != "port":
        return
    switch = f"{facts.switch}=1 " if build_style == "branch" else ""
    changed = [each.path for each in planned.builds if each.before != each.after]
    inside = [file.new_path for file in ported.files if file.builds and file.before != file.after]
    output = planned.place if planned.place is not None else ported.root
    if changed:
        for name in _BUILDS:
            yield from ((say("build"), _build(file.parent, name, switch)) for file in changed if file.name == name)
    elif any(name in inside for name in _BUILDS):
        own_switch = switch if planned.place is None else ""
        yield from ((say("build"), _build(output, name, own_switch)) for name in _BUILDS if name in inside)
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
