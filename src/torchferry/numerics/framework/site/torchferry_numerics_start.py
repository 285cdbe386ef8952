"""Started by torch in every process of a command that is examined, also in an environment that has no torchferry."""


def start() -> None:
    """Begin the examination, or end the process with the reason: without it the run would seem examined."""
    try:
        from torchferry.numerics.framework import launcher
    except ImportError as error:
        import sys

        raise SystemExit(
            f"torchferry: {sys.executable} has no torchferry ({error}); "
            "install it in the environment that runs the command, or its numbers are not examined"
        ) from None
    launcher.autoload()
