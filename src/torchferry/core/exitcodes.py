"""Every exit code of the command line, in one place."""

CLEAN = 0
"""Nothing was found, or everything found was fixed."""

FINDINGS = 1
"""Something was found that is not fixed, or a gate was not met."""

ERROR = 2
"""The command was used wrongly, or it could not do its work."""

INTERNAL = 125
"""An internal error of a command that passes on the exit code of a program, which may be 2 itself.

`env`, `timeout` and `docker run` use the same number for that.
"""

INTERRUPTED = 130
"""The user pressed Ctrl-C (128 + SIGINT, as shells report it)."""
