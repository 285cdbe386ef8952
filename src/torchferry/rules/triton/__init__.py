"""Triton: the project's own kernels, and how they are launched."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily

FAMILY = RuleFamily(
    say_in("family of rules", "Triton kernels"),
    portability=Portability.ONE_MACHINE,
)
