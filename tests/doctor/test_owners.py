"""Whose a library or a function is that the loader does not find: the package, and versions on both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.backends import registry
from torchferry.backends.library_owners import owner_of_function, owner_of_library, owners_of
from torchferry.cli import doctor
from torchferry.doctor.symbols.owners import TargetVersions, of_function, of_library

LIBRARIES = {
    "libatb.so": ("npu", "part"),
    "libatb_mixops.so": ("npu", "part"),
    "libascend_hal.so": ("npu", "driver"),
    "libascend_dump.so": ("npu", "toolkit"),
    "libhccl.so": ("npu", "toolkit"),
    "libtorch_npu.so": ("npu", "plugin"),
    "libsrv_um_MUSA.so": ("musa", "driver"),
    "libmusa.so.4": ("musa", "toolkit"),
    "libmusa_python.so.1": ("musa", "plugin"),
    "libmupti.so.0.9": ("musa", "toolkit"),
    "libmccl.so.2": ("musa", "part"),
    "libtopsrt.so": ("gcu", "toolkit"),
    "libtecodnn.so": ("sdaa", "toolkit"),
    "libc.so.6": None,
    "libmusashi.so": None,
    "libcudart.so.12": None,
}
FUNCTIONS = {
    "PVRSRVGetDevInfo": ("musa", "driver"),
    "musaMalloc": ("musa", "toolkit"),
    "muInit": ("musa", "toolkit"),
    "mublasCreate": ("musa", "toolkit"),
    "at::musa::add": ("musa", "plugin"),
    "aclrtMallocAlign32": ("npu", "toolkit"),
    "aclnnAdd": ("npu", "toolkit"),
    "HcclAllReduce": ("npu", "toolkit"),
    "ge::Graph::Save": ("npu", "toolkit"),
    "atb::CreateOperation": ("npu", "part"),
    "halGetDeviceInfo": ("npu", "driver"),
    "drvGetDevNum": ("npu", "driver"),
    "c10_npu::current_device": ("npu", "plugin"),
    "multiply": None,
    "halt": None,
    "acl": None,
    "aclose": None,
    "c10::Error::Error": None,
    "cudaMalloc": None,
}


@pytest.mark.parametrize("name", [*LIBRARIES, *FUNCTIONS])
def test_the_package_is_known_by_the_beginning_of_a_name(name: str) -> None:
    owner = owner_of_library(name) if name in LIBRARIES else owner_of_function(name)
    assert (None if owner is None else (owner.target, owner.kind)) == {**LIBRARIES, **FUNCTIONS}[name]


def test_no_two_packages_bring_the_same_library_and_each_text_has_its_chinese() -> None:
    for name in registry.built_in():
        owners = owners_of(registry.load(name))
        stems = [stem for owner in owners if owner.functions or owner.advice.en for stem in owner.libraries]
        assert len(set(stems)) == len(stems), name
        for owner in owners:
            assert owner.source
            assert bool(owner.advice.en) == bool(owner.advice.zh)


def test_versions_of_both_sides_and_other_numbers_of_the_library_are_named(tmp_path: Path) -> None:
    (tmp_path / "libmusa.so.1.5.4").write_bytes(b"")
    (tmp_path / "libmusashi.so").write_bytes(b"")

    def installed(target: str) -> TargetVersions:
        return TargetVersions("2.7.0", "4.3.5", "") if target == "musa" else TargetVersions()

    owner = owner_of_library("libmusa.so.4")
    assert owner is not None
    cause, _ = of_library("libmusa.so.4", "/x/libmusart.so.4", owner, installed, [str(tmp_path), "/nowhere"])
    text = cause.render("en")
    assert "libmusa.so.1.5.4" in text
    assert "libmusashi" not in text
    assert "/x/libmusart.so.4 needs it" in text
    assert text.endswith("; installed: driver 2.7.0, toolkit 4.3.5")
    driver = owner_of_function("PVRSRVGetDevInfo")
    assert driver is not None
    cause, advice = of_function(driver, installed)
    assert "older than what calls it; installed: driver 2.7.0, toolkit 4.3.5" in cause.render("en")
    assert "do not build the plugin again" in advice.render("en")
    assert "已安装" not in of_function(driver, lambda target: TargetVersions())[0].render("zh")


MESSAGES = {
    "ImportError: libatb.so: cannot open shared object file: No such file": "Ascend-cann-nnal",
    "OSError: liblcal.so: cannot open shared object file: No such file": "Ascend-cann-nnal",
    "OSError: libdcmi.so: cannot open shared object file: No such file": "the driver",
    "OSError: libfoo.so.2: cannot open shared object file": "",
    "/usr/local/musa/lib/libmusa.so.1.0: undefined symbol: PVRSRVGetDevInfo": "the driver",
    "libtorch_cpu.so: cannot open shared object file": "",
}


@pytest.mark.parametrize(("message", "owner"), MESSAGES.items())
def test_the_loaders_words_are_enough(message: str, owner: str) -> None:
    done = CliRunner().invoke(doctor.command, ["symbol", message, "-f", "json"])
    assert done.exit_code == 1, done.output
    (symbol,) = json.loads(done.output)["symbols"]
    assert symbol["owner"] == owner
    assert symbol["cause"]
    assert symbol["advice"]
