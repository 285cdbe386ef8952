"""Which Python is examined, does it answer, and is it the one of the environments here that has the plugin?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.core.secrets import masked
from torchferry.doctor.check import check
from torchferry.doctor.conda import active_environment, with_plugin
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, warned


@check("python.interpreter", rank=1, side="python", title=say_in("check", "interpreter"))
def python_interpreter(context: CheckContext) -> Iterator[Result]:
    """Judge whether the program of ours ran in it."""
    python = context.python
    path = context.host.python
    if not python.version:
        lines = tuple(masked(line) for line in python.process.first_lines())
        explanation = context.explained(python.process.out + python.process.err)
        yield failed(
            say("{python} cannot be examined", python=path),
            explanation.cause
            if explanation
            else say("there is no such program, it is older than Python 3.8, or it does not start"),
            *(explanation.commands if explanation else ()),
            "torchferry doctor --python /path/to/python",
            f"{path} --version",
            source=explanation.source if explanation else "",
            evidence=lines,
        )
        return
    if python.bits != 64:
        yield failed(
            say("{python} is a 32-bit Python", python=path),
            say("torch has no build for a 32-bit Python"),
            "torchferry doctor --python /path/to/python",
        )
        return
    plugin = context.target.backend.PLUGIN
    others = [] if context.rehearsed or python.has(plugin) else with_plugin(context)
    others = [other for other in others if not other.holds(python.executable)]
    active = active_environment(context.host)
    if others:
        chosen = others[0]
        activate = () if chosen == active else (f"conda activate {shlex.quote(chosen.prefix)}",)
        yield warned(
            say(
                "{plugin} is in the conda environment {name}, not in {python}",
                plugin=plugin,
                name=chosen.name,
                python=python.executable,
            ),
            say("torchferry examined another Python than the one of that environment"),
            *activate,
            f"torchferry doctor --target {context.target} --python {shlex.quote(chosen.python)}",
            evidence=tuple(other.prefix for other in others),
        )
        return
    values = {"version": python.version, "path": python.executable}
    if active is None:
        yield passed(say("Python {version}, {path}", **values))
    elif active.holds(python.executable):
        yield passed(
            say("Python {version}, {path}, of the active conda environment {name}", **values, name=active.name)
        )
    else:
        yield passed(
            say("Python {version}, {path}, not of the active conda environment {name}", **values, name=active.name)
        )
