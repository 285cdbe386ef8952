"""The table of parts of packages: what each is, and that every target answers for it."""

from __future__ import annotations

import re

import pytest

from torchferry.backends import cuda, registry
from torchferry.backends.datafile import DATA, VENDORS
from torchferry.backends.parts import divided, parts, parts_by_top, row_of
from torchferry.backends.tables import load_table
from torchferry.backends.target import Target
from torchferry.core import toml

NAMES = registry.names()


def test_every_part_is_of_a_package_and_its_names_are_of_that_packages_modules() -> None:
    for part in parts().values():
        package = (cuda.hosts() | cuda.packages())[part.package]
        assert re.fullmatch(r"[a-z0-9-]+\.[a-z0-9]+", part.name), part.name
        assert part.names, part.name
        for name in part.names:
            of_torch = re.fullmatch(r"torch\.ops\.\w+", name) is not None  # operators that the import registers
            own = any(f"{name}.".startswith(f"{module}.") for module in package.modules)
            assert of_torch or own, (part.name, name)
            assert part in parts_by_top()[name.partition(".")[0]]
        assert part.package in divided()


def test_no_name_is_in_two_parts() -> None:
    names = [name for part in parts().values() for name in part.names]
    assert sorted(names) == sorted(set(names))


def test_an_argument_that_decides_says_what_it_must_be() -> None:
    for part in parts().values():
        assert bool(part.argument) == bool(part.holds), part.name
        if part.holds:
            assert re.match(r"(in|>) \S", part.holds), part.name


def test_parts_that_answer_for_others_are_parts_and_lead_to_a_row() -> None:
    for part in parts().values():
        for needed in part.needs:
            assert needed in parts(), part.name
            assert not parts()[needed].needs, f"{part.name}: name the part that answers itself"


def test_every_source_is_used_and_every_part_has_one() -> None:
    document = toml.load_own(DATA / "cuda" / "parts.toml")
    cited = {key for part in document["part"] for key in part["source"].split()}
    assert cited == set(document["sources"])


@pytest.mark.parametrize("name", NAMES)
def test_every_target_answers_for_every_part(name: str) -> None:
    target = Target(registry.load(name))
    for part in parts().values():
        row = row_of(part, target)
        assert row.source, part.name
        assert row.note or row.use, part.name
        assert bool(row.note) == bool(row.note_zh), part.name
        if row.status in ("renamed", "equivalent"):
            assert row.use, part.name


@pytest.mark.parametrize("folder", ["common", *NAMES])
def test_rows_are_about_parts_that_answer_for_themselves(folder: str) -> None:
    path = (DATA if folder == "common" else VENDORS) / folder / "parts.toml"
    answering = {part.name for part in parts().values() if not part.needs}
    assert {row.name for row in load_table(path)} <= answering
    if path.is_file():
        document = toml.load_own(path)
        cited = {key for row in document["row"] for key in row["source"].split()}
        assert cited == set(document["sources"])
