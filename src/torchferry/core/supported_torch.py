"""Which versions of torch our tools work with, and what is said of another.

The single file of `torchferry device vendor`, `torchferry.device` and what the doctor runs in the Python that it
examines serve older ones, and ask for nothing here.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.core.progress import doing

OLDEST = (2, 1)
"""Older ones know no device modules that are registered by name (`torch._register_device_module`, torch 2.1)."""

RAN = ((2, 1), (2, 5), (2, 7), (2, 9), (2, 13), (2, 14), (2, 15))
"""With which each tool was run, oldest first: 2.13 with the whole test suite, the others with
`benchmarks/torch_versions/check.py`. What lies between two of them counts as tested."""

USUAL = "2.13.0"
"""Which one we say to install where there is none: the one of the whole test suite."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where pip finds torch without the libraries of CUDA."""


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
                "torch {version} in {environment} is too old for {tool}: torch {oldest} or later is required",
                version=version,
                environment=sys.prefix,
                tool=tool,
                oldest=_dotted(OLDEST),
            ),
            say(
                "use an environment with torch {oldest} or later (it ran with {ran}); "
                "`torchferry migrate`, `torchferry device vendor` and `torchferry doctor` work with an older torch too",
                oldest=_dotted(OLDEST),
                ran=ran(),
            ),
        )


def install_command(python: str) -> str:
    """Return the command that installs torch for a rehearsal, or for what requests no card.

    Args:
        python: The Python that lacks it.
    """
    return f"{shlex.quote(python)} -m pip install torch=={USUAL} --index-url {CPU_INDEX}"


def how_to_install(python: str) -> Message:
    """Return what to do where a Python has no torch: on a card's machine the plugin decides which one it has to be."""
    return say(
        "without a card: `{command}`; on a card's machine install the torch that the plugin needs: "
        "`torchferry doctor --target NAME` prints the command",
        command=install_command(python),
    )


def not_in(python: str) -> Message:
    """Return that a Python has no torch, and what to do, in one line."""
    return say("torch is not installed in {python}; {advice}", python=python, advice=how_to_install(python))


def absent(command: str, python: str) -> TorchferryError:
    """Return the error for a Python that has no torch.

    Args:
        command: The command of ours that needs it.
        python: The interpreter.
    """
    return TorchferryError(
        say("`{command}` needs torch, which is not installed in {python}", command=command, python=python),
        how_to_install(python),
    )


@contextmanager
def needed(command: str) -> Iterator[None]:
    """Import what imports torch.

    Args:
        command: The command of ours that needs it.

    Raises:
        TorchferryError: this Python has no torch.
    """
    try:
        with doing(say("importing torch")):
            yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "torchgen"):  # both come with torch
            raise
        raise absent(command, sys.executable) from None


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
