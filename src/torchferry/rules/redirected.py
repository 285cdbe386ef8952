"""What the redirect covers (`--style shim`): there the code stays, and what the rules say of it is a note."""

from __future__ import annotations

from torchferry.core.finding import LINK, Finding, Grade, Stage
from torchferry.core.messages import say
from torchferry.rules.imports.plugin_import import DEVICE_FAMILIES

_ALWAYS = (
    "DEV",
    "CFG101",
    "CFG102",
    "SHL101",
    "AMP101",
    "AMP102",
    "AMP103",
    "RNG103",
    "DST101",
    "DST102",
    "DST103",
    "LIB112",
)
"""Devices and collective backends wherever they are named: the program goes on speaking of CUDA, and is understood."""

_NEVER = ("DEV112",)
"""Sparse tensors: what the card does not have, it does not have under the redirect either."""


def covered(finding: Finding) -> Finding:
    """Return a finding as it is where the redirect is in force.

    A name of torch that would be rewritten is redirected. One that the card lacks raises under the redirect as well, so
    such a finding stays; so do other languages, environment variables, libraries, kernels and packages of them.
    """
    rewritten = bool(finding.edits) and finding.code[:3] in DEVICE_FAMILIES
    if finding.message is LINK or finding.grade is Grade.NOTE or not (rewritten or finding.code.startswith(_ALWAYS)):
        return finding
    if finding.code.startswith(_NEVER):
        return finding
    message = say("{message} (the redirect does this when the program runs)", message=finding.message)
    return finding.regraded(Stage.REDIRECT, Grade.NOTE, message)._replace(group="", needs=(), blocker=False)
