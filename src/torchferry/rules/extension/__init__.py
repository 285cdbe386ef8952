"""CUDA C++ extensions and kernels."""

from torchferry.core.messages import say_in
from torchferry.rules.family import Portability, RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "CUDA C++"),
    about=Subject.COMPILED,
    portability=Portability.ONE_MACHINE,
)
