"""Every fact has a source, every CUDA-side name has a row, and no row says less than its status promises."""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
import shlex
import typing
from collections.abc import Iterator

import pytest

from torchferry.backends import cuda, machine, registry, smi
from torchferry.backends.base import Backend, TableFact
from torchferry.backends.card_table import described
from torchferry.backends.datafile import DATA, VENDORS
from torchferry.backends.dtype_rules import DTYPES
from torchferry.backends.tables import REWRITTEN, Row, load_table
from torchferry.backends.triton_target import effect_of
from torchferry.backends.unknown import Unknown
from torchferry.core import toml
from torchferry.core.finding import Effect

TARGETS = [name for name in registry.names() if (VENDORS / name).is_dir()]
TABLES = (
    "api",
    "env",
    "tools",
    "packages",
    "libraries",
    "frameworks",
    "images",
    "triton",
    "versions",
    "folk_variables",
)


def expected_names(table: str) -> frozenset[str]:
    if table == "versions":
        return frozenset()
    if table == "libraries":
        return frozenset(row.name for row in load_table(DATA / "common" / "libraries.toml"))
    if table == "packages":
        return frozenset(cuda.packages())
    return frozenset().union(*(group.names for group in cuda.groups(table).values()))


def rows(target: str) -> Iterator[tuple[str, Row]]:
    backend = registry.load(target)
    for table in TABLES:
        for row in backend.table(table):
            yield table, row


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("target", TARGETS)
def test_every_cuda_side_name_has_a_row(target: str, table: str) -> None:
    if table not in toml.load_own(VENDORS / target / "vendor.toml").get("complete", []):
        return
    lacking = sorted(expected_names(table) - {row.name for row in registry.load(target).table(table)})
    row = f'[[row]]\nnames = {json.dumps(lacking)}\nstatus = "unknown"\n'
    assert lacking == [], f"what nobody has verified goes into one row of {table}.toml, with its source:\n{row}"


@pytest.mark.parametrize("target", TARGETS)
def test_rows_say_what_their_status_promises(target: str) -> None:
    backend = registry.load(target)
    for table, row in rows(target):
        where = f"{target}/{table}.toml: {row.name}"
        assert row.source, where
        assert bool(row.note) == bool(row.note_zh), f"{where}: `note` and `note_zh` go together"
        if row.status in ("renamed", "equivalent", "partial") and table in ("api", "env"):
            assert row.use, f"{where}: status {row.status} needs `use`"
        if row.status == "same" and table == "api" and row.name.startswith(cuda.NAMESPACE):
            assert row.use or backend.NAMESPACE, f"{where}: `same` needs a namespace"
        if row.status not in REWRITTEN and table == "api":
            assert not row.use, f"{where}: status {row.status} has `use`; put advice in `note`"
        if row.status == "missing" and table in ("packages", "tools"):
            assert row.note, f"{where}: say what to do instead"
        if row.status in ("missing", "partial") and table == "triton":
            assert row.note, f"{where}: say what becomes of it"
            assert effect_of(row), where


@pytest.mark.parametrize("target", TARGETS)
def test_version_ranges_of_one_name_do_not_overlap(target: str) -> None:
    backend = registry.load(target)
    for table in TABLES:
        for version in backend.table(table).verified:
            for name in {row.name for row in backend.table(table)}:
                holding = [r for r in backend.table(table) if r.name == name and r.holds_for(version)]
                assert len(holding) <= 1, f"{target}/{table}.toml: {name}@{version}: {holding}"


@pytest.mark.parametrize("target", TARGETS)
def test_every_fact_has_a_source(target: str) -> None:
    backend = registry.load(target)
    identity = {"NAME", "TITLE", "TITLE_ZH", "ALIASES", "SOURCES", "DATA_DIRECTORY"}
    for name, value in vars(backend).items():
        if name.isupper() and name not in identity and not isinstance(value, Unknown):
            assert backend.SOURCES.get(name), f"{backend.__name__}.{name} has no entry in SOURCES"
    for name in backend.SOURCES:
        assert name in vars(backend), f"{backend.__name__}.SOURCES names {name}, which is not set"


