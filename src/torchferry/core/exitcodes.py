"""Every exit code of the command line, in one place; the page of the commands has the table of causes."""

CLEAN = 0
"""Nothing was found, or nothing is left to do; or what was asked for was written or shown."""

FINDINGS = 1
"""Something was found, remains to be done or would change, or nobody knows; or a gate was not met."""

ERROR = 2
"""The command was used wrongly, or it could not do its work."""

NO_ACCELERATOR = 3
"""Nothing is wrong in what was judged, but it ran on the CPU alone: nothing is known of an accelerator."""

INTERNAL = 125
"""An internal error of a command that passes on the exit code of a program, which may be 2 itself.

`env`, `timeout` and `docker run` use the same number for that.
"""

INTERRUPTED = 130
"""The user pressed Ctrl-C (128 + SIGINT, as shells report it)."""

_SIGNALLED = 128
"""What is added to the number of the signal that ended a program."""


def without_work(program: int) -> int:
    """Return the code of a command that could do nothing around the program that it ran.

    Args:
        program: The exit code of the program; that of a signal which ended it stays, for nothing else is at fault then.
    """
    return program if program > _SIGNALLED else ERROR
