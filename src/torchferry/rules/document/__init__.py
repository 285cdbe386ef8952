"""Documents."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily

FAMILY = RuleFamily(
    say_in("family of rules", "documents"),
    portability=Portability.ONE_MACHINE,
)
