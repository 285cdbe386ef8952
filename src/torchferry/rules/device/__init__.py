"""Devices and tensors: device strings, `.cuda()`, `.is_cuda`, tensor types, integer devices."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, UnderRedirect

FAMILY = RuleFamily(
    say_in("family of rules", "devices and tensors"),
    uses_device=True,
    under_redirect=UnderRedirect.NOTHING,
    portability=Portability.IN_PYTHON,
)
