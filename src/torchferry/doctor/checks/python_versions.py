"""Do torch and the plugin belong together, by the vendor's table?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.tables import Row
from torchferry.core.messages import Bilingual, say
from torchferry.doctor.installing import install_commands
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped, unknown

CODE = "python.versions"
RANK = 6
SIDE = "python"
TITLE = Bilingual("torch and plugin", "torch 与插件版本")
CARD = True


def check(patient: Patient) -> Iterator[Result]:
    """Look the pair up in the table; what is not in it is unknown."""
    torch, plugin = patient.torch, patient.plugin
    if not torch or not plugin:
        yield skipped(say("torch or the plugin is missing; see python.torch and python.plugin"))
        return
    table = patient.target.backend.table("versions")
    row = table.get(f"torch=={torch}")
    if row is not None and plugin in _plugins(row):
        yield passed(say("torch {torch} and {plugin} belong together", torch=torch, plugin=plugin), source=row.source)
        return
    owner = next((other for other in table if plugin in _plugins(other)), None)
    if owner is not None:
        wanted = owner.name.partition("==")[2]
        yield failed(
            say(
                "plugin {plugin} is for torch {wanted}, and torch {torch} is installed",
                plugin=plugin,
                wanted=wanted,
                torch=torch,
            ),
            say("one of the two was installed or replaced by itself, as scripts of projects do"),
            *install_commands(patient, owner),
            advice=owner.remark,
            source=owner.source,
        )
    elif row is not None:
        wanted = ", ".join(_plugins(row))
        same = plugin.partition("+")[0].split(".post")[0] == _plugins(row)[0].partition("+")[0].split(".post")[0]
        if same:
            yield unknown(
                say(
                    "torch {torch} with plugin {plugin} is not in the vendor's table, which has {wanted}",
                    torch=torch,
                    plugin=plugin,
                    wanted=wanted,
                ),
                *install_commands(patient, row),
                source=row.source,
            )
            return
        yield failed(
            say(
                "plugin {plugin} is installed, and for torch {torch} it is {wanted}",
                plugin=plugin,
                torch=torch,
                wanted=wanted,
            ),
            say("one of the two was installed or replaced by itself, as scripts of projects do"),
            *install_commands(patient, row),
            advice=row.remark,
            source=row.source,
        )
    else:
        yield unknown(
            say("neither torch {torch} nor plugin {plugin} is in the vendor's table", torch=torch, plugin=plugin),
            *install_commands(patient),
        )


def _plugins(row: Row) -> list[str]:
    """Return the plugin versions that a row names, the recommended one first."""
    first = row.use.partition("==")[2]
    return list(dict.fromkeys([first, *row.extra.get("sdk", {})]))
