"""Clients that vanish, cancel or write nonsense: the tree is whole, and no process is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("pygls")

from tests.processes import HANGS, STUBBORN, gone, started

pytestmark = pytest.mark.pure

FILES = 60
BEFORE = b"import torch\n\nx = torch.zeros(1).cuda()\n"
AFTER = b"import torch\n\nx = torch.zeros(1).npu()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for number in range(FILES):
        (root / f"m{number}.py").write_bytes(BEFORE)
    return root


class Client:
    """A client that speaks the protocol by hand, so that it can break it."""

    def __init__(self, *command: str, framed: bool = False, cwd: Path | None = None) -> None:
        self.framed = framed
        self.server = subprocess.Popen(
            [sys.executable, "-m", "torchferry", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
        )
        self.output = b""
        self.told = b""
        self.readers = [threading.Thread(target=read) for read in (self._read, self._read_errors)]
        for reader in self.readers:
            reader.start()

    def _read(self) -> None:
        assert self.server.stdout is not None
        while data := os.read(self.server.stdout.fileno(), 1 << 16):
            self.output += data

    def _read_errors(self) -> None:
        assert self.server.stderr is not None
        self.told = self.server.stderr.read()

    def write(self, data: bytes) -> None:
        assert self.server.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended at the nonsense before this
            self.server.stdin.write(data)
            self.server.stdin.flush()

    def send(self, **message: Any) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data) if self.framed else data + b"\n")

    def greet(self) -> None:
        who = {"name": "test", "version": "1"}
        parameters: dict[str, Any] = {"capabilities": {}, "processId": None, "rootUri": None}
        if not self.framed:
            parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        self.send(id=0, method="initialize", params=parameters)
        self.wait(b'"id":0', b'"id": 0')
        self.send(method="initialized" if self.framed else "notifications/initialized", params={})

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        self.send(id=number, method="tools/call", params={"name": tool, "arguments": arguments})

    @property
    def lines(self) -> list[bytes]:
        return self.output.splitlines()

    def wait(self, *marks: bytes) -> None:
        """Wait until the end of the output holds one of the marks, or the server has ended."""
        end = time.monotonic() + HANGS
        while self.server.poll() is None and time.monotonic() < end:
            if any(mark in self.output[-50_000:] for mark in marks):
                return
            time.sleep(0.02)

    def vanish(self) -> None:
        """Close the pipes, as the system does for a client that is killed."""
        assert self.server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.server.stdin.close()

    def ended(self) -> int:
        try:
            return self.server.wait(timeout=HANGS)
        finally:
            self.server.kill()
            self.server.wait()
            for reader in self.readers:
                reader.join()


def of_project(project: Path) -> list[str]:
    """Return the processes that speak of a project in their command lines; its path holds the word pytest."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(project) in words and "-m pytest" not in words:
                found.append(words)
    return found


def all_gone(project: Path) -> bool:
    end = time.monotonic() + HANGS
    while of_project(project) and time.monotonic() < end:
        time.sleep(0.05)
    return of_project(project) == []


def begun(project: Path) -> Iterator[float]:
    """Yield moments until a command on the project has begun to write."""
    end = time.monotonic() + HANGS
    while not (project / ".torchferry").exists() and time.monotonic() < end:
        yield 0.002
        time.sleep(0.002)


WAYS = ["pipes closed", "killed", "cancelled", "killed with the server"]


