"""The `torchferry` command, which `python -m torchferry` is too."""

import gc


def main() -> None:
    """Run the command line."""
    gc.disable()  # before anything is imported: a run is short, and what it builds holds no cycles
    from torchferry import cli

    cli.main()


if __name__ == "__main__":
    main()
