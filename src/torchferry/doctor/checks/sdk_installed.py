"""Is the vendor's toolkit installed, and which version is it?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, failed, passed, unknown, unverified


@check("sdk.installed", rank=1, side="host", title=say_in("check", "toolkit"), needs_card=True)
def sdk_installed(context: CheckContext) -> Iterator[Result]:
    """Read the file that states the version, else look for anything of the toolkit."""
    sdk = context.requirements.sdk
    if not sdk.name:
        yield unverified(say("which toolkit the cards need"))
        return
    version, path = context.sdk_version
    if version:
        yield passed(say("{sdk} {version}, from {where}", sdk=sdk.name, version=version, where=path), source=sdk.source)
        return
    signs = [path for pattern in sdk.scripts for path in context.host.find(pattern)]
    signs += [
        file.path
        for library in context.requirements.libraries
        if library.role == "runtime"
        for file in context.library_files[library.name]
    ]
    if signs:
        version_is_stated = bool(sdk.versions)
        yield unknown(
            say("{sdk} is installed ({where}), but no file states its version", sdk=sdk.name, where=signs[0])
            if version_is_stated
            else say(
                "{sdk} is installed ({where}); nobody has verified where it states its version",
                sdk=sdk.name,
                where=signs[0],
            ),
            source=sdk.source,
        )
        return
    sought = [*sdk.scripts, *(file.path for file in sdk.versions)] or sdk.folders
    yield failed(
        say("{sdk} is not installed", sdk=sdk.name),
        say(
            "none of the toolkit's files exists: {paths}",
            paths=", ".join(map(context.host.spelled, sought)),
        ),
        f"torchferry backend show {context.target.name}",
        advice=sdk.install,
        source=sdk.source,
        missing=Missing.TOOLKIT,
    )
