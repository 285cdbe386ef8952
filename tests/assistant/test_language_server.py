"""The language server, asked by the client of its own library and by an editor without a screen."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

pytest.importorskip("pygls")

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.cli.process import interruptible, torchferry
from tests.processes import HANGS
from torchferry.assistant import language_server
from torchferry.core import exitcodes

pytestmark = pytest.mark.pure

EXAMPLE = Path(__file__).parents[2] / "examples" / "cuda-training"
SECONDS = 60

Answer = TypeVar("Answer")


class Editor:
    """A client that keeps what the server publishes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("test", "1")
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: list[str] = []
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._publish))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda given: self.messages.append(given.message))

    def _publish(self, given: types.PublishDiagnosticsParams) -> None:
        self.published.put_nowait(given)

    async def __aenter__(self) -> Editor:
        await self.client.start_io(sys.executable, "-m", "torchferry", "lsp", "--lang", "en", *self.options)
        folder = types.WorkspaceFolder(self.folder.as_uri(), "project")
        capabilities = types.ClientCapabilities()
        await self.client.initialize_async(types.InitializeParams(capabilities, workspace_folders=[folder]))
        self.client.initialized(types.InitializedParams())
        return self

    options: tuple[str, ...] = ("-t", "npu")

    async def __aexit__(self, *error: object) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()  # type: ignore[no-untyped-call]

    async def open(self, path: Path, text: str | None = None) -> list[types.Diagnostic]:
        item = types.TextDocumentItem(path.as_uri(), "python", 1, path.read_text() if text is None else text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.diagnostics(path)

    async def change(self, path: Path, *texts: str) -> list[types.Diagnostic]:
        for version, text in enumerate(texts, 2):
            document = types.VersionedTextDocumentIdentifier(version, path.as_uri())
            change = types.TextDocumentContentChangeWholeDocument(text)
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return await self.diagnostics(path)

    async def diagnostics(self, path: Path) -> list[types.Diagnostic]:
        given = await asyncio.wait_for(self.published.get(), SECONDS)
        assert given.uri == path.as_uri()
        return list(given.diagnostics)

    async def actions(self, path: Path, span: types.Range, *only: str) -> list[types.CodeAction]:
        context = types.CodeActionContext([], only=list(only) or None)
        asked = types.CodeActionParams(types.TextDocumentIdentifier(path.as_uri()), span, context)
        given = await self.client.text_document_code_action_async(asked)
        return [each for each in given or [] if isinstance(each, types.CodeAction)]


def applied(action: types.CodeAction, text: str) -> str:
    """Return a text as an action changes it: positions count UTF-16 units, which is what a client does by default."""
    assert action.edit is not None
    assert action.edit.document_changes is not None
    (document,) = action.edit.document_changes
    assert isinstance(document, types.TextDocumentEdit)
    lines = text.splitlines(keepends=True)

    def offset(position: types.Position) -> int:
        before = "".join(lines[: position.line])
        line = lines[position.line] if position.line < len(lines) else ""
        return len(before) + len(line.encode("utf-16-le")[: 2 * position.character].decode("utf-16-le"))

    edits = [(offset(edit.range.start), offset(edit.range.end), edit) for edit in document.edits]
    for start, end, edit in sorted(edits, key=lambda each: each[:2], reverse=True):
        assert isinstance(edit, types.TextEdit)
        text = text[:start] + edit.new_text + text[end:]
    return text


def run(steps: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(steps)


WHOLE = types.Range(types.Position(0, 0), types.Position(10_000, 0))


def test_findings_and_fixes_are_those_of_the_command_line(tmp_path: Path) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    train = project / "train.py"
    text = train.read_text()

    async def steps() -> str:
        async with Editor(project) as editor:
            found = await editor.open(train)
            assert {each.code for each in found} == {"IMP101", "IMP102", "DEV101", "DST101", "AMP101", "CUD101"}
            every, *_ = [each for each in await editor.actions(train, WHOLE) if each.kind == "source.fixAll.torchferry"]
            fixed = applied(every, text)
            # keys that follow each other quickly are answered once, for the last text
            assert await editor.change(train, text + "x", text + "xy", fixed) == []
            # a quick fix of one place brings what must change with it
            place = next(each for each in found if each.code == "CUD101")
            assert [each.code for each in await editor.change(train, text)] == [each.code for each in found]
            (one,) = await editor.actions(train, place.range, "quickfix")
            assert one.is_preferred
            assert "torch.npu.synchronize()" in applied(one, text)
            hover = await editor.client.text_document_hover_async(
                types.HoverParams(types.TextDocumentIdentifier(train.as_uri()), place.range.start)
            )
            assert hover is not None
            assert isinstance(hover.contents, types.MarkupContent)
            assert hover.contents.value.startswith("**CUD101 ")
            return fixed

    fixed = run(steps())
    torchferry("migrate", project, "-t", "npu")
    assert train.read_text() == fixed


def test_texts_that_are_hard_to_count_in(tmp_path: Path) -> None:
    """Characters beyond 16 bits, a declared encoding, and the carriage returns of another system."""
    texts = {
        "wide.py": "# 🚀 数据\nimport torch\ns = '🚀🚀', torch.zeros(2, device='cuda')\n",
        "latin.py": "# -*- coding: latin-1 -*-\nimport torch\ns = 'é', torch.zeros(2, device='cuda')\n",
        "lines.py": "import torch\r\nx = torch.zeros(2).cuda()\r\n",
    }

    async def steps() -> None:
        async with Editor(tmp_path) as editor:
            for name, text in texts.items():
                path = tmp_path / name
                path.write_bytes(text.encode("latin-1" if name == "latin.py" else "utf-8"))
                found = await editor.open(path, text)
                assert found, name
                action = (await editor.actions(path, WHOLE, "source.fixAll"))[0]
                fixed = applied(action, text)
                assert "npu" in fixed.splitlines()[-1]
                assert fixed.count("\n") == fixed.count("\r\n") or name != "lines.py"
                torchferry("migrate", path, "-t", "npu")
                assert path.read_bytes() == fixed.encode("latin-1" if name == "latin.py" else "utf-8"), name

    run(steps())


def test_what_cannot_be_examined(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    inside, outside = tmp_path / "project" / "a.py", tmp_path / "b.py"

    async def steps() -> list[str]:
        async with Editor(tmp_path / "project") as editor:
            assert [
                each.code for each in await editor.open(inside, 'import torch\nx = torch.ones(1, device="cuda"\n')
            ] == ["FIL103"]
            assert await editor.open(outside, 'import torch\nx = torch.ones(1, device="cuda")\n') == []
            assert await editor.open(tmp_path / "project" / "a.ipynb", "{}") == []
            assert await editor.actions(outside, WHOLE) == []
            assert await editor.actions(tmp_path / "project" / "absent.py", WHOLE) == []  # neither open nor there
        Editor.options = ()
        try:
            async with Editor(tmp_path / "project") as editor:
                assert await editor.open(inside, 'import torch\nx = torch.ones(1, device="cuda")\n') == []
                settings = tmp_path / "project" / "torchferry.toml"
                settings.write_text('target = "npu"\n')
                saved = types.TextDocumentIdentifier(settings.as_uri())
                editor.client.text_document_did_save(types.DidSaveTextDocumentParams(saved))
                assert [each.code for each in await editor.diagnostics(inside)] == ["DEV101"]  # what is open, mended
                return editor.messages
        finally:
            Editor.options = ("-t", "npu")

    (message,) = run(steps())
    assert message.startswith("torchferry: no target is named; use `--target`")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Content-Length: -5\r\n\r\n{}", "in bytes as '-5'"),
        ("Content-Length: 0\r\n\r\n{}", "in bytes as '0'"),
        (f"content-length: {'9' * 5000}\r\n\r\n{{}}", "at most: 268435456"),
        ("Content-Length: 99999999999\r\n\r\n{}", "at most: 268435456"),
        ("Content-Length: 20\r\n\r\n{}", "at byte 2 of 20"),
        ('{"jsonrpc": "2.0"}\r\n', "an editor starts `torchferry lsp`"),
        ("x" * 100_000, "is not the Language Server Protocol"),
    ],
)
def test_an_input_that_no_editor_writes_ends_the_server_with_a_message(given: str, said: str) -> None:
    ended = torchferry("lsp", "-t", "npu", "--lang", "en", given=given)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr) < 500


