"""A list of requirements that has torch and not the target's plugin.

The program imports the plugin after the migration. The target's table says which version belongs to which torch. If
the vendor distributes it elsewhere than on PyPI, the finding says how to get it. A torch that is pinned to a version
without any plugin is a decision: the project must first be upgraded to a later torch.

Why: Without the plugin torch does not know the device, and the program stops at its first use.

References:
- table versions
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.plugin_versions import minor
from torchferry.backends.tables import normalised
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.dependencies.listed import requirements_of
from torchferry.source.kinds import Kind


class PluginRequirement(Rule):
    """Finds lists of requirements without the plugin."""

    CODE = "DEP103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("upgrade torch"),)
    WORDS = ("torch",)
    KINDS = (Kind.REQUIREMENTS, Kind.PYPROJECT, Kind.CONDA)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield at most one finding, at torch."""
        listed = {requirement.name: requirement for requirement in reversed(list(requirements_of(context)))}
        torch = listed.get("torch") or listed.get("pytorch")
        plugin = normalised(context.target.backend.PLUGIN)
        if torch is None or plugin in listed:
            return
        version = torch.specifier.lstrip("= ").strip() if torch.specifier.startswith("=") else ""
        row = context.target.row("versions", f"torch=={version.partition('+')[0]}")
        span = (torch.start, torch.line_end)
        older = _oldest(context) if version and not row.use else ""
        if older and minor(version) < minor(older):
            message = say(
                "`torch=={version}` is older than {oldest}, the first torch for which a `{plugin}` "
                "is known: upgrade the project to that version or a later one",
                version=version,
                oldest=older,
                plugin=context.target.backend.PLUGIN,
            )
            yield self.finding(context, span, message, Grade.MANUAL)
        elif row.use:
            message = say("on {target} this torch needs `{plugin}`", target=context.target.title, plugin=row.use)
            yield self.finding(context, span, noted(message, row.remark), Grade.NOTE)
        else:
            message = say(
                "{target} needs `{plugin}` in addition to torch: {install}",
                target=context.target.title,
                plugin=context.target.backend.PLUGIN,
                install=context.target.install,
            )
            yield self.finding(context, span, message, Grade.NOTE)


def _oldest(context: Context) -> str:
    """Return the oldest torch that the target's table has a plugin for; empty where it has none."""
    rows = (row.name.partition("==")[2] for row in context.target.backend.table("versions") if row.use)
    return min(filter(None, rows), key=minor, default="")
