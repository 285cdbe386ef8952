"""What a tool of the server is: a command of torchferry, what a client may say of it, and how its report is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from torchferry.assistant.views import DocumentShape


class Permission(Enum):
    """What a tool, or a parameter, needs the user's leave for: the option of `torchferry mcp` that gives it."""

    READ = ""
    WRITE = "--allow-write"
    RUN = "--allow-run"


class ArgumentKind(Enum):
    """What a parameter holds."""

    TEXT = "text"
    TEXTS = "texts"
    FLAG = "flag"
    COUNT = "count"
    PLACE = "place"
    PLACES = "places"
    NEW_PLACE = "new place"
    COMMAND = "command"


@dataclass(frozen=True)
class ToolParameter:
    """One parameter of a tool.

    Attributes:
        name: As a client writes it.
        kind: What it holds.
        text: What it is for; a model reads it.
        option: The option of the command; empty for what is alone, in the order of the parameters.
        default: Where the client leaves it out; None: it has to be there.
        choices: All that it may be.
        least: The smallest number.
        most: The largest number.
        needs: What the user must allow for it to be there.
        is_folder_to_run_in: The command runs in this folder, and is not given it.
    """

    name: str
    kind: ArgumentKind
    text: str
    option: str = ""
    default: str | int | bool | tuple[str, ...] | None = None
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1 << 31
    needs: Permission = Permission.READ
    is_folder_to_run_in: bool = False


class ReportForm(Enum):
    """How a command is asked for a report that programs read."""

    FILE = ("-f", "json", "-o", "{report}")
    PRINTED = ("-f", "json")
    SUMMARY = ("--summary-file", "{report}")
    PATCH = ("--patch", "{report}")
    LINES = ("--report", "{report}")
    TEXT = ()


@dataclass(frozen=True)
class ToolDescription:
    """One tool.

    Attributes:
        name: As a client calls it.
        text: What it is for, and what it does not say; a model reads it.
        command: The words of the command line.
        parameters: What a client may say, in the order in which the command takes what is alone.
        needs: What the user must allow for the tool to be there.
        has_target: Whether the command takes a target; `may_lack_target`: it can do without.
        may_lack_target: Whether it can do without.
        report: How it is asked for a report.
        fixed: Options that are always given.
        shape: How its documents are shown.
        ends_with_program: Whether its exit code is that of the program that it runs.
    """

    name: str
    text: str
    command: tuple[str, ...]
    parameters: tuple[ToolParameter, ...] = ()
    needs: Permission = Permission.READ
    has_target: bool = True
    may_lack_target: bool = False
    report: ReportForm = ReportForm.FILE
    fixed: tuple[str, ...] = ()
    shape: DocumentShape = field(default_factory=DocumentShape)
    ends_with_program: bool = False
