"""How a list of visible cards is read: what is asked for, what a program gets, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.backends.visible_cards import read_list, shortfall, unread_variables

NPU = Target(registry.load("npu"))


@pytest.mark.parametrize(
    ("value", "asked", "got", "entry", "why"),
    [
        ("0,1", 2, 2, "", ""),
        ("0,1,7", 3, 2, "7", "absent"),
        ("3,7,1,0", 4, 1, "7", "absent"),
        ("2,0", 2, 0, "0", "unordered"),
        ("1,1", 2, 0, "1", "unordered"),
        ("0, 1", 2, 1, "1", "space"),
        ("0 ,1", 2, 1, "0", "space"),
        ("0,1 ", 2, 2, "1", "space"),
        ("0,x,1", 3, 1, "x", "text"),
        ("1a,2", 2, 1, "1a", "text"),
        ("0,,1", 2, 1, "", "text"),
    ],
)
def test_a_list_is_read_as_the_plugin_reads_it(value: str, asked: int, got: int, entry: str, why: str) -> None:
    assert read_list(NPU, value, 4) == (asked, got, entry, why)
    assert (shortfall(NPU, "V", value, count=4) is None) == (got == asked)


def _of_torch_npu(value: str, installed: int) -> int:
    """Count as `_parse_visible_devices` and `_device_count_ascend_hal` of torch_npu 2.13.0 do."""
    taken = ""
    for letter in value:
        if letter not in "0123456789,":
            break
        taken += letter
    numbers: list[int] = []
    for entry in taken.split(","):
        if not entry:
            break
        numbers.append(int(entry))
    for at, number in enumerate(numbers):
        if at and number <= numbers[at - 1]:
            return 0
        if number >= installed:
            return at
    return len(numbers)


@given(st.text("0123459, x-", min_size=1, max_size=8), st.integers(1, 8))
def test_no_list_is_read_in_another_way_than_by_the_plugin(value: str, installed: int) -> None:
    reading = read_list(NPU, value, installed)
    if reading is not None:
        assert reading.got == _of_torch_npu(value, installed)


def test_what_is_not_verified_is_not_claimed() -> None:
    musa = Target(registry.load("musa"))
    assert read_list(musa, "2,0", 4) is None
    assert shortfall(musa, "V", "2,0", count=4) is None
    counted = shortfall(musa, "V", "0,1,7", got=2)
    assert counted is not None
    assert counted.render("en") == "`V=0,1,7` asks for 3 cards, and a program gets 2"
    assert shortfall(musa, "V", "-1", got=0) is None  # hidden on purpose


def test_names_that_nobody_reads_are_facts_of_the_target() -> None:
    names = ["HCCL_DEBUG", "PATH", "GCU_VISIBLE_DEVICES"]
    said = [(name, text.render("en")) for name, text in unread_variables(NPU, names)]
    assert [name for name, _ in said] == ["HCCL_DEBUG"]
    assert said[0][1].startswith("nothing reads `HCCL_DEBUG`: it has no effect")
