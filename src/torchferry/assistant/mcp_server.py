"""torchferry as a server of the Model Context Protocol: what a coding agent may ask, and what it may not do.

Each tool runs the command of the same name as a process of its own: an answer is what the command line says, and a
client that gives up ends it. Tools that write files or start programs exist only where the user allows them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field, create_model

from torchferry import __version__
from torchferry.assistant.answers import (
    ComparisonAnswer,
    DoctorAnswer,
    FixAnswer,
    FoundPlace,
    LogsAnswer,
    ProgramVerdict,
    RehearsalAnswer,
    ScanAnswer,
    TextAnswer,
)
from torchferry.assistant.commands import CommandResult, run
from torchferry.assistant.roots import Roots
from torchferry.backends import registry
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say

_READING = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITING = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_RUNNING = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

_SECONDS = 600.0
"""For a command that only reads: a scan of a million lines takes half a minute."""

_Limit = Annotated[float, Field(gt=0, le=7 * 86400, allow_inf_nan=False)]
"""Seconds that a client gives a program."""

_ORDER = {"manual": 1, "unsafe": 2, "safe": 3, "note": 4}


@dataclass(frozen=True)
class ServerSettings:
    """What the user allows.

    Attributes:
        roots: The folders that a client may name.
        target: Target that is meant where a client names none; empty for none.
        may_write: Whether fixes may be applied and undone.
        may_run: Whether programs of the project may be started.
        lang: Language of the answers.
    """

    roots: Roots
    target: str = ""
    may_write: bool = False
    may_run: bool = False
    lang: str = "en"


def make_server(settings: ServerSettings) -> MCPServer[Any]:
    """Return the server with the tools that the user allows."""
    tools = Tools(settings)
    offered = [
        _tool(function, _READING)
        for function in (
            tools.scan,
            tools.explain_rule,
            tools.explain_name,
            tools.preview_fixes,
            tools.doctor,
            tools.compare_records,
            tools.explain_logs,
        )
    ]
    if settings.may_write:
        offered += [_tool(tools.apply_fixes, _WRITING), _tool(tools.undo_fixes, _WRITING)]
    if settings.may_run:
        offered.append(_tool(tools.rehearse, _RUNNING))
    return MCPServer(
        "torchferry",
        title="torchferry",
        version=__version__,
        instructions=_instructions(settings),
        tools=offered,
        log_level="WARNING",
    )


def _tool(function: Callable[..., Any], annotations: ToolAnnotations) -> Tool:
    """Return a tool; its description is all of its docstring, which describes the arguments too.

    A name that is none of its arguments is refused. The library would leave it out, and a client that writes `paths`
    for `path` would get the answer to another question.
    """
    tool = Tool.from_function(function, description=inspect.getdoc(function), annotations=annotations)
    known = tool.fn_metadata.arg_model
    strict = create_model(known.__name__, __base__=known, __module__=__name__, __cls_kwargs__={"extra": "forbid"})
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema(by_alias=True)
    return tool


def _instructions(settings: ServerSettings) -> str:
    """Say what the server is for, in English: a model reads it."""
    folders = ", ".join(map(str, settings.roots.folders))
    targets = ", ".join(f"{name} ({registry.load(name).TITLE})" for name in registry.built_in())
    lines = [
        f"torchferry carries PyTorch projects written for CUDA to other accelerators. Targets: {targets}.",
        "Begin with scan. explain_rule explains the rule of a finding, explain_name says what replaces a CUDA name.",
        "Where a run failed, explain_logs says what failed first in its logs, and what only follows from it.",
        "A rehearsal runs a program on a simulated card. It proves that code is right for the API, "
        "never speed or accuracy.",
        "What is unknown or was not judged is not fine: say so to the user.",
        f"Paths must lie in: {folders}.",
    ]
    if not settings.may_write:
        lines.append("Files are not written: the user can allow it by starting the server with --allow-write.")
    if not settings.may_run:
        lines.append("No program is started: the user can allow it by starting the server with --allow-run.")
    return "\n".join(lines)


class Tools:
    """The tools. Each is offered under its name, with its docstring as the description that a model reads."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings

    async def scan(self, path: str = ".", target: str = "", limit: int = 50) -> ScanAnswer:
        """Say which programs of a project would run on the accelerator, and every place that must change.

        Args:
            path: Folder or file of the project.
            target: One of the server's targets, or NAME@VERSION of its plugin; empty for the default.
            limit: Most findings that are returned, what blocks first.
        """
        place = self._place(path)
        result = await self._run("scan", place, target, "-f", "json", "-o", "{report}", "--exit-zero")
        report = _object(result)
        findings = _places(report["findings"])
        return ScanAnswer(
            verdict=report["verdict"],
            summary=report["summary"],
            programs=[_program(program) for program in report["programs"]],
            counts=report["counts"],
            findings=findings[: max(0, limit)],
            findings_left_out=max(0, len(findings) - max(0, limit)),
            remarks=report["remarks"],
        )

    async def explain_rule(self, code: str) -> TextAnswer:
        """Explain a rule such as DEV101: what it finds, why it matters, an example.

        Args:
            code: The rule, or a family such as DEV to list its rules.
        """
        return _text(await self._command("rule", "--lang", self._settings.lang, "--", code))

    async def explain_name(self, name: str, target: str = "") -> TextAnswer:
        """Say what replaces a CUDA name on a target, from the tables and with its source; UNKNOWN stays UNKNOWN.

        Args:
            name: An API (torch.cuda.nvtx.range_push), environment variable, program, package or image; or a code that
                the stack reports an error with (EI0006), which is explained.
            target: One of the server's targets; empty for all.
        """
        wanted = ["-t", _option_value(target)] if target else []
        return _text(await self._command("api", *wanted, "--lang", self._settings.lang, "--", name))

    async def preview_fixes(
        self, path: str = ".", target: str = "", unsafe: bool = False, select: str = "", limit: int = 40000
    ) -> FixAnswer:
        """Show what the fixes would change, as a diff. Writes nothing.

        Args:
            path: Folder or file of the project.
            target: One of the server's targets, or NAME@VERSION of its plugin; empty for the default.
            unsafe: Also fixes that rest on something which is not proven.
            select: Rules or families to apply, such as DEV,AMP101; empty for all.
            limit: Most characters of the diff.
        """
        place = self._place(path)
        result = await self._run("migrate", place, target, *_choice(unsafe, select), "--patch", "{report}")
        diff = result.report
        return FixAnswer(
            written=False,
            files=[line[6:] for line in diff.splitlines() if line.startswith("+++ b/")],
            diff=diff[: max(0, limit)],
            diff_left_out=max(0, len(diff) - max(0, limit)),
            remaining=[],
            told=_lines(result.told),
        )

    async def apply_fixes(
        self, path: str = ".", target: str = "", unsafe: bool = False, select: str = "", limit: int = 50
    ) -> FixAnswer:
        """Apply the fixes in place, all or none; undo_fixes restores every byte. Uncommitted changes are not touched.

        Args:
            path: Folder or file of the project.
            target: One of the server's targets, or NAME@VERSION of its plugin; empty for the default.
            unsafe: Also fixes that rest on something which is not proven: read them first with preview_fixes.
            select: Rules or families to apply, such as DEV,AMP101; empty for all.
            limit: Most places left for a person that are returned.
        """
        place = self._place(path)
        result = await self._run("migrate", place, target, *_choice(unsafe, select), "-f", "json", "-o", "{report}")
        report = _object(result)
        return FixAnswer(
            written=bool(report["changes"]),
            files=report["changes"],
            diff="",
            diff_left_out=0,
            remaining=[each for each in _places(report["findings"]) if each.grade != "note"][: max(0, limit)],
            told=_lines(result.told),
        )

    async def undo_fixes(self, path: str = ".") -> TextAnswer:
        """Restore every byte that the last apply_fixes changed; refuses where a file has changed since.

        Args:
            path: The folder that apply_fixes was given, or the file.
        """
        return _text(await self._command("undo", "--", str(self._place(path))))

    async def rehearse(
        self, command: list[str], path: str = ".", target: str = "", seconds: _Limit = 600
    ) -> RehearsalAnswer:
        """Run a program of the project on a simulated card: the code meets the plugin's API, operators and limits.

        The program runs with the user's rights; this is no sandbox.

        Args:
            command: The program and its arguments, such as ["python", "train.py", "--steps", "2"].
            path: Folder to run in.
            target: One of the server's targets, or NAME@VERSION of its plugin; empty for the default.
            seconds: After which it is ended.
        """
        place = self._place(path)
        if not place.is_dir():
            raise ToolError(say("{path} is not a folder", path=path).render(self._settings.lang))
        if not command:
            raise ToolError(say("name a command, such as python train.py").render(self._settings.lang))
        result = await self._command(
            "rehearse",
            *self._target(target, place),
            *("--strict", "--summary-file", "{report}", "--lang", self._settings.lang, "--"),
            *command,
            seconds=seconds,
            cwd=place,
        )
        if not result.report:
            raise ToolError(result.told.strip()[-2000:])
        summary = _object(result)
        return RehearsalAnswer(
            exit_code=result.exit_code,
            would_fail=summary["outcome"] == "would fail",
            outcome=summary["outcome"],
            summary=summary,
            output=f"{result.printed}\n{result.told}"[-20000:],
        )

    async def doctor(self, target: str = "") -> DoctorAnswer:
        """Examine this machine for a target's cards: driver, toolkit, libraries, container, plugin. Changes nothing.

        Args:
            target: One of the server's targets, or NAME@VERSION of its plugin; empty for the default.
        """
        result = await self._command("doctor", *self._target(target, None), "-f", "json", "--lang", self._settings.lang)
        report = parsed_json(result.printed)
        return DoctorAnswer(
            ok=report["ok"],
            counts=report["counts"],
            failures=[
                "; ".join([group["what"], group["cause"], *group["commands"]])
                for group in report["groups"]
                if group["status"] == "failure"
            ],
        )

    async def compare_records(self, reference: str, other: str) -> ComparisonAnswer:
        """Say where the numbers of two runs differ first, and why, from what `torchferry compare record` wrote.

        Args:
            reference: Folder of the reference's record.
            other: Folder of the other run's record.
        """
        places = [str(self._place(each)) for each in (reference, other)]
        result = await self._command(
            "compare", "diff", "-f", "json", "-o", "{report}", "--lang", self._settings.lang, "--", *places
        )
        return ComparisonAnswer(equal=result.exit_code == exitcodes.CLEAN, report=_object(result))

    async def explain_logs(self, paths: list[str], target: str = "", limit: int = 5) -> LogsAnswer:
        """Say what failed first in the logs of a run, on which rank and host, why, and what to do.

        Args:
            paths: Files or folders with the logs of one run.
            target: One of the server's targets; empty for all.
            limit: Most places in the logs that are returned of each message.
        """
        if not paths:
            raise ToolError(say("no logs are named").render(self._settings.lang))
        places = [str(self._place(each)) for each in paths]
        wanted = ["-t", _option_value(target)] if target else []
        result = await self._command(
            "explain", *wanted, "-f", "json", "-o", "{report}", "--lang", self._settings.lang, "--", *places
        )
        report = _object(result)
        for message in (report["first"] or {}, *report["causes"], *report["consequences"]):
            message.update(places=message.get("places", [])[: max(0, limit)])
        complete = bool(report["complete"])
        return LogsAnswer(failed=report["failed"], known=report["known"], complete=complete, report=report)

    def _place(self, text: str) -> Path:
        try:
            return self._settings.roots.place(text)
        except TorchferryError as error:
            raise ToolError(self._said(error)) from error

    def _said(self, error: TorchferryError) -> str:
        lang = self._settings.lang
        return "\n".join(text.render(lang) for text in (error.message, error.advice) if text is not None)

    def _target(self, target: str, place: Path | None) -> list[str]:
        """Return the option for a target: what the client names, what the server was started with, or the settings'."""
        named = target or self._settings.target
        if named:
            return ["-t", _option_value(named)]
        if place is None:
            raise ToolError(
                say("name a target: {names}", names=", ".join(registry.built_in())).render(self._settings.lang)
            )
        return []

    async def _run(self, name: str, place: Path, target: str, *arguments: str) -> CommandResult:
        return await self._command(
            name, *self._target(target, place), *arguments, "--lang", self._settings.lang, "--", str(place)
        )

    async def _command(self, *arguments: str, seconds: float = _SECONDS, cwd: Path | None = None) -> CommandResult:
        allowed = self._settings.roots.folders if self._settings.may_write else ()
        try:
            return await run(arguments, seconds, cwd=cwd, write_roots=allowed)
        except TorchferryError as error:
            raise ToolError(self._said(error)) from error


