"""Does another copy hide the library that was meant? The first folder on the loader's path wins."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, warned


@check("library.shadowed", rank=2, side="host", title=say_in("check", "copies of libraries"), needs_card=True)
def library_shadowed(context: CheckContext) -> Iterator[Result]:
    """Look for several copies on the loader's path, and for folders on it that do not exist."""
    host = context.host
    entries = [part for part in host.environment.get("LD_LIBRARY_PATH", "").split(":") if part]
    gone = [folder for folder in entries if host.entry(folder) is None]
    if gone:
        yield warned(
            say("LD_LIBRARY_PATH has folders that do not exist: {folders}", folders=", ".join(gone[:4])),
            say("the variable was probably set for another version or another machine"),
            "export LD_LIBRARY_PATH=" + ":".join(folder for folder in entries if folder not in gone),
        )
    hidden = False
    seen = False
    for name, files in context.library_files.items():
        copies = [file for file in files if file.on_path]
        seen = seen or bool(copies)
        others = [file for file in copies[1:] if file.size != copies[0].size]
        if others:
            hidden = True
            yield warned(
                say(
                    "{name}: {first} shadows {others}",
                    name=name,
                    first=copies[0].path,
                    others=", ".join(file.path for file in others),
                ),
                say("the loader uses the first file that it finds, and the files differ"),
                "export LD_LIBRARY_PATH=" + ":".join(dict.fromkeys([others[0].path.rpartition("/")[0], *entries])),
                advice=say(
                    "if the first file is the right one, leave it; otherwise put the folder of the other one first"
                ),
            )
    if not hidden and not gone:
        yield (
            passed(say("no library shadows another"))
            if seen
            else skipped(say("no library of the toolkit is on the loader's path"))
        )
