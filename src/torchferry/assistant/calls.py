"""A call of a tool: its arguments checked, the words of the command, and the document of what the command reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchferry.assistant.commands import CommandOutput, CommandResult, run
from torchferry.assistant.jobs import LONGEST_WAIT, USUAL_WAIT
from torchferry.assistant.roots import Roots
from torchferry.assistant.tool_description import ArgumentKind, Permission, ReportForm, ToolDescription, ToolParameter
from torchferry.assistant.tool_table import TARGET, TOOLS
from torchferry.assistant.views import BUDGET, LARGEST_BUDGET, LEAST_BUDGET, DocumentView
from torchferry.backends import registry
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.json_text import parsed_json, whole_characters
from torchferry.core.messages import say
from torchferry.core.secrets import masked
from torchferry.core.terminal import visible
from torchferry.rehearsal.aggregate import RehearsalOutcome
from torchferry.source.tree import is_control_name

_SECONDS = 600
"""For a command, where the client gives it no other time."""

_MOST_SECONDS = 7 * 86400

_OUTPUT = 20_000
"""Characters of what a program printed that are kept."""

_NOTICES = 50
"""Lines of what a command said beside its report."""

VIEWING = (
    ToolParameter("part", ArgumentKind.TEXT, "List to show alone.", default=""),
    ToolParameter("where", ArgumentKind.TEXTS, "Conditions: field=text.", default=()),
    ToolParameter("group_by", ArgumentKind.TEXT, "Field to count by.", default=""),
    ToolParameter("offset", ArgumentKind.COUNT, "", default=0),
    ToolParameter("limit", ArgumentKind.COUNT, "", default=50),
    ToolParameter("budget", ArgumentKind.COUNT, "Bytes.", default=BUDGET, least=LEAST_BUDGET, most=LARGEST_BUDGET),
)
"""What every tool takes whose answer is a document; in few words, as each tool repeats them to a model: the
instructions of the server say more."""

WAITING = ToolParameter(
    "wait", ArgumentKind.COUNT, "Seconds to wait for the result.", default=USUAL_WAIT, most=LONGEST_WAIT
)
LIMIT = ToolParameter("seconds", ArgumentKind.COUNT, "Time limit.", default=_SECONDS, least=1, most=_MOST_SECONDS)


@dataclass(frozen=True)
class Allowed:
    """What the user allows.

    Attributes:
        roots: The folders that a client may name.
        target: Target that is meant where a client names none; empty for none.
        may_write: Whether files may be changed.
        may_run: Whether programs of the project may be started.
        lang: Language of the answers.
    """

    roots: Roots
    target: str = ""
    may_write: bool = False
    may_run: bool = False
    lang: str = "en"

    def permits(self, permission: Permission) -> bool:
        """Whether the user gave leave."""
        return {Permission.READ: True, Permission.WRITE: self.may_write, Permission.RUN: self.may_run}[permission]


def parameters_of(tool: ToolDescription, allowed: Allowed) -> list[ToolParameter]:
    """Return what a tool takes, where the user allows it."""
    own = [each for each in tool.parameters if allowed.permits(each.needs)]
    views = () if tool.report is ReportForm.TEXT else VIEWING
    return [*own, *views, WAITING, LIMIT]


def refuse_forbidden(tool: ToolDescription, given: Mapping[str, Any], allowed: Allowed) -> None:
    """Refuse parameters that the tool has only where the user allows more.

    Raises:
        UsageError: one of them is given.
    """
    for each in tool.parameters:
        if each.name in given and not allowed.permits(each.needs):
            raise UsageError(
                say("the parameter `{name}` is not allowed here", name=each.name),
                say("the user can start the server with {option}", option=each.needs.value),
            )


def schema_of(parameters: list[ToolParameter]) -> dict[str, Any]:
    """Return the JSON schema of arguments."""
    return {
        "type": "object",
        "properties": {each.name: _schema(each) for each in parameters},
        "required": [each.name for each in parameters if each.default is None],
        "additionalProperties": False,
    }


def _schema(parameter: ToolParameter) -> dict[str, Any]:
    kind, words = parameter.kind, parameter.text
    schema: dict[str, Any] = {"type": "string"}
    if kind in _LISTS:
        schema = {"type": "array", "items": {"type": "string"}}
    elif kind is ArgumentKind.FLAG:
        schema = {"type": "boolean"}
    elif kind is ArgumentKind.COUNT:
        schema = {"type": "integer"}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.default is not None:
        schema["default"] = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
    return {"description": words, **schema} if words else schema


_LISTS = (ArgumentKind.TEXTS, ArgumentKind.PLACES, ArgumentKind.COMMAND)

_TYPES: Mapping[ArgumentKind, tuple[type, str]] = {
    ArgumentKind.FLAG: (bool, "true or false"),
    ArgumentKind.COUNT: (int, "a whole number"),
    **dict.fromkeys(_LISTS, (list, "a list of texts")),
}


def checked(given: Mapping[str, Any], parameters: list[ToolParameter], tool: str) -> dict[str, Any]:
    """Return the arguments of a call, with the defaults of those that are left out.

    A name that is none of the parameters is refused: a client that writes `paths` for `path` would get the answer to
    another question.

    Raises:
        UsageError: a name is unknown, one is missing, or a value is not what it has to be.
    """
    known = {each.name: each for each in parameters}
    for name in given:
        if name not in known:
            # translators: the kind of a name that is unknown, as in "unknown parameter of scan `x`"
            error = unknown_name("parameter", name[:80], known)
            raise UsageError(say("{error}: {tool} has no such parameter", error=error.message, tool=tool), error.advice)
    return {name: _checked(given[name], each) if name in given else _default(each) for name, each in known.items()}


def _default(parameter: ToolParameter) -> Any:
    if parameter.default is None:
        raise UsageError(say("`{name}` is missing: {text}", name=parameter.name, text=parameter.text))
    return parameter.default


def _checked(value: Any, parameter: ToolParameter) -> Any:
    name = parameter.name
    wanted, words = _TYPES.get(parameter.kind, (str, "a text"))
    is_type = isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))
    if not is_type or (wanted is list and not all(isinstance(each, str) for each in value)):
        raise UsageError(say("`{name}` has to be {what}", name=name, what=words))
    if parameter.kind is ArgumentKind.COUNT and not parameter.least <= value <= parameter.most:
        raise UsageError(
            say(
                "`{name}` has to be from {least} to {most}; it is {value}",
                name=name,
                least=parameter.least,
                most=parameter.most,
                value=value if abs(value) < 1 << 63 else "...",
            )
        )
    if parameter.choices and value not in parameter.choices:
        # translators: the kind of a name that is unknown
        raise unknown_name(name, value[:80], parameter.choices)
    if parameter.default is None and wanted in (list, str) and not "".join(value).strip():
        raise UsageError(say("`{name}` is empty: {text}", name=name, text=parameter.text))
    return tuple(value) if wanted is list else value


def view_of(values: Mapping[str, Any]) -> DocumentView:
    """Return what of the document a call asks for."""
    return DocumentView(**{each.name: values[each.name] for each in VIEWING if each.name in values})


@dataclass(frozen=True)
class ToolCall:
    """A call that is ready to run.

    Attributes:
        tool: The tool.
        words: What follows `torchferry`.
        folder: The folder to run in; None for an empty one.
        seconds: After which the command is ended.
        writable: What the command may change.
    """

    tool: ToolDescription
    words: tuple[str, ...]
    folder: Path | None
    seconds: float
    writable: tuple[Path, ...]


def prepared(tool: ToolDescription, values: Mapping[str, Any], allowed: Allowed) -> ToolCall:
    """Return the call of a tool with arguments that `checked` returned.

    Raises:
        TorchferryError: a path leads out of the folders, or something named is none.
    """
    options: list[str] = []
    alone: list[str] = []
    folder: Path | None = None
    writable: list[Path] = list(allowed.roots.folders) if _writes(tool, allowed) else []
    for each in tool.parameters:
        if each is TARGET or each.name not in values:
            continue
        value = values[each.name]
        if each.kind is ArgumentKind.PLACE and value:
            value = str(allowed.roots.place(value))
        elif each.kind is ArgumentKind.PLACES:
            value = [str(allowed.roots.place(place)) for place in value]
        elif each.kind is ArgumentKind.NEW_PLACE and value:
            place = allowed.roots.new_place(value)
            if any(map(is_control_name, Path(value).parts)):
                raise UsageError(say("`{name}`: nothing is written into {path}", name=each.name, path=value[:200]))
            writable.append(place)
            value = str(place)
        if each.is_folder_to_run_in:
            folder = Path(value)
            if not folder.is_dir():
                raise UsageError(say("{path} is not a folder", path=values[each.name]))
        elif each.option:
            options += _option(each, value)
        else:
            alone += value if isinstance(value, (list, tuple)) else [value] if value else []
    options += _target_option(tool, values.get("target", ""), folder, alone, allowed)
    words = (*tool.command, *options, *tool.fixed, *tool.report.value, *_language(tool, allowed.lang), "--", *alone)
    return ToolCall(tool, words, folder, values["seconds"], tuple(writable))


def _writes(tool: ToolDescription, allowed: Allowed) -> bool:
    """Whether a command may change files anywhere below the folders; what it is told to write, it may in any case."""
    return tool.needs is Permission.WRITE or (tool.needs is Permission.RUN and allowed.may_write)


def _option(parameter: ToolParameter, value: Any) -> list[str]:
    if value == parameter.default or value in ("", (), 0, False):
        return []
    if parameter.kind is ArgumentKind.FLAG:
        return [parameter.option]
    values = value if isinstance(value, tuple) else (value,)
    return [f"{parameter.option}={_named(str(each), parameter.name)}" for each in values]


def _named(text: str, name: str) -> str:
    """Return a name that a client gives, which must not begin as an option does."""
    if text.startswith("-"):
        raise UsageError(say("`{name}`: {text} is no name", name=name, text=text[:80]))
    return text


def _target_option(
    tool: ToolDescription, named: str, folder: Path | None, alone: list[str], allowed: Allowed
) -> list[str]:
    """Return the option for a target: what the client names, what the server was started with, or the settings'."""
    if not tool.has_target:
        return []
    target = named or ("" if tool.may_lack_target else allowed.target)
    if target:
        return ["-t", _named(target, "target")]
    if folder is None and not alone and not tool.may_lack_target:
        raise UsageError(say("name a `target`: {names}", names=", ".join(registry.built_in())))
    return []


