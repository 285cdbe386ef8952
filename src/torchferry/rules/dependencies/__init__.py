"""Requirements of the project."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "requirements"),
    about=Subject.REQUIREMENT,
    portability=Portability.ONE_MACHINE,
)
