"""The command line: one thin module a command, imported only when the command is used."""

from __future__ import annotations

import errno
import gc
import importlib
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from torchferry import __version__
from torchferry.core import exitcodes, internal_error, progress, system
from torchferry.core.coded_errors import CodedError
from torchferry.core.env import VARIABLES, check_language
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import language, say
from torchferry.core.terminal import OutputError, abandon_output, print_error, print_notice, protect_streams

_COMMANDS = {
    "scan": "Report what a CUDA project needs to run on another accelerator.",
    "migrate": "Rewrite a CUDA project for another accelerator; every byte can be restored.",
    "sync": "Carry a migrated project over to a later state of upstream.",
    "show": "Show one decision of a scan: its choices, its programs, and each place with its code.",
    "decide": "Settle one decision of a scan: accept its places as they are, or take its edits.",
    "port": "Port the CUDA C++ of a project to another accelerator's kernel language.",
    "rehearse": "Run a command on a simulated card, on the CPU.",
    "environment": "List or remove the environments that `rehearse --with` keeps.",
    "run": "Run an unchanged CUDA program on another accelerator.",
    "nan": "Run a command and find its first NaN or infinity.",
    "accept": "Judge whether a migrated project is accepted, and keep the evidence.",
    "compare": "Find where numbers differ from the CPU's, or from another machine's.",
    "profile": "Say where the time of a run goes, and where it differs from another machine's.",
    "handover": "Prepare a ported model for a model zoo, and check it against the zoo's rules.",
    "advise": "Say what would make a program faster on a target, with evidence.",
    "ops": "Say which operators a program needs, and which of them a target has.",
    "triton": "Say which Triton kernels of a project a target takes.",
    "replay": "Run a saved call of an operator again, and judge it.",
    "setup-test": "Write a test of the machine that a project is to run on.",
    "doctor": "Check this machine for a target's cards, with a command that fixes each failure.",
    "explain": "Say what failed first in the logs of a run, what it means and what to do.",
    "deploy": "Install driver, container and framework on servers without a network, and verify them.",
    "device": "Show the device of this machine, or write the device manager into a project.",
    "undo": "Restore every byte that the last migration changed.",
    "api": "Show what replaces a CUDA name on a target.",
    "backend": "Show the targets and what is known about them.",
    "rule": "Explain a rule, or list them all.",
    "mcp": "Answer a coding agent over the Model Context Protocol.",
    "lsp": "Show findings and offer fixes in an editor.",
    "help": "Show the help of a command.",
    "completion": "Print what makes a shell complete commands, options and targets.",
    "skill": "Tell a coding agent how to carry a project, in a file that its tool loads.",
}
"""Names and one-line descriptions, so that `--help` need not import the commands."""

_NEED_LINUX = frozenset({"rehearse", "environment", "run", "triton", "doctor"})
"""Commands that are refused in one line elsewhere: what they examine, build or start exists on Linux alone."""

_EXIT_CODES = {
    "0": "nothing found, or nothing left to do",
    "1": "something was found, is left to do, would change or could not be resolved; or a gate is not met",
    "2": "wrong use, work that could not be done, or an internal error",
    "3": "no accelerator was used, so that what was judged says nothing about one",
    "N": "the program that the command ran failed: the exit code is that of the program",
    "125": "an internal error of a command that runs a program",
    "130": "interrupted",
}


class LazyGroup(click.Group):
    """A group that imports a command when it is used.

    Attributes:
        described: Its commands, each with one line for the help.
        need_linux: Those of them that run on Linux alone.
        prefix: What stands before the name of a command in that of its module: `compare_` of `cli/compare_diff.py`.
    """

    described: Mapping[str, str] = {}
    prefix = ""
    need_linux: frozenset[str] = frozenset()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.described)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for one that does not exist."""
        if cmd_name not in self.described:
            return None
        if cmd_name in self.need_linux and not system.IS_LINUX:
            return _RefusedCommand(cmd_name, short_help=self.described[cmd_name])
        module = cmd_name.replace("-", "_")
        command: click.Command = importlib.import_module(f"torchferry.cli.{self.prefix}{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.described.items()))


class _RefusedCommand(click.Command):
    """A command that does not run on this system; its own module may not even be imported here."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Refuse the command."""
        system.require_linux(f"torchferry {info_name}")
        raise AssertionError(info_name)