def _language(tool: ToolDescription, lang: str) -> tuple[str, ...]:
    return () if tool.command[:2] in _WITHOUT_LANGUAGE else ("--lang", lang)


_WITHOUT_LANGUAGE = (("ops", "trace"), ("ops", "predict"), ("run",))
"""Commands that say nothing themselves."""


async def document_of(call: ToolCall, output: CommandOutput) -> dict[str, Any]:
    """Run a call, and return what came of it.

    Raises:
        TorchferryError: the command could not do its work, or took too long.
    """
    try:
        result = await run(call.words, call.seconds, cwd=call.folder, write_roots=call.writable, output=output)
    except TorchferryError as error:
        texts = [each.render().removeprefix(_OURS) for each in (error.message, error.advice) if each is not None]
        parts = [in_parameters(text, call.tool) for text in texts]
        raise TorchferryError(*(say("{text}", text=part) for part in parts if part)) from None
    return _document(call.tool, result)


async def text_of(words: Sequence[str], output: CommandOutput) -> dict[str, Any]:
    """Run a command that only reads, and return what it wrote or printed.

    Raises:
        TorchferryError: the command could not do its work, or took too long.
    """
    result = await run(words, _SECONDS, output=output)
    return {"text": whole_characters(result.report or result.printed)}


def _document(tool: ToolDescription, result: CommandResult) -> dict[str, Any]:
    notices = [in_parameters(line, tool) for line in result.told.splitlines() if line.strip()]
    notices = [visible(line) for line in notices if line][-_NOTICES:]
    report = tool.report
    if report is ReportForm.TEXT and not tool.ends_with_program:
        printed = result.printed if tool.needs is Permission.READ else in_parameters(result.printed, tool)
        text = "\n".join(part.strip() for part in (printed, "\n".join(notices)) if part.strip())
        return {"exit_code": result.exit_code, "text": visible_lines(text)}
    if report is ReportForm.PATCH:
        return {"written": False, "files": _diffs(result.report), "notices": notices}
    text = result.printed if report is ReportForm.PRINTED else result.report
    if report is ReportForm.TEXT:
        text = json.dumps({"exit_code": result.exit_code})
    if not text.strip():
        said = in_parameters(result.told.strip()[-2000:].rpartition(_OURS)[2], tool)
        raise TorchferryError(
            say("the command ended with exit code {code} and no report: {text}", code=result.exit_code, text=said)
        )
    read = parsed_json(text, parse_constant=str)
    document: dict[str, Any] = read if isinstance(read, dict) else {"items": read}
    if isinstance(document.get("remarks"), list):
        document["remarks"] = [in_parameters(str(each), tool) for each in document["remarks"]]
    make = _DOCUMENTS.get(tool.name)
    if make is not None:
        document = make(document)
    if tool.ends_with_program:
        printed = masked(f"{result.printed}\n{result.told}".strip()[-_OUTPUT:])
        document = {**_end(tool, document, result), **document, "output": visible_lines(printed)}
    elif notices:
        document["notices"] = notices
    return document


