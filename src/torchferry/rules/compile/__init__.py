"""Compilers: torch.compile and Triton."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "compilers"),
    about=Subject.PACKAGE,
    portability=Portability.ONE_MACHINE,
)
