"""Which driver is it? The version is needed for every question to the vendor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, skipped, unknown, warned


@check("driver.version", rank=4, side="host", title=say_in("check", "driver version"), needs_card=True)
def driver_version(context: CheckContext) -> Iterator[Result]:
    """Read the version from the driver's file and from the tool, and compare the two."""
    version, where = context.driver_version
    version_of_tool = context.smi.reading.driver
    if not version:
        if context.driver_loaded:
            yield unknown(
                say("the driver is loaded, but no known file states its version"),
                source=context.requirements.driver.source,
            )
        else:
            yield skipped(say("there is no driver; see driver.module"))
        return
    files = context.requirements.driver.versions
    if (
        files
        and version_of_tool
        and version_of_tool != version
        and not (version in version_of_tool or version_of_tool in version)
    ):
        inside = container_info(context.host).evidence
        mend = context.requirements.container.run if inside else "sudo reboot"
        yield (failed if inside else warned)(
            say(
                "{where} reports driver {version}, but the tool reports {told}",
                where=where,
                version=version,
                told=version_of_tool,
            ),
            say("the image contains one driver version, and the host runs another")
            if inside
            else say("the driver was upgraded, but the old version is still loaded"),
            mend or "sudo reboot",
            source=context.requirements.driver.source,
        )
        return
    runtime = context.smi.reading.runtime
    if runtime and _release(runtime) != _release(version_of_tool or version):
        yield warned(
            say(
                "the driver is {driver}, and the runtime is {runtime}",
                driver=version_of_tool or version,
                runtime=runtime,
            ),
            say("driver and runtime must be of the same release, otherwise programs may not start"),
            context.requirements.container.run
            if container_info(context.host).evidence
            else " ".join(context.smi.command),
            advice=context.requirements.driver.advice,
            source="; ".join(dict.fromkeys((context.tool.source, context.requirements.driver.source))),
        )
        return
    yield passed(say("driver {version}, from {where}", version=version, where=where))


def _release(version: str) -> tuple[str, ...]:
    """Return the numbers of a release: 1.1.2b0 and 1.1.2b1 are of one."""
    return tuple(re.findall(r"\d+", version.partition("b")[0])[:3])
