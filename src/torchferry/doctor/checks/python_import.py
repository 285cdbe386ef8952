"""Can the plugin be imported? This loads the vendor's libraries and asks the driver."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.core.secrets import masked
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped


@check("python.import", rank=5, side="python", title=say_in("check", "importing the plugin"))
def python_import(context: CheckContext) -> Iterator[Result]:
    """Import torch and the plugin in its own process, and explain a failure that is known."""
    imported, plugin = context.imported, context.target.backend.PLUGIN
    if not imported.tried:
        yield skipped(say("torch or the plugin is missing; see python.torch and python.plugin"))
        return
    if not imported.error:
        yield passed(say("import {plugin}: version {version}", plugin=plugin, version=imported.version or "?"))
        return
    lines = [masked(line) for line in imported.error.splitlines() if line.strip()]
    evidence = tuple(line[:200] for line in lines[-4:])
    what = say("import {plugin} fails", plugin=plugin)
    explanation = context.explained(imported.error)
    if explanation is not None:
        yield failed(what, explanation.cause, *explanation.commands, source=explanation.source, evidence=evidence)
        return
    if imported.process is not None and imported.process.problem == "timeout":
        cause = say(
            "the import did not finish within the time limit: the driver does not answer, or another "
            "process holds every card"
        )
    elif imported.process is not None and imported.process.status is not None and imported.process.status < 0:
        cause = say(
            "the process crashed with signal {number}: libraries probably do not fit together",
            number=-imported.process.status,
        )
    else:
        cause = say("{line}", line=lines[-1][:300] if lines else "?")
    yield failed(
        what,
        cause,
        f"cd / && {context.host.python} -c 'import torch, {plugin}'",
        advice=say("the checks of the host and the libraries show what may be missing"),
        evidence=evidence,
    )
