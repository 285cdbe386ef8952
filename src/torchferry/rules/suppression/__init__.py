"""Comments that silence nothing."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "suppressions"),
    about=Subject.COMMENT,
    portability=Portability.ONE_MACHINE,
)
