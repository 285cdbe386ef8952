"""Configuration files."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily

FAMILY = RuleFamily(
    say_in("family of rules", "configuration files"),
    portability=Portability.DECIDES,
)
