"""Targets are found by their descriptions, and one that is broken is an error that names it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from torchferry.backends import base, registry
from torchferry.backends.base import Backend
from torchferry.backends.installed import installed
from torchferry.core.errors import UsageError


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the one with the targets' descriptions."""
    monkeypatch.setattr(registry, "VENDORS", tmp_path)
    return tmp_path


def test_every_class_of_a_target_has_a_description() -> None:
    names = registry.built_in()
    assert [registry.load(name).NAME for name in names] == names
    modules = {path.stem for path in Path(base.__file__).parent.glob("*.py")}
    assert set(names) < modules
    assert not set(names) & {"cuda", "common"}
    assert {name for name in modules if "(Backend)" in (Path(base.__file__).parent / f"{name}.py").read_text()} == {
        *names
    }


def test_a_helper_is_no_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a module without a description nor a folder of tables without one."""
    for name in ("cards", "target", "cuda", "common", "unknown"):
        assert name not in registry.names()
        with pytest.raises(UsageError, match="unknown target"):
            registry.load(name)


@pytest.mark.parametrize(
    ("name", "description", "says"),
    [
        ("nowhere", 'class = "Nowhere"\n', "cannot be loaded from"),  # there is no module
        ("npu", "", "is the class `?` of `backends/npu.py`"),
        ("npu", 'class = "Backend"\n', "no Backend of this name"),
        ("npu", 'class = "Musa"\n', "no Backend of this name"),
        ("npu", "class = [", "cannot be loaded from"),
    ],
)
def test_a_description_that_is_wrong_is_an_error(described: Path, name: str, description: str, says: str) -> None:
    (described / name).mkdir()
    (described / name / "target.toml").write_text(description, encoding="utf-8")
    assert registry.built_in() == [name]
    with pytest.raises(UsageError) as caught:
        registry.load(name)
    assert says in caught.value.message.render("en")
    with pytest.raises(UsageError, match="unknown target `nppu`"):  # what is asked for is not what is broken
        registry.load("nppu")


def test_a_class_that_lacks_what_has_no_default_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(registry.load("npu"), "COLLECTIVE")
    assert not hasattr(Backend, "COLLECTIVE")
    with pytest.raises(UsageError) as caught:
        registry.load("npu")
    assert "it does not set COLLECTIVE" in caught.value.message.render("en")


def test_a_folder_with_the_plugins_name_is_no_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = registry.load(registry.built_in()[0]).PLUGIN
    (tmp_path / plugin / "configs").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed() == []
    (tmp_path / plugin / "__init__.py").touch()
    importlib.invalidate_caches()
    assert [backend.PLUGIN for backend in installed()] == [plugin]
