"""Started by torch in every process of `torchferry run`."""


def start():
    try:
        from torchferry.shim import entry
    except ImportError as error:
        import sys

        raise SystemExit(
            f"torchferry: {sys.executable} has no torchferry ({error}); "
            "install it in the environment that runs the command, or torch.cuda is not redirected"
        )
    entry.autoload()
