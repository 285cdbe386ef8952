"""What a stranger's tree can make a terminal, a log or a report do: nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.in_terminal import in_terminal
from tests.cli.process import torchferry
from tests.progress_line import DRAWN, drawn_at_once
from torchferry.core.json_text import json_text
from torchferry.core.terminal import print_text, style, visible
from torchferry.migration.journal import DONE, SCHEMA, Change

pytestmark = pytest.mark.pure

HOSTILE = "\x1b]52;c;RVZJTA==\x07\x1b[8m\x9b35m\x7f\x08\u202e\u2066\u2028\u2029\u200b\u00ad\ufe0f\U000e0041"
"""Writes the clipboard, hides what follows, deletes, turns the text around, ends a line, carries invisible text."""

ORDERS = ("\x1b", "\x07", "\x9b", "\x7f", "\x08", *"\u202e\u2066\u2028\u2029\u200b\u00ad\ufe0f\U000e0041")

OURS = re.compile(r"\x1b\[(?:0|1|2|31|32|33|36|3[123];1)m")

NAME = "ev" + HOSTILE.replace("/", "")
UNDECODABLE = os.fsdecode(b"bad\xff\x1b[8m.py")
NEW_LINE = "two\n::error::EVIL\nlines.py"

SOURCE = f"""# -*- coding: utf-8 -*-
# {HOSTILE}
import torch

name = "{HOSTILE.replace(chr(0x2028), "").replace(chr(0x2029), "")}"
x = torch.zeros(1, device="cuda:1{HOSTILE[:3]}").cuda()
torch.cuda.nvtx.range_push("{HOSTILE[4:9]}")
torch.backends.cudnn.benchmark = True  # {HOSTILE}
if __name__ == "__main__":
    print(x)
