"""Is the clock kept by a time service? Logs, certificates and stores of several hosts need the same time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, unknown, warned

_OFFSET = re.compile(r"^System time\s*:\s*([\d.]+) seconds (fast|slow)", re.MULTILINE)
_FAR = 1.0
"""Seconds: our own measure; tools that compare times of files and logs go wrong from there."""


@check("system.clock", rank=3, side="host", title=say_in("check", "clock"))
def system_clock(context: CheckContext) -> Iterator[Result]:
    """Ask chrony, then systemd; how far two hosts are apart, one host cannot tell."""
    if container_info(context.host).evidence:
        yield unknown(say("a container uses the clock of its host: run this check on the host"), "chronyc tracking")
        return
    if context.host.which("chronyc"):
        process = context.host.run(("chronyc", "tracking"))
        if "Leap status     : Not synchronised" in process.out:
            yield warned(
                say("chrony is running but follows no server"),
                say("chrony cannot reach any of its servers"),
                "chronyc sources -v",
                evidence=process.first_lines(),
            )
            return
        match = _OFFSET.search(process.out)
        if match:
            if float(match[1]) > _FAR:
                yield warned(
                    say("the clock is {seconds} s fast", seconds=match[1])
                    if match[2] == "fast"
                    else say("the clock is {seconds} s slow", seconds=match[1]),
                    say("chrony corrects it slowly"),
                    "sudo chronyc makestep",
                )
            else:
                yield passed(say("chrony synchronises the clock; it is {seconds} s off", seconds=match[1]))
            return
    if context.host.which("timedatectl"):
        process = context.host.run(("timedatectl", "show", "-p", "NTPSynchronized", "--value"))
        if process.out.strip() == "yes":
            yield passed(say("a time service synchronises the clock"))
            return
        if process.out.strip() == "no":
            yield warned(
                say("no time service synchronises the clock"),
                say("hosts drift apart by seconds a day"),
                "sudo timedatectl set-ntp true",
            )
            return
    yield unknown(say("neither chrony nor systemd reports whether the clock is synchronised"), "date -u")
