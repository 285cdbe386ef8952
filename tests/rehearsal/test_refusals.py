"""What the card refuses is told by both judges, whoever catches it: the simulated plugin, and the vendor's own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT
from tests.rehearsal.refused_programs import program
from tests.rehearsal.test_shipped_plugin import wheel, why_not
from tests.warm_python import ferry, python

pytestmark = pytest.mark.rehearsal

ROOT = Path(__file__).parents[2]
JUDGES = ("simulated", pytest.param("plugin", marks=pytest.mark.skipif(bool(why_not()), reason=why_not())))


def rehearse(
    judge: str,
    text: str,
    folder: Path,
    *options: str,
    launcher: tuple[str, ...] = (),
    target: str = "npu",
    warm: bool = True,
) -> tuple[int, str, dict[str, Any]]:
    """Rehearse a program: its exit code, what was told, and the summary.

    A warm Python has torch imported already, and its compilers before the plugin is there.
    """
    (folder / "program.py").write_text(textwrap.dedent(text), encoding="utf-8")
    plugin = str(wheel()) if judge == "plugin" else judge
    done = subprocess.run(
        [
            *(ferry(), "-m", "torchferry", "rehearse", "-t", target, "--plugin", plugin),
            *(
                "--summary-file",
                "summary.json",
                *options,
                "--",
                python() if warm else sys.executable,
                *launcher,
                "program.py",
            ),
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        cwd=folder,
        env={**ENVIRONMENT, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    return done.returncode, done.stderr, json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("judge", JUDGES)
def test_each_refusal_is_told_at_its_line_with_who_catches_it(judge: str, tmp_path: Path) -> None:
    text, places = program(judge)
    code, told, summary = rehearse(judge, text, tmp_path, "--strict")
    by_line: dict[int, list[dict[str, Any]]] = {}
    for event in summary["events"]:
        if event["caught"]:
            by_line.setdefault(event["line"], []).append(event)
    assert by_line.keys() == places.keys(), [places[line].name for line in places.keys() - by_line.keys()]
    for line, refused in places.items():
        (event,) = by_line[line]
        said = f"{event['subject']} {event['detail']}"
        assert any(subject in said for subject in refused.subjects), (refused.name, said)
        assert (event["caught"], event["handler_line"], event["fails"]) == ("reported", line + 1, False)
    assert summary["outcome"] == "goes on without"
    assert summary["would_fail"] == 0
    assert "torchferry: GOES ON WITHOUT " in told
    assert code == 1  # nothing is done about what is refused


HANDLED = """
    import torch, torch_npu
    x = torch.ones(3, device="npu")
    try:
        torch.npu.nvtx.range_push("a")
        marks = True
    except AttributeError:
        marks = False
    def pick(index):
        try:
            torch.npu.set_device(index)
            return index
        except RuntimeError:
            torch.npu.set_device(0)
            return 0
    print(marks, pick(5), hasattr(torch.npu, "nvtx"), getattr(torch.npu, "cudart", None))
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_what_the_program_handles_is_no_failure_and_is_not_nothing(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, HANDLED, tmp_path, "--strict")
    assert code == 0, told
    caught = {(event["line"], event["handler_line"]) for event in summary["events"] if event["caught"] == "handled"}
    assert caught == {(5, 7), (11, 13)}
    assert (summary["outcome"], summary["goes_on_without"], summary["would_fail"]) == ("goes on without", 2, 0)


def _saved() -> bytes:
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer)
    return buffer.getvalue()


SAVED = _saved()

ENDS = {
    "not caught": ("torch.npu.set_device(5)", "would fail"),
    "raised again": ("try:\n    torch.npu.set_device(5)\nexcept RuntimeError:\n    print(1)\n    raise", "would fail"),
    "caught, and the program ends for it": (
        "def main():\n    try:\n        torch.npu.set_device(5)\n    except RuntimeError as e:\n        return 3\n"
        "raise SystemExit(main())",
        "would fail",
    ),
    "its own fault": ("import a_module_that_is_nowhere", "failed by itself"),
    "its own fault, behind a refusal that it handles": (
        "try:\n    torch.npu.nvtx\nexcept AttributeError:\n    y = 1\nraise KeyError('a')",
        "failed by itself",
    ),
    "an exit code": ("raise SystemExit(3)", "failed by itself"),
    "its own fault, by an exit code, behind a name that it does without": (
        "try:\n    torch.npu.nvtx\nexcept AttributeError:\n    y = 1\nraise SystemExit('no data')",
        "failed by itself",
    ),
    "a handler that raises again where it is not what it waits for": (
        "try:\n    torch.npu.set_device(5)\nexcept RuntimeError as e:\n    if 'out of memory' in str(e):\n"
        "        x = 1\n    else:\n        raise",
        "would fail",
    ),
    "kept, and raised later": (
        "try:\n    torch.npu.set_device(5)\nexcept RuntimeError as e:\n    kept = e\nx = 2\nraise kept",
        "would fail",
    ),
    "done again in the handler": (
        "def f():\n    torch.npu.set_device(5)\ntry:\n    f()\nexcept RuntimeError:\n    f()",
        "would fail",
    ),
    "in another process, whose end is reported": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import torch, torch_npu, sys\\ntry:\\n"
        "    torch.npu.set_device(5)\\nexcept RuntimeError:\\n    code = 1\\nsys.exit(code)'], check=True)",
        "would fail",
    ),
    "a name that is computed": ("getattr(torch.npu, 'nv' + 'tx')", "would fail"),
    "torch's Python": ("torch.load(open('there.pt', 'rb'), map_location='npu:9')", "would fail"),
    "in atexit": ("import atexit\natexit.register(torch.npu.set_device, 5)", "would fail"),
    "in a thread": (
        "import threading\nt = threading.Thread(target=torch.npu.set_device, args=(5,))\nt.start()\nt.join()",
        "would fail",
    ),
    "in a process that was forked": (
        "import os\nif os.fork() == 0:\n    torch.ones(2, device='npu')\nelse:\n    os.wait()",
        "would fail",
    ),
}