_TEXTS = st.lists(st.sampled_from("ab\n"), max_size=40).map("".join)


@given(_TEXTS, _TEXTS, st.sampled_from([0, language_server._LONG]))
def test_the_differences_of_texts_make_one_of_the_other(before: str, after: str, longest: int) -> None:
    with mock.patch.object(language_server, "_LONG", longest):
        edits = language_server._differences(before, after)
    text = before
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    assert text == after


NEOVIM = r"""
local done = nil
local answers = 0
vim.lsp.handlers["textDocument/publishDiagnostics"] = function(_, result)
  done = result.diagnostics
  answers = answers + 1
end
local function fix(first, last, kind)  -- what the editor's own menu of code actions does
  local params = { textDocument = vim.lsp.util.make_text_document_params(),
    range = { start = { line = first, character = 0 }, ["end"] = { line = last, character = 0 } },
    context = { diagnostics = {}, only = { kind } } }
  for _, answer in pairs(vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, 60000)) do
    for _, action in ipairs(answer.result) do vim.lsp.util.apply_workspace_edit(action.edit, "utf-16") end
  end
end
vim.cmd("edit train.py")
local id = vim.lsp.start_client({ name = "torchferry", cmd = { PYTHON, "-m", "torchferry", "lsp", "-t", "npu" },
  root_dir = vim.fn.getcwd(), workspace_folders = { { uri = vim.uri_from_fname(vim.fn.getcwd()), name = "p" } } })
vim.lsp.buf_attach_client(0, id)
vim.wait(60000, function() return done ~= nil end)
print(#done .. " findings")
local before = answers
vim.api.nvim_feedkeys("Gotorch.cuda.synchronize()\27", "xt", false)  -- with the key Esc
vim.wait(60000, function() return answers > before end)
print(#done .. " with what was typed")
local last = vim.api.nvim_buf_line_count(0)
fix(last - 1, last, "quickfix")
print("became: " .. vim.trim(vim.api.nvim_buf_get_lines(0, last - 1, last, false)[1]))
vim.cmd("$delete")
fix(0, vim.api.nvim_buf_line_count(0), "source.fixAll")
vim.cmd("write")
vim.cmd("quitall!")
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="nvim is not installed, an editor without a screen")
def test_an_editor_without_a_screen(tmp_path: Path) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    reference = Path(shutil.copytree(EXAMPLE, tmp_path / "reference"))
    (tmp_path / "script.lua").write_text(NEOVIM.replace("PYTHON", repr(sys.executable)))
    edited = subprocess.run(
        ["nvim", "--headless", "--clean", "-n", "-c", f"luafile {tmp_path / 'script.lua'}"],
        cwd=project, capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    printed = edited.stdout + edited.stderr
    assert "14 findings" in printed
    assert "15 with what was typed" in printed
    assert "became: torch.npu.synchronize()" in printed
    torchferry("migrate", reference, "-t", "npu")
    assert (project / "train.py").read_text() == (reference / "train.py").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_while_the_editor_stays(number: signal.Signals) -> None:
    command = interruptible([sys.executable, "-m", "torchferry", "lsp"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        parameters: dict[str, Any] = {"capabilities": {}, "processId": None, "rootUri": None}
        given = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}).encode()
        server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(given), given))
        server.stdin.flush()
        assert server.stdout.readline().startswith(b"Content-Length")
        server.send_signal(number)
        assert server.wait(HANGS) == exitcodes.INTERRUPTED
