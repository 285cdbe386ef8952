"""Releases of the tables are in the order in which `packaging` has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from torchferry.backends import registry
from torchferry.backends.removed import release, torch_of
from torchferry.backends.target import Target
from torchferry.backends.unknown import UNKNOWN

RELEASES = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))


@given(RELEASES, RELEASES)
def test_two_releases(one: str, other: str) -> None:
    assert (release(one) >= release(other)) == (Version(one) >= Version(other))


def test_the_newest_torch_is_taken_where_no_version_is_named() -> None:
    for name in registry.built_in():
        rows = registry.load(name).table("versions")
        every = [row.name.partition("==")[2] for row in rows if row.name.startswith("torch==")]
        assert torch_of(Target.named(name)) == max(every, key=Version)


def test_the_torch_of_a_plugin_is_found_without_the_name_of_its_build() -> None:
    for version, torch in (("2.1.0", "1.11.0"), ("2.1.0+torch1.11.0", "1.11.0"), ("1.3.20", "1.10.0")):
        assert torch_of(Target.named(f"ptex@{version}")) == torch


@pytest.mark.parametrize(
    ("target", "takes"), [("npu@2.13.0", True), ("npu@2.0.1", UNKNOWN), ("npu", True), ("ptex", False)]
)
def test_a_number_means_the_device_since_torch_2_1(target: str, takes: object) -> None:
    assert Target.named(target).takes_numbers() is takes
