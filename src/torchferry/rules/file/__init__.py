"""Files that cannot be examined."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "files"),
    about=Subject.FILE,
    portability=Portability.ONE_MACHINE,
)
