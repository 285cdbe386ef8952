"""Talks to the cards of other hosts: one link, or all cards at once. Runs on Python 3.8 and later, in a container.

Argument: JSON that says what the device is called, which rank this is and where rank 0 listens. Prints a line of JSON
for each result. A link that is broken leaves a collective library waiting, so each rank is a process with a time limit.
"""

from __future__ import annotations

import datetime
import fcntl
import importlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from typing import Any

ASKED: dict[str, Any] = {}

_INTERFACE_ADDRESS = 0x8915
"""SIOCGIFADDR: the address of a network interface."""


def main() -> None:
    """Be one rank, or start one for each card of this host."""
    ASKED.update(json.loads(sys.argv[1]))
    if not getattr(sys.flags, "safe_path", False):  # with PYTHONSAFEPATH the folder of this file is not there
        del sys.path[0]
    if "rank" in ASKED:
        be_rank()
        return
    count = ASKED["cards"] or cards_here()
    begun = time.monotonic()
    ranks = []
    for index in range(count):
        asked = {**ASKED, "rank": ASKED["first"] + index, "card": index}
        ranks.append(
            subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), json.dumps(asked)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(asked, count),
            )
        )
    for index, process in enumerate(ranks):
        left = ASKED["timeout"] + 10 - (time.monotonic() - begun)
        try:
            out, err = process.communicate(timeout=max(1.0, left))
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        line = next((line for line in reversed(out.decode().splitlines()) if line.startswith("{")), "")
        said = (err.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        show(json.loads(line) if line else {"card": index, "error": said or f"no answer in {ASKED['timeout']} s"})


def cards_here() -> int:
    """Return how many cards this host has."""
    importlib.import_module(ASKED["plugin"])
    return int(call("device_count") or 0)


def environment(asked: Any, count: int) -> dict[str, str]:
    """Return the variables of a rank, as torchrun sets them."""
    found = {**os.environ, "RANK": str(asked["rank"]), "WORLD_SIZE": str(asked["ranks"])}
    found.update(LOCAL_RANK=str(asked["card"]), LOCAL_WORLD_SIZE=str(count))
    found.update(MASTER_ADDR=asked["address"], MASTER_PORT=str(asked["port"]))
    # gloo asks for the address of the host's name, which is often the loopback
    name = interface_to(asked["towards"])
    if name:
        found.setdefault("GLOO_SOCKET_IFNAME", name)
    return found


def interface_to(address: str) -> str:
    """Return the network interface through which an address is reached; empty where it is not known."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((address, 9))
            own = asking.getsockname()[0]
        except OSError:
            return ""
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking.fileno(), _INTERFACE_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    return ""


def be_rank() -> None:
    """Multiply on the own card, then add up the numbers of all ranks, small and large."""
    result: dict[str, Any] = {"card": ASKED["card"], "error": "", "doing": "start"}
    try:
        measure(result)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        result["error"] = f"{type(error).__name__}: {first}"[:300]
    show(result)
    sys.stdout.flush()
    os._exit(0)  # a group that lost a member may wait for it for ever when it is taken down


def measure(result: dict[str, Any]) -> None:
    """Fill in what this rank measures: milliseconds of a product and a small sum, gigabytes a second of a large one."""
    import torch

    importlib.import_module(ASKED["plugin"])
    call("set_device", ASKED["card"])
    place = device(ASKED["card"])
    result["doing"] = "compute"
    left = torch.ones(512, 512).to(place)
    result["compute_ms"] = 1e3 * min(timed(lambda: left @ left) for _ in range(7))
    wrong = float(((left @ left).cpu() - 512.0).abs().max())
    if wrong > 1.0:
        raise RuntimeError(f"a product differs by {wrong}")
    result["doing"] = "connect"
    distributed = importlib.import_module(ASKED["distributed"])
    distributed.init_process_group(
        ASKED["collective"],
        init_method=f"tcp://{ASKED['address']}:{ASKED['port']}",
        rank=ASKED["rank"],
        world_size=ASKED["ranks"],
        timeout=datetime.timedelta(seconds=ASKED["timeout"]),
    )
    result["doing"] = "sum"
    ranks = ASKED["ranks"]
    small = torch.full((256,), float(ASKED["rank"] + 1)).to(place)
    distributed.all_reduce(small)
    wrong = float((small.cpu() - ranks * (ranks + 1) / 2).abs().max())
    if wrong:
        raise RuntimeError(f"the sum over all ranks differs by {wrong}")
    result["latency_ms"] = 1e3 * min(timed(lambda: distributed.all_reduce(small)) for _ in range(10))
    large = torch.zeros(ASKED["bytes"] // 4).to(place)
    fastest = min(timed(lambda: distributed.all_reduce(large)) for _ in range(3))
    # what each rank sends and receives in a ring
    result["gigabytes"] = ASKED["bytes"] * 2 * (ranks - 1) / ranks / fastest / 1e9
    result["doing"] = ""


def timed(work: Any) -> float:
    """Return the seconds that something takes on the card."""
    call("synchronize")
    begun = time.perf_counter()
    work()
    call("synchronize")
    return time.perf_counter() - begun


def named(path: str) -> Any:
    """Return the object that a dotted path means."""
    parts = path.split(".")
    found = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the plugin, when it has it."""
    path = ASKED["calls"].get(name)
    return named(path)(*arguments) if path else None


def device(index: int) -> Any:
    """Return a device."""
    import torch

    kind = ASKED["device"]
    if ASKED["factory"]:
        return named(ASKED["factory"])(f"{kind}:{index}" if index else kind)
    return torch.device(kind, index)


def show(result: dict[str, Any]) -> None:
    """Print a result."""
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