"""


NUMBERS = ("offset", "size", "mode", "mtime_ns")


def hostile_tree(root: Path) -> None:
    """Write a tree in which everything that can be named is hostile."""
    root.mkdir()
    for path in (f"{NAME}.py", f"{NAME}/train.py", UNDECODABLE, NEW_LINE, "train.py"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(SOURCE, encoding="utf-8")
    (root / f"{NAME}.cu").write_text(f"// {HOSTILE}\n__global__ void {NAME[:2]}(float* x) {{ __nv{HOSTILE}(x); }}\n")
    (root / "requirements.txt").write_text(f"torch==2.1{HOSTILE}\nflash-attn {HOSTILE}\nnvidia-{HOSTILE[:5]}-cu12\n")
    (root / "run.sh").write_text(f"export CUDA_VISIBLE_DEVICES=0{HOSTILE}\npython {NAME}.py --device cuda{HOSTILE}\n")
    (root / "config.yaml").write_text(f"device: cuda  # {HOSTILE}\nname: x\n")
    (root / "Dockerfile").write_text(f"FROM nvidia/cuda:12{HOSTILE[:4]}\nRUN nvidia-smi {HOSTILE[:5]}\n")
    (root / "setup.py").write_text(f"from torch.utils.cpp_extension import CUDAExtension\nname = {HOSTILE[:6]!r}\n")
    cell = {"cell_type": "code", "id": HOSTILE, "metadata": {"name": HOSTILE}, "outputs": [], "execution_count": None,
            "source": [f"import torch\n# {HOSTILE}\n", "torch.cuda.init()"]}  # fmt: skip
    kernel = {"kernelspec": {"name": HOSTILE, "language": HOSTILE}}
    notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (root / f"{NAME}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    os.mkfifo(root / f"pipe{HOSTILE}.py")
    (root / f"link{HOSTILE}.py").symlink_to(f"/outside{HOSTILE}")
    (root / "broken.py").write_text(f"import torch\ntorch.cuda( {HOSTILE}\n")
    (root / "settings").mkdir()
    (root / "settings" / "torchferry.toml").write_text(f"target = {json.dumps(HOSTILE)}\n")
    (root / "bundle").mkdir()
    manifest = {"target": f"npu{HOSTILE}", "version": HOSTILE, "values": {HOSTILE: HOSTILE}, "files": {HOSTILE: {}}}
    (root / "bundle" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    journal = root / f"{NAME}/.torchferry/journal/0001"
    journal.mkdir(parents=True)
    fields = {**dict.fromkeys(Change._fields, HOSTILE), **dict.fromkeys(NUMBERS, 0), "before": None, "after": "0" * 64}
    change = Change(**fields)  # type: ignore[arg-type]
    change = change._replace(path=f"{NAME}.py")
    done = {"schema": SCHEMA, "state": DONE, **dict.fromkeys(("target", "torchferry", "created", "suffix"), HOSTILE)}
    done["changes"] = [change._asdict()]
    (journal / "manifest.json").write_text(json.dumps(done), encoding="utf-8")
    event = {"ph": "X", "name": f"aten::{HOSTILE}", "pid": HOSTILE, "tid": HOSTILE, "ts": 1, "dur": 9, "args": {}}
    events = [{**event, "cat": kind} for kind in ("cpu_op", "kernel", HOSTILE)]
    (root / "trace.json").write_text(json.dumps({"traceEvents": events, "deviceProperties": [{"name": HOSTILE}]}))
    (root / "log.jsonl").write_text("".join(json.dumps({"step": n, f"loss{HOSTILE}": n}) + "\n" for n in range(9)))
    (root / "hosts.ini").write_text(f"[cards{HOSTILE[:4]}]\nhost{HOSTILE[:16]} ansible_connection={HOSTILE[:9]}\n")
    (root / "broken.json").write_text('{"cuda": "' + HOSTILE)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("terminal") / f"project{HOSTILE}"
    hostile_tree(root)
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["git", "init", "-q", "-b", "x\u202e\u200b", str(root)], check=True)
        (root / ".git/config").open("a").write(f'[remote "origin"]\n\turl = "https://u:p@host/{HOSTILE[14:17]}"\n')
    return root


def orders(shown: bytes) -> set[str]:
    """Return what a terminal or a reader would have acted on, but for torchferry's own styles and its line."""
    text = OURS.sub("", shown.decode("utf-8", "surrogateescape")).replace("\r\n", "\n")
    text = DRAWN.sub(lambda drawn: drawn[0].replace("\r", "\n"), text)
    return {order for order in (*ORDERS, "\r") if order in text} | set(re.findall(r"[\udc80-\udcff]", text))


FORMS = ("text", "json", "csv", "sarif", "github", "html")

