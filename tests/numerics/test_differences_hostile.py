"""Records that somebody sent: cut short, edited, or made to harm. Each is read, or refused with the file's name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch

from tests.numerics.recorded import Told, record
from torchferry.cli.compare_diff import command
from torchferry.core.errors import TorchferryError
from torchferry.numerics.rundiff.alignment import common
from torchferry.numerics.rundiff.comparison import compare
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.record import read_record

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


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the last document of a file; its checksum is made right, as who means harm makes it."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    change(found[-1])
    path.write_bytes(b"".join(sealed_again(one) for one in found))


def sealed_again(document: dict[str, Any]) -> bytes:
    document.pop("crc32", None)
    return names.sealed(document) + b"\n"


def noted_again(folder: Path) -> None:
    """Note the checksums of the files as they are now."""
    path = rank(folder) / "steps.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found:
        line["files"] = {
            name: names.checksum((rank(folder) / name).read_bytes())
            for name in line["files"]
            if (rank(folder) / name).is_file() and not (rank(folder) / name).is_symlink()
        }
    path.write_bytes(b"".join(map(sealed_again, found)))


def header(path: Path, change: Callable[[dict[str, dict[str, Any]]], object]) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = json.loads(data[8 : 8 + size])
    change(found)
    text = json.dumps(found).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    noted_again(path.parent.parent)


def linked(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def steps_edited(folder: Path, **values: Any) -> None:
    edited(rank(folder) / "steps.jsonl", lambda one: one.update(values))


def batch(**values: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [1], "dtype": "float32", "hashes": [], **values}


def tensor(folder: Path, name: str, **values: Any) -> None:
    header(rows_file(folder), lambda found: found[name].update(values))


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
    "rows have another checksum": lambda r: rows_file(r).write_bytes(rows_file(r).read_bytes()[::-1]),
    "rows lead outside": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(layout="/../../../x")),
    "shapes are none": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(shapes="[]")),
    "arguments are none": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(arguments="x")),
    "layout missing": lambda r: layout_file(r).unlink(),
    "layout cut": lambda r: cut(layout_file(r), 3000),
    "keys are none": lambda r: header(layout_file(r), lambda found: found["__metadata__"].update(keys="[[1]]")),
    "step is infinite": lambda r: steps_edited(r, step=float("inf")),
    "step is huge": lambda r: steps_edited(r, step=10**400),
    "step is negative": lambda r: steps_edited(r, step=-1),
    "step is not a number": lambda r: steps_edited(r, step=float("nan")),
    "a step is there twice": lambda r: steps_edited(r, step=0),
    "a number is too large": lambda r: steps_edited(r, numbers={"gradient norm": 10**400}),
    "a batch of many dimensions": lambda r: steps_edited(r, batch=[batch(shape=[1] * 1000)]),
    "a batch of huge dimensions": lambda r: steps_edited(r, batch=[batch(shape=[10**300] * 8)]),
    "optimizers are a list": lambda r: steps_edited(r, optimizers=[1]),
    "files are a list": lambda r: steps_edited(r, files=["x"]),
    "no checksum of the rows": lambda r: steps_edited(r, files={}),
    "a name is there twice": lambda r: (rank(r) / "begin.json").write_text('{"format": 1, "format": 2}'),
    "end is a link": lambda r: linked(rank(r) / "end.json", "/etc/hostname"),
    "end is a pipe": lambda r: piped(rank(r) / "end.json"),
    "end of no steps": lambda r: edited(rank(r) / "end.json", lambda one: one.update(steps="many")),
    "end is without a checksum": lambda r: (rank(r) / "end.json").write_text('{"steps": 2, "ended": ""}'),
    "steps are a pipe": lambda r: piped(rank(r) / "steps.jsonl"),
    "steps are one long line": lambda r: (rank(r) / "steps.jsonl").write_bytes(b"[" * (9 << 20)),
    "steps are a huge hole": lambda r: os.truncate(rank(r) / "steps.jsonl", 1 << 40),
    "rows are a huge hole": lambda r: os.truncate(rows_file(r), 1 << 40),
    "rows are a pipe": lambda r: piped(rows_file(r)),
    "layout is a pipe": lambda r: piped(layout_file(r)),
    "a layout that is a list": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(layout=[1])),
    "a sketch of another width": lambda r: tensor(r, "sketch", shape=[1, 61 * 500]),
    "a sketch of negative size": lambda r: tensor(r, "sketch", shape=[-1, -61]),
    "a sketch of huge size": lambda r: tensor(r, "sketch", shape=[1 << 60, 1 << 60]),
    "a sketch behind the end": lambda r: tensor(r, "sketch", data_offsets=[1 << 40, 1 << 41]),
    "a sketch over another": lambda r: tensor(r, "sum", data_offsets=[0, 4]),
    "a sketch of no dtype": lambda r: tensor(r, "sketch", dtype="\x1b[31mX"),
    "a sketch of many dimensions": lambda r: tensor(r, "sketch", shape=[1] * 10_000),
    "shapes nested deep": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(shapes="[" * 10**5)),
    "shapes of huge numbers": lambda r: header(
        rows_file(r), lambda one: one["__metadata__"].update(shapes="[[1e999]]")
    ),
    "shapes of text": lambda r: header(rows_file(r), lambda one: one["__metadata__"].update(shapes='[["a"]]')),
    "rows name a layout elsewhere": lambda r: header(
        rows_file(r), lambda one: one["__metadata__"].update(layout="../../../etc/passwd")
    ),
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
    said = "".join(error.value.lines())
    assert str(bad) in said
    assert len(said) < 2000
    assert said.isprintable()
    assert error.value.advice is not None


def with_checksum(line: bytes) -> bytes:
    """Return a line with the checksum that it should have, whatever it says."""
    body, seal, _ = line.rpartition(b',"crc32"')
    return b'%s%s:"%s"}\n' % (body, seal, names.checksum(body + b"}").encode()) if seal else line


MUTATIONS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(["set", "drop", "insert"]), st.binary(min_size=1)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(["begin", "end", "steps", "step-", "layout"]), changes=MUTATIONS, right=st.booleans())
def test_any_bytes_are_read_or_refused(
    good: Path, tmp_path: Path, file: str, changes: list[tuple[float, str, bytes]], right: bool
) -> None:
    """Whatever the bytes are: an error with the file's name, or a comparison; never anything else, nothing written.

    With `right`, the checksums of the files are made right again, so that what is behind them is reached.
    """
    bad = tmp_path / "bad"
    shutil.rmtree(bad, ignore_errors=True)
    shutil.copytree(good, bad)
    path = next(one for one in sorted(rank(bad).iterdir()) if one.name.startswith(file))
    data = bytearray(path.read_bytes())
    for where, what, new in changes:
        place = int(where * min(len(data), 3000))  # most of a file is numbers; what is said of them comes first
        end = place + (len(new) if what != "insert" else 0)
        data[place:end] = b"" if what == "drop" else new
    if file == "steps" and right:
        data[:] = b"".join(map(with_checksum, bytes(data).splitlines(keepends=True)))
    path.write_bytes(data)
    if path.suffix == ".safetensors" and right:
        noted_again(bad)
    before = sorted(tmp_path.rglob("*"))
    for pair in ((good, bad), (bad, good)):
        shown = CliRunner().invoke(command, [*map(str, pair), "--allow-cpu"])
        if isinstance(shown.exception, TorchferryError):
            assert str(bad) in str(shown.exception)
            assert str(shown.exception).isprintable()
        else:
            assert shown.exit_code in {0, 1}, shown.exception
            assert "\x1b" not in shown.output
    assert sorted(tmp_path.rglob("*")) == before


def test_a_large_record_is_compared_in_bounded_time(good: Path) -> None:
    """Two steps of as many rows as a step may have, with nothing in common: as bad as it can be made."""
    words = [f"aten.{number % 250}" for number in range(names.LARGEST)]
    assert len(common(words, list(reversed(words)))) > 100
    other = [f"aten.{number * 7919 % 250}" for number in range(names.LARGEST)]
    pairs = common(words, other)
    assert pairs == sorted(pairs)
    assert all(words[one] == other[two] for one, two in pairs)
    assert len({two for _, two in pairs}) == len(pairs)


def test_a_last_line_without_an_end_is_left_out_and_said(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(good, bad)
    steps = rank(bad) / "steps.jsonl"
    cut(steps, steps.stat().st_size - 20)
    assert len(read_record(bad).ranks[0].steps) == 1
    result = compare(read_record(good), read_record(bad))
    assert (result.differs, result.same) == (False, False)
    assert any("its last line is incomplete" in str(gap) for gap in result.coverage.gaps)


def test_a_byte_that_changed_is_found_and_its_file_named(good: Path, tmp_path: Path) -> None:
    files = [*rank(good).iterdir()]
    for file in files:
        bad = tmp_path / file.name
        shutil.copytree(good, bad)
        path = rank(bad) / file.name
        data = bytearray(path.read_bytes())
        place = data.rindex(b"0") if path.suffix != ".safetensors" else len(data) - 2
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(TorchferryError) as error:
            compare(read_record(good), read_record(bad))
        assert f"rank-0/{file.name}" in str(error.value)
        assert "checksum" in str(error.value)


def test_a_record_of_the_version_before_is_read_and_said_to_have_no_checksums(good: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(good, old)
    for path in (rank(old) / "begin.json", rank(old) / "end.json", rank(old) / "steps.jsonl"):
        found = [json.loads(line) for line in path.read_text().splitlines()]
        for one in found:
            one.pop("crc32")
            one.pop("files", None)
            if path.name == "begin.json":
                one["version"] = 2
        path.write_text("".join(json.dumps(one) + "\n" for one in found))
    for pair in ((good, old), (old, good)):
        shown = CliRunner().invoke(command, [*map(str, pair), "--allow-cpu"])
        assert (shown.exit_code, shown.output[:12]) == (1, "NOT COMPARED")
        assert "is of an older torchferry and has none" in shown.output
        assert "is a record of version 2, which has no checksums" in shown.output


def test_names_do_not_become_formulas_or_escapes(good: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(good, bad)

    def rename(found: dict[str, dict[str, str]]) -> None:
        keys = found["__metadata__"]["keys"].replace("Language", r"\u001b[31m").replace(r"\u001b[31m.head", "=cmd()|x")
        keys = keys.replace("[31m.norm", "[31m<img src=x onerror=alert(1)>")
        found["__metadata__"]["keys"] = keys

    for one in rank(bad).glob("layout-*"):
        header(one, rename)
    page = CliRunner().invoke(command, [str(bad), str(bad), "-f", "html"]).output
    assert "\x1b" not in page
    assert "&lt;img" in page
    assert "<img" not in page
    shown = CliRunner().invoke(command, [str(bad), str(bad)])
    assert "\x1b" not in shown.output
    table = CliRunner().invoke(command, [str(bad), str(bad), "-f", "csv"])
    assert "'=cmd()|x" in table.output
    assert not [line for line in table.output.splitlines() if line.startswith("=")]


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_the_command_ends_with_what_it_found(good: Path, tmp_path: Path, form: str) -> None:
    other = record(tmp_path / "other", Told(steps=2, rate=2e-3))
    same = CliRunner().invoke(command, [str(good), str(good), "--allow-cpu", "-f", form])
    assert same.exit_code == 0, same.output
    different = CliRunner().invoke(command, [str(good), str(other), "--allow-cpu", "-f", form])
    assert different.exit_code == 1
    if form == "json":
        assert json.loads(different.stdout)["causes"][0]["cause"] == "learning rate"
    assert CliRunner().invoke(command, [str(good), str(tmp_path / "none")]).exit_code == 2