class ProgramCommand(click.Command):
    """A command that ends with the exit code of the program that it runs; an internal error has a code of its own.

    What stands behind the first word that is no option of ours belongs to the program.

    Attributes:
        explains_end: Whether it says why the program failed; one that says it in its own result does not.
    """

    explains_end = True

    ignore_unknown_options = True
    allow_interspersed_args = False

    is_used = False
    """Whether this process runs such a command."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line."""
        ProgramCommand.is_used = True
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        if not self.explains_end:
            return super().invoke(ctx)
        from torchferry.cli.program_end import end_explained  # imported late: other commands run no program

        with end_explained():
            return super().invoke(ctx)


class RehearsingCommand(ProgramCommand):
    """Runs a program on a simulated card, and says in its summary why it failed."""

    explains_end = False


class _PastClick(BaseException):
    """Carries an error past click, which ends with 1 for a broken pipe and in silence for Ctrl-C."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def _past_click() -> Iterator[None]:
    try:
        yield
    except (OSError, KeyboardInterrupt, EOFError) as error:
        raise _PastClick(error) from error


class _CommandLine(LazyGroup):
    """All commands; the help ends with variables and exit codes, and a wrong name gets the nearest one."""

    described = _COMMANDS
    need_linux = _NEED_LINUX

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line; `--help` is printed here."""
        with _past_click():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _past_click():
            return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Environment"):
            formatter.write_dl(list(VARIABLES.items()))
        with formatter.section("Exit codes"):
            formatter.write_dl(list(_EXIT_CODES.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for one that does not exist."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            wrong = say("No such command `{name}`.", name=args[0])
            if close:
                wrong = say("No such command `{name}`. Did you mean `{close}`?", name=args[0], close=close[0])
            raise click.UsageError(wrong.render(), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="torchferry")
def cli() -> None:
    """Port a CUDA-based PyTorch project to another accelerator.

    \b
    torchferry backend list               the targets
    torchferry scan . --target NAME       what must change, what blocks
    torchferry migrate . --target NAME    change it
    torchferry undo .                     restore it
    """


def speaking(command: click.Command) -> click.Command:
    """Return a command whose help is in the user's language."""
    if language() != "zh":
        return command
    from torchferry.cli.chinese_help import in_chinese  # imported late: an English run needs none of it

    return in_chinese(command)


def main() -> None:
    """Run the command line; ends the process with one of the documented exit codes."""
    gc.disable()  # as `torchferry.__main__` does, for who calls this
    ProgramCommand.is_used = False  # this process may have run another command line before
    signal.signal(signal.SIGTERM, _terminated)
    protect_streams()
    internal_error.watch_threads(sys.argv[1:])
    progress.speak(_asked_language)
    try:
        status = _status()
    except OutputError:  # the error that was to be told cannot be written either
        abandon_output()
        status = exitcodes.ERROR
    if internal_error.failed_in_thread():
        status = _internal_error()
    progress.removed()
    gc.freeze()  # or all that is left would be looked through once more at the end
    sys.exit(status)


def _asked_language() -> str:
    """Return the language of the command that is running: `--lang`, else the user's."""
    context = click.get_current_context(silent=True)
    while context is not None:
        if context.params.get("lang"):
            return str(context.params["lang"])
        context = context.parent
    return language()


def _status() -> Any:
    """Run the command line; return the exit code."""
    try:
        check_language()
        return speaking(cli).main(prog_name="torchferry", standalone_mode=False)
    except SystemExit as end:  # a command ends with its own code
        return end.code
    except click.exceptions.Abort:
        return exitcodes.INTERRUPTED
    except click.ClickException as error:
        if language() == "zh":
            from torchferry.cli.chinese_help import click_in_chinese  # imported late: an English run needs none of it

            with click_in_chinese():
                error.show()
        else:
            error.show()
        return exitcodes.ERROR
    except TorchferryError as error:
        print_error(error.lines())
        return error.exit_code if isinstance(error, CodedError) else exitcodes.ERROR
    except _PastClick as carried:
        return _status_of(carried.error)
    except BaseException as error:
        return _status_of(error)


def _status_of(error: BaseException) -> int:
    """Say what ended the command line that is no error of use; return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        print_notice(say("interrupted; no partial changes remain").render())
        return exitcodes.INTERRUPTED
    if isinstance(error, OutputError):
        abandon_output()
        if error.errno != errno.EPIPE:  # else the reader of our output has gone, which is no fault
            print_notice(f"torchferry: {say('cannot write the output: {error}', error=error.strerror).render()}")
        return exitcodes.ERROR
    internal_error.report(error, sys.argv[1:])
    return _internal_error()


def _internal_error() -> int:
    """Return the exit code for an error of torchferry's own."""
    return exitcodes.INTERNAL if ProgramCommand.is_used else exitcodes.ERROR


def _terminated(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that a transaction under way is taken back."""
    raise KeyboardInterrupt
