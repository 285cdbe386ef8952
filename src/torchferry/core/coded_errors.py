"""Errors with an exit code of their own: what ends a command is neither wrong use nor work that could not be done."""

from __future__ import annotations

from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message


class CodedError(TorchferryError):
    """An error with an exit code of its own.

    Args:
        exit_code: What the command line ends with.
        message: What, where and why.
        advice: What to do.
    """

    def __init__(self, exit_code: int, message: Message, advice: Message | None = None) -> None:
        super().__init__(message, advice)
        self.exit_code = exit_code


class NoSourcesError(CodedError):
    """What was named holds no file of a kind that the command reads, so that it has no answer."""

    def __init__(self, message: Message, advice: Message | None = None) -> None:
        super().__init__(exitcodes.FINDINGS, message, advice)


class ProgramError(CodedError):
    """A program that a command ran has ended, and the command has nothing to say of it."""
