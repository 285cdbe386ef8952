"""Every exit code of the command line, in one place."""

CLEAN = 0
"""Nothing was found, or everything found was fixed."""

FINDINGS = 1
"""Something was found that is not fixed, or a gate was not met."""

ERROR = 2
"""The command was used wrongly, or it could not do its work."""

INTERRUPTED = 130
"""The user pressed Ctrl-C (128 + SIGINT, as shells report it)."""
