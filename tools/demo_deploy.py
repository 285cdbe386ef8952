"""The demonstration of `torchferry deploy`: two fake servers, one of which breaks, is explained, repaired and verified.

Everything is made here and removed afterwards: the servers are systems in network namespaces, the installer is a
stand-in that installs nothing that computes. It says why where the servers cannot be started.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.deploy.lab.flows import Flow, t20_flow  # noqa: E402 - the tests' servers
from tests.deploy.lab.servers import Servers, reason_to_skip  # noqa: E402


def show(flow: Flow, title: str, *words: str) -> int:
    """Run a command and show it with its output."""
    line = f"torchferry deploy {words[0]} -t {flow.target} -i hosts.ini -b bundle"
    print(f"\n== {title}\n$ {' '.join([line, *words[1:]])}")
    sys.stdout.flush()
    return subprocess.run(flow.command(*words), env=flow.environment, check=False, stdin=subprocess.DEVNULL).returncode


def main() -> int:
    """Run the demonstration; 0 when it went as it should."""
    if reason := reason_to_skip():
        print(f"the demonstration cannot run here: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="torchferry-demo-") as name:
        servers = Servers(Path(name, "servers"), 60)
        try:
            servers.add("node1", "host-bionic")
            servers.add("node2", "host-focal", {"fail": "no-headers\n"})
            servers.wait()
            flow = t20_flow(servers, Path(name, "t20"))
            ended = [show(flow, "what is there?", "check")]
            ended.append(show(flow, "install; node2 lacks the headers of its kernel", "run"))
            servers.on("node2", "rm /lab/fail")
            ended.append(show(flow, "mended: the same command goes on", "run"))
            ended.append(show(flow, "do the cards compute?", "verify"))
        finally:
            servers.close()
    print("\neverything the servers wrote is removed" if ended == [0, 1, 0, 0] else f"\nended with {ended}")
    return 0 if ended == [0, 1, 0, 0] else 1


if __name__ == "__main__":
    sys.exit(main())
