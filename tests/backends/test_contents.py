"""What is known of the plugins' packages is well formed, and says of each name whether a version has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.test_operators import TARGETS, acme
from torchferry.backends import registry
from torchferry.backends.contents import Presence, contents

GOOD = """
    versions = ["1.0.post2", "1.1", "1.2"]
    incomplete = ["1.2"]
    source = "the imaginary wheels"
    [[modules]]
    versions = ""
    names = ["torch_acme", "torch_acme._C"]
    [[modules]]
    versions = "1.1"
    names = ["torch_acme.tools"]
    [[contents]]
    module = "torch_acme.tools"
    versions = "1.1"
    callables = ["Tool"]
    values = ["LIMIT"]
"""


@pytest.mark.parametrize(
    ("path", "version", "wanted"),
    [
        ("torch_acme.tools", "1.1", Presence.MODULE),
        ("torch_acme.tools", "1.0", Presence.ABSENT),
        ("torch_acme.tools", "1.2", Presence.UNKNOWN),
        ("torch_acme.tools.Tool", "1.1.post9", Presence.CALLABLE),
        ("torch_acme.tools.Tool", "0.9", Presence.UNKNOWN),
        ("torch_acme.tools.LIMIT", "1.1", Presence.VALUE),
        ("torch_acme.tools.other", "1.1", Presence.ABSENT),
        ("torch_acme.other", "1.2", Presence.ABSENT),
        ("torch_acme", "0.9", Presence.MODULE),
        ("torch_acme._C.anything", "1.1", Presence.UNKNOWN),
    ],
)
def test_a_name_in_a_version(path: str, version: str, wanted: Presence, tmp_path: Path) -> None:
    known = contents(acme(tmp_path, GOOD, "contents.toml"))
    assert known is not None
    assert known.presence(path, version) is wanted


def test_what_the_last_version_that_was_read_in_full_has(tmp_path: Path) -> None:
    known = contents(acme(tmp_path, GOOD, "contents.toml"))
    assert known is not None
    assert known.in_last_complete_version("torch_acme.tools.Tool") is Presence.CALLABLE
    assert known.in_last_complete_version("torch_acme.other") is Presence.ABSENT
    assert known.versions_with("torch_acme.tools.Tool") == ("1.1",)
    assert known.versions_with("torch_acme") == ("1.0.post2", "1.1", "1.2")
    assert known.versions_with("torch_acme.other") == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('versions = "1.1"', 'versions = "1.3"', "versions `1.3` were not read"),
        ("callables = ", "calables = ", "`calables` is none of"),
    ],
)
def test_a_malformed_list_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"contents\.toml: ") as error:
        contents(acme(tmp_path, GOOD.replace(old, new), "contents.toml"))
    assert said in str(error.value)


@pytest.mark.parametrize("name", TARGETS)
def test_every_list_has_the_package_itself_and_its_source(name: str) -> None:
    backend = registry.load(name)
    known = contents(backend)
    if known is not None:
        assert known.source
        assert known.incomplete <= set(known.versions)
        assert known.presence(backend.PLUGIN, backend.DEFAULT_VERSION) is Presence.MODULE
        assert known.presence(backend.IMPORT_NAMESPACE, backend.DEFAULT_VERSION) is Presence.MODULE
