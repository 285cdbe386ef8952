"""Are the runtime libraries there, whole, and does the loader find and load them?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.machine import RequiredLibrary
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Remedy, Result, failed, passed, unknown, unverified


@check("library.found", rank=1, side="host", title=say_in("check", "runtime libraries"), needs_card=True)
def library_found(context: CheckContext) -> Iterator[Result]:
    """Judge each library that programs load, but the collective one, which has its own check."""
    wanted = [library for library in context.requirements.libraries if library.role != "collective"]
    if not wanted:
        yield unverified(say("which libraries the plugin loads"))
    for library in wanted:
        yield judged(context, library)


def judged(context: CheckContext, library: RequiredLibrary) -> Result:
    """Return whether the loader finds and loads a library."""
    files = context.library_files[library.name]
    inside = container_info(context.host).evidence
    container = context.requirements.container
    if not files:
        mend = (container.bind, container.run) if inside and library.role == "driver" else ()
        return failed(
            say("{library} is missing", library=library.name),
            say("it comes with {package}", package=library.package),
            *(filter(None, mend) if any(mend) else (f"find / -name '{library.name}*' -not -path '/proc/*'",)),
            advice=context.requirements.sdk.install,
            source=library.source,
            missing=Missing.DRIVER if library.role == "driver" else Missing.TOOLKIT,
        )
    file = files[0]
    if not file.size:
        return failed(
            say("{path} is empty (`file too short`)", path=file.path),
            say("the file is a placeholder for the host's library, which was not mounted")
            if inside
            else say("its installation was interrupted: install {package} again", package=library.package),
            *(filter(None, (container.bind, container.run)) if inside else (f"ls -l {file.path}",)),
            source=library.source,
        )
    if not file.on_path:
        folder = file.path.rpartition("/")[0]
        line = f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"
        scripts = [path for pattern in context.requirements.sdk.scripts for path in context.host.find(pattern)]
        line = f"source {scripts[0]}" if scripts and library.role != "driver" else line
        return failed(
            say("{path} exists, but the loader does not search its folder", path=file.path),
            say("LD_LIBRARY_PATH lacks {folder}", folder=folder),
            line,
            source=library.source,
            remedy=Remedy("line", line),
        )
    name = file.path.rpartition("/")[2]
    complaint = (context.python.libraries or {}).get(name)
    if complaint is None:
        return unknown(say("{path} exists, but loading it could not be tested", path=file.path))
    explanation = context.explained(complaint) if complaint else None
    if explanation is not None:
        return failed(
            say("{path} does not load: {complaint}", path=file.path, complaint=complaint[:300]),
            explanation.cause,
            *explanation.commands,
            source=explanation.source,
        )
    if complaint:
        missing = complaint.partition(":")[0]
        return failed(
            say("{path} does not load: {complaint}", path=file.path, complaint=complaint[:300]),
            say("it needs {missing}, which is not found", missing=missing)
            if missing != name and ".so" in missing
            else say("it does not fit this system, or is damaged"),
            f"ldd {file.path}",
            advice=context.requirements.sdk.install,
            source=library.source,
        )
    return passed(say("{path} loads", path=file.path), source=library.source)
