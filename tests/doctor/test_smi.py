"""The vendors' tools, read from recorded outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor import outputs
from torchferry.backends import machine, registry, smi
from torchferry.backends.datafile import VENDORS
from torchferry.backends.smi import Holder, SmiCard, SmiOutput
from torchferry.core import toml

READINGS = {
    ("npu", "NPU_910B"): SmiOutput(
        "npu-smi info",
        "23.0.7",
        "23.0.7",
        (SmiCard("0", "910B3", "OK", 55.0, 3338, 65536, "0"), SmiCard("1", "910B3", "OK", 54.0, 3337, 65536, "0")),
    ),
    ("npu", "NPU_910C"): SmiOutput(
        "npu-smi info",
        "25.2.0",
        "25.2.0",
        (
            SmiCard("7", "Ascend910", "OK", 36.0, 3416, 65536, "0"),
            SmiCard("7.1", "Ascend910", "OK", 35.0, 31877, 65536, "0"),
        ),
    ),
    ("npu", "NPU_310P"): SmiOutput(
        "npu-smi info", "23.0.0", "23.0.0", (SmiCard("24", "310P3", "OK", 29.0, 1832, 21527, "0"),)
    ),
    ("musa", "MUSA_S80"): SmiOutput(
        "mthreads-gmi",
        "1.14.0",
        "2.7.0",
        (SmiCard("0", "MTT S80", None, 56.0, 1339, 16384, "98%", "N/A"),),
        (
            Holder("0", 120, "...ird_party/bin/llama-box/llama-box", 2),
            Holder("0", 2022, "...ird_party/bin/llama-box/llama-box", 1333),
        ),
    ),
    ("musa", "MUSA_S5000"): SmiOutput(
        "mthreads-gmi",
        "2.3.2",
        "3.3.5-server",
        (
            SmiCard("0", "MTT S5000", None, 52.0, 66641, 81920, "0%", "On-die, EDC"),
            SmiCard("1", "MTT S5000", None, 51.0, 10, 81920, "0%", "On-die, EDC"),
        ),
    ),
    ("sdaa", "SDAA_T100"): SmiOutput(
        "teco-smi",
        "1.10.0",
        "1.1.2b1",
        (
            SmiCard("0", "TECO_AICARD_01", "OK", 35.0, 0, 15296, "0%"),
            SmiCard("1", "TECO_AICARD_01", "OK", 35.0, 165, 15296, "0%"),
        ),
        (Holder("1", 76262, "python3.8", 165),),
        runtime="1.1.2b0",
    ),
    ("sdaa", "SDAA_115"): SmiOutput(
        "teco-smi",
        "1.15.0",
        "3.2.0",
        (
            SmiCard("0", "TECO_AICARD_01", "OK", 40.0, 0, 65536, "0%"),
            SmiCard("1", "TECO_AICARD_01", "OK", 38.0, 0, 65536, "0%"),
        ),
        runtime="3.2.0",
    ),
    ("gcu", "GCU_Q"): SmiOutput(
        "efsmi -q", "", "1.4.3.4", (SmiCard("0", "S60", "True", 35.0, 0, 42976, "0.0", "Enable", 0),)
    ),
    ("gcu", "GCU_TABLE"): SmiOutput(
        "efsmi",
        "1.2.0.301",
        "1.2.0.301",
        (
            SmiCard("0", "S60", None, 39.0, None, 49120, None, "Disable"),
            SmiCard("1", "Enflame S60G", None, 34.0, None, 23552, None, "Disable"),
        ),
    ),
    ("ptex", "T20"): SmiOutput(
        "efsmi",
        "1.20.0",
        "2.4.20230829",
        (
            SmiCard("0", "T20", None, 30.0, None, 32768, None, "Enable"),
            SmiCard("1", "T20", None, 30.0, None, 32768, None, "Enable"),
        ),
    ),
}

DESCRIBED = [
    name
    for name in registry.built_in()
    if "doctor" in toml.load_own(VENDORS / name / "vendor.toml").get("complete", [])
]
"""The targets of whose machines everything is known that the checks ask for; of others the doctor says what is not."""


@pytest.mark.parametrize(("target", "name"), READINGS, ids="-".join)
def test_a_recorded_output_is_read(target: str, name: str) -> None:
    assert smi.read(smi.tool(registry.load(target)), getattr(outputs, name)) == READINGS[target, name]


@pytest.mark.parametrize("target", registry.built_in())
@pytest.mark.parametrize("text", ["", "usage: smi [-h]", "{\n}", "|" * 5000, "\u0000\ufffd\n" * 50, "| 0 |\n" * 500])
def test_what_is_no_listing_yields_no_card(target: str, text: str) -> None:
    assert smi.read(smi.tool(registry.load(target)), text).cards == ()


@pytest.mark.parametrize("target", registry.built_in())
def test_a_long_line_does_not_take_long(target: str) -> None:
    text = "|   0    " + "x " * 20_000 + "\n" + "* 0 " + "A" * 20_000 + "|" + " " * 20_000
    smi.read(smi.tool(registry.load(target)), text)


def test_lines_that_could_not_be_read_are_counted() -> None:
    broken = outputs.NPU_910B.replace("0000:C2:00.0  | 0 ", "0000:C2:00.0    0 ")
    reading = smi.read(smi.tool(registry.load("npu")), broken)
    assert (len(reading.cards), reading.unread) == (1, 1)


@pytest.mark.parametrize("target", DESCRIBED)
def test_every_target_has_the_facts_that_the_checks_ask_for(target: str) -> None:
    backend = registry.load(target)
    facts = machine.facts(backend)
    assert facts.nodes
    assert {library.role for library in facts.libraries} >= {"runtime", "collective"} or target == "ptex"
    assert facts.container.run
    assert facts.failures
    assert facts.python.build


WRONG = {
    '[sources]\nA = "a"\n[driver]\npci_vender = "1"\nsource = "A"\n': "pci_vender",
    '[sources]\nA = "a"\n[[node]]\npattern = "/dev/x"\nkind = "cart"\nsource = "A"\n': "kind",
    '[sources]\nA = "a"\n[[node]]\npattern = "/dev/x"\nkind = "card"\n': "source",
    '[sources]\nA = "a"\n[sdk]\nname = "X"\ninstall = "do"\nsource = "A"\n': "install_zh",
    '[sources]\nA = "a"\n[[failure]]\nmatch = "("\ncause = "a"\ncause_zh = "b"\nsource = "A"\n': "regular expression",
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
