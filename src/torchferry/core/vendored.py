"""How the file is marked that `torchferry device vendor` writes: what writes it and what looks for it agree here."""

from __future__ import annotations

FIRST = "# Written by torchferry"
"""What its first line begins with."""

CHECKSUM = "# torchferry-checksum: "
"""What the second line begins with, which tells whether somebody has edited the file."""

SMALL = " for this project"
"""What follows the version in the first line of a file that has only the names which one project uses."""

NAMES = "# torchferry-names: "
"""What the lines begin with that list the names of such a file."""
