"""The vendors' tools, read from recorded outputs."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.vendors.npu.outputs import NPU_910B
from torchferry.backends import machine, registry, smi
from torchferry.backends.datafile import VENDORS
from torchferry.backends.errors import errors_of
from torchferry.core import toml

RECORDED = {
    path.parent.name: importlib.import_module(f"tests.vendors.{path.parent.name}.outputs")
    for path in sorted(Path(__file__).parent.parent.glob("vendors/*/outputs.py"))
}
READINGS = {
    (target, name): reading for target, outputs in RECORDED.items() for name, reading in outputs.READINGS.items()
}

DESCRIBED = [
    name
    for name in registry.built_in()
    if "doctor" in toml.load_own(VENDORS / name / "vendor.toml").get("complete", [])
]
"""The targets of whose machines everything is known that the checks ask for; of others the doctor says what is not."""


@pytest.mark.parametrize(("target", "name"), READINGS, ids="-".join)
def test_a_recorded_output_is_read(target: str, name: str) -> None:
    assert smi.read(smi.tool(registry.load(target)), getattr(RECORDED[target], name)) == READINGS[target, name]


@pytest.mark.parametrize("target", registry.built_in())
@pytest.mark.parametrize("text", ["", "usage: smi [-h]", "{\n}", "|" * 5000, "\u0000\ufffd\n" * 50, "| 0 |\n" * 500])
def test_what_is_no_listing_yields_no_card(target: str, text: str) -> None:
    assert smi.read(smi.tool(registry.load(target)), text).cards == ()


@pytest.mark.parametrize("target", registry.built_in())
def test_a_long_line_does_not_take_long(target: str) -> None:
    text = "|   0    " + "x " * 20_000 + "\n" + "* 0 " + "A" * 20_000 + "|" + " " * 20_000
    smi.read(smi.tool(registry.load(target)), text)


def test_lines_that_could_not_be_read_are_counted() -> None:
    broken = NPU_910B.replace("0000:C2:00.0  | 0 ", "0000:C2:00.0    0 ")
    reading = smi.read(smi.tool(registry.load("npu")), broken)
    assert (len(reading.cards), reading.unread) == (1, 1)


@pytest.mark.parametrize("target", DESCRIBED)
def test_every_target_has_the_facts_that_the_checks_ask_for(target: str) -> None:
    backend = registry.load(target)
    facts = machine.facts(backend)
    assert facts.nodes
    assert {library.role for library in facts.libraries} >= {"runtime", "collective"} or target == "ptex"
    assert facts.container.run
    assert any("machine" in entry.where for entry in errors_of(backend) if entry.owner != "common")
    assert facts.python.build


WRONG = {
    '[sources]\nA = "a"\n[driver]\npci_vender = "1"\nsource = "A"\n': "pci_vender",
    '[sources]\nA = "a"\n[[node]]\npattern = "/dev/x"\nkind = "cart"\nsource = "A"\n': "kind",
    '[sources]\nA = "a"\n[[node]]\npattern = "/dev/x"\nkind = "card"\n': "source",
    '[sources]\nA = "a"\n[sdk]\nname = "X"\ninstall = "do"\nsource = "A"\n': "install_zh",
    "surprise = 1\n": "surprise",
}


@pytest.mark.parametrize("text", WRONG, ids=WRONG.values())
def test_a_wrong_file_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "doctor.toml").write_text(text, encoding="utf-8")

    class Acme(registry.load("npu")):  # type: ignore[misc]
        NAME = "acme"
        DATA_DIRECTORY = tmp_path

    with pytest.raises(ValueError, match=WRONG[text]) as error:
        machine.facts(Acme)
    assert "doctor.toml" in str(error.value)


def test_a_format_without_an_index_is_refused(tmp_path: Path) -> None:
    text = (
        '[sources]\nA = "a"\n[tool]\nsource = "A"\n[[tool.format]]\nname = "x"\nstart = "a"\ncard = "b"\nsource = "A"\n'
    )
    (tmp_path / "doctor.toml").write_text(text, encoding="utf-8")

    class Acme(registry.load("npu")):  # type: ignore[misc]
        NAME = "acme"
        DATA_DIRECTORY = tmp_path

    with pytest.raises(ValueError, match="index"):
        smi.tool(Acme)


def test_the_files_are_where_the_backends_are() -> None:
    assert len(DESCRIBED) > 4
    assert set(DESCRIBED) <= set(registry.built_in())
