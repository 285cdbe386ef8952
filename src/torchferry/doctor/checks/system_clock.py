"""Is the clock kept by a time service? Logs, certificates and stores of several hosts need the same time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, passed, unknown, warned
from torchferry.doctor.surroundings import surroundings

CODE = "system.clock"
RANK = 3
SIDE = "host"
TITLE = say_in("check", "clock")

_OFFSET = re.compile(r"^System time\s*:\s*([\d.]+) seconds (fast|slow)", re.MULTILINE)
_FAR = 1.0
"""Seconds: our own measure; tools that compare times of files and logs go wrong from there."""


def check(patient: Patient) -> Iterator[Result]:
    """Ask chrony, then systemd; how far two hosts are apart, one host cannot tell."""
    if surroundings(patient.machine).sign:
        yield unknown(say("a container has the clock of its host: run this check there"), "chronyc tracking")
        return
    if patient.machine.which("chronyc"):
        ran = patient.machine.run(("chronyc", "tracking"))
        if "Leap status     : Not synchronised" in ran.out:
            yield warned(
                say("chrony runs and follows no server"),
                say("it reaches none of its servers"),
                "chronyc sources -v",
                evidence=ran.first_lines(),
            )
            return
        match = _OFFSET.search(ran.out)
        if match:
            if float(match[1]) > _FAR:
                yield warned(
                    say("the clock is {seconds} s {way}", seconds=match[1], way=match[2]),
                    say("chrony corrects it slowly"),
                    "sudo chronyc makestep",
                )
            else:
                yield passed(say("chrony keeps the clock; it is {seconds} s off", seconds=match[1]))
            return
    if patient.machine.which("timedatectl"):
        ran = patient.machine.run(("timedatectl", "show", "-p", "NTPSynchronized", "--value"))
        if ran.out.strip() == "yes":
            yield passed(say("a time service keeps the clock"))
            return
        if ran.out.strip() == "no":
            yield warned(
                say("no time service keeps the clock"),
                say("hosts drift apart by seconds a day"),
                "sudo timedatectl set-ntp true",
            )
            return
    yield unknown(say("neither chrony nor systemd says whether the clock is kept"), "date -u")
