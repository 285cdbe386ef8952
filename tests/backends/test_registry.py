"""Targets are found by their descriptions, and one that is broken is an error that names it."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.datafile import VENDORS
from torchferry.backends.installed import installed
from torchferry.backends.target import Target
from torchferry.backends.unknown import UNKNOWN
from torchferry.core.errors import UsageError


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the one with the targets' descriptions."""
    monkeypatch.setattr(registry, "VENDORS", tmp_path)
    return tmp_path


LEAST = """
title = "Zeta Cards"

[sources]
S = "the manual"

[plugin]
value = "torch_zeta"
source = "{S}: page 1"

[device_type]
value = "zeta"
source = "{S}"

[collective]
value = "zccl"
source = "https://example.com/manual"
"""


def write(folder: Path, text: str = LEAST, name: str = "zeta") -> None:
    (folder / name).mkdir()
    (folder / name / "vendor.toml").write_text(text, encoding="utf-8")


def test_every_folder_of_a_vendor_is_a_target() -> None:
    folders = sorted(path.name for path in VENDORS.iterdir() if path.is_dir())
    assert registry.built_in() == folders
    assert [registry.load(name).NAME for name in folders] == folders


def test_a_folder_without_a_description_is_no_target(described: Path) -> None:
    (described / "notes").mkdir()
    (described / "helper.py").touch()
    assert registry.built_in() == []
    for name in ("notes", "helper", "cuda", "common", "cards"):
        with pytest.raises(UsageError, match="unknown target"):
            registry.load(name)


def test_the_least_description_is_enough(described: Path) -> None:
    write(described)
    backend = registry.load("zeta")
    assert (backend.NAME, backend.TITLE, backend.PLUGIN) == ("zeta", "Zeta Cards", "torch_zeta")
    assert backend.SOURCES == {
        "PLUGIN": "the manual: page 1",
        "DEVICE_TYPE": "the manual",
        "COLLECTIVE": "https://example.com/manual",
    }
    assert backend.MOVER is UNKNOWN
    assert backend.CARDS == ()
    assert registry.load("Zeta") is backend


def test_a_name_may_have_a_hyphen_and_is_never_a_path(described: Path) -> None:
    write(described, name="zeta-two")
    assert registry.built_in() == ["zeta-two"]
    assert registry.load("zeta-two").NAME == "zeta-two"
    (described / "deeper").mkdir()
    write(described / "deeper")
    for path in ("../zeta-two", "deeper/zeta", "zeta-two/", "", "."):
        with pytest.raises(UsageError, match="unknown target"):
            registry.load(path)


