"""The table of packages: what each is, where that is known from, and how it is found by what a program imports."""

from __future__ import annotations

import re

import pytest

from torchferry.backends import cuda, registry
from torchferry.backends.cuda import package_named, package_of_module
from torchferry.backends.datafile import DATA, VENDORS
from torchferry.backends.tables import load_table
from torchferry.backends.target import Target
from torchferry.backends.unknown import UNKNOWN
from torchferry.core import toml

EVERY = [*cuda.packages().values(), *cuda.hosts().values()]
NAMES = [name for name in registry.names() if (VENDORS / name / "packages.toml").is_file()]


def test_there_are_as_many_as_people_use() -> None:
    assert len(cuda.packages()) >= 300
    assert len(cuda.hosts()) >= 100
    assert {package.kind for package in EVERY} == set(cuda.PACKAGE_KINDS)


def test_no_distribution_and_no_module_stands_twice() -> None:
    assert not cuda.packages().keys() & cuda.hosts().keys()
    for table in ("packages", "hosts"):
        listed = [
            entry.partition(":")[0]
            for group in toml.load_own(DATA / "cuda" / f"{table}.toml")["group"]
            for entry in group["packages"]
        ]
        assert sorted(listed) == sorted(set(listed))
    modules = [module for package in EVERY for module in package.modules]
    assert sorted(modules) == sorted(set(modules))


@pytest.mark.parametrize("table", ["packages", "hosts"])
def test_every_source_is_used_and_every_fact_has_one(table: str) -> None:
    document = toml.load_own(DATA / "cuda" / f"{table}.toml")
    cited = {key for group in document["group"] for key in group["source"].split()}
    assert cited == set(document["sources"])
    assert all(len(text) > 20 for text in document["sources"].values())


def test_what_a_package_says_is_in_the_words_of_the_table() -> None:
    for package in EVERY:
        assert package.name == re.sub(r"[-_.]+", "-", package.name).lower(), package
        assert package.kind in cuda.PACKAGE_KINDS, package
        assert package.source, package
        assert package.plain_path is UNKNOWN or package.plain_path in cuda.PLAIN_PATHS, package
        assert package.imports_without_cuda is UNKNOWN or isinstance(package.imports_without_cuda, bool), package


def test_every_module_and_what_is_below_it_leads_to_its_package() -> None:
    for package in EVERY:
        for module in package.modules:
            assert re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", module), package
            assert package_of_module(module) is package
            assert package_of_module(f"{module}.deeper.Name") is package
        for name in package.names or ():
            assert any(f"{name}.".startswith(f"{module}.") for module in package.modules), package


def test_what_cannot_be_imported_without_cuda_has_no_plain_path() -> None:
    wrong = [
        package.name for package in EVERY if package.imports_without_cuda is False and package.plain_path == "torch"
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ["common", *NAMES])
def test_rows_are_about_packages_of_the_table(folder: str) -> None:
    table = load_table((DATA if folder == "common" else VENDORS) / folder / "packages.toml")
    strange = sorted({row.name for row in table} - cuda.packages().keys())
    assert strange == [], f"{folder}/packages.toml: give them a row in cuda/packages.toml first"
    names = [row.name for row in table if not (row.since or row.until)]
    assert sorted(names) == sorted(set(names)), f"{folder}/packages.toml: two rows about one package"
    for row in table:
        assert bool(row.note) == bool(row.note_zh), row.name
        if row.note:
            assert re.search(r"[\u4e00-\u9fff]", row.note_zh) or row.note_zh == row.note, row.name
        if row.status in ("renamed", "equivalent"):
            assert row.use, f"{folder}/packages.toml: {row.name} is {row.status}, by what?"
        if row.status in ("missing", "partial"):
            assert row.note or row.use, f"{folder}/packages.toml: {row.name}: say what to do"


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_has_the_rows_that_it_promises(name: str) -> None:
    target = Target(registry.load(name))
    for package in EVERY:
        row = target.row("packages", package.name)
        assert row.source, package.name
        if package.kind == "host":
            assert row.status == "same"
        if package.kind == "plain":
            assert row.status in ("same", "missing"), package.name  # missing: what needs a newer torch
        if package.kind == "other":
            assert row.status == "unknown"


@pytest.mark.parametrize(
    ("module", "distribution"),
    [
        ("flash_attn", "flash-attn"),
        ("flash_attn.bert_padding", "flash-attn"),
        ("flash_attn_interface", "flash-attn-3"),
        ("numba", "numba"),
        ("numba.cuda", "numba"),
        ("nvidia.dali.fn", "nvidia-dali"),
        ("optimum.quanto", "optimum-quanto"),
        ("optimum.onnxruntime", "optimum"),
        ("pyannote.audio", "pyannote-audio"),
        ("google.protobuf.message", "protobuf"),
        ("google.cloud.storage", "google-cloud-storage"),
        ("cv2", "opencv-python"),
        ("PIL.Image", "pillow"),
        ("sklearn.metrics", "scikit-learn"),
        ("diff_gaussian_rasterization", "diff-gaussian-rasterization"),
        ("simple_knn._C", "simple-knn"),
        ("mmcv.ops", "mmcv"),
        ("MultiScaleDeformableAttention", "multiscaledeformableattention"),
    ],
)
def test_a_module_leads_to_its_distribution(module: str, distribution: str) -> None:
    package = package_of_module(module)
    assert package is not None
    assert package.name == distribution


@pytest.mark.parametrize(
    "module", ["", "nvidia", "nvidia.cublas", "google", "pyannote", "my_own_module", "flash", "os"]
)
def test_a_module_that_no_table_has_leads_nowhere(module: str) -> None:
    assert package_of_module(module) is None
    assert Target.named("npu").package_of_module(module) is None


@pytest.mark.parametrize(
    ("spelling", "distribution"),
    [("Pillow", "pillow"), ("pyannote.audio", "pyannote-audio"), ("Flash_Attn", "flash-attn"), ("numpy", "numpy")],
)
def test_a_distribution_is_found_in_any_spelling(spelling: str, distribution: str) -> None:
    package = package_named(spelling)
    assert package is not None
    assert package.name == distribution


def test_what_a_target_has_in_place_of_a_module() -> None:
    target = Target.named("musa")
    package, row = target.package_of_module("deep_ep.buffer") or pytest.fail("deep_ep is in the table")
    assert (package.kind, row.status) == ("kernels", "equivalent")
    assert "MT-DeepEP" in row.use
    package, row = target.package_of_module("yaml") or pytest.fail("yaml is in the table")
    assert (package.kind, row.status) == ("host", "same")


def test_the_tables_are_read_the_fast_way() -> None:
    for path in (*DATA.glob("*/packages.toml"), *VENDORS.glob("*/packages.toml"), DATA / "cuda" / "hosts.toml"):
        toml._plain(path.read_text(encoding="utf-8"))
