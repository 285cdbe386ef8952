"""Is the management tool there, and does it answer? It is what shows cards, their health and who uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.backends.unknown import Unknown
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.core.secrets import masked
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext, SmiQuery
from torchferry.doctor.result import Missing, Result, failed, passed, unknown, unverified, warned

_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+)")


@check("tool.present", rank=1, side="host", title=say_in("check", "management tool"), needs_card=True)
def tool_present(context: CheckContext) -> Iterator[Result]:
    """Judge how the tool ended and whether its output has a known format."""
    name = context.tool_name
    if isinstance(name, Unknown):
        yield unverified(say("which management tool shows the cards"))
        return
    smi = context.smi
    if smi.path is None or smi.process is None:
        inside = container_info(context.host).evidence
        mend = (
            (context.requirements.container.run,)
            if inside and context.requirements.container.run
            else context.requirements.driver.install
        )
        yield failed(
            say("{tool} is not on PATH", tool=name),
            say(
                "the tool comes with the driver: the driver is not installed or, in a container, the tool is "
                "not mounted from the host"
            ),
            *(mend or (f"which {name}",)),
            source=context.target.backend.source_of("SMI"),
            missing=Missing.DRIVER,
        )
        return
    if smi.path and "/" in smi.path and context.host.which(name) is None:
        folder = smi.path.rpartition("/")[0]
        yield warned(
            say("{tool} is in {folder}, which is not on PATH", tool=name, folder=folder),
            say("programs that call it cannot find it"),
            f"export PATH={folder}:$PATH",
        )
    yield _judged(context, smi)


def _judged(context: CheckContext, smi: SmiQuery) -> Result:
    process, name = smi.process, str(context.tool_name)
    assert process is not None
    lines = tuple(masked(line) for line in process.first_lines())
    text = process.out + process.err
    explanation = context.explained(text, "tool")
    if explanation is not None:
        return failed(
            say("{tool} fails", tool=name),
            explanation.cause,
            *explanation.commands,
            source=explanation.source,
            evidence=lines,
        )
    library = _LIBRARY.search(text)
    if library:
        folders = ":".join(context.requirements.sdk.folders)
        return failed(
            say("{tool} does not start: it does not find {library}", tool=name, library=library[1]),
            say("the folder of the driver's libraries is not on the loader's path"),
            f"export LD_LIBRARY_PATH={folders}:$LD_LIBRARY_PATH",
            evidence=lines,
        )
    if smi.reading.cards:
        if smi.reading.unread:
            return unknown(
                say_plural(
                    "{count} card in the output of {tool} could not be read",
                    "{count} cards in the output of {tool} could not be read",
                    count=smi.reading.unread,
                    tool=name,
                ),
                evidence=lines,
            )
        count = len(smi.reading.cards)
        version = smi.reading.version or "?"
        return passed(
            say_plural(
                "{tool} {version} shows {count} device",
                "{tool} {version} shows {count} devices",
                tool=name,
                version=version,
                count=count,
            )
        )
    if process.problem or not process.ok:
        return failed(
            say("{tool} {how}", tool=name, how=_how(process.problem, process.status)),
            say("the driver may not answer the tool; see driver.module and node.access"),
            f"sudo {' '.join((name, *smi.command[1:]))}",
            "sudo dmesg | tail -n 30",
            evidence=lines,
        )
    return unknown(
        say("torchferry does not know the format of this output of {tool}", tool=name),
        evidence=lines,
    )


def _how(problem: str, status: int | None) -> Message:
    if problem == "timeout":
        return say("does not finish; it was stopped")
    if problem == "flood":
        return say("prints endlessly; it was stopped")
    if problem:
        return say("cannot be started")
    return say("ends with exit status {status}", status=status)
