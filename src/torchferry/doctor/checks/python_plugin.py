"""Is the plugin installed? Where its wheel lies on the machine and was not installed, that is said."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.installing import install_commands
from torchferry.doctor.result import Missing, Result, failed, passed, skipped


@check("python.plugin", rank=4, side="python", title=say_in("check", "plugin"))
def python_plugin(context: CheckContext) -> Iterator[Result]:
    """Look for each module of the plugin without importing it."""
    python = context.python
    if not python.version:
        yield skipped(say("there is no Python to examine; see python.interpreter"))
        return
    modules = (context.target.backend.PLUGIN,) if context.rehearsed else context.plugin_modules
    for module in modules:
        if python.has(module):
            version = python.installed(module) or (context.plugin if module == context.target.backend.PLUGIN else "")
            yield passed(say("{module} {version}", module=module, version=version or "?"))
            continue
        wheels = [
            path
            for name, pattern in context.requirements.python.wheels
            if name == module
            for path in context.host.find(pattern)
        ]
        if wheels:
            yield failed(
                say("{module} is on this machine but not installed: {wheel}", module=module, wheel=wheels[-1]),
                say("the toolkit's installer contains the wheel but does not install it"),
                f"{context.host.python} -m pip install {wheels[-1]}",
                source=context.requirements.python.source,
            )
            continue
        yield failed(
            say("{module} is not installed in {python}", module=module, python=python.executable),
            say(
                "without this module, torch does not know the device type {device}",
                device=context.target.backend.DEVICE_TYPE,
            ),
            *install_commands(context),
            advice=context.target.install,
            source=context.target.backend.source_of("INSTALL"),
            missing=Missing.PLUGIN,
        )
