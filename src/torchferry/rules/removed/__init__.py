"""What newer versions of torch, NumPy, Python and libraries refuse, whatever the device."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "removed from torch and its libraries"),
    about=Subject.PACKAGE,
    portability=Portability.IN_PYTHON,
)
