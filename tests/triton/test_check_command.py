"""The command itself: what is printed, in which form, with which exit code, and what is not fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.triton.projects import HEAD
from tests.triton.stand_in import TARGET, front_end, write_wheel
from torchferry.cli import triton_check

GOOD = "@triton.jit\ndef good(x, BLOCK: tl.constexpr):\n    tl.load(x)\n"
BAD = "@triton.jit\ndef bad(x):\n    tl.act('refuse')\n"
LAUNCH = "import torch\nx = torch.zeros(4, dtype=torch.float16)\n"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the stand-in's wheel; it takes the vendor's place."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    known = front_end(write_wheel(folder))
    monkeypatch.setattr(triton_check, "front_end_of", lambda backend: known)
    monkeypatch.setattr(triton_check, "triton_target", lambda backend: TARGET)
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return folder


def check(wheels: Path, text: str, *words: str) -> Result:
    Path("k.py").write_text(HEAD + text, encoding="utf-8")
    command = ["k.py", "-t", "npu", "--wheels", str(wheels), *words]
    return CliRunner().invoke(triton_check.command, command)


def test_a_good_file_ends_with_0(wheels: Path) -> None:
    done = check(wheels, GOOD + LAUNCH + "good[(1,)](x, BLOCK=64)\n")
    assert done.exit_code == 0, done.output
    assert "k.py:4  good  accepted" in done.output
    assert "x=*fp16, BLOCK=64  (the launch in k.py:8)" in done.output
    assert "vector cores; UB 2.0 of 4 KiB" in done.output
    assert "one access is made one element at a time: k.py:5" in done.output
    assert "compiled by acme-triton 1.0 for Acme-X1 up to the memory plan" in done.output


def test_a_refusal_ends_with_1_in_each_form(wheels: Path, tmp_path: Path) -> None:
    code = GOOD + BAD + LAUNCH + "good[(1,)](x, BLOCK=64)\nbad[(1,)](x)\n"
    text = check(wheels, code)
    assert text.exit_code == 1
    assert "refused: this is refused [k.py:8]" in text.output
    done = check(wheels, code, "-f", "json")
    document = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (document["good"], document["counts"]["refused"], document["arch"]) == (False, 1, "Acme-X1")
    assert document["kernels"][1]["cases"][0]["line"] == 8
    assert document["kernels"][0]["cases"][0]["from_cache"] is True
    page = check(wheels, code, "-f", "html", "--lang", "zh")
    assert "被拒绝" in page.stdout
    assert "<script" not in page.stdout


def test_nothing_is_fetched_where_nothing_is_to_be_compiled(wheels: Path, tmp_path: Path) -> None:
    done = check(wheels, GOOD)
    assert done.exit_code == 1
    assert "its signature is not known" in done.output
    assert "--signature 'good: *?,BLOCK=?'" in done.output
    assert "rehearse -t npu --summary-file run.json" in done.output
    assert not (tmp_path / "cache").exists()
    assert check(wheels, "x = 1\n").exit_code == 1


def test_an_unread_file_and_a_doubt_cost_the_good_exit_code(wheels: Path) -> None:
    Path("broken.py").write_text("import triton\ndef k(:\n", encoding="utf-8")
    launched = LAUNCH + "good[(1,)](x, BLOCK=64)\n"
    done = check(wheels, GOOD + launched, "broken.py")
    assert done.exit_code == 1
    assert "broken.py could not be read" in done.output
    doubtful = GOOD.replace("tl.load(x)", "y = tl.inline_asm_elementwise") + launched
    done = check(wheels, doubtful)
    assert done.exit_code == 1
    assert "accepted, and still in doubt: `tl.inline_asm_elementwise`" in done.output


@pytest.mark.parametrize("words", [("--arch", "Acme-X9"), ("--assume-dtype", "fp7"), ("--signature", "gone: i32")])
def test_a_wrong_name_is_an_error(wheels: Path, words: tuple[str, str]) -> None:
    done = check(wheels, GOOD, *words)
    assert done.exception is not None
    assert type(done.exception).__name__ == "UsageError"
