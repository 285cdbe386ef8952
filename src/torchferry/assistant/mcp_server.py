"""torchferry as a server of the Model Context Protocol: what a coding agent may ask, and what it may not do.

Each tool runs a command as its own process: an answer is what the command line says, and a client that gives up
ends it. Tools that write files or start programs exist only where the user allows them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import MCPError, types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from torchferry import __version__
from torchferry.assistant.calls import (
    VIEWING,
    WAITING,
    Allowed,
    checked,
    document_of,
    parameters_of,
    prepared,
    refuse_forbidden,
    schema_of,
    text_of,
    view_of,
)
from torchferry.assistant.guides import GUIDES, TASKS, guide_at, words_of
from torchferry.assistant.jobs import LONGEST_WAIT, Job, Jobs, JobState
from torchferry.assistant.server_log import log_briefly
from torchferry.assistant.tool_description import ArgumentKind, Permission, ToolDescription, ToolParameter
from torchferry.assistant.tool_table import TOOLS
from torchferry.assistant.views import DocumentShape, shown
from torchferry.backends import registry
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.terminal import visible
from torchferry.rehearsal.aggregate import RehearsalOutcome

_JOB = ToolParameter("job", ArgumentKind.TEXT, "Name of the job; empty lists all jobs.", default="")
_POLL = (_JOB, *VIEWING, WAITING)
_CANCEL = (ToolParameter("job", ArgumentKind.TEXT, "Name of the job."),)

_ANNOTATIONS = {
    Permission.READ: types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    Permission.WRITE: types.ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
    Permission.RUN: types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
}

_ELSEWHERE = (
    "The answer is the structured content. If you see none, ask the user to start the server with `--answers text`."
)


async def serve(allowed: Allowed, in_text: bool = False) -> None:
    """Answer a client on standard input and output until it has gone; then all that runs for it ends.

    Args:
        allowed: What the user allows.
        in_text: Whether answers are texts, for clients that show no structured content to their models.
    """
    log_briefly("mcp")
    async with anyio.create_task_group() as group:
        server = AgentServer(allowed, Jobs(group), in_text).server()
        async with stdio_server() as (receiving, sending):
            await server.run(receiving, sending, server.create_initialization_options())
        group.cancel_scope.cancel()


class AgentServer:
    """What the server answers.

    Args:
        allowed: What the user allows.
        jobs: Where commands run.
        in_text: Whether answers are texts.
    """

    def __init__(self, allowed: Allowed, jobs: Jobs, in_text: bool) -> None:
        self._allowed = allowed
        self._jobs = jobs
        self._in_text = in_text
        self._tools = {tool.name: tool for tool in TOOLS if allowed.permits(tool.needs)}

    def server(self) -> Server[Any]:
        """Return the server of the SDK."""
        return Server(
            "torchferry",
            title="torchferry",
            version=__version__,
            instructions=_instructions(self._allowed),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._prompt,
        )

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [
            self._tool(tool.name, tool.text, parameters_of(tool, self._allowed), _needs(tool, self._allowed))
            for tool in self._tools.values()
        ]
        tools.append(
            self._tool(
                "job",
                "Ask for the result of a job that a tool has started, or how far it is. The answer of a job that is "
                "done can be asked for again, another part of it or from another offset.",
                list(_POLL),
                Permission.READ,
            )
        )
        tools.append(
            self._tool(
                "cancel_job",
                "End a job and all that it started; files that it was writing are as they were.",
                list(_CANCEL),
                Permission.READ,
            )
        )
        return types.ListToolsResult(tools=tools)

    def _tool(self, name: str, text: str, parameters: list[ToolParameter], needs: Permission) -> types.Tool:
        return types.Tool(
            name=name,
            description=text,
            input_schema=schema_of(parameters),
            output_schema=None if self._in_text else _answer_schema(name),
            annotations=_ANNOTATIONS[needs],
        )

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        report = context.session.report_progress
        try:
            answer = await self._answer(params.name, params.arguments or {}, report)
        except TorchferryError as error:
            return _failed(_lines(error))
        if isinstance(answer, str):
            return _failed(answer)
        if self._in_text:
            return types.CallToolResult(content=[_text(json.dumps(answer, ensure_ascii=False))])
        return types.CallToolResult(content=[_text(_ELSEWHERE)], structured_content=answer)

    async def _list_resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=each.address, name=each.title, description=each.text, mime_type=each.mime)
                for each in GUIDES
                if not each.has_name
            ]
        )

    async def _list_templates(self, context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=each.address, name=each.title, description=each.text, mime_type=each.mime
                )
                for each in GUIDES
                if each.has_name
            ]
        )

    async def _read_resource(self, context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            guide, name = guide_at(str(params.uri))
            words = words_of(guide, name, str(self._allowed.roots.folders[0]), self._allowed.target)
            job = self._jobs.start("resource", lambda job: text_of(words, job.output), ("resource", *words))
            await job.wait_or_end(LONGEST_WAIT, _in_silence)
        except TorchferryError as error:
            raise MCPError(types.INVALID_PARAMS, _lines(error)) from None
        if job.state is not JobState.DONE:
            raise MCPError(
                types.INTERNAL_ERROR, job.error or say("it takes long; ask again: {line}", line=job.line()).render()
            )
        text = job.document()["text"]
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type=guide.mime, text=text)]
        )

    async def _list_prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=task.name,
                    description=task.text,
                    arguments=[
                        types.PromptArgument(name=name, description=meaning, required=True)
                        for name, meaning in task.arguments.items()
                    ],
                )
                for task in TASKS
            ]
        )

    async def _prompt(self, context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        task = next((task for task in TASKS if task.name == params.name), None)
        given = params.arguments or {}
        if task is None or set(given) != set(task.arguments):
            known = ", ".join(f"{each.name}({', '.join(each.arguments)})" for each in TASKS)
            raise MCPError(
                types.INVALID_PARAMS, say("no prompt with these arguments; there are: {names}", names=known).render()
            )
        text = task.steps.format(**{name: visible(value) for name, value in given.items()})
        return types.GetPromptResult(
            description=task.text, messages=[types.PromptMessage(role="user", content=_text(text))]
        )

    async def _answer(
        self, name: str, arguments: dict[str, Any], report: Callable[..., Awaitable[None]]
    ) -> dict[str, Any] | str:
        """Return the answer to a call; as text, why its job failed."""
        if name == "job":
            return await self._poll(checked(arguments, list(_POLL), name), report)
        if name == "cancel_job":
            job = self._jobs.named(checked(arguments, list(_CANCEL), name)["job"])
            job.cancel()
            await job.wait(_TO_CANCEL, _in_silence)
            return _state(job)
        tool = self._tools.get(name)
        if tool is None:
            raise TorchferryError(*_unknown(name))
        refuse_forbidden(tool, arguments, self._allowed)
        values = checked(arguments, parameters_of(tool, self._allowed), name)
        call = prepared(tool, values, self._allowed)
        view = view_of(values)
        is_reading = _needs(tool, self._allowed) is Permission.READ
        question = (name, *call.words) if is_reading else ()
        job = self._jobs.start(name, lambda job: document_of(call, job.output), question)
        await job.wait_or_end(values["wait"], _told(report))
        return self._answer_of(job, tool.shape, view)

    async def _poll(self, values: dict[str, Any], report: Callable[..., Awaitable[None]]) -> dict[str, Any] | str:
        if not values["job"]:
            return {"jobs": [_state(job) for job in self._jobs.all()]}
        job = self._jobs.named(values["job"])
        await job.wait(values["wait"], _told(report))
        shape = self._tools[job.tool].shape if job.tool in self._tools else DocumentShape()  # that of a resource
        return self._answer_of(job, shape, view_of(values))

    def _answer_of(self, job: Job, shape: DocumentShape, view: Any) -> dict[str, Any] | str:
        if job.state is JobState.FAILED:
            return job.error
        if job.state is not JobState.DONE:
            job.is_known = True
            return _state(job)
        return {"job": job.name, "state": job.state.value, **shown(job.document(), shape, view)}


_TO_CANCEL = 10.0
"""Seconds in which a cancelled command has ended, with all that it started."""


def _needs(tool: ToolDescription, allowed: Allowed) -> Permission:
    """Return the most that a tool may do here: what it needs itself, or one of the parameters that it has."""
    needs = {tool.needs, *(each.needs for each in tool.parameters if allowed.permits(each.needs))}
    return next(each for each in (Permission.RUN, Permission.WRITE, Permission.READ) if each in needs)


def _state(job: Job) -> dict[str, Any]:
    """Return how far a job is, and what to do."""
    state: dict[str, Any] = {"job": job.name, "state": job.state.value, "seconds": job.seconds}
    if job.is_over:
        return state if not job.error else {**state, "error": job.error}
    return {**state, "line": job.line(), "next": f"call `job` with job={job.name}; `cancel_job` ends it"}


def _told(report: Callable[..., Awaitable[None]]) -> Callable[[float, str], Awaitable[None]]:
    """Return what tells the client of a line."""

    async def tell(seconds: float, line: str) -> None:
        await report(seconds, None, line)

    return tell


async def _in_silence(seconds: float, line: str) -> None:
    """Tell nobody."""


def _unknown(name: str) -> tuple[Any, Any]:
    """Return the message for a tool that is not there, and how it would be, or None."""
    permission = next((tool.needs.value for tool in TOOLS if tool.name == name), "")
    wrong = say("unknown tool `{name}`", name=name[:80])
    if not permission:
        return wrong, None
    return (
        say("the tool `{name}` is not allowed here", name=name),
        say("the user can start the server with {option}", option=permission),
    )


def _lines(error: TorchferryError) -> str:
    return "\n".join(text.render() for text in (error.message, error.advice) if text is not None)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(text)], is_error=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


_OUTCOMES = {
    RehearsalOutcome.WOULD_FAIL: "the run did something that fails on the card",
    RehearsalOutcome.GOES_ON: "the card refuses something that the program catches, and it goes on without",
    RehearsalOutcome.FAILED_ITSELF: "the program failed, and not for the card; `cause` says of what",
    RehearsalOutcome.NOT_REHEARSED: "it came to something that exists on the card and is not rehearsed",
    RehearsalOutcome.NOTHING_RAN: "nothing ran on the device: nothing was rehearsed; `cause` says why, if it failed",
    RehearsalOutcome.ON_CPU: "most of the work ran on the CPU",
    RehearsalOutcome.NOTHING_SEEN: "passed: nothing was seen that would fail on the card",
}


_WITH_OUTCOME = frozenset(tool.name for tool in TOOLS if tool.ends_with_program)


def _answer_schema(name: str) -> dict[str, Any]:
    """Return the schema of an answer: what all have, and the words of a rehearsal."""
    properties: dict[str, Any] = {
        "job": {"type": "string"},
        "state": {"enum": [state.value for state in JobState]},
    }
    if name in _WITH_OUTCOME:
        properties["outcome"] = {"enum": [outcome.value for outcome in _OUTCOMES]}
        properties["cause"] = {"type": "string", "description": "Why the program failed; empty where it did not"}
    if name == "rehearse":  # the others have the words of failures alone
        words = "; ".join(f"{each.value}: {meaning}" for each, meaning in _OUTCOMES.items())
        properties["outcome"]["description"] = words
    return {"type": "object", "properties": properties}


def _instructions(allowed: Allowed) -> str:
    """Say what the server is for, in English: a model reads it."""
    folders = ", ".join(map(str, allowed.roots.folders))
    targets = ", ".join(f"{name} ({registry.load(name).TITLE})" for name in registry.built_in())
    lines = [
        f"torchferry carries PyTorch projects written for CUDA to other accelerators. Targets: {targets}.",
        "Read torchferry://skill once: the order of the tools, what proves each gate, how to ask the user.",
        "Begin with scan. explain_rule explains the rule of a finding, explain_name says what replaces a CUDA name.",
        "Where a run failed, explain_logs says what failed first in its logs, and what only follows from it.",
        "A rehearsal runs a program on a simulated card. It proves that code is right for the API, "
        "never speed or accuracy.",
        "What is unknown or was not judged is not fine: say so to the user.",
        "A call that takes longer than `wait` seconds answers with state running and the name of its job: call job "
        "with this name until the state is done; cancel_job ends it.",
        "An answer is cut to `budget` bytes: left_out says which lists go on, and at which offset. `part` shows one "
        "list alone, `where` takes what meets all conditions (field=text: the field holds the text; or a text that any "
        "field holds), `group_by` counts by a field. why_empty says why a list is empty.",
        f"Paths must lie in: {folders}.",
    ]
    if not allowed.may_write:
        lines.append("Files are not written: the user can allow it by starting the server with --allow-write.")
    if not allowed.may_run:
        lines.append("No program is started: the user can allow it by starting the server with --allow-run.")
    return "\n".join(lines)
