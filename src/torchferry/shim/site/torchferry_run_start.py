"""Started by torch in every process of `torchferry run`, also in an environment that has no torchferry."""


def start() -> None:
    """Begin the redirect, or end the process with the reason: without it the program would run on the CPU."""
    try:
        from torchferry.shim import entry
    except ImportError as error:
        import sys

        raise SystemExit(
            f"torchferry: {sys.executable} has no torchferry ({error}); "
            "install it in the environment that runs the command, or torch.cuda is not redirected"
        ) from None
    entry.autoload()
