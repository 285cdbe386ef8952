"""The `torchferry` command, which `python -m torchferry` is too."""

import gc
import sys


def main() -> None:
    """Run the command line."""
    gc.disable()  # before anything is imported: a run is short, and what it builds holds no cycles
    try:
        _run()
    except KeyboardInterrupt:  # while modules were imported, or at the very end: a command says it itself
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")  # what would translate it may be half imported
        sys.exit(130)


def _run() -> None:
    try:
        from torchferry.core import own_python

        own_python.leave_current_folder()  # before anything is imported, too
        from torchferry import cli
    except Exception as error:  # an installation that is not whole
        from torchferry.core import internal_error

        sys.exit(internal_error.report(error, sys.argv[1:]))
    cli.main()


if __name__ == "__main__":
    main()