ON_A_TREE = [
    *(("scan", ".", "-t", "npu", "-f", form) for form in FORMS),
    ("scan", ".", "-t", "npu", "-v", "--kept"),
    ("scan", ".", "-t", "musa", "--plan"),
    ("scan", ".", "-t", "npu", "--plan", "-f", "json"),
    ("scan", ".", "-t", "npu", "--select", HOSTILE),
    ("scan", ".", "-t", "npu", "--exclude", HOSTILE, "--show-settings"),
    ("scan", ".", "-t", f"npu@{HOSTILE}"),
    ("scan", f"no{HOSTILE}", "-t", "npu"),
    ("scan", ".", f"--no{HOSTILE}"),
    (f"scan{HOSTILE}",),
    ("scan", ".", "-t", "npu", "--python", NAME),
    ("scan", ".", "-t", "npu", "--seen", UNDECODABLE),
    ("migrate", ".", "-t", "npu", "--check", "-v"),
    ("migrate", ".", "-t", "npu", "--diff"),
    ("migrate", ".", "-t", "npu", "-f", "html", "--check"),
    ("scan", "settings"),
    ("migrate", "settings", "--diff"),
    ("deploy", "plan", "-t", "npu", "-b", "bundle"),
    ("undo", "."),
    ("undo", NAME),
    ("undo", NAME, "--trust-journal"),
    ("deploy", "plan", "-t", "npu", "-b", "bundle", "-i", "hosts.ini"),
    ("deploy", "plan", "-t", "npu", "-i", "hosts.ini"),
    ("port", ".", "-t", "musa", "--check", "-v"),
    ("port", ".", "-t", "musa", "--diff"),
    *(("port", ".", "-t", "musa", "--check", "-f", form) for form in ("json", "sarif", "html")),
    *(("advise", ".", "-t", "npu", "-f", form) for form in ("text", "json", "markdown", "html")),
    ("handover", "prepare", ".", "-t", "npu", "--for", "generic", "--program", f"{NAME}.py", "--out", f"../out{NAME}"),
    ("handover", "prepare", ".", "-t", "npu", "--for", "generic", "--program", "train.py", "--out", f"../out{NAME}"),
    *(("handover", "check", f"../out{NAME}", "-f", form) for form in ("text", "json")),
    ("handover", "check", ".", "--for", "generic", "-v"),
    ("setup-test", ".", "-t", "npu"),
    ("accept", "init", "--file", f"{NAME}.toml"),
    ("accept", "--show", "--file", f"{NAME}.toml", "-t", "npu"),
    ("accept", "metric", "run.sh", "-m", HOSTILE, "--at-least", "1"),
    ("device", "vendor", NAME),
    ("rule", HOSTILE),
    ("api", HOSTILE),
    ("backend", HOSTILE),
    ("run", "-t", f"npu{HOSTILE}", "--", "true"),
    ("run", "-t", "cuda", "--", HOSTILE),
    ("rehearse", "-t", f"npu{HOSTILE}", "--", "true"),
    ("profile", "show", NAME),
    ("profile", "show", "broken.json"),
    ("profile", "show", "trace.json"),
    ("compare", "curves", "log.jsonl", "log.jsonl"),
    ("compare", "diff", NAME, NAME),
    ("deploy", "bundle", "-t", "npu", "-o", "bundle", "--check"),
    ("compare", "curves", "run.sh", UNDECODABLE),
    ("replay", NAME),
    ("doctor", "diff", "broken.json", f"{NAME}.ipynb"),
    ("doctor", "-t", f"npu{HOSTILE}"),
    ("ops", "report", "broken.json", "-t", "npu"),
    ("deploy", "plan", "-t", "npu", "-b", NAME),
    ("deploy", "plan", "-t", "npu", "--set", f"{HOSTILE}=x"),
    ("deploy", "dockerfile", "-t", "npu", "--set", f"image={HOSTILE}"),
    ("deploy", "kubernetes", "-t", "npu", "--name", "x", "--", "python", HOSTILE),
]


