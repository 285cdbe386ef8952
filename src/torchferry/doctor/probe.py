"""The live probe: a program of ours that uses the device, in a process with a time limit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.secrets import masked
from torchferry.core.shape import checked
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor.context import INSIDE, CheckContext
from torchferry.doctor.host import Host
from torchferry.doctor.result import Result, failed

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64")
"""Dtypes that are tried."""

_STEP = {
    "step": str,
    "part?": str,
    "error?": str,
    "devices?": int,
    "name?": str,
    **dict.fromkeys(("mebibytes?", "up?", "down?", "limit?"), float),
    "ranks?": int,
    "lines?": [str],
    "skipped?": bool,
}
"""A line of the program on something that it did."""

_NAMES = ("device_count", "set_device", "synchronize", "get_device_name")


def run_probe(host: Host, target: Target, timeout: float, rehearsed: bool) -> dict[str, Any]:
    """Use the device, for at most `timeout` seconds; what was done until a crash is kept."""
    asked = question(target, timeout, rehearsed)
    # In a rehearsal gloo carries the collectives, and needs an interface that is there on every machine.
    more = {"GLOO_SOCKET_IFNAME": "lo"} if rehearsed and host.entry("/sys/class/net/lo") else {}
    with doing(say("using the device")):
        process = host.run_python(INSIDE / "live_probe.py", json.dumps(asked), timeout, **more)
    return probe_of(process, timeout)


def probe_of(process: ProcessResult, timeout: float) -> dict[str, Any]:
    """Return what the program printed: a line for each step that it did, and one for what it did next."""
    probe: dict[str, Any] = {"steps": [], "doing": "", "stopped": "", "timeout": timeout}
    for line in process.out.splitlines():
        try:
            entry = checked(parsed_json(line), ({"doing": str}, _STEP))
        except ValueError:  # a program of the vendor's prints into ours
            continue
        if "doing" in entry:
            probe["doing"] = entry["doing"]
        else:
            probe["steps"].append(entry)
    if not any(entry.get("step") == "end" for entry in probe["steps"]):
        probe["stopped"] = process.problem or f"exit status {process.status}"
        probe["lines"] = [masked(line) for line in (process.err.splitlines() or list(process.first_lines()))[-6:]]
    return probe


def question(target: Target, timeout: float, rehearsed: bool) -> dict[str, Any]:
    """Return what the program is told: how the device is called, and which functions of the plugin count and choose."""
    backend = target.backend
    calls = {name: target.api(f"torch.cuda.{name}") for name in _NAMES}
    return {
        "plugin": backend.PLUGIN,
        "device": backend.DEVICE_TYPE,
        "factory": backend.DEVICE_FACTORY,
        "calls": {name: row.use for name, row in calls.items() if row.status in REWRITTEN},
        "collective": backend.COLLECTIVE,
        "distributed": backend.DISTRIBUTED,
        "dtypes": DTYPES,
        "rehearsed": rehearsed,
        "timeout": timeout,
    }


def step(probe: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return what the probe said of a step; None when it did not come so far."""
    return next((entry for entry in probe.get("steps", ()) if entry.get("step") == name), None)


def parts(context: CheckContext, name: str) -> tuple[list[str], dict[str, str]]:
    """Return the parts of a step that are right, and those that are not with the error."""
    steps = [entry for entry in (context.probe or {}).get("steps", ()) if entry.get("step") == name]
    return (
        [entry.get("part", "") for entry in steps if not entry.get("error")],
        {entry.get("part", ""): masked(entry["error"]) for entry in steps if entry.get("error")},
    )


def longer(context: CheckContext) -> str:
    """Return the command that gives the probe more time."""
    seconds = round((context.probe or {}).get("timeout") or 180)
    return f"torchferry doctor --target {context.target} --probe --probe-timeout {min(3600, 4 * seconds)}"


def tried(context: CheckContext, name: str) -> tuple[list[Result], list[str]]:
    """Return failures of a step that is done on each device, and the devices on which it went well."""
    good, bad = parts(context, name)
    results = []
    for device, error in bad.items():
        explanation = context.explained(error)
        results.append(
            failed(
                say("{device}: {error}", device=device, error=error),
                explanation.cause if explanation else say("the device responds, but its result is wrong"),
                *(explanation.commands if explanation else ("sudo dmesg | tail -n 30",)),
                source=explanation.source if explanation else "",
            )
        )
    return results, good
