"""Do the plugin and the toolkit belong together? Plugins of one number are built over different toolkits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.installing import install_commands
from torchferry.doctor.result import Result, failed, passed, skipped, unknown, unverified


@check("python.sdk", rank=7, side="python", title=say_in("check", "plugin and toolkit"), needs_card=True)
def python_sdk(context: CheckContext) -> Iterator[Result]:
    """Look up over which toolkit this version of the plugin was built."""
    plugin, (version, where) = context.plugin, context.sdk_version
    sdk = context.requirements.sdk.name
    if not plugin or not version:
        yield skipped(say("the plugin or the toolkit's version is not known; see python.plugin and sdk.installed"))
        return
    row = next((row for row in context.target.backend.table("versions") if plugin in row.extra.get("sdk", {})), None)
    if row is None:
        yield unverified(say("the {sdk} version for which plugin {plugin} is built", sdk=sdk or "SDK", plugin=plugin))
        return
    wanted = str(row.extra["sdk"][plugin])
    bare = wanted.lstrip(">=~ ")
    values = {"plugin": plugin, "sdk": sdk, "version": version, "wanted": wanted}
    if _numbers(version) == _numbers(bare) or (wanted.startswith(">=") and _numbers(version) >= _numbers(bare)):
        yield passed(say("plugin {plugin} fits {sdk} {version}", **values), source=row.source)
    elif wanted.startswith("~"):
        yield unknown(
            say("plugin {plugin} is known only with {sdk} {wanted}, but {version} is installed", **values),
            source=row.source,
        )
    else:
        fitting = [
            name for name, over in row.extra["sdk"].items() if _numbers(str(over).lstrip(">=~ ")) == _numbers(version)
        ]
        yield failed(
            say("plugin {plugin} is built for {sdk} {wanted}, but {version} is installed", **values),
            say("operators then fail or give wrong results; the installed version is from {where}", where=where),
            *(install_commands(context, row, fitting[0]) if fitting else ()),
            f"torchferry backend show {context.target.name}",
            advice=context.requirements.sdk.install,
            source=row.source,
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, so that 8.3.RC1 and 8.3.rc1 are the same."""
    return tuple(map(int, re.findall(r"\d+", version)))
