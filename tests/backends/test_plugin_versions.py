"""Versions of plugins: read as versions, written as the tables do, and refused where no table knows the release."""

from __future__ import annotations

import pytest

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.plugin_versions import is_known, known_versions
from torchferry.backends.target import InstalledPlugin, Target
from torchferry.core.errors import UsageError


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("npu@2.13", "npu@2.13.0"),
        ("npu@v2.13.0", "npu@2.13.0"),
        ("npu@2.9.post6", "npu@2.9.0.post6"),
        ("npu@2.9.post3", "npu@2.9.0.post3"),
        ("npu@2.9.0+mine", "npu@2.9.0+mine"),
        ("ascend@2.9", "npu@2.9.0"),
        ("npu", "npu"),
        ("musa@2.7", "musa@2.7.0"),
        ("sdaa@3.2", "sdaa@3.2.0"),
        ("ptex@2.1", "ptex@2.1.0"),
        ("ptex@2.1.0+torch1.11.0", "ptex@2.1.0+torch1.11.0"),
    ],
)
def test_a_version_is_written_in_one_way(written: str, target: str) -> None:
    assert str(Target.requested(written)) == target


@pytest.mark.parametrize(
    ("written", "advice"),
    [
        ("npu@2.7", "did you mean `npu@2.7.1`? (known: 2.1.0, 2.3.1, "),
        ("npu@9", "known: 2.1.0, 2.3.1, "),
        ("gcu@2.9", "did you mean `gcu@2.9.1`? (known: 2.3.0, "),
        ("ptex@1.3", "did you mean `ptex@1.3.20`? (known: 1.3.20, 2.1.0+torch1.11.0)"),
    ],
)
def test_a_release_that_no_table_knows_is_refused_with_those_that_exist(written: str, advice: str) -> None:
    version = written.partition("@")[2]
    with pytest.raises(UsageError, match=f"version {version} of .* is in no table") as refused:
        Target.requested(written)
    assert refused.value.lines()[1].startswith(advice)
    assert str(Target.named(written)) == written, "a record is read as it was written"


@pytest.mark.parametrize("name", registry.built_in())
def test_what_the_tables_name_is_known_as_it_stands_there(name: str) -> None:
    known = known_versions(registry.load(name))
    assert known
    assert [str(Target.requested(f"{name}@{version}")) for version in known] == [f"{name}@{each}" for each in known]


def test_of_a_plugin_without_tables_every_version_is_taken() -> None:
    class Bare(Backend):
        NAME, TITLE, PLUGIN, DEVICE_TYPE, COLLECTIVE = "bare", "Bare", "torch_bare", "bare", "bccl"

    assert known_versions(Bare) == ()
    assert is_known(Bare, "7")


@pytest.mark.parametrize(("version", "taken"), [("2.9.0.post77", "npu@2.9.0.post77"), ("2.99.0", "npu")])
def test_the_target_of_an_environment_can_be_given_to_a_command(version: str, taken: str) -> None:
    target = Target.requested("npu").with_installed(InstalledPlugin(version, "environment"))
    assert target.version == version
    assert str(target) == taken
    Target.requested(taken)
