"""Is there room where toolkits, compiled kernels and checkpoints go?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.env import cache_folder
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Remedy, Result, failed, passed, warned

_LITTLE = 10 << 30
"""Bytes below which a warning is worth it: ascend-deployer 26.0.0 asks for 10 GB before it installs CANN."""

_NOTHING = 100 << 20
"""Bytes below which programs fail at once."""


@check("system.disk", rank=2, side="host", title=say_in("check", "disk"))
def system_disk(context: CheckContext) -> Iterator[Result]:
    """Ask for the room of the working folder, of temporary files and of the home folder."""
    host, environment = context.host, context.host.environment
    places = {host.cwd: "", environment.get("TMPDIR", "/tmp"): "TMPDIR", environment.get("HOME", ""): "HOME"}  # noqa: S108 - it is asked about, not written to
    free = []
    for path, variable in places.items():
        if not path:
            continue
        space = host.space(path)
        if space is None:
            if variable:
                yield failed(
                    say("{name} is {path}, which does not exist", name=variable, path=path),
                    say("programs that write there end with an error"),
                    f"mkdir -p {path}",
                    remedy=Remedy("folder", path),
                )
            continue
        if not space.files_left:
            yield failed(
                say("the file system of {path} cannot hold more files", path=path),
                say("its table of files (inodes) is full"),
                f"df -i {path}",
            )
        elif space.free < _LITTLE:
            judge = failed if space.free < _NOTHING else warned
            yield judge(
                say("{path}: {free} MiB are free", path=path, free=space.free >> 20),
                say("toolkits, compiled kernels and checkpoints need more than 10 GB"),
                f"df -h {path}",
                f"du -xh --max-depth=1 {path} | sort -h | tail",
            )
        elif not space.writable:
            yield warned(
                say("{path} cannot be written to", path=path),
                say("this user has no write permission there"),
                f"ls -ld {path}",
            )
        else:
            free.append(f"{path} {space.free >> 30} GiB")
    cache = str(cache_folder()) if "TORCHFERRY_CACHE" in environment else ""
    if cache and host.entry(cache) is None:
        yield warned(
            say("{name} is {path}, which does not exist", name="TORCHFERRY_CACHE", path=cache),
            say("torchferry stores its builds and caches in this folder"),
            f"mkdir -p {cache}",
            remedy=Remedy("folder", cache),
        )
    if free:
        yield passed(say("free: {places}", places=", ".join(free)))
