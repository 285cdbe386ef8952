"""Was the toolkit's setup script sourced in this shell? Its variables are what programs find libraries and tools by."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Remedy, Result, failed, passed, skipped, unverified, warned


@check("sdk.environment", rank=2, side="host", title=say_in("check", "toolkit's environment"), needs_card=True)
def sdk_environment(context: CheckContext) -> Iterator[Result]:
    """Look for the script, for the variables it sets and for the folders it adds."""
    sdk, environment = context.requirements.sdk, context.host.environment
    scripts = [path for pattern in sdk.scripts for path in context.host.find(pattern)]
    if not sdk.scripts:
        if sdk.folders:
            yield skipped(say("{sdk} has no setup script; see library.found", sdk=sdk.name))
        else:
            yield unverified(say("how to set up the environment of the toolkit"))
        return
    if not scripts:
        yield skipped(say("there is no {script}; see sdk.installed", script=" / ".join(sdk.scripts)))
        return
    missing = [name for name in sdk.variables if not environment.get(name)]
    for name in sdk.variables:
        value = environment.get(name, "")
        if value and context.host.entry(value) is None:
            yield failed(
                say("{name} is {value}, which does not exist", name=name, value=value),
                say("the variable was probably set for another version of {sdk}", sdk=sdk.name),
                f"source {scripts[0]}",
                source=sdk.source,
            )
            return
    entries = environment.get("LD_LIBRARY_PATH", "").split(":")
    root = scripts[0].rpartition("/")[0]
    unsourced = missing or (not sdk.variables and not any(folder in entries for folder in sdk.folders))
    if unsourced:
        yield failed(
            say("{script} was not sourced in this shell", script=scripts[0]),
            say("not set: {names}", names=", ".join(missing))
            if missing
            else say("LD_LIBRARY_PATH has none of {folders}", folders=", ".join(sdk.folders)),
            f"source {scripts[0]}",
            source=sdk.source,
            remedy=Remedy("line", f"source {scripts[0]}"),
        )
        return
    if len(scripts) > 1 and not any(environment.get(name, "").startswith(root) for name in sdk.variables):
        yield warned(
            say_plural(
                "{count} copy of {sdk} is installed, and the first one is not used",
                "{count} copies of {sdk} are installed, and the first one is not used",
                count=len(scripts),
                sdk=sdk.name,
            ),
            say("these variables point to another copy: {names}", names=", ".join(sdk.variables)),
            *(f"source {script}" for script in scripts),
            source=sdk.source,
        )
        return
    yield passed(say("{script} was sourced", script=scripts[0]), source=sdk.source)