def visible_lines(text: str) -> str:
    """Return a text of several lines without what a terminal would obey."""
    return "\n".join(visible(line) for line in whole_characters(text).split("\n"))


_OURS = "torchferry: "
"""What a line begins with that a command of ours says."""

_NAMED_PLACE = ("code", "grade", "blocker", "message")


def _scanned(document: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a scan: findings in few words, what blocks first, and counts that say what they count."""
    ordered = sorted(document["findings"], key=lambda each: (not each["blocker"], _ORDER.get(each["grade"], 0)))
    counts = document.get("counts", {})
    return {
        **document,
        "programs": [_program(each) for each in document["programs"]],
        "counts": {grade: counts[grade] for grade in GRADES if counts.get(grade)},
        "count_meanings": {grade: meaning for grade, meaning in GRADES.items() if counts.get(grade)},
        "findings": [
            {"place": f"{each['path']}:{each['line']}:{each['column']}", **{name: each[name] for name in _NAMED_PLACE}}
            for each in ordered
        ],
    }


def _program(program: dict[str, Any]) -> dict[str, Any]:
    """Return a program with how it is started, and what keeps it from running, each with the places that lead to it."""
    reasons = [f"{each['message']} [{' -> '.join(map(str, each['chain']))}]" for each in program["reasons"]]
    names = ("name", "verdict", "summary", "fixes", "decisions")
    short = {name: program[name] for name in names if program.get(name)}
    return {**short, "reasons": reasons, "starts": [each["command"] for each in program.get("starts", [])]}


def _migrated(document: dict[str, Any]) -> dict[str, Any]:
    scanned = _scanned(document)
    remaining = [each for each in scanned.pop("findings") if each["grade"] != "note"]
    return {"written": bool(document["changes"]), **scanned, "remaining": remaining}


GRADES = {
    "safe": "places that apply_fixes changes by itself",
    "unsafe": "places whose fix rests on something unproven: only with unsafe=true, and to be read first",
    "manual": "places that a person decides; places with one question are one decision",
    "note": "places that stay as they are on purpose, with the reason; nothing is to be done",
}
"""What the counts of a scan count."""

_ORDER = {"manual": 1, "unsafe": 2, "safe": 3, "note": 4}

_DOCUMENTS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "scan": _scanned,
    "apply_fixes": _migrated,
    "decisions": _scanned,
}


def _diffs(patch: str) -> list[dict[str, Any]]:
    """Return the parts of a patch, one for each file."""
    files = []
    for part in re.split(r"(?m)^(?=diff --git )", patch):
        if not part:
            continue
        lines = part.split("\n")
        name = lines[0].rpartition(" b/")[2].strip('"')
        body = [line for line in lines[1:] if not line.startswith(("+++", "---"))]
        files.append(
            {
                "path": name,
                "added": sum(line.startswith("+") for line in body),
                "removed": sum(line.startswith("-") for line in body),
                "diff": part,
            }
        )
    return files


def _end(tool: ToolDescription, document: Mapping[str, Any], result: CommandResult) -> dict[str, str]:
    """Return why a program ended badly, in the words of a rehearsal where it did, with the cause; empty for none.

    The cause is its first error, or the last line that it printed as it did.
    """
    code = document.get("exit_code", result.exit_code)
    if code == exitcodes.CLEAN:
        return {"cause": ""}
    errors = document.get("errors")
    lines = [line for line in result.told.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith((_OURS, " "))]
    outcome = RehearsalOutcome.FAILED_ITSELF
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        first = errors[0]
        place = f" ({first['file']}:{first['line']})" if first.get("file") else ""
        cause = masked(f"{first.get('name', '')}: {first.get('text', '')}{place}")
    elif own:
        cause = visible(masked(own[-1]))
    elif lines and tool.report is not ReportForm.SUMMARY:  # a summary says it in its verdict
        cause = visible(in_parameters(lines[0].removeprefix(_OURS), tool))
        outcome = RehearsalOutcome.NOTHING_RAN
    else:
        cause = say("the program ended with exit code {code} and printed no error", code=code).render()
    return {"outcome": outcome.value, "cause": cause}


_OPTION = re.compile(
    r"(?P<tick>`?)(?<![\w-])(?P<option>--[a-z][a-z-]+\b|-[tfo]\b|--(?=[\s`]))(?:[ =](?P<value>[^\s`]+)(?=`))?(?P=tick)"
)
_COMMANDS = re.compile(r"`torchferry ([a-z][^`]*)`")


def in_parameters(text: str, tool: ToolDescription) -> str:
    """Return a message of a command in the words of a tool: its parameters, and other tools.

    What speaks of an option that the tool does not have is left out: nobody could follow it.
    """
    text = _COMMANDS.sub(lambda match: _as_tool(match, tool), text)
    if not _OPTION.search(text):
        return text
    names = {each.option: each.name for each in tool.parameters if each.option} | {"--target": "target"}
    clauses = re.split(r"(; |, or |(?<=[.?!]) |\n|[，；。])", text)
    said: list[str] = []
    for number in range(0, len(clauses), 2):
        options = [match["option"] for match in _OPTION.finditer(clauses[number])]
        if all(option in names for option in options):
            said += clauses[max(0, number - 1) : number] if said else []
            said.append(_OPTION.sub(lambda match: _as_parameter(match, names), clauses[number]))
    return "".join(said).strip()


def _as_parameter(match: re.Match[str], names: Mapping[str, str]) -> str:
    value = f"={match['value']}" if match["value"] else ""
    return f"`{names[match['option']]}{value}`"


def _as_tool(match: re.Match[str], tool: ToolDescription) -> str:
    words = tuple(match[1].split())
    fitting = [each.name for each in (tool, *TOOLS) if words[: len(each.command)] == each.command]
    return f"`{fitting[0]}`" if fitting else match[0]
