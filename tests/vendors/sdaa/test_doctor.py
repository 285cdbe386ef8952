"""What the doctor advises on machines with Tecorigin cards."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.recorded import commands, tool
from tests.vendors.sdaa.outputs import SDAA_T100


def test_another_card_is_not_offered_where_a_card_has_several_devices(tmp_path: Path) -> None:
    quarter = SDAA_T100.replace("0MB / 15296MB", "15000MB / 15296MB", 1)
    assert "VISIBLE" not in str(commands("card.memory", "sdaa", tmp_path, {}, **tool("teco-smi", quarter)))
