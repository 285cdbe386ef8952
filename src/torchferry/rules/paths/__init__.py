"""Paths of data, checkpoints and results."""

from torchferry.core.messages import say_in
from torchferry.rules.family import RuleFamily, Subject

FAMILY = RuleFamily(
    say_in("family of rules", "paths"),
    about=Subject.PATH,
)
