"""Is torch installed in this Python?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.installing import install_commands
from torchferry.doctor.result import Missing, Result, failed, passed, skipped


@check("python.torch", rank=2, side="python", title=say_in("check", "torch"))
def python_torch(context: CheckContext) -> Iterator[Result]:
    """Look for torch without importing it."""
    python = context.python
    if not python.version:
        yield skipped(say("there is no Python to examine; see python.interpreter"))
        return
    if not python.has("torch"):
        yield failed(
            say("torch is not installed in {python}", python=python.executable),
            say("another Python may have torch; by default torchferry examines the Python that runs it"),
            _elsewhere(context),
            *install_commands(context),
            advice=context.target.install,
            missing=Missing.PLUGIN,
        )
        return
    if not context.torch:
        yield failed(
            say("torch is installed, but does not state its version"),
            say("its installation is damaged, or a folder named torch shadows it; see python.shadowed"),
            "python -m pip install --force-reinstall --no-deps torch",
        )
        return
    yield passed(say("torch {version}", version=(python.torch or {}).get("version")))


def _elsewhere(context: CheckContext) -> str:
    """Return the command that looks into the shell's own Python, or, where that is this one, looks for others."""
    others = context.host.which("python3")
    if others is None or context.host.python in ("python3", others) or context.python.executable == others:
        return "find / -path '*-packages/torch/version.py' -not -path '/proc/*'  # whose Python has torch?"
    return "torchferry doctor --python $(command -v python3)"
