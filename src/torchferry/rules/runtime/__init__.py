"""What a run saw, merged with what the rules found."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "seen at run time"),
    about=Subject.RUN,
    portability=Portability.ONE_MACHINE,
)
