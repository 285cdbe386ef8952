"""What holds for the rules of a family; a rule that differs says so itself.

A family is a folder of rules. Its package may define `FAMILY`; without it the first line of the package's docstring is
the title, and the defaults of `RuleFamily` hold.
"""

from __future__ import annotations

from enum import Enum

from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple


class UnderRedirect(Enum):
    """What the redirect of `torch.cuda` leaves of a finding."""

    NOTHING = "nothing"
    """The program goes on speaking of CUDA there, and is understood."""

    WHAT_IS_NOT_RENAMED = "what is not renamed"
    """A name of torch that the rule renames is redirected; where it proposes no edit, the card lacks the name."""

    ALL = "all"
    """The redirect does nothing about it: other languages, variables, libraries, what the card cannot do."""


class Portability(Enum):
    """What an edit is worth in code for every device (`--style portable`)."""

    EVERYWHERE = "everywhere"
    """It is right on every device."""

    IN_PYTHON = "in Python"
    """It is right on every device in Python, where it writes portable names; elsewhere it names one device."""

    DECIDES = "decides"
    """It decides on the device of a run: left as it is, the run takes CUDA, so a person has to decide."""

    ONE_MACHINE = "one machine"
    """It belongs to one machine and is left as it is."""


class Subject(str, Enum):
    """What the findings of a rule are about."""

    CODE = "code"
    """Code that uses torch or the card."""

    PACKAGE = "package"
    """A package of others, and how it is told to use CUDA."""

    ATTENTION = "attention"
    """Attention kernels of others."""

    REQUIREMENT = "requirement"
    """What the project requires to be installed."""

    COMPILED = "compiled"
    """Code that is compiled for CUDA, and what builds it."""

    DTYPE = "dtype"
    """A dtype."""

    PATH = "path"
    """A path of the user's."""

    FILE = "file"
    """A file that was not examined, in whole or in part."""

    COMMENT = "comment"
    """A comment for torchferry itself."""

    RUN = "run"
    """What a run saw."""

    @property
    def is_of_others(self) -> bool:
        """Whether it is about packages that others publish."""
        return self in (Subject.PACKAGE, Subject.ATTENTION, Subject.REQUIREMENT)


class WhenPorted(Enum):
    """What becomes of a finding about a file that `torchferry port` has ported."""

    STAYS = "stays"
    BUILDS_TOO = "builds too"
    """The file builds for the target as well."""

    PORTED = "ported"
    """The file has a copy for the target."""


class RuleFamily(NamedTuple):
    """What holds for the rules of a family.

    Attributes:
        title: What it is called in reports.
        about: What its findings are about.
        uses_device: Whether code with a fix of it uses the device, and so needs the plugin.
        under_redirect: What the redirect leaves of its findings.
        portability: What its edits are worth in code for every device.
    """

    title: Message
    about: Subject = Subject.CODE
    uses_device: bool = False
    under_redirect: UnderRedirect = UnderRedirect.ALL
    portability: Portability = Portability.EVERYWHERE
