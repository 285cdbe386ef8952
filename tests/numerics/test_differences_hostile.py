"""Records that somebody sent: cut short, edited, or made to harm. Each is read, or refused with the file's name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch

from tests.numerics.recorded import Told, record
from torchferry.cli.compare_diff import command
from torchferry.core.errors import TorchferryError
from torchferry.numerics.differences.comparison import compare
from torchferry.numerics.differences.record import read_record

pytestmark = pytest.mark.rehearsal


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return record(tmp_path_factory.mktemp("good") / "r", Told(steps=2))


def rank(folder: Path) -> Path:
    return folder / "rank-0"


def rows_file(folder: Path) -> Path:
    return rank(folder) / "step-00000001.safetensors"


def layout_file(folder: Path) -> Path:
    return next(rank(folder).glob("layout-*.safetensors"))


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def edited(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    change(found[-1])
    path.write_text("".join(json.dumps(one) + "\n" for one in found))


def header(path: Path, change: Callable[[dict[str, dict[str, str]]], object]) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = json.loads(data[8 : 8 + size])
    change(found)
    text = json.dumps(found).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


def linked(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "no begin": lambda r: (rank(r) / "begin.json").unlink(),
    "begin is text": lambda r: (rank(r) / "begin.json").write_text("hello"),
    "begin is a list": lambda r: (rank(r) / "begin.json").write_text("[]"),
    "begin nested deep": lambda r: (rank(r) / "begin.json").write_text("[" * 100_000),
    "begin of another version": lambda r: edited(rank(r) / "begin.json", lambda one: one.update(version=99)),
    "begin of another tool": lambda r: edited(rank(r) / "begin.json", lambda one: one.update(format="dump")),
    "begin without facts": lambda r: edited(rank(r) / "begin.json", lambda one: one.pop("facts")),
    "begin is a link": lambda r: linked(rank(r) / "begin.json", "/etc/hostname"),
    "begin is a pipe": lambda r: piped(rank(r) / "begin.json"),
    "steps are a link": lambda r: linked(rank(r) / "steps.jsonl", "/dev/zero"),
    "step leads outside": lambda r: edited(rank(r) / "steps.jsonl", lambda one: one.update(rows="../../secret")),
    "step leads to root": lambda r: edited(rank(r) / "steps.jsonl", lambda one: one.update(rows="/etc/passwd")),
    "step without a number": lambda r: edited(rank(r) / "steps.jsonl", lambda one: one.update(step="x")),
    "batch is a number": lambda r: edited(rank(r) / "steps.jsonl", lambda one: one.update(batch=[3])),
    "rows missing": lambda r: rows_file(r).unlink(),
    "rows empty": lambda r: cut(rows_file(r), 0),
    "rows cut in the header": lambda r: cut(rows_file(r), 100),
    "rows cut in the data": lambda r: cut(rows_file(r), 5000),
    "rows with a huge header": lambda r: rows_file(r).write_bytes(b"\xff" * 7 + b"\x00" + b"{}"),
    "rows are a link": lambda r: linked(rows_file(r), "/dev/urandom"),
    "rows name no layout": lambda r: header(rows_file(r), lambda one: one["__metadata__"].pop("layout")),
    "rows lead outside": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(layout="/../../../x")),
    "shapes are none": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(shapes="[]")),
    "arguments are none": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(arguments="x")),
    "layout missing": lambda r: layout_file(r).unlink(),
    "layout cut": lambda r: cut(layout_file(r), 3000),
    "keys are none": lambda r: header(layout_file(r), lambda found: found["__metadata__"].update(keys="[[1]]")),
    "no ranks": lambda r: shutil.rmtree(rank(r)),
    "rank is a link": lambda r: rank(r).rename(r / "x").joinpath("../rank-0").symlink_to(r / "x"),
    "no step": lambda r: (rank(r) / "steps.jsonl").unlink(),
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_a_damaged_record_is_refused_by_name(good: Path, tmp_path: Path, harm: str) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(good, bad)
    HOSTILE[harm](bad)
    with pytest.raises(TorchferryError) as error:
        compare(read_record(good), read_record(bad))
    assert str(bad) in "".join(error.value.lines())
    assert error.value.advice is not None or "cannot read" in str(error.value)


def test_a_last_line_without_an_end_is_left_out(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(good, bad)
    steps = rank(bad) / "steps.jsonl"
    cut(steps, steps.stat().st_size - 20)
    assert len(read_record(bad).ranks[0].steps) == 1
    assert compare(read_record(good), read_record(bad)).same


def test_names_do_not_become_formulas_or_escapes(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(good, bad)

    def rename(found: dict[str, dict[str, str]]) -> None:
        keys = found["__metadata__"]["keys"].replace("Language", r"\u001b[31m").replace(r"\u001b[31m.head", "=cmd()|x")
        found["__metadata__"]["keys"] = keys

    for one in rank(bad).glob("layout-*"):
        header(one, rename)
    shown = CliRunner().invoke(command, [str(bad), str(bad)])
    assert "\x1b" not in shown.output
    table = CliRunner().invoke(command, [str(bad), str(bad), "-f", "csv"])
    assert "'=cmd()|x" in table.output
    assert not [line for line in table.output.splitlines() if line.startswith("=")]


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_the_command_ends_with_what_it_found(good: Path, tmp_path: Path, form: str) -> None:
    other = record(tmp_path / "other", Told(steps=2, rate=2e-3))
    same = CliRunner().invoke(command, [str(good), str(good), "-f", form])
    assert same.exit_code == 0, same.output
    different = CliRunner().invoke(command, [str(good), str(other), "-f", form])
    assert different.exit_code == 1
    if form == "json":
        assert json.loads(different.stdout)["causes"][0]["cause"] == "learning rate"
    assert CliRunner().invoke(command, [str(good), str(tmp_path / "none")]).exit_code == 2
