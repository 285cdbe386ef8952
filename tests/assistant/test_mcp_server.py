"""The server of the Model Context Protocol, asked by the SDK's own client in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.cli.process import torchferry
from tests.processes import STUBBORN, gone, started
from torchferry.assistant.guides import TASKS
from torchferry.assistant.tool_description import Permission
from torchferry.assistant.tool_table import TOOLS

pytestmark = pytest.mark.pure

EXAMPLE = Path(__file__).parents[2] / "examples" / "cuda-training"
READING = {tool.name for tool in TOOLS if tool.needs is Permission.READ} | {"job", "cancel_job"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "project"))


def ask(project: Path, *options: str, asked: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Start a server for a folder, and ask it."""

    async def session() -> None:
        arguments = ["-m", "torchferry", "mcp", "--root", str(project), "--lang", "en", *options]
        async with Client(
            stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ)))
        ) as client:
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
        assert "target" in tools["scan"].input_schema["properties"]

        found = await answer(client, "scan", part="findings", limit=3)
        assert found["left_out"]["findings"]["next_offset"] == 3
        assert [each["grade"] for each in found["findings"]] == ["manual"] * 3
        found = await answer(client, "scan")
        said = json.loads(torchferry("scan", project, "-t", "npu", "-f", "json").stdout)
        assert found["summary"] == said["summary"]
        assert [(each["name"], each["verdict"]) for each in found["programs"]] == [("train.py", "without")]
        assert "train.py:11 -> digits/model.py:7" in found["programs"][0]["reasons"][0]
        assert found["counts"] == {grade: count for grade, count in said["counts"].items() if count}
        assert set(found["count_meanings"]) == set(found["counts"])

        preview = await answer(client, "preview_fixes", limit=1)
        assert not preview["written"]
        assert preview["files"][0]["diff"].startswith("diff --git a/Dockerfile")
        assert (await answer(client, "preview_fixes", where=["path=train.py"]))["files"][0]["path"] == "train.py"
        assert "DEV101" in (await answer(client, "explain_rule", code="DEV101"))["text"]
        renamed = await answer(client, "explain_name", name="torch.cuda.nvtx.range_push", target="npu")
        assert "source:" in renamed["text"]
        assert not (await answer(client, "doctor", target="npu"))["ok"]
        assert "HCCL_CONNECT_TIMEOUT" in (await answer(client, "explain_name", name="EI0006"))["text"]
        explained = await answer(client, "explain_logs", paths=["logs"], limit=1)
        assert (explained["failed"], explained["known"]) == (True, True)
        assert explained["first"]["entry"] == "common/memory-elsewhere"
        assert explained["consequences"]

        for uri, words in (
            ("torchferry://rules", "DEV101"),
            ("torchferry://rules/DEV101", "names a CUDA device"),
            ("torchferry://targets", "npu"),
            ("torchferry://verdict", found["summary"][:20]),
        ):
            read = await client.read_resource(uri)
            assert words in getattr(read.contents[0], "text", "")
        assert (await answer(client, "job", job="resource-2"))["text"].startswith("DEV101")
        assert "--allow-run" in await refusal(client, "ops", command=["python", "train.py"])
        for uri in ("torchferry://nothing", "torchferry://rules/--help", "file:///etc/passwd", "torchferry://rules/"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        assert {task.name for task in (await client.list_prompts()).prompts} == {task.name for task in TASKS}
        prompt = await client.get_prompt("migrate_project", {"path": "{x}", "target": "npu"})
        assert "project in `{x}` to the target `npu`" in getattr(prompt.messages[0].content, "text", "")
        with pytest.raises(MCPError, match="migrate_project"):
            await client.get_prompt("migrate_project", {"path": "."})

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
        assert "unknown parameter `paths`" in await refusal(client, "scan", paths="absent")
        assert "is not a folder with a record" in await refusal(client, "compare_records", reference=".", other=".")
        assert "outside of the folders" in await refusal(client, "explain_logs", paths=["logs", "/etc/passwd"])
        assert "`paths` is empty" in await refusal(client, "explain_logs", paths=[])
        assert "--allow-write" in await refusal(client, "apply_fixes")
        assert "nown tool" in await refusal(client, "apply_nothing")

    ask(project, "-t", "npu", asked=asked)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_a_client_that_may_write_and_run(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*.py")}

    async def asked(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == READING | {tool.name for tool in TOOLS}
        hints = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in tools.items()}
        assert {name for name, is_reading in hints.items() if is_reading} == READING - {"ops"}
        assert "name a `target`" in await refusal(client, "doctor")
        for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"]):
            subprocess.run(["git", "-C", project, *words], check=True)
        (project / "train.py").write_bytes(before[project / "train.py"] + b"\n")
        before[project / "train.py"] += b"\n"
        assert (await refusal(client, "apply_fixes", target="npu")).endswith("or use `allow_dirty`")
        decided = {"decision": "pynvml", "choice": "accept", "by": "Ada", "target": "npu"}
        assert "Ada accepted one place" in (await answer(client, "decide", **decided))["text"]
        left = (await answer(client, "decisions", target="npu"))["decisions"]
        assert "pynvml" not in {each["id"] for each in left}
        assert "undid the decision" in (await answer(client, "undo_fixes"))["text"]
        shown = await answer(client, "show_decision", decision="pynvml", target="npu")
        assert "accept" in {each["name"] for each in shown["choices"]}
        done = await answer(client, "apply_fixes", target="npu", allow_dirty=True)
        assert done["written"]
        assert {path for path in before if path.read_bytes() != before[path]} == {
            project / name for name in done["changes"] if name.endswith(".py")
        }
        assert {each["code"] for each in done["remaining"]} == {"CNT101", "DEP101", "PRC102"}
        assert "5 files restored" in (await answer(client, "undo_fixes"))["text"]
        assert {path: path.read_bytes() for path in before} == before
        assert (await answer(client, "apply_fixes", path="train.py", target="npu", allow_dirty=True))["changes"] == [
            "train.py"
        ]
        assert "1 file restored" in (await answer(client, "undo_fixes", path="train.py"))["text"]
        assert {path: path.read_bytes() for path in before} == before

        run = await answer(client, "rehearse", command=["python", "-c", "print('from the program')"], target="npu")
        assert (run["would_fail"], run["outcome"], run["cause"]) == (0, "nothing ran", "")
        assert "NOTHING WAS REHEARSED" in run["verdict"]
        failed = await answer(client, "rehearse", command=["python", "-c", "import missing_module"], target="npu")
        assert failed["cause"] == "ModuleNotFoundError: No module named 'missing_module'"
        assert "from the program" in run["output"]
        failed = await answer(client, "run", command=["python", "-c", "raise ValueError('bad')"], target="npu")
        assert (failed["outcome"], failed["cause"]) == ("failed by itself", "ValueError: bad")
        slow = ["python", "-c", STUBBORN, str(project / "pid")]
        for seconds in (4, 20, 100):  # until the machine is fast enough to start it in that time
            said = await refusal(client, "rehearse", command=slow, target="npu", seconds=seconds)
            assert f"was ended after {seconds} s" in said
            if (project / "pid").exists():
                break
        assert [gone(int(each)) for each in (project / "pid").read_text().split()] == [True, True]
        assert "`command` is empty" in await refusal(client, "rehearse", command=[])
        assert "from 1 to" in await refusal(client, "rehearse", command=["true"], target="npu", seconds=-1)

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


COUNTS = """
import sys, time
for number in range(600):
    print("line", number, file=sys.stderr, flush=True)
    time.sleep(0.5)
"""


def test_a_long_job_is_told_about_polled_and_cancelled(project: Path) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(str(message))

    async def asked(client: Client) -> None:
        command = [sys.executable, "-c", COUNTS]
        begun = await client.call_tool("rehearse", {"command": command, "wait": 3}, progress_callback=hear)
        state = begun.structured_content
        assert state is not None
        assert (state["state"], state["job"]) == ("running", "rehearse-1")
        assert any(line.startswith("line ") for line in heard), heard
        slow = await client.call_tool("job", {"job": "rehearse-1", "wait": 0})
        assert slow.structured_content is not None
        assert slow.structured_content["line"].startswith("line ")
        two = await asyncio.gather(*(answer(client, "explain_rule", code="DEV101") for _ in range(6)))
        assert {each["state"] for each in two} == {"done"}
        assert (await answer(client, "cancel_job", job="rehearse-1"))["state"] == "cancelled"
        states = {each["job"]: each["state"] for each in (await answer(client, "job"))["jobs"]}
        assert states["rehearse-1"] == "cancelled"
        three = await asyncio.gather(*(answer(client, "scan", limit=each) for each in (1, 2, 3)))
        assert {each["job"] for each in three} == {"scan-1"}, "who asks the same waits for the same job"
        assert [len(each["findings"]) for each in three] == [1, 2, 3]
        assert "there is no job" in await refusal(client, "job", job="rehearse-9")
        again = await answer(client, "job", job=two[0]["job"])
        assert again["text"] == two[0]["text"]

    ask(project, "-t", "npu", "--allow-run", asked=asked)


def test_the_first_answer_on_a_large_project_is_small_and_says_nothing_twice(tmp_path: Path) -> None:
    for number in range(400):  # as many as the bound is about; each is short
        (tmp_path / f"m{number}.py").write_text("import torch\nx = torch.zeros(1).cuda()\ntorch.cuda.nvtx.mark('x')\n")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)

    async def asked(client: Client) -> None:
        result = await client.call_tool("scan", {})
        assert not result.is_error, result.content
        sizes = [len(getattr(each, "text", "").encode()) for each in result.content]
        sizes.append(len(json.dumps(result.structured_content, ensure_ascii=False).encode()))
        assert sum(sizes) <= 16_000
        assert sizes[0] < 200
        total = (await answer(client, "job", job="scan-1", part="findings", limit=1))["left_out"]["findings"]["total"]
        assert total >= 800
        last = await answer(client, "job", job="scan-1", part="findings", offset=total - 1)
        assert last["left_out"]["findings"] == {"total": total, "next_offset": None}
        small = await client.call_tool("job", {"job": "scan-1", "budget": 2000})
        assert len(json.dumps(small.structured_content).encode()) <= 2100
        assert "from 2000 to" in await refusal(client, "scan", budget=10)

    ask(link, "-t", "npu", asked=asked)


def test_answers_as_text_for_clients_that_show_no_other(project: Path) -> None:
    async def asked(client: Client) -> None:
        result = await client.call_tool("scan", {"limit": 2})
        assert not result.is_error, result.content
        assert result.structured_content is None
        assert json.loads(str(getattr(result.content[0], "text", "")))["state"] == "done"

    ask(project, "-t", "npu", "--answers", "text", asked=asked)
