"""What each process group refuses is well formed and sourced, and a malformed table is refused with its file named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.test_operators import TARGETS, acme
from torchferry.backends import registry
from torchferry.backends.collectives import DTYPES, OPERATIONS, refusals
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.rehearsal.event_kinds import DTYPES as NAMED

GOOD = """
    [sources]
    S = "the imaginary plugin's source"
    [names]
    float64 = "double"
    [[refused]]
    operations = ["reduce"]
    dtypes = ["float64"]
    text = "ACCL {operation}: no {dtype}"
    source = "S"
    [[refused]]
    operations = []
    dtypes = ["float64", "int16"]
    text = "no {dtype}"
    source = "S"
"""


@pytest.mark.parametrize("name", TARGETS)
def test_every_table_says_what_is_refused_in_the_vendors_words(name: str) -> None:
    found = refusals(registry.load(name))
    if isinstance(found, Unknown):
        assert name in ("sdaa", "ptex"), "the sources of the other plugins' process groups are public"
        return
    assert len({(each.operation, each.dtype) for each in found}) == len(found)
    assert all(each.text and "{" not in each.text and each.source for each in found)


def test_the_first_entry_that_fits_decides(tmp_path: Path) -> None:
    found = refusals(acme(tmp_path, GOOD, "collectives.toml"))
    assert not isinstance(found, Unknown)
    texts = {(each.operation, each.dtype): each.text for each in found}
    assert len(texts) == 2 * len(OPERATIONS)
    assert texts["reduce", "float64"] == "ACCL reduce: no double"
    assert texts["reduce", "int16"] == "no Short"
    assert texts["send", "float64"] == "no double"
    assert found[0].source == "the imaginary plugin's source"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["reduce"]', '["redduce"]', "refused 1: there is no redduce of float64"),
        ('["float64", "int16"]', '["float65"]', "refused 2: there is no"),
        ('source = "S"', 'source = "T"', "not in [sources]"),
        ("dtypes = ", "dtyps = ", "`dtyps` is none of"),
    ],
)
def test_a_malformed_table_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"collectives\.toml: ") as error:
        refusals(acme(tmp_path, GOOD.replace(old, new, 1), "collectives.toml"))
    assert said in str(error.value)


def test_without_a_table_it_is_unknown(tmp_path: Path) -> None:
    assert refusals(acme(tmp_path, None)) is UNKNOWN


def test_dtypes_have_the_names_that_events_know() -> None:
    assert {NAMED[name]: name for name in NAMED} == {dtype: DTYPES[dtype] for dtype in NAMED.values()}
