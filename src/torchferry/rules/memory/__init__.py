"""Memory of the card and its statistics."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, UnderRedirect

FAMILY = RuleFamily(
    say_in("family of rules", "memory"),
    uses_device=True,
    under_redirect=UnderRedirect.WHAT_IS_NOT_RENAMED,
    portability=Portability.IN_PYTHON,
)