@pytest.mark.parametrize("tool", ["apply_fixes", "undo_fixes"])
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_vanishes_while_files_are_written(project: Path, way: str, tool: str) -> None:
    command = ("mcp", "--root", str(project), "-t", "npu", "--allow-write", "--lang", "en")
    client = Client(*command)
    client.greet()
    number = 1
    if tool == "undo_fixes":
        client.call(number, "apply_fixes", path=str(project))
        client.wait(b'"id":1')
        number += 1
    client.call(number, tool, path=str(project))
    if tool == "apply_fixes":
        list(begun(project))
    else:
        time.sleep(0.3)
    if way == "cancelled":
        client.send(method="notifications/cancelled", params={"requestId": number, "reason": "x"})
        time.sleep(0.2)
        client.vanish()
    elif way == "pipes closed":
        client.vanish()
    elif way == "killed":
        client.server.send_signal(signal.SIGTERM)
    else:
        client.server.kill()
    client.ended()
    assert all_gone(project)
    contents = [path.read_bytes() for path in project.glob("*.py")]
    assert len(contents) == FILES
    assert set(contents) in ({BEFORE}, {AFTER})
    assert b"Traceback" not in client.output
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in client.lines)


@pytest.mark.parametrize("wait", [0, 55])
def test_a_client_that_vanishes_while_a_program_runs(project: Path, tmp_path: Path, wait: int) -> None:
    (project / "stubborn.py").write_text(STUBBORN)
    client = Client("mcp", "--root", str(project), "-t", "npu", "--allow-run")
    client.greet()
    words = [sys.executable, "stubborn.py", str(tmp_path / "pids")]
    client.call(1, "rehearse", path=str(project), command=words, seconds=300, wait=wait)
    programs = started(tmp_path / "pids", client.server)
    client.vanish()
    client.ended()
    assert [gone(program) for program in programs] == [True, True]


NONSENSE = {
    "garbage": b"\x00\xff\xfe nonsense\n",
    "invalid UTF-8": b'{"jsonrpc": "2.0", "id": 5, "method": "\xff\xfe"}\n',
    "a line of 1 MB": b'{"jsonrpc": "2.0", "id": 6, "method": "' + b"x" * (1 << 20) + b'"}\n',
    "deep": b"[" * 100_000 + b"\n",
    "a wrong id": b'{"jsonrpc": "2.0", "id": {"a": []}, "method": "tools/list"}\n',
    "an answer to nothing": b'{"jsonrpc": "2.0", "id": 99, "result": {}}\n',
    "no request": b'{"jsonrpc": "1.0"}\n[]\n""\n0\nnull\n{}\n',
    "surrogates": b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/call", "params": {"name": "\\udfff"}}\n',
}


def test_mcp_goes_on_after_nonsense_and_answers_with_the_protocol_alone(project: Path) -> None:
    client = Client("mcp", "--root", str(project), "-t", "npu")
    client.greet()
    for data in NONSENSE.values():
        client.write(data)
    client.send(id="after", method="tools/list", params={})
    client.wait(b'"after"')
    client.vanish()
    client.ended()
    assert any(b'"after"' in line and b"apply_fixes" not in line for line in client.lines), client.told[-2000:]
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in client.lines)
    assert b"Traceback" not in client.told


@pytest.mark.parametrize("framed", [False, True])
def test_two_thousand_requests(project: Path, framed: bool) -> None:
    client = Client(*(("lsp", "-t", "npu") if framed else ("mcp", "--root", str(project), "-t", "npu")), framed=framed)
    client.greet()
    count = 2_000
    for number in range(1, count + 1):
        client.send(id=number, method="nothing/like/this" if framed else "ping", params={})
    client.wait(b'"id":%d' % count, b'"id": %d' % count)
    client.vanish()
    client.ended()
    text = client.output
    assert sum(text.count(mark) for mark in (b'"id":', b'"id": ')) >= count
    assert b"Traceback" not in text


@pytest.mark.parametrize("name", NONSENSE)
def test_lsp_ends_or_goes_on_without_a_traceback(project: Path, name: str) -> None:
    client = Client("lsp", "-t", "npu", framed=True, cwd=project)
    client.greet()
    for line in NONSENSE[name].splitlines():
        client.write(b"Content-Length: %d\r\n\r\n%s" % (len(line), line))
    client.vanish()
    assert client.ended() in (0, 1, 2)
    assert b"Traceback" not in client.output
    assert b"Traceback" not in client.told
