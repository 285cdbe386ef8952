"""Is there something in this Python that gets in the plugin's way: other plugins, packages for CUDA alone?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, warned

_OURS = "torchferry"
"""How our own entry points begin: they wait until a rehearsal or a redirect is asked for."""

_TRITON = "triton"
"""The distribution of Triton for NVIDIA and AMD, and the module that vendors' distributions install too."""


@check("python.conflicts", rank=9, side="python", title=say_in("check", "conflicting packages"))
def python_conflicts(context: CheckContext) -> Iterator[Result]:
    """Look at what torch would load by itself, and for packages that serve CUDA alone."""
    python = context.python
    if not python.version:
        yield skipped(say("there is no Python to examine; see python.interpreter"))
        return
    plugin = context.target.backend.PLUGIN
    others = sorted(name for name in python.entry_points or {} if name != plugin and not name.startswith(_OURS))
    if others:
        yield warned(
            say("torch loads other plugins too: {names}", names=", ".join(others)),
            say("torch accepts only one such plugin per process: the first one wins, or the import fails"),
            *(f"{context.host.python} -m pip uninstall {name}" for name in others),
        )
    packages = context.cuda_packages
    if packages:
        yield warned(
            say_plural(
                "{count} package supports only CUDA: {names}",
                "{count} packages support only CUDA: {names}",
                count=len(packages),
                names=", ".join(packages[:6]),
            ),
            say("these packages use disk space, and code that finds them may use them"),
            f"{context.host.python} -m pip uninstall -y {' '.join(packages)}",
            advice=say("`torchferry scan` says where a project uses them"),
        )
    own_triton = context.target.backend.TRITON
    two_tritons = {_TRITON, own_triton} <= (python.distributions or {}).keys() and own_triton != _TRITON
    if two_tritons:
        yield warned(
            say("{first} and {second} are installed over each other", first=_TRITON, second=str(own_triton)),
            say("both write the module `{module}`: which of them a program gets depends on the order", module=_TRITON),
            f"{context.host.python} -m pip uninstall -y {_TRITON} {own_triton}",
            f"{context.host.python} -m pip install {own_triton}",
            advice=say("a package that requires {first} installs it again: install that with --no-deps", first=_TRITON),
        )
    if not others and not packages and not two_tritons:
        yield passed(say("no other plugin, and no package that supports only CUDA"))