@pytest.mark.parametrize("judge", JUDGES)
def test_how_a_program_ended_has_one_word(judge: str, tmp_path: Path) -> None:
    for name, (text, outcome) in ENDS.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        (folder / "there.pt").write_bytes(SAVED)
        whole = f"import torch, torch_npu\nx = torch.ones(3, device='npu')\n{text}\n"
        _, told, summary = rehearse(judge, whole, folder)
        assert summary["outcome"] == outcome, (name, told)
        if "nowhere" in text:
            assert "no module named a_module_that_is_nowhere (program.py:3)" in told


MANY = """
    import torch, torch_npu
    x = torch.ones(3, device="npu")
    for i in range(10_000):
        try:
            torch.npu.set_device(5)
        except RuntimeError:
            x = x
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_many_caught_refusals_are_one_line(judge: str, tmp_path: Path) -> None:
    _, told, summary = rehearse(judge, MANY, tmp_path)
    (event,) = [event for event in summary["events"] if event["caught"]]
    assert event["times"] == 10_000
    assert "x10000, caught at program.py:7" in told


RIGHT = """
    import contextlib, importlib.util, pathlib
    import torch, torch_npu
    try:
        from torch.npu import nvtx
    except ImportError:
        nvtx = None
    spec = importlib.util.find_spec("torch_npu.not_there")
    for words in ("/x/npu/none.bin", "npu-node1"):
        with contextlib.suppress(RuntimeError):
            torch.from_file(words, size=4)
    with contextlib.suppress(RuntimeError):
        torch.empty(1 << 60)
    with contextlib.suppress(RuntimeError):
        torch.ones(4, device="npu").view(7)
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
    x = torch.ones(2, 5, 4).npu()
    packed = pack_padded_sequence(x, [5, 3], batch_first=True)  # torch wants the lengths on the CPU
    out, _ = torch.nn.LSTM(4, 3, batch_first=True).npu()(packed)
    back, lengths = pad_packed_sequence(out, batch_first=True)
    back.sum().backward()
    assert (back.device.type, lengths.device.type, lengths.tolist()) == ("npu", "cpu", [5, 3])
    torch.randperm(5, generator=torch.Generator().manual_seed(1))
    torch.rand(3, device="npu", generator=torch.Generator("npu"))
"""


@pytest.mark.parametrize("judge", JUDGES)
def test_what_is_right_is_no_refusal(judge: str, tmp_path: Path) -> None:
    code, told, summary = rehearse(judge, RIGHT, tmp_path, "--strict")
    assert code == 0, told
    events = [(event["subject"], event["caught"]) for event in summary["events"] if event["caught"] or event["fails"]]
    assert events == [("torch.npu.nvtx", "handled")], told


SHOWN = """\
import torch
import torch.distributed as dist
import torch_npu

dist.init_process_group("hccl")
norm = torch.ones(4, dtype=torch.float64, device="npu")
dist.all_reduce(norm)
"""


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_the_readme_shows_what_the_plugin_says(tmp_path: Path) -> None:
    (tmp_path / "reduce.py").write_text(SHOWN, encoding="utf-8")
    _, told, _ = rehearse("plugin", "import torch.distributed.run as r\nr.main(['--nproc_per_node=1', 'reduce.py'])",
                          tmp_path)  # fmt: skip
    said = [line for line in told.splitlines() if line.startswith(("torchferry: WOULD", "  x ", "      reduce.py:7"))]
    assert len(said) == 3, told
    for page in ("README.md", "README.zh-CN.md"):
        assert "\n".join((said[0], "  the command ended with exit code 1", *said[1:])) in (ROOT / page).read_text()
