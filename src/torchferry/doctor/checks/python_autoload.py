"""Does torch load the plugin by itself, and may it?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, unverified, warned

_SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_SINCE = (2, 5)
"""First torch that loads plugins by itself (release notes of PyTorch 2.5)."""


@check("python.autoload", rank=8, side="python", title=say_in("check", "loading the plugin by itself"))
def python_autoload(context: CheckContext) -> Iterator[Result]:
    """Compare the plugin's ability with the entry point, the switch and torch's version."""
    backend = context.target.backend
    loads = context.target.autoloads()
    if not context.torch or not context.python.has(backend.PLUGIN):
        yield skipped(say("torch or the plugin is missing; see python.torch and python.plugin"))
        return
    if isinstance(loads, Unknown):
        yield unverified(say("whether torch loads this plugin automatically"))
        return
    numbers = tuple(int(part) for part in context.torch.split(".")[:2] if part.isdigit())
    if not loads or numbers < _SINCE:
        yield passed(say("torch does not load {plugin} automatically: programs must import it", plugin=backend.PLUGIN))
        return
    if context.host.environment.get(_SWITCH) == "0":
        yield warned(
            say("{name} is 0: torch does not load {plugin}", name=_SWITCH, plugin=backend.PLUGIN),
            say("programs that do not import it see no device"),
            f"unset {_SWITCH}",
        )
        return
    if backend.PLUGIN not in (context.python.entry_points or {}):
        yield warned(
            say("torch cannot load {plugin} automatically: the plugin has no entry point", plugin=backend.PLUGIN),
            say("the plugin was copied or built in place, not installed; programs must import it"),
            f"{context.host.python} -m pip show {backend.PLUGIN}",
        )
        return
    yield passed(say("torch loads {plugin} automatically", plugin=backend.PLUGIN))
