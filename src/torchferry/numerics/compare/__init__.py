"""Compare each operator of a running program with the CPU in higher precision.

`ModuleInfo` and `open_module_tracker` are names of torch_musa's tool that have nothing to do here, for programs that
import them.
"""

from __future__ import annotations

from torch import nn

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.numerics.compare.tool import CompareWithCPU, ComparisonFailed

__all__ = ["CompareWithCPU", "ComparisonFailed", "ModuleInfo", "open_module_tracker"]


class ModuleInfo:
    """The place of a module, for programs that import it beside `open_module_tracker`: reports have its path.

    Args:
        name: Of the module.
        father: The module that holds it.
    """

    def __init__(self, name: str, father: ModuleInfo | None = None) -> None:
        self.name = name
        self.father = father

    def name_with_prefix(self) -> str:
        """Return `GPT/Block/Linear`."""
        before = self.father.name_with_prefix() if self.father is not None else ""
        return f"{before}/{self.name}" if before else self.name


def open_module_tracker(model: nn.Module) -> None:
    """Accept a model, for programs that did so: the modules are known without it, and no hook is set on them.

    Raises:
        UsageError: it is no model.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(say("`open_module_tracker` takes a model, not {kind}", kind=type(model).__name__))
