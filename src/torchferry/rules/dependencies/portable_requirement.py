"""A list of requirements without torchferry, for code that imports it.

`migrate --style portable --device-module package` writes code that imports `torchferry.device`: it needs torchferry
wherever it runs. The line goes below that of torch. A list in a format that cannot be rewritten is reported.

Why: The migrated program stops at its import of `torchferry.device`.

References:
- page device-manager
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.portable import INSTALLED
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Options, Rule
from torchferry.rules.dependencies.listed import requirements_of
from torchferry.rules.family import Portability
from torchferry.source.kinds import Kind


class PortableRequirement(Rule):
    """Finds lists of requirements without torchferry."""

    CODE = "DEP106"
    EFFECT = Effect.RAISES
    PORTABILITY = Portability.EVERYWHERE
    WORDS = ("torch",)
    KINDS = (Kind.REQUIREMENTS, Kind.PYPROJECT, Kind.SETUP_CFG, Kind.CONDA)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing where what is written does not import torchferry."""
        return self.WORDS if target.module == INSTALLED else ()

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield at most one finding, at torch."""
        package = INSTALLED.partition(".")[0]
        listed = {requirement.name: requirement for requirement in reversed(list(requirements_of(context)))}
        torch = listed.get("torch") or listed.get("pytorch")
        if torch is None or package in listed:
            return
        span = (torch.start, torch.line_end)
        message = say(
            "the code imports `{module}` and needs `{package}` where it runs", module=INSTALLED, package=package
        )
        if context.kind is not Kind.REQUIREMENTS:
            yield self.finding(context, span, message, Grade.MANUAL)
            return
        end = context.text.find("\n", torch.line_end)
        newline = context.source.newline
        edit = Edit(end + 1, end + 1, f"{package}{newline}")
        if end < 0:
            edit = Edit(len(context.text), len(context.text), f"{newline}{package}")
        yield self.finding(context, span, message, Grade.SAFE, [edit])
