"""How the file is marked that `torchferry device vendor` writes: what writes it and what looks for it agree here."""

from __future__ import annotations

import hashlib

FIRST = "# Written by torchferry"
"""What its first line begins with."""

CHECKSUM = "# torchferry-checksum: "
"""What the second line begins with, which tells whether somebody has edited the file."""

SMALL = " for this project"
"""What follows the version in the first line of a file that has only the names which one project uses."""

NAMES = "# torchferry-names: "
"""What the lines begin with that list the names of such a file."""


def untouched(text: str) -> bool | None:
    """Whether a file is as it was written; None when it is not a file of this kind."""
    first, _, rest = text.partition("\n")
    line, _, rest = rest.partition("\n")
    if not line.startswith(CHECKSUM):
        return None
    return line[len(CHECKSUM) :] == digest(first, rest)


def digest(first: str, rest: str) -> str:
    """Return the checksum of a file of which these are the first line and what follows the checksum."""
    return "sha256 " + hashlib.sha256(f"{first}\n{rest}".encode()).hexdigest()
