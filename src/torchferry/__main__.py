"""`python -m torchferry` is the `torchferry` command."""

from torchferry.cli import main

if __name__ == "__main__":
    main()
