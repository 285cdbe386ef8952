"""The tools of the server, each as a description of a command: what a client may say, and which words that becomes.

No tool has logic of its own: what it answers is what its command reports. The texts are in English: models read them.
"""

from __future__ import annotations

from torchferry.assistant.tool_description import ArgumentKind, Permission, ReportForm, ToolDescription, ToolParameter
from torchferry.assistant.views import DocumentShape
from torchferry.core.messages import say

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

DECISION = ToolParameter("decision", ArgumentKind.TEXT, "Its id, as decisions lists it.")
SOURCES = ToolParameter("path", ArgumentKind.PLACE, "Folder with the CUDA C++, or one file.")
GATE = ToolParameter(
    "gate",
    ArgumentKind.TEXT,
    "Check the result: its tokens, or with the preprocessor or the compiler.",
    "--gate",
    "",
    ("", "tokens", "preprocess", "compile"),
)
DUMP = ToolParameter(
    "dump", ArgumentKind.NEW_PLACE, "Save the first wrong call here, for replay, and end the program.", "--dump", ""
)

VERDICTS = (
    "ready, fixes (ready after fixes), decisions (a person must decide first), without (runs without a part), "
    "blocked, unjudged"
)

_NO_PLACES = say("no place of a CUDA program was found in the files that were examined; `files` says how many")
_SCAN = DocumentShape(
    main="findings",
    first=("verdict", "summary", "target", "files", "counts", "count_meanings", "programs", "decisions", "remarks"),
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
            "kept", "words", "ignored", "unlooked", "native", "partial", "style", "root", "counts", "count_meanings"),
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
_PORT = DocumentShape(
    main="review",
    first=("target", "files", "changed_tokens"),
    hidden=("schema", "torchferry", "kinds"),
    empty={
        "review": say(
            "no place was found that renaming does not solve, in as many files as `sources` says; only a run proves it"
        )
    },
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
        "decisions",
        "List what a person has to decide before a project can run on the target: places with one question are one "
        "decision. show_decision says more about one; ask the user, then record the answer with decide.",
        ("scan",),
        (PATH, TARGET, EXCLUDE, STYLE),
        fixed=("--exit-zero",),
        shape=_DECISIONS,
    ),
    ToolDescription(
        "show_decision",
        "Show one decision: its choices with what each costs, the programs that wait for it, each place with its code. "
        "Takes a program, a rule or FILE:LINE too.",
        ("show",),
        (DECISION, PATH, TARGET, EXCLUDE),
        report=ReportForm.PRINTED,
        shape=DocumentShape(main="findings", first=("id", "message", "choices", "waiting", "places")),
    ),
    ToolDescription(
        "decide",
        "Settle what a person decided: accept leaves the places as they are, fix makes its edits and no others; both "
        "are recorded. Ask the user before, never decide in their place; undo_fixes takes it back.",
        ("decide",),
        (
            DECISION,
            ToolParameter("choice", ArgumentKind.TEXT, "What the person chose.", choices=("accept", "fix")),
            PATH,
            TARGET,
            ToolParameter("by", ArgumentKind.TEXT, "Name of the person who decided; never your own.", "--by"),
            ToolParameter("why", ArgumentKind.TEXT, "Their reason.", "--why", ""),
        ),
        Permission.WRITE,
        report=ReportForm.TEXT,
    ),
    ToolDescription(
        "port",
        "Say what becomes of the CUDA C++ of a project in the target's kernel language: what is renamed, and every "
        "place that a person has to look at, with the reason. Writes nothing.",
        ("port",),
        (SOURCES, TARGET, GATE),
        fixed=("--check",),
        shape=_PORT,
    ),
    ToolDescription(
        "write_port",
        "Write the ported CUDA C++ into a new folder; undo_fixes takes it back.",
        ("port",),
        (
            SOURCES,
            TARGET,
            GATE,
            ToolParameter("out", ArgumentKind.NEW_PLACE, "Folder for the result; it must not exist.", "--out"),
        ),
        Permission.WRITE,
        shape=_PORT,
    ),
    ToolDescription(
        "ops",
        "Say which operators a target has, lacks or runs on the CPU: of a file that `ops trace` or `ops predict` "
        "wrote, of a model or a run where programs may be started, or of the plugin as a whole.",
        ("ops", "report"),
        (
            ToolParameter("file", ArgumentKind.PLACE, "What `ops trace` or `ops predict` wrote.", default=""),
            ToolParameter(
                "model",
                ArgumentKind.TEXT,
                "FILE.py:FUNCTION, which returns (model, inputs).",
                "--model",
                "",
                needs=Permission.RUN,
            ),
            ToolParameter(
                "command",
                ArgumentKind.COMMAND,
                "Program to run on the simulated card, and arguments.",
                default=(),
                needs=Permission.RUN,
            ),
            FOLDER,
            TARGET,
        ),
        shape=DocumentShape(main="operators", first=("target", "plugin", "counts", "coverage")),
    ),
    ToolDescription(
        "advise",
        "Say what would make a program faster on the target: where, on what evidence, by which edit. Without a trace "
        "all of it is from the code alone and nothing was measured.",
        ("advise",),
        (
            PATH,
            TARGET,
            ToolParameter("trace", ArgumentKind.PLACE, "What profile_record wrote.", "--trace", ""),
            EXCLUDE,
        ),
        shape=DocumentShape(
            main="advice",
            first=("measured", "remarks"),
            empty={
                "advice": say(
                    "nothing is known that would make these programs faster; that does not prove that they are fast"
                )
            },
        ),
    ),
    ToolDescription(
        "profile_show",
        "Say where the time of a run went, from a trace that torch's or the vendor's profiler wrote.",
        ("profile", "show"),
        (
            ToolParameter("trace", ArgumentKind.PLACE, "The trace, or a folder with one for each rank."),
            ToolParameter(
                "by",
                ArgumentKind.TEXT,
                "What the time is summed by.",
                "--by",
                "operator",
                ("operator", "shape", "module", "stack", "kernel"),
            ),
        ),
        has_target=False,
    ),
    ToolDescription(
        "profile_compare",
        "Say where a step of one run takes longer than one of another machine's; refuses what cannot be compared.",
        ("profile", "compare"),
        (
            ToolParameter("reference", ArgumentKind.PLACE, "Trace of the reference."),
            ToolParameter("other", ArgumentKind.PLACE, "Trace of the target."),
        ),
        has_target=False,
    ),
    ToolDescription(
        "compare_curves",
        "Say whether the training curve in one log agrees with that of the reference.",
        ("compare", "curves"),
        (
            ToolParameter("reference", ArgumentKind.PLACE, "Log of the reference."),
            ToolParameter("other", ArgumentKind.PLACE, "Log of the target."),
            ToolParameter("metric", ArgumentKind.TEXTS, "What to compare, such as loss.", "--metric", ()),
        ),
        has_target=False,
    ),
    ToolDescription(
        "run",
        "Run an unchanged CUDA program on this machine's card: torch.cuda is redirected. It needs card and plugin; "
        "without them, rehearse. The program runs with the user's rights.",
        ("run",),
        (COMMAND, FOLDER, TARGET),
        Permission.RUN,
        report=ReportForm.LINES,
        shape=_NUMBERS,
        ends_with_program=True,
    ),
    ToolDescription(
        "record",
        "Run a program and record its numbers in a folder, for compare_records: once where it is right, once where it "
        "is wrong. On the simulated card: rehearse with command torchferry compare record -o DIR -- ...",
        ("compare", "record"),
        (
            COMMAND,
            FOLDER,
            ToolParameter("out", ArgumentKind.NEW_PLACE, "Folder for the record.", "--output"),
            ToolParameter("first", ArgumentKind.COUNT, "First steps that are recorded by operator.", "--first", 20),
            ToolParameter("every", ArgumentKind.COUNT, "Then every Nth step.", "--every", 10),
        ),
        Permission.RUN,
        has_target=False,
        report=ReportForm.TEXT,
        ends_with_program=True,
    ),
    ToolDescription(
        "compare",
        "Run a program and compare each operator with the CPU in higher precision. What was not compared is untested, "
        "and never passes.",
        ("compare", "cpu"),
        (
            COMMAND,
            FOLDER,
            ToolParameter("every", ArgumentKind.FLAG, "Compare every call.", "--every", default=False),
            DUMP,
        ),
        Permission.RUN,
        has_target=False,
        shape=_NUMBERS,
        ends_with_program=True,
    ),
    ToolDescription(
        "nan",
        "Run a program and find its first NaN or infinity: operator, module, step, line and the operator's inputs.",
        ("nan",),
        (
            COMMAND,
            FOLDER,
            ToolParameter(
                "level",
                ArgumentKind.TEXT,
                "watch reads one number a step; operator checks every result.",
                "--level",
                "watch",
                ("watch", "operator"),
            ),
            DUMP,
        ),
        Permission.RUN,
        has_target=False,
        shape=_NUMBERS,
        ends_with_program=True,
    ),
    ToolDescription(
        "replay",
        "Run a call of an operator again that compare or nan saved, and judge its result.",
        ("replay",),
        (
            ToolParameter("directory", ArgumentKind.PLACE, "Folder of the call."),
            ToolParameter("device", ArgumentKind.TEXT, "Such as cpu; default: where it was saved.", "--device", ""),
            ToolParameter("nan", ArgumentKind.FLAG, "Only look for NaN and Inf.", "--nan", default=False),
        ),
        Permission.RUN,
        has_target=False,
        report=ReportForm.PRINTED,
    ),
    ToolDescription(
        "profile_record",
        "Run a program and record traces of its steps, for profile_show and advise. With a target on the simulated "
        "card: calls and shapes are the program's, times are those of this machine's CPU.",
        ("profile", "record"),
        (
            COMMAND,
            FOLDER,
            TARGET,
            ToolParameter("out", ArgumentKind.NEW_PLACE, "Folder for the traces; empty or new.", "--out"),
        ),
        Permission.RUN,
        may_lack_target=True,
        report=ReportForm.TEXT,
        ends_with_program=True,
    ),
    ToolDescription(
        "accept",
        "Judge a migrated project by torchferry.accept.toml, whose commands are run, and keep the evidence. A gate "
        "that cannot be judged says why, and is never green.",
        ("accept",),
        (
            FOLDER,
            TARGET,
            ToolParameter(
                "on_simulated_card", ArgumentKind.FLAG, "Speed is then not judged.", "--rehearse", default=False
            ),
            ToolParameter("only", ArgumentKind.TEXTS, "Stages to judge, such as runs, numbers.", "--only", ()),
            ToolParameter("out", ArgumentKind.NEW_PLACE, "Folder for the evidence.", "--out", "evidence"),
        ),
        Permission.RUN,
        report=ReportForm.TEXT,
    ),
    ToolDescription(
        "write_accept_file",
        "Write torchferry.accept.toml for accept, from the programs, git, the README and a log. What no file says "
        "stays empty: complete it with the user.",
        ("accept", "init"),
        (FOLDER, ToolParameter("log", ArgumentKind.PLACE, "Log of the CUDA run.", "--log", "")),
        Permission.WRITE,
        has_target=False,
        report=ReportForm.TEXT,
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
        shape=DocumentShape(main="causes", first=("failed", "known", "complete", "first", "exception")),
    ),
)
