"""Does this host's name lead to an address of it? Ranks tell each other where they are by it."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, unknown, warned


@check("system.host_name", rank=4, side="host", title=say_in("check", "host name"))
def system_host_name(context: CheckContext) -> Iterator[Result]:
    """Look for the name in /etc/hosts; a name server is not asked, since it may not answer for long."""
    name = context.host.hostname
    text = context.host.read("/etc/hosts")
    if text is None:
        yield unknown(say("there is no /etc/hosts"), f"getent hosts {name}")
        return
    addresses = [
        line.split()[0] for line in text.splitlines() if not line.lstrip().startswith("#") and name in line.split()[1:]
    ]
    if not addresses:
        yield unknown(
            say("/etc/hosts lacks this host's name; a name server may have it"),
            f"getent hosts {name}",
            advice=say("without an entry, sudo and collectives over several hosts wait for the name server"),
        )
    elif all(address.startswith("127.") or address == "::1" for address in addresses):
        yield warned(
            say("/etc/hosts maps this host's name only to {address}", address=addresses[0]),
            say("ranks on other hosts would connect to themselves"),
            f"getent hosts {name}",
            advice=say(
                "training on one host is not affected; for several hosts, write this host's network address "
                "into /etc/hosts"
            ),
        )
    else:
        yield passed(say("/etc/hosts maps this host's name to a non-loopback address"))