def test_facts_have_the_kinds_that_the_specification_declares(described: Path) -> None:
    facts = """
[mover]
none = true
source = "{S}"
[autocast]
value = true
source = "{S}"
[redirections]
value = ["a", "b"]
source = "{S}"
[build_modules]
value = ["torch.zeta: no card: none"]
source = "{S}"
[install]
value = "install it"
value_zh = "安装"
source = "{S}"
[[dtype]]
name = "float64"
rule = "limited"
note = "slow"
note_zh = "慢"
source = "{S}"
[[dtype]]
name = "int64"
rule = "narrowed"
note = "32 bits"
note_zh = "32 位"
source = "{S}: page 2"
"""
    write(described, LEAST + facts)
    backend = registry.load("zeta")
    assert (backend.MOVER, backend.AUTOCAST, backend.REDIRECTIONS) == (None, True, ("a", "b"))
    assert backend.BUILD_MODULES == {"torch.zeta": "no card: none"}
    assert backend.INSTALL.render("zh") == "安装"
    assert backend.DTYPES == {"float64": "limited", "int64": "narrowed"}
    assert backend.DTYPE_NOTES["int64"].render("zh") == "32 位"
    assert backend.source_of("DTYPES") == backend.source_of("DTYPE_NOTES") == "the manual; the manual: page 2"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "[mover\n", "not TOML"),
        ("[collective]", "[colective]", "`colective` is no fact"),
        ("[collective]", "[smi]", "`smi` is no fact"),  # the table of the tool says it
        ("[collective]", "[name]", "`name` is no fact"),
        ('value = "zccl"', 'value = ["zccl"]', "[collective]: `value` is ['zccl'], not a text"),
        ('value = "zccl"', "none = true", "[collective]: `none` is no answer"),
        ('value = "zccl"', "none = false", "or `none = true`"),
        ('value = "zccl"', 'value = "zccl"\nnone = true', "or `none = true`"),
        ('value = "zccl"', 'walue = "zccl"', "[collective]: `walue` is none of"),
        ("{S}: page 1", "{T}: page 1", "[plugin]: source `{T}: page 1`"),
        ("https://example.com/manual", "", "[collective]: source `` is empty"),
        ("", '[autocast]\nvalue = "yes"\nsource = "x"\n', "not true or false"),
        ("", '[redirections]\nvalue = "yes"\nsource = "x"\n', "not a list of texts"),
        ("", '[build_modules]\nvalue = ["x"]\nsource = "x"\n', 'is a list of "name: text"'),
        ("", '[[dtype]]\nname = "int8"\nrule = "odd"\nsource = "x"\n', "[[dtype]] int8"),
        ('title = "Zeta Cards"', "title = 3", "`title` is 3, not a text"),
        ('\n[collective]\nvalue = "zccl"\nsource = "https://example.com/manual"\n', "", "it does not set COLLECTIVE"),
    ],
)
def test_a_description_that_is_wrong_is_an_error(described: Path, old: str, new: str, says: str) -> None:
    write(described, LEAST.replace(old, new) if old else LEAST + new)
    assert registry.built_in() == ["zeta"]
    with pytest.raises(UsageError) as caught:
        registry.load("zeta")
    assert says in caught.value.message.render("en")
    with pytest.raises(UsageError, match="unknown target `zetta`"):  # what is asked for is not what is broken
        registry.load("zetta")


def test_a_class_that_lacks_what_has_no_default_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(registry.load("npu"), "COLLECTIVE")
    assert not hasattr(Backend, "COLLECTIVE")
    with pytest.raises(UsageError) as caught:
        registry.load("npu")
    assert "it does not set COLLECTIVE" in caught.value.message.render("en")


def test_a_target_goes_to_other_processes() -> None:
    """Its class is made when it is asked for, and no module holds it."""
    for name in registry.built_in():
        target = pickle.loads(pickle.dumps(Target.named(name)))
        assert target.backend is registry.load(name)
    with pytest.raises(AttributeError, match="no_such_target"):
        pickle.loads(b"ctorchferry.backends.described_classes\nno_such_target\n.")


def test_a_folder_with_the_plugins_name_is_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = registry.load(registry.built_in()[0]).PLUGIN
    (tmp_path / plugin / "configs").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed() == []
    (tmp_path / plugin / "__init__.py").touch()
    importlib.invalidate_caches()
    assert [backend.PLUGIN for backend in installed()] == [plugin]


@pytest.mark.parametrize(
    ("target", "torch", "expected"),
    [
        ("npu@2.5.1", "2.7.1", "npu@2.5.1"),  # a version that was named stays
        ("npu", "2.13.0+cpu", "npu@2.13.0"),
        ("npu", "2.9.1", "npu@2.9.1"),  # not the row of 2.9.0
        ("musa", "2.5.1+cu124", "musa@2.5.0"),  # another patch release
        ("ptex", "1.10.0", "ptex@1.3.20"),  # a row of the same torch names another package
        ("musa", "2.13.0", "musa"),  # no row
        ("npu", "2.15.0", "npu"),
    ],
)
def test_a_target_without_a_version_means_the_plugin_for_the_torch(target: str, torch: str, expected: str) -> None:
    assert str(Target.named(target).for_torch(torch)) == expected
