"""What a library at a version does about a target's device, and by which question it decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.datafile import DATA, VENDORS
from torchferry.backends.tables import LIBRARY_STATUSES, ORDERS, Row, load_table
from torchferry.backends.target import Target

FILES = [*sorted(DATA.glob("*/libraries.toml")), *sorted(VENDORS.glob("*/libraries.toml"))]


def rows() -> Iterator[tuple[str, Row]]:
    for path in FILES:
        for row in load_table(path):
            yield f"{path.parent.name}: {row.name}", row


def test_rows_are_complete(subtests: pytest.Subtests) -> None:
    for where, row in rows():
        with subtests.test(where):
            _check_row(row)


def _check_row(row: Row) -> None:
    assert row.status in LIBRARY_STATUSES
    assert row.name.isidentifier(), "the top-level package that is imported"
    assert set(row.extra) <= {"order", "asks", "redirects", "before", "device_arguments", "device_settings", "on_cpu"}
    assert row.extra.get("before", "unknown") == "unknown"
    assert not row.use, "what to install instead is said in packages.toml"
    assert row.source
    if row.status != "unknown":
        assert row.extra["order"] in ORDERS
        assert row.extra["asks"]
    if row.status == "knows":
        assert row.extra["order"] not in ("only", "named"), "it would not choose the device by itself"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_versions_of_one_library_do_not_overlap(path: Path) -> None:
    table = load_table(path)
    for name in {row.name for row in table}:
        for older, newer in pairwise(table.named(name)):
            assert older.until, f"{name}: only the last row may be open"
            assert newer.since, f"{name}: only the first row may begin anywhere"
            assert Version(older.until) <= Version(newer.since), name


@pytest.mark.parametrize("target", registry.built_in())
def test_the_plugin_itself_knows_its_device(target: str) -> None:
    assert Target(registry.load(target)).library(registry.load(target).PLUGIN).status == "knows"


def test_a_plugin_without_a_row_knows_its_device() -> None:
    class Acme(Backend):
        NAME = "acme"
        PLUGIN = "torch_acme"
        SOURCES = {"PLUGIN": "its manual"}  # noqa: RUF012

    row = Target(Acme).library("torch_acme")
    assert (row.status, row.source) == ("knows", "its manual")
    assert Target(Acme).library("torch_npu").status == "unknown"


@pytest.mark.parametrize(
    ("target", "name", "version", "status", "order"),
    [
        ("npu", "accelerate", "0.20.3", "ignores", None),
        ("npu", "accelerate", "0.21.0", "knows", "after"),
        ("npu", "accelerate", "0.33.0", "knows", "after"),
        ("npu", "accelerate", "0.34.0", "knows", "before"),
        ("npu", "accelerate", "1.15.0", "knows", "before"),
        ("npu", "accelerate", "", "knows", "before"),
        ("npu", "accelerate", "1.15.0+local", "knows", "before"),
        ("npu", "accelerate", "of today", "unknown", None),
        ("musa", "accelerate", "0.32.1", "ignores", None),
        ("musa", "accelerate", "0.33.0", "knows", "before"),
        ("sdaa", "accelerate", "1.4.0", "ignores", None),
        ("sdaa", "accelerate", "1.5.0", "knows", "before"),
        ("gcu", "accelerate", "1.15.0", "ignores", "only"),
        ("ptex", "accelerate", "1.15.0", "ignores", "only"),
        ("npu", "transformers", "4.31.0", "ignores", None),
        ("npu", "transformers", "4.32.0", "knows", "mixed"),
        ("musa", "transformers", "4.44.2", "ignores", None),
        ("musa", "transformers", "4.45.0", "knows", "mixed"),
        ("gcu", "transformers", "5.23.0", "ignores", "only"),
        ("npu", "diffusers", "0.26.3", "ignores", None),
        ("npu", "diffusers", "0.27.0", "partial", "named"),
        ("npu", "diffusers", "0.40.0", "knows", "after"),
        ("npu", "diffusers", "0.41.0", "knows", "never"),
        ("musa", "diffusers", "0.40.0", "ignores", None),
        ("musa", "diffusers", "0.41.0", "partial", "never"),
        ("ptex", "diffusers", "0.41.0", "ignores", "never"),
        ("npu", "deepspeed", "0.10.0", "ignores", None),
        ("npu", "deepspeed", "0.10.1", "knows", "before"),
        ("sdaa", "deepspeed", "0.16.4", "ignores", None),
        ("musa", "deepspeed", "0.19.2", "ignores", "only"),
        ("npu", "lightning", "2.6.6", "ignores", "only"),
        ("npu", "torchvision", "0.28.0+cpu", "ignores", "only"),
        ("npu", "timm", "1.0.11", "ignores", None),
        ("npu", "timm", "1.0.31", "partial", "named"),
        ("musa", "timm", "1.0.31", "ignores", "named"),
        ("npu", "ultralytics", "8.4.21", "ignores", None),
        ("npu", "ultralytics", "8.4.22", "partial", "named"),
        ("npu", "mmcv", "1.7.2", "unknown", None),
        ("npu", "openmind", "1.0", "unknown", None),
        ("npu", "no_such_library", "1.0", "unknown", None),
        ("npu", "no_such_library", "of today", "unknown", None),
    ],
)
def test_what_a_version_knows(target: str, name: str, version: str, status: str, order: str | None) -> None:
    row = Target(registry.load(target)).library(name, version)
    assert (row.name, row.status, row.extra.get("order")) == (name, status, order)


@pytest.mark.parametrize(
    ("target", "name", "module"),
    [
        ("npu", "mindspeed", "torch_npu.contrib.transfer_to_npu"),
        ("musa", "vllm_musa", "torchada"),
        ("musa", "sglang", "torchada"),
        ("gcu", "vllm_gcu", "torch_gcu.transfer_to_gcu"),
        ("npu", "accelerate", None),
    ],
)
def test_which_libraries_redirect_by_themselves(target: str, name: str, module: str | None) -> None:
    assert Target(registry.load(target)).library(name).extra.get("redirects") == module


def test_words_of_the_other_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "libraries.toml"
    path.write_text('[sources]\nA = "a"\n[[row]]\nname = "x"\nstatus = "same"\nsource = "A"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="knows, partial, ignores, unknown"):
        load_table(path)
