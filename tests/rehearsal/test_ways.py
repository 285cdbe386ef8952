"""What the comparison of ways counts as a fault; the comparison itself is `make ways`."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

import pytest

from benchmarks.rehearsal.argument_forms import program
from benchmarks.rehearsal.expected_ways import EXPECTED
from benchmarks.rehearsal.ways import NOTED, PROBES, faults
from torchferry.backends.registry import built_in
from torchferry.backends.target import Target

FAULTS: dict[tuple[str, str, str], bool | None] = {
    ("1", "1", "1"): None,
    ("1", "1" + NOTED, "1"): None,
    ("told: a", "told: b", "told: c"): None,
    ("1", "told: a", "1"): True,
    ("1", "2" + NOTED, "1"): True,
    ("1", "2", "1"): False,
    ("told: a", "1", "1"): False,
    ("raises: a", "raises: a", "raises: a"): False,
}
"""What migrated, portable and redirected code did: no fault (None), an expected one, or not."""


@pytest.mark.parametrize("did", FAULTS)
def test_a_fault_is_what_disagrees_or_raises_untold(did: tuple[str, str, str]) -> None:
    by_way = {way: {"probe_peer": word} for way, word in zip(("migrated", "portable", "run"), did, strict=True)}
    assert [expected for _, expected, _ in faults("npu", by_way)] == [
        each for each in (FAULTS[did],) if each is not None
    ]


def test_what_portable_code_lacks_is_named_place_by_place() -> None:
    by_way = {"migrated": {"probe_a": "1"}, "portable": {"probe_a": "told: a"}, "run": {"probe_a": "1"}}
    assert [expected for _, expected, _ in faults("npu", by_way)] == [False]
    assert not any(row.probe == "*" for row in EXPECTED)


def probes_of(text: str) -> set[str]:
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def test_every_expectation_is_about_a_probe() -> None:
    probes = set().union(*(probes_of(path.read_text(encoding="utf-8")) for path in PROBES.glob("*.py")))
    probes |= probes_of(program(Target.named("npu")))
    assert [row.probe for row in EXPECTED if not any(fnmatchcase(probe, row.probe) for probe in probes)] == []


@pytest.mark.parametrize("name", built_in())
def test_every_target_has_its_forms(name: str) -> None:
    probes = probes_of(program(Target.named(name)))
    assert {"probe_cuda_of_Tensor__00", "probe_is_available__00"} <= probes
    assert len(probes) > 100
