"""Switches of the CUDA libraries: TF32, cuDNN, attention kernels."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, UnderRedirect

FAMILY = RuleFamily(
    say_in("family of rules", "library switches"),
    uses_device=True,
    under_redirect=UnderRedirect.WHAT_IS_NOT_RENAMED,
    portability=Portability.DECIDES,
)
