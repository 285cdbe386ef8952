"""A device given to `torch.cuda.amp.autocast`, or to a plugin's own: `autocast("npu")`.

The first argument of these classes is `enabled`, and not the device, as that of `torch.autocast` is. `True` is written
in its place, which is what a text that is not empty means.

Why: torch takes the text for a switch, and raises when the block begins.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import Portability, UnderRedirect

_ENABLED_FIRST = ("amp.autocast", "amp.autocast_mode.autocast")


class DeviceAsEnabled(Rule):
    """Finds a device where `enabled` belongs."""

    CODE = "AMP105"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.ALL
    PORTABILITY = Portability.EVERYWHERE
    WORDS = ("autocast",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        backend = context.target.backend
        places = {part for part in ("torch.cuda", backend.NAMESPACE, backend.IMPORT_NAMESPACE) if part}
        names = {f"{place}.{name}" for place in places for name in _ENABLED_FIRST}
        for package in sorted({name.partition(".")[0] for name in names}):
            for name, call in calls_to(context, package):
                keyword = keyword_of(call, "enabled")
                given = keyword.value if keyword is not None else call.args[0] if call.args else None
                if name not in names or not isinstance(given, ast.Constant) or not isinstance(given.value, str):
                    continue
                if not given.value or exemption_reason(context, call) is not None:
                    continue
                message = say(
                    "`{text}` is no device here: the first argument of `{found}` is `enabled`, and a text raises",
                    text=given.value,
                    found=name,
                )
                plain = context.file.fstring_of(call) is None
                span = context.file.span(given)
                edits = [Edit(*span, "True")] if plain else []
                yield self.finding(context, span, message, Grade.SAFE if plain else Grade.MANUAL, edits)
