"""Which versions of torch our tools work with, and what is said of another.

The single file of `torchferry device vendor`, `torchferry.device` and what the doctor runs in the Python that it
examines serve older ones, and ask for nothing here.
"""

from __future__ import annotations

import sys

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say

OLDEST = (2, 1)
"""Older ones know no device modules that are registered by name (`torch._register_device_module`, torch 2.1)."""

RAN = ((2, 1), (2, 5), (2, 7), (2, 9), (2, 13), (2, 14), (2, 15))
"""With which each tool was run, oldest first: 2.13 with the whole test suite, the others with
`benchmarks/torch_versions/check.py`. What lies between two of them counts as tested."""


def release(version: str) -> tuple[int, ...]:
    """Return the first two numbers of what `torch.__version__` says."""
    return tuple(int(part) for part in version.split("+", maxsplit=1)[0].split(".")[:2])


def is_tested(version: str) -> bool:
    """Whether a torch is none before the first one or after the last one that was run."""
    return RAN[0] <= release(version) <= RAN[-1]


def ran() -> str:
    """Return the versions that were run, as text."""
    return ", ".join(map(_dotted, RAN))


def require(version: str, tool: Message) -> None:
    """Refuse a torch that is too old for a tool.

    Args:
        version: What `torch.__version__` says.
        tool: What needs a later one.

    Raises:
        TorchferryError: it is too old.
    """
    if release(version) < OLDEST:
        raise TorchferryError(
            say(
                "torch {version} in {environment} is too old for {tool}: "
                "torch {oldest} is the first that has what it takes",
                version=version,
                environment=sys.prefix,
                tool=tool,
                oldest=_dotted(OLDEST),
            ),
            say(
                "use an environment with torch {oldest} or later (it ran with {ran}); "
                "`torchferry migrate`, `torchferry device vendor` and `torchferry doctor` serve an older torch too",
                oldest=_dotted(OLDEST),
                ran=ran(),
            ),
        )


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
