"""The server of the Model Context Protocol, asked by the SDK's own client in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.cli.process import torchferry
from tests.processes import STUBBORN, gone, started

pytestmark = pytest.mark.pure

EXAMPLE = Path(__file__).parents[2] / "examples" / "cuda-training"
READING = {"scan", "explain_rule", "explain_name", "preview_fixes", "doctor", "compare_records", "explain_logs"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "project"))


def ask(project: Path, *options: str, asked: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Start a server for a folder, and ask it."""

    async def session() -> None:
        arguments = ["-m", "torchferry", "mcp", "--root", str(project), "--lang", "en", *options]
        async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=arguments))) as client:
            await asked(client)

    asyncio.run(session())


async def answer(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return str(getattr(result.content[0], "text", ""))


def test_a_server_that_is_killed_leaves_no_program_behind(tmp_path: Path) -> None:
    server = f"""
import anyio, sys
from torchferry.assistant.commands import run
command = ("rehearse", "-t", "npu", "--", sys.executable, "-c", {STUBBORN!r}, sys.argv[1])
anyio.run(run, command, 300.0)
"""
    process = subprocess.Popen([sys.executable, "-c", server, str(tmp_path / "pids")])
    programs = started(tmp_path / "pids", process)
    process.kill()
    process.wait()
    assert [gone(program) for program in programs] == [True, True]


def test_a_client_that_may_only_read(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text('x.to("cuda")\n')
    (project / "link.py").symlink_to(tmp_path / "outside.py")
    shutil.copytree(EXAMPLE.parent / "failed-job", project / "logs")
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}

    async def asked(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools.values())
        assert "target:" in str(tools["scan"].description)

        found = await answer(client, "scan", limit=3)
        said = json.loads(torchferry("scan", project, "-t", "npu", "-f", "json").stdout)
        assert found["summary"] == said["summary"]
        assert [(each["name"], each["verdict"]) for each in found["programs"]] == [("train.py", "without")]
        assert "train.py:11 -> digits/model.py:7" in found["programs"][0]["reasons"][0]
        assert [each["grade"] for each in found["findings"]] == ["manual"] * 3
        assert found["findings_left_out"] == len(said["findings"]) - 3

        preview = await answer(client, "preview_fixes", limit=100)
        assert not preview["written"]
        assert "train.py" in preview["files"]
        assert preview["diff"].startswith("diff --git a/Dockerfile")
        assert len(preview["diff"]) == 100
        assert preview["diff_left_out"] > 0
        assert "DEV101" in (await answer(client, "explain_rule", code="DEV101"))["text"]
        renamed = await answer(client, "explain_name", name="torch.cuda.nvtx.range_push", target="npu")
        assert "source:" in renamed["text"]
        assert not (await answer(client, "doctor", target="npu"))["ok"]
        assert "HCCL_CONNECT_TIMEOUT" in (await answer(client, "explain_name", name="EI0006"))["text"]
        explained = await answer(client, "explain_logs", paths=["logs"], limit=1)
        assert (explained["failed"], explained["known"]) == (True, True)
        assert explained["report"]["first"]["entry"] == "common/memory-elsewhere"
        assert {len(each["places"]) for each in explained["report"]["consequences"]} == {1}

        for path in ("/etc", "..", "../outside.py", "link.py"):
            assert "outside of the folders" in await refusal(client, "scan", path=path)
        assert "does not exist" in await refusal(client, "scan", path="absent")
        assert "unknown target `nppu`" in await refusal(client, "scan", target="nppu")
        assert "is no name" in await refusal(client, "scan", target="--config=/etc/passwd")
        assert "null character" in await refusal(client, "preview_fixes", select="DEV\0")
        assert "at most: 65536" in await refusal(client, "explain_name", name="x" * 3_000_000)
        assert "did you mean `EXT101`" in await refusal(client, "explain_rule", code="DEX101")
        for tool, given in tools.items():  # a client that writes `paths` for `path` would be told of another folder
            assert given.input_schema["additionalProperties"] is False, tool
        assert re.search(r"\bpaths\b.*not permitted", await refusal(client, "scan", paths="absent"), re.DOTALL)
        assert "is not a folder with a record" in await refusal(client, "compare_records", reference=".", other=".")
        assert "outside of the folders" in await refusal(client, "explain_logs", paths=["logs", "/etc/passwd"])
        assert "no logs are named" in await refusal(client, "explain_logs", paths=[])
        assert "nown tool" in await refusal(client, "apply_fixes")

    ask(project, "-t", "npu", asked=asked)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_a_client_that_may_write_and_run(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*.py")}

    async def asked(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING | {"apply_fixes", "undo_fixes", "rehearse"}
        assert "name a target" in await refusal(client, "doctor")
        done = await answer(client, "apply_fixes", target="npu")
        assert done["written"]
        assert {path for path in before if path.read_bytes() != before[path]} == {
            project / name for name in done["files"] if name.endswith(".py")
        }
        assert {each["code"] for each in done["remaining"]} == {"CNT101", "DEP101", "PRC102"}
        assert "5 files restored" in (await answer(client, "undo_fixes"))["text"]
        assert {path: path.read_bytes() for path in before} == before
        assert (await answer(client, "apply_fixes", path="train.py", target="npu"))["files"] == ["train.py"]
        assert "1 file restored" in (await answer(client, "undo_fixes", path="train.py"))["text"]
        assert {path: path.read_bytes() for path in before} == before

        run = await answer(client, "rehearse", command=["python", "-c", "print('from the program')"], target="npu")
        assert (run["would_fail"], run["outcome"]) == (False, "nothing ran")
        assert "NOTHING WAS REHEARSED" in run["summary"]["verdict"]
        assert "from the program" in run["output"]
        slow = ["python", "-c", STUBBORN, str(project / "pid")]
        for seconds in (4, 20, 100):  # until the machine is fast enough to start it in that time
            said = await refusal(client, "rehearse", command=slow, target="npu", seconds=seconds)
            assert f"was ended after {seconds} s" in said
            if (project / "pid").exists():
                break
        assert [gone(int(each)) for each in (project / "pid").read_text().split()] == [True, True]
        assert "name a command" in await refusal(client, "rehearse", command=[])
        assert "greater than 0" in await refusal(client, "rehearse", command=["true"], target="npu", seconds=-1)

    ask(project, "--allow-write", "--allow-run", asked=asked)


def test_no_effect_of_a_tool_leaves_the_roots(project: Path, tmp_path: Path) -> None:
    """The folder is part of a repository that was migrated as a whole: its journal lies above the root."""
    (tmp_path / "above.py").write_text('x.to("cuda")\n')
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert torchferry("migrate", tmp_path, "-t", "npu").returncode in (0, 1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    async def asked(client: Client) -> None:
        for path in (".", "digits", "train.py"):
            assert "outside of what this request may change" in await refusal(client, "undo_fixes", path=path)

    ask(project, "--allow-write", asked=asked)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
