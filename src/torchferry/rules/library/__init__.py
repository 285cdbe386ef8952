"""Other libraries and how they are told to use CUDA."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "other libraries"),
    about=Subject.PACKAGE,
    portability=Portability.DECIDES,
)
