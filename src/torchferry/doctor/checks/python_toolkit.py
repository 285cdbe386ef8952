"""Does Python find what the toolkit's own Python code needs? Where it compiles operators by it, they fail otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped, warned


@check(
    "python.toolkit",
    rank=13,
    side="python",
    title=say_in("check", "Python packages of the toolkit"),
    needs_card=True,
)
def python_toolkit(context: CheckContext) -> Iterator[Result]:
    """Look for the modules that the setup script adds to PYTHONPATH, and for the distributions that they import."""
    sdk, python = context.requirements.sdk, context.python
    if not (sdk.modules or sdk.packages):
        yield skipped(say("{sdk} is not known to need Python packages", sdk=sdk.name or "SDK"))
        return
    scripts = [path for pattern in sdk.scripts for path in context.host.find(pattern)]
    if not scripts and not context.sdk_version[0]:
        yield skipped(say("{sdk} is not installed; see sdk.installed", sdk=sdk.name))
        return
    if not python.version:
        yield skipped(say("there is no Python to examine; see python.interpreter"))
        return
    modules = [name for name in sdk.modules if not python.has(name)]
    packages = [name for name in sdk.packages if not python.installed(name)]
    if modules:
        yield failed(
            say("{python} does not find {names}", python=python.executable, names=", ".join(modules)),
            say("the setup script of {sdk} was not sourced, or PYTHONPATH was replaced after it", sdk=sdk.name),
            *(f"source {script}" for script in scripts[:1] or sdk.scripts[:1]),
            advice=say("extend PYTHONPATH with PYTHONPATH=FOLDER:$PYTHONPATH instead of replacing it"),
            source=sdk.source,
        )
    if packages:
        yield warned(
            say("{python} lacks {names}", python=python.executable, names=", ".join(packages)),
            say("the operator compiler of {sdk} imports them; operators that it compiles then fail", sdk=sdk.name),
            f"{context.host.python} -m pip install {' '.join(packages)}",
            source=sdk.source,
        )
    if not modules and not packages:
        names = ", ".join((*sdk.modules, *sdk.packages))
        yield passed(say("found: {names}", names=names), source=sdk.source)
