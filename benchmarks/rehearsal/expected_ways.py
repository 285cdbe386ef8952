"""Why ways may disagree about a probe."""

EXPECTED: dict[str, str] = {}
