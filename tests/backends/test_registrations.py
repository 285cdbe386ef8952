"""Which operators each version of a plugin registers: the file, and the version that stands for an unread one."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import test_operators
from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.datafile import VENDORS
from torchferry.backends.operators import fallback_of, load_operators
from torchferry.backends.registrations import LISTS, Registrations, registrations
from torchferry.backends.unknown import Unknown
from torchferry.core import toml

TARGETS = [name for name in registry.built_in() if (VENDORS / name / "registrations.toml").is_file()]
ROOT = Path(__file__).parent.parent.parent

GOOD = """
source = "S"
read_from = "wheels"
[sources]
S = "the imaginary plugin's wheels"
[torch]
"1.2.0" = "2.5.1"
"1.2.0.post3" = "2.5.1"
"1.3.0" = "2.7.1"
[[operators]]
versions = ""
registered = ["add.Tensor"]
[[operators]]
versions = "1.2.0.post3 1.3.0"
registered = ["relu"]
sparse = ["_coalesce"]
"""


def acme(folder: Path, text: str) -> type[Backend]:
    (folder / "registrations.toml").write_text(text, encoding="utf-8")
    backend = test_operators.acme(folder, 'source = "S"\nfallback = "warn"\n[sources]\nS = "a page"\n')
    backend.DEFAULT_VERSION = "1.3.0"
    return backend


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('source = "S"', 'source = "T"', "not in [sources]"),
        ('read_from = "wheels"', 'read_from = "hearsay"', "read_from is `hearsay`, not wheels or sources"),
        ("1.2.0.post3 1.3.0", "1.2.0.post3 1.4.0", "were not read"),
        ("sparse = ", "sprase = ", "`sprase` is none of"),
        ('["relu"]', "[3]", "not a list of texts"),
        ('"1.3.0" = "2.7.1"', '"1.3.0" = 3', "not a text"),
        ("[torch]", "[trch]", "`trch` is none of"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=r"registrations\.toml: ") as caught:
        registrations(acme(tmp_path, GOOD.replace(old, new)))
    assert says in str(caught.value)


def test_each_version_has_its_own_lists(tmp_path: Path) -> None:
    backend = acme(tmp_path, GOOD)
    table = load_operators(backend, "1.2.0")
    assert (table.version, table.torch, table.fallback) == ("1.2.0", "2.5.1", "warn")
    assert (table.registered, table.sparse, table.nested) == (frozenset({"add.Tensor"}), frozenset(), frozenset())
    newest = load_operators(backend)
    assert (newest.version, newest.registered) == ("1.3.0", frozenset({"add.Tensor", "relu"}))
    assert newest.sparse == frozenset({"_coalesce"})
    assert newest.source == "the imaginary plugin's wheels; a page"
    assert load_operators(backend) is newest
    assert fallback_of(backend) == "warn"


@pytest.mark.parametrize(
    ("wanted", "read"),
    [
        ("1.2.0", "1.2.0"),
        ("1.2.0.post1", "1.2.0"),
        ("1.2.0.post9", "1.2.0.post3"),
        ("1.2.1", "1.2.0.post3"),
        ("1.2.0rc1", "1.2.0"),  # nothing before it was read
        ("1.9", "1.3.0"),
        ("1.0", "1.2.0"),
    ],
)
def test_the_nearest_version_stands_for_one_that_nobody_read(tmp_path: Path, wanted: str, read: str) -> None:
    known = registrations(acme(tmp_path, GOOD))
    assert known is not None
    assert known.nearest(wanted) == read


@given(
    st.sets(st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 3)),
)
def test_a_version_that_was_read_stands_for_itself(
    read: set[tuple[int, int, int]], wanted: tuple[int, int, int]
) -> None:
    def name(parts: tuple[int, int, int]) -> str:
        return f"{parts[0]}.{parts[1]}.0" + (f".post{parts[2]}" if parts[2] else "")

    known = Registrations({name(parts): "2.5.1" for parts in read}, "a page", "wheels", ())
    found = known.nearest(name(wanted))
    assert found in known.torch
    if wanted in read:
        assert found == name(wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_the_file_is_as_its_tool_writes_it(target: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "surface_tables.py"), target, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_stands_once_for_a_version_and_each_version_has_some(target: str) -> None:
    known = registrations(registry.load(target))
    assert known is not None
    for (versions, names), (others, more) in itertools.combinations(known.groups, 2):
        if versions & others:
            for key in LISTS:
                assert not names.get(key, frozenset()) & more.get(key, frozenset())
    for version in known.torch:
        assert len(known.of(version)["registered"]) > 500
    assert "operators" not in toml.load(VENDORS / target / "ops.toml")


REGISTERED = {
    "npu": {
        "2.1.0.post17": 1396, "2.5.1": 1324, "2.6.0.post5": 1402, "2.7.1": 1381, "2.7.1.post2": 1402,
        "2.7.1.post4": 1473, "2.9.0": 1402, "2.9.0.post2": 1473, "2.9.1": 1473, "2.13.0": 1496,
    },
    "musa": {"2.0.0": 719, "2.0.1": 724, "2.1.0": 886, "2.1.1": 899, "2.5.0": 945, "2.7.0": 963, "2.7.1": 1177},
}  # fmt: skip
"""Operators of torch's namespace that each version adds. With npu the toolkit of a wheel decides, not its torch."""


@pytest.mark.parametrize(
    ("target", "version", "number"),
    [(target, version, number) for target, versions in REGISTERED.items() for version, number in versions.items()],
)
def test_how_many_operators_each_version_registers(target: str, version: str, number: int) -> None:
    registered = load_operators(registry.load(target), version).registered
    assert not isinstance(registered, Unknown)
    assert len(registered) == number


def test_wheels_over_one_toolkit_register_the_same() -> None:
    backend = registry.load("npu")
    for same in (("2.6.0.post5", "2.7.1.post2", "2.9.0"), ("2.7.1.post4", "2.8.0.post5", "2.9.0.post2", "2.9.1")):
        assert len({load_operators(backend, version).registered for version in same}) == 1


LATER = [
    *(
        ("npu", "2.9.0", "2.13.0", name)
        for name in ("_fused_adam_", "_fused_sgd_", "_scaled_mm", "gelu.out", "mm.dtype")
    ),
    *(("musa", "2.5.0", "2.7.1", name) for name in ("_fused_sgd_", "addbmm", "_flash_attention_forward", "binomial")),
]
"""Operators that an older version lacks and a newer one has."""


@pytest.mark.parametrize(("target", "older", "newer", "name"), LATER)
def test_an_operator_that_came_later_is_not_in_an_older_version(target: str, older: str, newer: str, name: str) -> None:
    old, new = (load_operators(registry.load(target), version).registered for version in (older, newer))
    assert not isinstance(old, Unknown)
    assert not isinstance(new, Unknown)
    assert name in new
    assert name not in old
