"""Do torch and the plugin belong together, by the vendor's table?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchferry.backends.plugin_versions import distribution_of, distributions, is_numbered_as_torch, minor
from torchferry.backends.tables import Row, names_plugin, plugin_versions
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.installing import install_commands
from torchferry.doctor.result import Result, failed, passed, skipped, unknown


@check("python.versions", rank=6, side="python", title=say_in("check", "torch and plugin"), needs_card=True)
def python_versions(context: CheckContext) -> Iterator[Result]:
    """Look each distribution of the plugin up in its own rows of the table; what is not in it is unknown."""
    torch = context.torch
    installed = {name: version for name, version in _installed(context).items() if version}
    if not torch or not installed:
        yield skipped(say("torch or the plugin is missing; see python.torch and python.plugin"))
        return
    table = list(context.target.backend.table("versions"))
    for name, version in installed.items():
        yield _judged(context, torch, name, version, [row for row in table if distribution_of(row) == name])


def _installed(context: CheckContext) -> dict[str, str]:
    """Return the version of each distribution that the table has rows of, or of the plugin where it has none."""
    backend = context.target.backend
    versions = {name: context.python.installed(name) for name in distributions(backend)}
    if any(versions.values()):
        return versions
    name = backend.PIP_NAME if isinstance(backend.PIP_NAME, str) else backend.PLUGIN
    return {name: context.plugin}


def _judged(context: CheckContext, torch: str, name: str, version: str, rows: Sequence[Row]) -> Result:
    of_torch = [row for row in rows if row.name == f"torch=={torch}"]
    row = next((row for row in of_torch if names_plugin(row, version)), None)
    values = {"torch": torch, "name": name, "version": version}
    if row is not None and row.status == "unknown":
        return unknown(
            say("nobody has verified {name} {version} with torch {torch}", **values),
            advice=row.remark,
            source=row.source,
        )
    if row is not None:
        return passed(say("torch {torch} and {name} {version} belong together", **values), source=row.source)
    owner = next((other for other in rows if other.status != "unknown" and names_plugin(other, version)), None)
    if owner is not None:
        return failed(
            say(
                "{name} {version} is for torch {wanted}, but torch {torch} is installed",
                wanted=owner.name.partition("==")[2],
                **values,
            ),
            say("one of the two was installed or replaced alone, for example by a project's script"),
            *install_commands(context, owner, wheel=False),
            advice=owner.remark,
            source=owner.source,
        )
    if not of_torch:
        return unknown(
            say("neither torch {torch} nor {name} {version} is in the vendor's table", **values),
            *install_commands(context),
        )
    first = next((row for row in of_torch if row.status != "unknown"), of_torch[0])
    values["wanted"] = ", ".join(dict.fromkeys(plugin for row in of_torch for plugin in plugin_versions(row)))
    if is_numbered_as_torch(rows, version) and minor(version) != minor(torch):
        return failed(
            say("{name} {version} is installed, but torch {torch} needs {wanted}", **values),
            say("one of the two was installed or replaced alone, for example by a project's script"),
            *install_commands(context, first),
            advice=first.remark,
            source=first.source,
        )
    return unknown(
        say("torch {torch} with {name} {version} is not in the vendor's table, which has {wanted}", **values),
        *install_commands(context, first),
        source=first.source,
    )