@pytest.mark.parametrize("arguments", ON_A_TREE, ids=lambda words: ascii(" ".join(words))[1:50])
def test_no_text_of_a_tree_reaches_the_terminal_raw(
    tree: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn_at_once(monkeypatch)
    status, shown, _ = in_terminal(*arguments, cwd=tree)
    assert orders(shown) == set(), shown
    assert status in (0, 1, 2), shown
    assert b"internal error" not in shown, shown.decode(errors="replace")


def test_styles_are_ours_alone_and_follow_the_terminal(tree: Path) -> None:
    _, shown, _ = in_terminal("scan", ".", "-t", "npu", cwd=tree)
    assert b"\x1b[1m" in shown
    assert OURS.sub("", shown.decode()).count("\x1b") == 0
    for refused in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"FORCE_COLOR": "0"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        _, shown, _ = in_terminal("scan", ".", "-t", "npu", cwd=tree, env=refused)
        assert b"\x1b" not in shown, refused


@pytest.mark.parametrize(
    ("settings", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm"}, False),
    ],
)
def test_a_pipe_has_colours_where_they_are_asked_for(settings: dict[str, str], coloured: bool, tree: Path) -> None:
    """A report may; what another program reads never has any."""
    environment = {**os.environ, **settings}
    command = [sys.executable, "-m", "torchferry", "scan", ".", "-t", "npu"]
    done = subprocess.run(command, cwd=tree, capture_output=True, check=False, env=environment)
    assert (b"\x1b[1m" in done.stdout) is coloured
    assert OURS.sub("", done.stdout.decode()).count("\x1b") == 0
    data = subprocess.run([*command, "-f", "json"], cwd=tree, capture_output=True, check=False, env=environment).stdout
    assert b"\x1b[" not in data


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_encoding_ends_a_command(tree: Path, encoding: str, lang: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchferry", "scan", ".", "-t", "npu", "--lang", lang],
        cwd=tree, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    assert orders(done.stdout.decode(encoding).encode()) == set()


def test_a_diff_is_exact_in_a_pipe_and_escaped_on_a_terminal(tree: Path) -> None:
    arguments = ("migrate", "train.py", "-t", "npu", "--diff")
    _, told, piped = in_terminal(*arguments, cwd=tree, piped=True)
    assert f"# {HOSTILE}".encode() in piped
    assert orders(told) == set()
    copy = tree.with_name("copy")
    copy.mkdir()
    (copy / "train.py").write_bytes((tree / "train.py").read_bytes())
    subprocess.run(["git", "apply", "-"], cwd=copy, input=piped, check=True)
    assert b".npu()" in (copy / "train.py").read_bytes()
    _, shown, _ = in_terminal(*arguments, cwd=tree)
    assert orders(shown) == set()
    assert b"\\x1b]52;c" in shown


@pytest.mark.parametrize("service", ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
def test_no_text_of_a_tree_is_an_order_to_a_service_that_reads_the_log(tmp_path: Path, service: str) -> None:
    for name in (
        "::error::EVIL.py",
        "##[error]EVIL.py",
        "##vso[task.EVIL]x.py",
        "##teamcity[EVIL].py",
        "a\n::error::b.py",
    ):
        (tmp_path / name.replace("/", "")).write_text(SOURCE, encoding="utf-8")
    done = torchferry("scan", ".", "-t", "npu", "-v", "--kept", cwd=tmp_path, env={service: "true"})
    assert "EVIL" in done.stdout
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert [line for line in lines if line.startswith("::") or re.search(r"##(\[|vso\[|teamcity\[)", line)] == []


@given(st.text())
def test_what_is_visible_gives_no_order_and_json_is_the_same_value(text: str) -> None:
    shown = visible(text)
    assert not any(order in shown for order in (*ORDERS, "\r", "\n"))
    assert visible(shown) == shown
    shown.encode()
    written = json_text({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert not any(order in written for order in (*ORDERS, "\r"))
    written.encode()
    if text.isascii() and text.isprintable():
        assert shown == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text(), st.text())
def test_a_style_encloses_a_text_and_no_text_makes_one(styled: str, beside: str) -> None:
    terminal = Terminal()
    with contextlib.redirect_stdout(terminal), pytest.MonkeyPatch.context() as patch:
        patch.delenv("NO_COLOR", raising=False)
        print_text(style(styled, "bold") + beside + f"\ufdd0{'0' * 12}31\ufdd1")
    assert terminal.getvalue() == (f"\x1b[1m{visible(styled)}\x1b[0m{visible(beside)}\\ufdd000000000000031\\ufdd1\n")


@pytest.mark.parametrize(
    "arguments", [("scan", ".", "-t", "npu", "-v"), ("migrate", ".", "-t", "npu", "--check", "-v")]
)
def test_a_line_of_a_megabyte_does_not_flood_the_terminal(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    long = 1 << 20
    (tmp_path / "a.py").write_text(f"import torch\ntorch.cuda.{'n' * long}()\nx = 'cuda:{'9' * long}'\n")
    (tmp_path / "requirements.txt").write_text(f"flash-attn=={'1.' * long}0\n")
    (tmp_path / "run.sh").write_text(f"CUDA_VISIBLE_DEVICES={'0,' * long} python a.py {'--x ' * long}\n")
    done = torchferry(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "CUD1" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 20_000
