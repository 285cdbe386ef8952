"""The tools that compare a simulated plugin with the vendor's own, and what the tables say of each version."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.contents import Presence, contents, home_of
from torchferry.backends.datafile import VENDORS
from torchferry.backends.tables import REWRITTEN, reached
from torchferry.backends.target import Target

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return importlib.import_module("compare_surface")


@pytest.mark.parametrize(
    ("of_plugin", "of_simulated", "same"),
    [
        ("callable (a, b=1)", "callable (a, b=1)", True),
        ("callable (a, b=1)", "callable (a, c=1)", False),
        ("callable (a, b=1)", "callable (a, b=2)", False),
        ("callable (a, **kwargs)", "callable (a, **options)", True),
        ("callable (*args, **kwargs)", "callable (a, b)", True),  # it hides what it takes
        ("callable (a, b)", "callable (*args, **kwargs)", False),  # wrong calls would pass
        ("callable ?", "callable (a)", True),
        ("class (a)", "callable (a)", False),
        ("property", "value", True),
        ("enum A=0 B=1", "enum A=0", False),
        ("module", "value", False),
    ],
)
def test_what_counts_as_the_same(compare: ModuleType, of_plugin: str, of_simulated: str, same: bool) -> None:
    assert compare.alike(of_plugin, of_simulated) is same


PLUGIN = {
    "names": {"p": "module", "p.f": "callable (a)", "p.g": "callable ()", "p.C:m": "method (self)", "p.V": "value"}
}
PICTURE = {
    "names": {"p": "module", "p.f": "callable (b)", "p.g": "not rehearsed (*args)", "p.C:m": "absent", "p.V": "value"},
    "more": {"p.x": "value"},
}


def test_each_difference_has_its_kind(compare: ModuleType) -> None:
    differences = list(compare.compared(PLUGIN, PICTURE))
    assert [(each.kind, each.name) for each in differences] == [
        ("only-plugin", "p.C:m"),
        ("differs", "p.f"),
        ("only-simulated", "p.x"),
    ]


def test_an_explained_difference_is_counted_and_another_is_printed(compare: ModuleType) -> None:
    said: list[str] = []
    table = [compare.Explanation("differs", ("p.*",), "names differ"), compare.Explanation("differs", ("q",), "never")]
    number = compare.report(compare.compared(PLUGIN, PICTURE), table, lambda line: said.append(str(line)))
    assert number == 2
    assert [line.split()[0] for line in said] == [
        "only-plugin",
        "only-simulated",
        "explained",
        "explains",
        "differences:",
    ]
    assert said[-1] == "differences: 1 explained, 2 not"
    assert compare.report([], table, said.append) == 0


def test_operators_are_compared_with_the_table_of_the_version(compare: ModuleType) -> None:
    backend = registry.load("npu")
    listed = compare.load_operators(backend, "2.9.0")
    lists: dict[str, Any] = {key: sorted(getattr(listed, key)) for key in compare.LISTS}
    surface = {"version": "2.9.0", "registrations": lists}
    assert list(compare.operator_differences(backend, surface, {})) == []
    lists["registered"] = [*lists["registered"][1:], "new.out"]
    found = {each.name for each in compare.operator_differences(backend, surface, {"lost": ["new.out"]})}
    assert found == {"registered:new.out", f"registered:{sorted(listed.registered)[0]}"}


@pytest.mark.parametrize(
    "target", [name for name in registry.built_in() if (VENDORS / name / "surface.toml").is_file()]
)
def test_every_explanation_is_sound(compare: ModuleType, target: str) -> None:
    table = compare.explanations(registry.load(target))
    assert table
    assert all(each.names and each.reason for each in table)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kind = "odd"\nnames = ["a"]\nreason = "b"', "`kind` is one of"),
        ('kind = "differs"\nnames = ["a"]', "says why"),
    ],
)
def test_a_malformed_explanation_is_refused(compare: ModuleType, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "surface.toml").write_text(f"[[explained]]\n{text}\n", encoding="utf-8")
    backend = type("Acme", (Backend,), {"NAME": "acme", "DATA_DIRECTORY": tmp_path})
    with pytest.raises(ValueError, match=says):
        compare.explanations(backend)


# --- versions ---


@pytest.mark.parametrize(
    ("first", "version", "there"),
    [
        ("2.13.0", "2.12.0.post3", False),
        ("2.13.0", "2.13.0", True),
        ("2.7.1.post4 2.9.0.post2 2.9.1", "2.7.1", False),
        ("2.7.1.post4 2.9.0.post2 2.9.1", "2.7.1.post4", True),
        ("2.7.1.post4 2.9.0.post2 2.9.1", "2.9.0", False),  # newer than 2.7.1.post4, and without it
        ("2.7.1.post4 2.9.0.post2 2.9.1", "2.9.0.post6", True),
        ("2.7.1.post4 2.9.0.post2 2.9.1", "2.8.0", False),  # none of its own: the last one counts
        ("2.7.1.post4 2.9.0.post2 2.9.1", "2.10.0", True),
    ],
)
def test_the_first_version_may_be_one_for_each_torch(first: str, version: str, there: bool) -> None:
    assert reached(first, version) is there


CHANGED = [
    ("npu", "torch.cuda.host_memory_stats", "2.9.0", "2.9.0.post2"),
    ("npu", "torch.cuda.host_memory_stats", "2.7.1.post2", "2.7.1.post4"),
    ("npu", "torch.cuda.ExternalStream", "2.10.0", "2.10.0.post7"),
    ("npu", "torch.cuda.nvtx.range_push", "2.10.0", "2.10.0.post4"),
    ("npu", "torch.cuda.StreamContext", "2.5.1", "2.5.1.post1"),
    ("npu", "torch.cuda.ipc_collect", "2.4.0", "2.6.0"),
    ("npu", "torch.cuda.OutOfMemoryError", "2.9.0", "2.9.1"),
    ("musa", "torch.cuda.MemPool", "2.0.1", "2.1.0"),
    ("musa", "torch.cuda.memory.change_current_allocator", "2.0.0", "2.1.1"),
]


@pytest.mark.parametrize(("target", "name", "before", "after"), CHANGED)
def test_a_name_that_came_later_is_missing_before(target: str, name: str, before: str, after: str) -> None:
    assert Target(registry.load(target), before).api(name).status == "missing"
    assert Target(registry.load(target), after).api(name).status in REWRITTEN


VERIFIED = {
    "npu": "2.1.0 2.3.1 2.4.0 2.5.1 2.6.0 2.7.1 2.8.0 2.9.0 2.10.0 2.13.0 2.14.0",
    "musa": "2.0.0 2.0.1 2.1.0 2.1.1 2.5.0 2.7.0 2.7.1",
    "gcu": "2.10.0",
}


@pytest.mark.parametrize("target", VERIFIED)
def test_the_versions_whose_surface_was_read(target: str) -> None:
    assert set(VERIFIED[target].split()) <= set(registry.load(target).table("api").verified)


@pytest.mark.parametrize("target", ["npu"])
def test_the_api_table_agrees_with_what_each_version_contains(target: str) -> None:
    """Names of modules that are attributes of other modules, and members of classes, are in no list."""
    backend = registry.load(target)
    known = contents(backend)
    assert known is not None
    wrong = []
    for version in known.versions:
        for row in backend.table("api"):
            path = row.use or backend.NAMESPACE + row.name.removeprefix("torch.cuda")
            if not row.name.startswith("torch.cuda.") or not row.holds_for(version):
                continue
            owner, _, last = home_of(backend, path).rpartition(".")
            if last.startswith("_") or known.by_path.get(owner, (None,))[0] is not Presence.MODULE or "mstx" in owner:
                continue
            there = known.presence(home_of(backend, path), version)
            if row.status in ("same", "renamed") and path.startswith(backend.NAMESPACE) and there is Presence.ABSENT:
                wrong.append((version, row.name, "is not there"))
            if row.status == "missing" and not row.use and there in (Presence.CALLABLE, Presence.VALUE):
                wrong.append((version, row.name, "is there"))
    assert wrong == []
