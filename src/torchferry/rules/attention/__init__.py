"""Attention kernels and who chooses them."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "attention"),
    about=Subject.ATTENTION,
    portability=Portability.DECIDES,
)
