"""The operators that a device has to bring a kernel for, and how many of them a plugin registers.

Torch has some three thousand operators. Most are made of others on a device without a kernel for them. What is left is
what a plugin is measured by: `must_have`; of these `cuda`, for which CUDA has a kernel; and of these `gpu_core`,
without other libraries' own and those for sparse, nested and quantised tensors.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from torchferry.backends.operators import kernels_of_cuda, must_have_kernels
from torchferry.core import own_python, subprocesses
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, translatable
from torchferry.core.progress import doing

_SECONDS = 120.0

GROUPS = {
    "must_have": translatable("kernels that every device must provide"),
    "cuda": translatable("of these, kernels that CUDA has"),
    "gpu_core": translatable(
        "of these, without those for sparse, nested and quantised tensors and those of other libraries"
    ),
    "backward": translatable("of these, for backward"),
    "linalg": translatable("of these, for linear algebra"),
}
"""The groups, from the widest on; the last two are both parts of `gpu_core`."""


@dataclass(frozen=True)
class MustHave:
    """The operators that have no kernel which serves every device.

    Attributes:
        torch: The torch that they were read from.
        groups: For each of `GROUPS` its operators, without `aten::`.
        asked: Whether this machine's torch was asked, rather than the table of torchferry.
        cuda_torch: The torch of the list that says which of them CUDA has.
    """

    torch: str
    groups: dict[str, frozenset[str]]
    asked: bool
    cuda_torch: str

    @property
    def source(self) -> Message:
        """Where they were read, as a sentence's part."""
        if not self.asked:
            return say("torchferry's table of torch {version}", version=self.torch)
        if self.torch == self.cuda_torch:
            return say("the dispatcher of torch {version} here", version=self.torch)
        return say(
            "the dispatcher of torch {version} here; which of them CUDA has: torchferry's table of torch {table}",
            version=self.torch,
            table=self.cuda_torch,
        )


@dataclass(frozen=True)
class Share:
    """How many operators of a group a plugin registers.

    Attributes:
        group: One of `GROUPS`.
        total: Operators in it.
        registered: Those of them that the plugin registers.
    """

    group: str
    total: int
    registered: int

    @property
    def percent(self) -> float:
        """The share in percent."""
        return 100.0 * self.registered / self.total if self.total else 0.0


def from_table() -> MustHave:
    """Return the operators as torchferry's table has them."""
    document = must_have_kernels()
    core, cuda = frozenset(document["gpu_core"]), kernels_of_cuda()
    version = str(document["torch"])
    return MustHave(version, _grouped(cuda | frozenset(document["others"]), cuda, core), False, version)


def from_torch(python: str = "") -> MustHave | None:
    """Return the operators as the dispatcher of an environment's torch has them; None where there is none to ask.

    A process of its own asks, without any plugin.

    Args:
        python: The interpreter; empty for ours.
    """
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    command = own_python.module_command("torchferry.ops.composition", python=python)
    with doing(say("reading operators from torch")):
        asked = subprocesses.run(tuple(command), _SECONDS, environment)
    try:
        document = parsed_json(asked.out)
        version, names = str(document["torch"]), frozenset(map(str, document["names"]))
    except (ValueError, KeyError, TypeError):
        return None
    table = from_table()
    groups = _grouped(names, names & table.groups["cuda"], names & table.groups["gpu_core"])
    return MustHave(version, groups, True, table.torch)


def _grouped(names: frozenset[str], cuda: frozenset[str], core: frozenset[str]) -> dict[str, frozenset[str]]:
    return {
        "must_have": names,
        "cuda": cuda,
        "gpu_core": core,
        "backward": frozenset(name for name in core if "backward" in name),
        "linalg": frozenset(name for name in core if "linalg" in name),
    }


def shares(kernels: MustHave, registered: Collection[str]) -> list[Share]:
    """Return how many operators of each group are among those that a plugin registers."""
    names = frozenset(registered)
    return [Share(group, len(kernels.groups[group]), len(kernels.groups[group] & names)) for group in GROUPS]