def _option_value(text: str) -> str:
    """Return what a client names as the value of an option, which it must not begin."""
    if text.startswith("-"):
        raise ToolError(f"{text} is no name")
    return text


def _choice(unsafe: bool, select: str) -> list[str]:
    chosen = ["--unsafe-fixes"] if unsafe else []
    return [*chosen, "--select", _option_value(select)] if select else chosen


def _object(result: CommandResult) -> dict[str, Any]:
    read: dict[str, Any] = parsed_json(result.report)
    return read


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()][-50:]


def _text(result: CommandResult) -> TextAnswer:
    return TextAnswer(text=(result.printed or result.told).strip(), exit_code=result.exit_code)


def _program(program: dict[str, Any]) -> ProgramVerdict:
    reasons = [f"{each['message']} [{' -> '.join(map(str, each['chain']))}]" for each in program["reasons"]]
    return ProgramVerdict(name=program["name"], verdict=program["verdict"], summary=program["summary"], reasons=reasons)


def _places(findings: list[dict[str, Any]]) -> list[FoundPlace]:
    """Return findings, what blocks first and notes last."""
    ordered = sorted(findings, key=lambda each: (not each["blocker"], _ORDER.get(each["grade"], 0)))
    return [
        FoundPlace(
            place=f"{each['path']}:{each['line']}:{each['column']}",
            code=each["code"],
            grade=each["grade"],
            blocks=each["blocker"],
            message=each["message"],
        )
        for each in ordered
    ]
