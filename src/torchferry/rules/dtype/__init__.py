"""Dtypes that the card lacks."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "dtypes"),
    about=Subject.DTYPE,
    portability=Portability.ONE_MACHINE,
)
