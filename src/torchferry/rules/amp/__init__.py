"""Automatic mixed precision."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, UnderRedirect

FAMILY = RuleFamily(
    say_in("family of rules", "mixed precision"),
    uses_device=True,
    under_redirect=UnderRedirect.WHAT_IS_NOT_RENAMED,
    portability=Portability.IN_PYTHON,
)