@pytest.mark.parametrize("target", TARGETS)
def test_facts_have_the_declared_types(target: str) -> None:
    backend = registry.load(target)
    hints = typing.get_type_hints(Backend)
    for name, value in vars(backend).items():
        if not name.isupper():
            continue
        assert name in hints, f"{backend.__name__}.{name} is not part of the specification in base.py"
        allowed = typing.get_args(hints[name])[0]
        options = typing.get_args(allowed) if typing.get_origin(allowed) not in (tuple, dict) else (allowed,)
        kinds = tuple(typing.get_origin(option) or option for option in options or (allowed,))
        assert isinstance(value, kinds), f"{backend.__name__}.{name} = {value!r} is not {allowed}"


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_table_says_the_class_does_not_say_again(target: str) -> None:
    """A fact that stands in two places is found by its second place: the doctor and the migration then disagree."""
    of_tables = {name for name, value in vars(Backend).items() if isinstance(value, TableFact)}
    assert of_tables >= {"CARDS", "CARD_MEMORY", "DEVICES_PER_CARD", "SMI", "DEVICE_NODES", "DRIVER_MODULE"}
    assert sorted(of_tables & vars(registry.load(target)).keys()) == []


def known(value: object) -> set[str]:
    return set() if value is None or isinstance(value, Unknown) else {str(value)}


def places(target: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each fact that several places must have for their own sake, with the values that stand there."""
    backend, needs = registry.load(target), machine.facts(registry.load(target))
    tool, run = smi.tool(backend), shlex.split(needs.container.run)
    commands = [*tool.commands, *([tool.memory_error[0]] if tool.memory_error else [])]
    replaced = {row.use for row in backend.table("tools").named("nvidia-smi") if row.use}
    yield "management tool", {*known(backend.SMI), *replaced, *(command[0] for command in commands)}
    yield "its place", {*known(backend.SMI), *(place.rpartition("/")[2] for place in tool.places)}
    set_in = [word.partition("=")[0] for word in run if word.partition("=")[0].endswith("_VISIBLE_DEVICES")]
    yield "variable of containers", {*known(backend.CONTAINER_VISIBLE_DEVICES), *set_in}
    stated = [file.path.split("/")[3] for file in needs.driver.versions if file.path.startswith("/sys/module/")]
    yield "kernel module", {*known(backend.DRIVER_MODULE), *stated}
    patterns = [node.pattern for node in needs.nodes]
    given = [following for word, following in itertools.pairwise(run) if word == "--device"]
    strange = {path for path in given if not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)}
    yield "device nodes of the container's command", {"", *strange}
    flags = {
        flag
        for flag in ("privileged", "ipc", "network")
        if re.search(rf"--(?:{flag}|{flag[:3]}=host)", needs.container.run)
    }
    yield "flags of the container's command", {str(sorted(flags)), str(sorted(needs.container.flags))}
    size = re.search(r"--shm-size[= ](\d+)g", needs.container.run)
    if size and needs.container.shared_memory:
        yield "shared memory", {str(int(size[1]) << 30), str(needs.container.shared_memory)}
    yield "dtypes that differ", {str(sorted(backend.DTYPES)), str(sorted(backend.DTYPE_NOTES))}
    yield "dtypes that torch has not", {"", *(backend.DTYPES.keys() - DTYPES)}
    for card in described(backend):
        repeated = {dtype for dtype, rule in card.dtypes.items() if backend.DTYPES.get(dtype) == rule}
        yield f"dtypes of {card.name} that hold for all cards", {"", *repeated}


@pytest.mark.parametrize("target", TARGETS)
def test_places_that_state_one_fact_agree(target: str) -> None:
    found = dict(places(target))
    assert len(found) > 6
    assert {fact: values for fact, values in found.items() if len(values) > 1} == {}


def test_a_row_without_a_source_is_refused(tmp_path: object) -> None:
    import pathlib

    path = pathlib.Path(str(tmp_path)) / "api.toml"
    path.write_text('[sources]\nA = "a"\n[[row]]\nname = "torch.cuda.x"\nstatus = "same"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="source"):
        load_table(path)


@pytest.mark.parametrize("target", TARGETS)
def test_what_becomes_of_a_variable_without_a_counterpart_is_a_known_effect(target: str) -> None:
    for row in registry.load(target).table("env"):
        effect = row.extra.get("effect", "unknown")
        assert effect in {each.value for each in Effect}, row
        assert effect == "unknown" or (row.status == "missing" and row.note), f"{row.name}: nothing says why"
        assert "effect" in row.extra or "harmless" not in row.extra, f"{row.name}: what other values do"
