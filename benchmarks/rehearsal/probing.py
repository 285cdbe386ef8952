"""Run each probe of a program in a child of its own, and write what came of it.

    python probing.py PROGRAM OUTPUT

A probe is a function without parameters whose name begins with `probe_`. Those with the same name before `__` share a
child: they ask for little, and leave little behind. What a probe returns is written without the name of the device
type, so that ways can be laid beside each other; a tensor is asked for the device on which it really is.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

SECONDS = 60
_NAMES = ("cuda", "npu", "musa", "gcu", "sdaa", "ptex", "xla", "privateuseone")
_REAL_DEVICE: Any = torch._C.TensorBase.__dict__["device"]


def described(value: Any) -> Any:
    """Return a value as JSON has it, with `card` for the type of the device."""
    if isinstance(value, torch.Tensor):
        device = _REAL_DEVICE.__get__(value).type
        values = value.detach().cpu().flatten().tolist()[:8]
        return ["tensor", "card" if device in _NAMES else device, str(value.dtype), [round(each, 4) for each in values]]
    if isinstance(value, (list, tuple)):
        return [described(each) for each in value]
    if isinstance(value, dict):
        return {str(key): described(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    for name in _NAMES:
        text = text.replace(name, "card")
    return text


def outcome(probe: Callable[[], Any]) -> dict[str, Any]:
    """Return what came of one probe."""
    try:
        return {"passes": described(probe())}
    except BaseException as error:  # a plugin may end the process
        return {"raises": f"{type(error).__name__}: {error}"[:300]}


def in_child(probes: list[tuple[str, Callable[[], Any]]], into: Path) -> None:
    """Run probes that share a child, and leave what came of them in a file."""
    process = os.fork()
    if process:
        _, status = os.waitpid(process, 0)
        kept = json.loads(into.read_text(encoding="utf-8")) if into.exists() else {}
        for name, _ in probes:  # the first one that is not there ended the process
            kept.setdefault(name, {"raises": f"the process ended: {os.waitstatus_to_exitcode(status)}"})
        into.write_text(json.dumps(kept), encoding="utf-8")
        return
    kept = {}
    for name, probe in probes:
        signal.alarm(SECONDS)
        kept[name] = outcome(probe)
        into.write_text(json.dumps(kept), encoding="utf-8")
    os._exit(0)


def main() -> None:
    """Run the probes of a program."""
    program, output = sys.argv[1:3]
    sys.argv = [program]
    names = runpy.run_path(program, run_name="__main__")
    probes = [(name, value) for name, value in names.items() if name.startswith("probe_")]
    results = {}
    for _, shared in groupby(probes, key=lambda probe: probe[0].partition("__")[0]):
        part = Path(output + ".part")
        part.unlink(missing_ok=True)
        in_child(list(shared), part)
        results.update(json.loads(part.read_text(encoding="utf-8")))
    Path(output).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
