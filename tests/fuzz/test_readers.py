"""Every reader reads its seeds and answers what is made of them, and no reader is missing from the table.

The round here is small and always the same. `make fuzz` runs longer ones, which coverage guides.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.faults import fault_of, round_of
from tests.fuzz.mutations import MUTATORS, mutated
from tests.fuzz.readers import NOT_OF_OTHERS, READERS
from tests.fuzz.table import CORPUS, ROOT, SEEDS, Reader
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say

SOURCE = ROOT / "src" / "torchferry"

INPUTS = 20
"""Inputs for each reader, beside its seeds and those that once found a fault."""

READS = re.compile(
    r"\b(?:read_regular|read_text|open_regular|read_bytes|read_with_mode|parsed_json)\(|(?<![\w.])open\(|\.open\(\"r"
    r"|\bos\.open\(|\btoml\.loads?\(|\bjson\.loads?\(|\bast\.parse\(|\bcsv\.reader\(|raw_decode|\bConfigParser\("
    r"|\byaml\.(?:parse|load)\(|\bmmap\(|\bZipFile\("
)
"""What a module does that opens or parses a file."""


def needed(reader: Reader) -> Reader:
    for module in reader.needs:
        pytest.importorskip(module)
    return reader


@pytest.fixture(autouse=True)
def restored_environment() -> Iterator[None]:
    """Give the tests behind these their own home again: an input is read with one in a folder."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize("name", READERS)
def test_its_seeds_are_read_and_no_input_is_a_fault(name: str, tmp_path: Path) -> None:
    reader = needed(READERS[name])
    seeds = reader.seeds()
    assert seeds
    for number, data in enumerate(seeds):
        folder = tmp_path / str(number)
        folder.mkdir()
        reader.read(folder, data)
    faults = list(round_of(reader, INPUTS, 0, tmp_path))
    assert not faults, f"{faults[0].what} at {faults[0].place} for {faults[0].data!r}\n{faults[0].trace}"


def test_every_module_that_reads_is_in_the_table_or_says_why_not() -> None:
    covered = {module for reader in READERS.values() for module in reader.covers}
    reading = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if SOURCE / "vendors" not in path.parents and READS.search(path.read_text(encoding="utf-8"))
    }
    assert sorted(reading - covered - NOT_OF_OTHERS.keys()) == [], "add a reader, or say in NOT_OF_OTHERS why not"
    assert covered & NOT_OF_OTHERS.keys() == set()
    assert sorted(NOT_OF_OTHERS.keys() - reading) == [], "they read nothing any more"
    assert all((SOURCE / module).is_file() for module in covered)


def test_seeds_and_kept_inputs_belong_to_a_reader() -> None:
    folders = {path.name for folder in (SEEDS, CORPUS) for path in folder.iterdir()}
    assert folders <= READERS.keys()


@pytest.mark.parametrize("form", MUTATORS)
def test_inputs_are_changed_and_the_same_in_each_round(form: str) -> None:
    seeds = [
        json.dumps({"a": [1, "cuda", {"b": None}]}).encode() * 3,
        b'{"a": [1, 2, {"b": "cuda"}]}',
        b"",
        b"[" * 3000,
    ]
    made = [[mutated(seed, form, seeds, Random(number)) for number in range(200)] for seed in seeds]
    assert made == [[mutated(seed, form, seeds, Random(number)) for number in range(200)] for seed in seeds]
    assert all(len(set(each)) > 20 for each in made)


def _refuses(folder: Path, data: bytes) -> None:
    raise TorchferryError(say("{text} is refused", text=data))


def _leaves(folder: Path, data: bytes) -> None:
    Path("/nowhere-at-all/x").write_text("")


FAULTY = {
    "an error of ours is none": (_refuses, None),
    "an error of Python is one": (lambda folder, data: json.loads("["), "JSONDecodeError"),
    "a full stack is one": (lambda folder, data: _deeper(), "RecursionError"),
    "too much memory is one": (lambda folder, data: _fail(MemoryError()), "MemoryError"),
    "an end of the process is one": (lambda folder, data: _fail(SystemExit(3)), "SystemExit"),
    "a file elsewhere is one": (lambda folder, data: _ignore(_leaves), "effect"),
}


def _deeper() -> None:
    _deeper()


def _fail(error: BaseException) -> None:
    raise error


def _ignore(read: object) -> None:
    try:
        read(Path(), b"")  # type: ignore[operator]
    except OSError:
        return


@pytest.mark.parametrize(("read", "what"), FAULTY.values(), ids=FAULTY)
def test_what_is_a_fault(read: object, what: str | None, tmp_path: Path) -> None:
    reader = Reader("x", read, "text", (), list, ())  # type: ignore[arg-type]
    fault = fault_of(reader, b"input", tmp_path)
    assert (fault.what if fault else None) == what
    assert list(tmp_path.iterdir()) == []
