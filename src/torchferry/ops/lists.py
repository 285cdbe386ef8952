"""The known facts about a plugin's operators, and how well: from the vendor's tables, or from a file of `ops dump`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchferry.backends.cards import default_card, find_card
from torchferry.backends.kernel_limits import KernelLimits, kernel_limits
from torchferry.backends.operators import OperatorTable, load_operators
from torchferry.backends.registrations import registrations
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say, translatable
from torchferry.ops.dumped import read_dump

CONFIDENCE = {
    "dumped": translatable("registrations of a plugin, read by `ops dump`"),
    "registrations": translatable("registrations, read from the plugin's wheel"),
    "sources": translatable("read from the vendor's sources, not from a running plugin"),
    "unknown": translatable("no list is public"),
}
"""How well a list is known, best first."""


@dataclass(frozen=True)
class OperatorList:
    """What a plugin registers.

    Attributes:
        target: Name of the backend.
        plugin: Name of the package.
        version: Plugin version that was asked for; the list may be that of another, `table.version`.
        card: Name of the card.
        table: The operators.
        confidence: One of `CONFIDENCE`.
        limits: What the vendor publishes of the kernels; None where it publishes nothing.
    """

    target: str
    plugin: str
    version: str
    card: str
    table: OperatorTable
    confidence: str
    limits: KernelLimits | None = None

    @property
    def registered(self) -> frozenset[str] | None:
        """The operators, without `aten::`; None where nobody knows."""
        return None if isinstance(self.table.registered, Unknown) else self.table.registered

    @property
    def autograd(self) -> frozenset[str]:
        """Those with a kernel for autograd of the plugin's own; empty where nobody knows."""
        return frozenset() if isinstance(self.table.autograd, Unknown) else self.table.autograd

    @property
    def is_of_another_version(self) -> bool:
        """Whether the list is that of another version than was asked for."""
        return bool(self.table.version) and self.table.version != self.version

    def said(self) -> Message:
        """What the list is, in one line."""
        version = self.table.version or self.version
        name = say("{plugin} {version}", plugin=self.plugin, version=version) if version else self.plugin
        return say("{name}: {confidence}", name=name, confidence=say(CONFIDENCE[self.confidence]))


def of_target(target: Target, card: str = "") -> OperatorList:
    """Return what the vendor's tables know of a target's operators.

    Raises:
        UsageError: no card has this name.
    """
    backend = target.backend
    version = target.version or backend.DEFAULT_VERSION
    table = load_operators(backend, version)
    if isinstance(table.registered, Unknown):
        confidence = "unknown"
    else:
        read = registrations(backend)
        confidence = "registrations" if read is not None and read.read_from == "wheels" else "sources"
    name = (find_card(backend, card) if card else default_card(backend)).name
    return OperatorList(backend.NAME, backend.PLUGIN, version, name, table, confidence, kernel_limits(backend))


def of_dump(path: Path, target: Target, card: str = "") -> OperatorList:
    """Return what a file of `ops dump` says, with the vendor's tables for what it does not say.

    Raises:
        TorchferryError: the file cannot be read, is damaged, or is of another target.
        UsageError: no card has this name.
    """
    dumped = read_dump(path)
    if dumped.target != target.name:
        raise TorchferryError(
            say("{path} is a list of {target}, not of {wanted}", path=path, target=dumped.target, wanted=target.name),
            say("name a list of {wanted}, or write one with `torchferry ops dump -t {wanted}`", wanted=target.name),
        )
    listed = of_target(target, card)
    lists: dict[str, Any] = dict(dumped.lists)
    table = replace(
        listed.table, version=dumped.version, torch=dumped.torch, source=f"{path.name}: {dumped.source}", **lists
    )
    return replace(listed, version=target.version or dumped.version, table=table, confidence="dumped")
