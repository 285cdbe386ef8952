"""Arguments of a call, and messages of commands in the words of a tool."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio

from torchferry.assistant.calls import Allowed, checked, in_parameters, parameters_of, prepared, schema_of
from torchferry.assistant.commands import CommandOutput, run
from torchferry.assistant.roots import Roots
from torchferry.assistant.tool_description import ArgumentKind, ToolDescription
from torchferry.assistant.tool_table import TOOLS
from torchferry.cli import cli
from torchferry.core.errors import TorchferryError, UsageError

pytestmark = pytest.mark.pure


def tool(name: str) -> ToolDescription:
    return next(each for each in TOOLS if each.name == name)


def everything(folder: Path) -> Allowed:
    return Allowed(Roots([folder]), "npu", may_write=True, may_run=True)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("apply_fixes", "commit or stash them, or use --allow-dirty", "commit or stash them, or use `allow_dirty`"),
        ("preview_fixes", "commit or stash them, or use --allow-dirty", "commit or stash them"),
        ("scan", "Assumes 2.14 (`-t npu@VERSION`).", "Assumes 2.14 (`target=npu@VERSION`)."),
        ("rehearse", "set it; use --fallback to run it on the CPU", "set it"),
        ("undo_fixes", "run `torchferry migrate . -t npu` first", "run `preview_fixes` first"),
        ("apply_fixes", "`torchferry migrate --unsafe-fixes` makes them", "`apply_fixes` makes them"),
        ("rehearse", "not found\nwrite it behind `--`, such as -- python x.py", "not found"),
        ("preview_fixes", "请提交它们，或使用 --allow-dirty", "请提交它们"),
        ("apply_fixes", "请提交它们，或使用 --allow-dirty", "请提交它们，或使用 `allow_dirty`"),
        ("scan", "no such thing as low-level or x-t", "no such thing as low-level or x-t"),
    ],
)
def test_a_message_speaks_of_parameters_that_the_tool_has(name: str, text: str, said: str) -> None:
    assert in_parameters(text, tool(name)) == said


@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_the_command_of_a_tool_has_its_options(each: ToolDescription) -> None:
    command: Any = cli
    context = command.make_context("torchferry", ["--help"], resilient_parsing=True)
    for word in each.command:
        command = command.get_command(context, word)
    options = {option for parameter in command.params for option in parameter.opts}
    wanted = {parameter.option for parameter in each.parameters if parameter.option}
    wanted |= {word for word in (*each.fixed, *each.report.value) if word.startswith("-")}
    assert wanted <= options
    assert ("-t" in options) >= each.has_target
    alone = [parameter for parameter in each.parameters if not parameter.option and not parameter.is_folder_to_run_in]
    assert len(alone) - (each.name == "ops") == sum(
        parameter.param_type_name == "argument" for parameter in command.params
    )


SAMPLES: dict[ArgumentKind, Any] = {
    ArgumentKind.TEXT: "abc",
    ArgumentKind.TEXTS: ["abc"],
    ArgumentKind.FLAG: True,
    ArgumentKind.COUNT: 3,
    ArgumentKind.PLACE: "a.py",
    ArgumentKind.PLACES: ["a.py"],
    ArgumentKind.NEW_PLACE: "new",
    ArgumentKind.COMMAND: ["python", "--version"],
}


@pytest.mark.parametrize("each", TOOLS, ids=lambda each: each.name)
def test_arguments_are_of_their_kind_and_never_become_options(each: ToolDescription, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    allowed = everything(tmp_path)
    parameters = parameters_of(each, allowed)
    assert schema_of(parameters)["additionalProperties"] is False
    sample = {
        given.name: "." if given.is_folder_to_run_in else given.choices[0] if given.choices else SAMPLES[given.kind]
        for given in each.parameters
    }
    words = prepared(each, checked(sample, parameters, each.name), allowed).words
    assert words[: len(each.command)] == each.command
    for given in each.parameters:
        with pytest.raises(UsageError, match=given.name):
            checked({**sample, given.name: {}}, parameters, each.name)
        if given.kind is ArgumentKind.TEXT and given.option and not given.choices:
            with pytest.raises(UsageError, match="is no name"):
                prepared(each, checked({**sample, given.name: "--out=/tmp"}, parameters, each.name), allowed)
        if given.kind in (ArgumentKind.PLACE, ArgumentKind.NEW_PLACE):
            control = [".git/x", "a/.torchferry"] if given.kind is ArgumentKind.NEW_PLACE else []
            for place in ("..", "/etc", "a\0b", *control):
                with pytest.raises(TorchferryError):
                    prepared(each, checked({**sample, given.name: place}, parameters, each.name), allowed)


def test_a_command_that_the_system_ends_is_said_to_be() -> None:
    """As when memory runs out: there is no report, and nothing was printed."""

    async def killed() -> None:
        output = CommandOutput()

        async def kill() -> None:
            while output.progress is None or not (children := of_this_process()):
                await anyio.sleep(0.01)
            os.kill(children[0], signal.SIGKILL)

        async with anyio.create_task_group() as group:
            group.start_soon(kill)
            with pytest.raises(TorchferryError, match="ended by signal 9"):
                await run(("explain", "/dev/zero"), 60.0, output=output)

    def of_this_process() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if b"explain" in words and parent == os.getpid():
                        found.append(int(entry.name))
        return found

    anyio.run(killed)
