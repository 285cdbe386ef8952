"""The tools of the server, each as a description of a command: what a client may say, and which words that becomes.

No tool has logic of its own: what it answers is what its command reports. The texts are in English: models read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from torchferry.assistant.views import DocumentShape
from torchferry.core.messages import say


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
        option: The option of the command; empty for what stands alone, in the order of the parameters.
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
        parameters: What a client may say, in the order in which the command takes what stands alone.
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


PATH = ToolParameter("path", ArgumentKind.PLACE, "Folder or file of the project.", default=".")
FOLDER = ToolParameter("path", ArgumentKind.PLACE, "Folder to run in.", default=".", is_folder_to_run_in=True)
TARGET = ToolParameter(
    "target", ArgumentKind.TEXT, "Target, or NAME@VERSION of its plugin; default: the server's.", "-t", ""
)
SELECT = ToolParameter("select", ArgumentKind.TEXT, "Rules or families, such as DEV,AMP101.", "--select", "")
IGNORE = ToolParameter("ignore", ArgumentKind.TEXT, "Rules or families to leave out.", "--ignore", "")
EXCLUDE = ToolParameter("exclude", ArgumentKind.TEXTS, "Files or folders to leave out.", "--exclude", ())
STYLE = ToolParameter(
    "style",
    ArgumentKind.TEXT,
    "What to write: the vendor's API, code for all devices, or a redirect at run time.",
    "--style",
    "native",
    ("native", "portable", "shim"),
)
UNSAFE = ToolParameter(
    "unsafe",
    ArgumentKind.FLAG,
    "Also fixes that rest on something unproven: read them first.",
    "--unsafe-fixes",
    default=False,
)
COMMAND = ToolParameter(
    "command", ArgumentKind.COMMAND, 'Program and arguments: ["python", "train.py", "--steps", "2"].'
)

VERDICTS = (
    "ready, fixes (ready after fixes), decisions (a person must decide first), without (runs without a part), "
    "blocked, unjudged"
)

_NO_PLACES = say("no place of a CUDA program was found in the files that were examined; `files` says how many")
_SCAN = DocumentShape(
    main="findings",
    first=("verdict", "summary", "target", "files", "counts", "programs", "decisions", "remarks"),
    hidden=("schema", "torchferry", "roles", "entry_points", "changes", "kept", "words"),
    empty={
        "findings": _NO_PLACES,
        "programs": say("no program was found: nothing here is started by a person, as far as the files show"),
        "decisions": say("nothing is left for a person to decide"),
    },
)
_DECISIONS = DocumentShape(
    main="decisions",
    first=("verdict", "summary", "decisions"),
    hidden=("findings", "programs", "families", "packages", "schema", "torchferry", "roles", "entry_points", "changes",
            "kept", "words", "ignored", "unlooked", "native", "partial", "style", "root", "counts"),
    empty={"decisions": say("nothing is left for a person to decide")},
)  # fmt: skip
_MIGRATED = DocumentShape(
    main="remaining",
    first=("written", "summary", "changes", "notices"),
    hidden=_SCAN.hidden,
    empty={"changes": say("there was nothing to apply: no fix of the chosen kind is left")},
)
_RUN = DocumentShape(
    first=("outcome", "cause", "verdict", "exit_code", "would_fail", "output"),
    hidden=("schema", "rehearsal", "fails"),
    main="events",
    empty={"events": say("the simulated card saw nothing that it could report")},
)
_NUMBERS = DocumentShape(first=("outcome", "cause", "verdict", "exit_code", "notices", "output"), hidden=("schema",))

TOOLS = (
    ToolDescription(
        "scan",
        "Say which programs of a project would run on the accelerator, and every place that must change. "
        f"Verdict of a program: {VERDICTS}.",
        ("scan",),
        (PATH, TARGET, SELECT, IGNORE, EXCLUDE, STYLE),
        fixed=("--exit-zero",),
        shape=_SCAN,
    ),
    ToolDescription(
        "explain_rule",
        "Explain a rule such as DEV101: what it finds, why it matters, an example.",
        ("rule",),
        (ToolParameter("code", ArgumentKind.TEXT, "The rule; a family such as DEV lists its rules."),),
        has_target=False,
        report=ReportForm.TEXT,
    ),
    ToolDescription(
        "explain_name",
        "Say what replaces a CUDA name on a target, from the tables and with its source; UNKNOWN stays UNKNOWN.",
        ("api",),
        (
            ToolParameter(
                "name",
                ArgumentKind.TEXT,
                "An API (torch.cuda.nvtx.range_push), environment variable, program, package or image; or a code that "
                "the stack reports an error with (EI0006).",
            ),
            TARGET,
        ),
        may_lack_target=True,
        report=ReportForm.TEXT,
    ),
    ToolDescription(
        "preview_fixes",
        "Show what the fixes would change, a diff for each file. Writes nothing.",
        ("migrate",),
        (PATH, TARGET, UNSAFE, SELECT, IGNORE, EXCLUDE, STYLE),
        report=ReportForm.PATCH,
        shape=DocumentShape(
            main="files", empty={"files": say("there is nothing to fix: no fix of the chosen kind is left")}
        ),
    ),
    ToolDescription(
        "apply_fixes",
        "Apply the fixes in place, all or none; undo_fixes restores every byte. Uncommitted changes stop it.",
        ("migrate",),
        (
            *(PATH, TARGET, UNSAFE, SELECT, IGNORE, EXCLUDE, STYLE),
            ToolParameter(
                "allow_dirty",
                ArgumentKind.FLAG,
                "Apply although files have changes that are not committed: ask the user first.",
                "--allow-dirty",
                default=False,
            ),
        ),
        Permission.WRITE,
        shape=_MIGRATED,
    ),
    ToolDescription(
        "undo_fixes",
        "Restore every byte that the last apply_fixes, decide or port changed; refuses where a file has changed since.",
        ("undo",),
        (
            PATH,
            ToolParameter(
                "all", ArgumentKind.FLAG, "Every migration of the project, the last one first.", "--all", default=False
            ),
        ),
        Permission.WRITE,
        has_target=False,
        report=ReportForm.TEXT,
    ),
    ToolDescription(
        "rehearse",
        "Run a program of the project on a simulated card: the code meets the plugin's API, operators and limits. It "
        "says nothing about speed or accuracy. The program runs with the user's rights; this is no sandbox.",
        ("rehearse",),
        (
            COMMAND,
            FOLDER,
            TARGET,
            ToolParameter("card", ArgumentKind.TEXT, "Model of the card, such as 910B.", "--card", ""),
            ToolParameter("devices", ArgumentKind.COUNT, "Number of devices.", "--devices", 0, most=16),
            ToolParameter(
                "packages", ArgumentKind.TEXTS, "Packages of an environment made for it: torch==2.9.0.", "--with", ()
            ),
        ),
        Permission.RUN,
        report=ReportForm.SUMMARY,
        fixed=("--strict",),
        shape=_RUN,
        ends_with_program=True,
    ),
    ToolDescription(
        "doctor",
        "Examine this machine for a target's cards: driver, toolkit, libraries, container, plugin. Changes nothing.",
        ("doctor",),
        (TARGET,),
        report=ReportForm.PRINTED,
        shape=DocumentShape(main="groups", first=("ok", "counts"), hidden=("schema", "kind", "torchferry")),
    ),
    ToolDescription(
        "compare_records",
        "Say where the numbers of two runs differ first, and why, from what the tool record (or `torchferry compare "
        "record`) wrote.",
        ("compare", "diff"),
        (
            ToolParameter("reference", ArgumentKind.PLACE, "Folder of the reference's record."),
            ToolParameter("other", ArgumentKind.PLACE, "Folder of the other run's record."),
        ),
        has_target=False,
        shape=DocumentShape(main="causes", first=("verdict", "same", "complete", "first")),
    ),
    ToolDescription(
        "explain_logs",
        "Say what failed first in the logs of a run, on which rank and host, why, and what to do.",
        ("explain",),
        (ToolParameter("paths", ArgumentKind.PLACES, "Files or folders with the logs of one run."), TARGET),
        may_lack_target=True,
        shape=DocumentShape(main="causes", first=("failed", "known", "first", "exception")),
    ),
)


def offered(allowed: Mapping[Permission, bool]) -> list[ToolDescription]:
    """Return the tools that the user allows."""
    return [tool for tool in TOOLS if allowed[tool.needs]]
