"""Are the limits of this shell high enough? Collectives lock memory, data loaders open many files."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, warned

_WANTED = {"memlock": 64 << 20, "nofile": 4096, "nproc": 4096}
"""Bytes of locked memory, open files, processes: our own measures. Below the first, registering memory for RDMA
fails; a training with 16 loader workers and 8 ranks needs more files and processes than the usual 1024."""


@check("system.limits", rank=1, side="host", title=say_in("check", "limits (ulimit)"))
def system_limits(context: CheckContext) -> Iterator[Result]:
    """Compare the soft limits with what training needs."""
    ok = True
    inside = container_info(context.host).evidence
    for name, (soft, hard) in context.host.limits().items():
        wanted = _WANTED[name]
        if soft < 0 or soft >= wanted:
            continue
        ok = False
        letter = {"memlock": "l", "nofile": "n", "nproc": "u"}[name]
        value = "unlimited" if name == "memlock" else "65536"
        if inside:
            command = f"docker run --ulimit {name}={-1 if name == 'memlock' else 65536} IMAGE"
        elif hard < 0 or hard >= wanted:
            command = (
                f"ulimit -{letter} {'unlimited' if hard < 0 and name == 'memlock' else hard if hard > 0 else 65536}"
            )
        else:
            command = f"echo '* - {name} {value}' | sudo tee -a /etc/security/limits.conf  # then log in again"
        yield warned(
            say("{name} is limited to {soft}", name=name, soft=f"{soft >> 10} KiB" if name == "memlock" else soft),
            say("collectives over RDMA lock more memory than that")
            if name == "memlock"
            else say("ranks and their data loaders may reach this limit"),
            command,
        )
    if ok:
        yield passed(say("the limits of locked memory, open files and processes are high enough"))
