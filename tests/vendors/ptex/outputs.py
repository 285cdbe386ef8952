"""Outputs of tools and failures, recorded with Enflame T20 cards."""

from __future__ import annotations

from torchferry.backends.smi import SmiCard, SmiOutput

# a public parser of efsmi 1.20.0 with a listing of two T20 cards (2023)
T20 = """
*Sat Oct  7 15:54:28 2023-------------------------------------------------*
*EFSMI    V1.20.0          Driver Ver: 2.4.20230829                       *
*-------------------------------------------------------------------------*
* DEV    NAME                | FW VER          | BUS-ID     ECC           *
* TEMP   DPM   Pwr(Usage/Cap)| Mem         vGCU| DEV-Util   UUID          *
*-------------------------------------------------------------------------*
* 0      T20                 | 10.19.3         | 00:3d:0.0  Enable        *
* 30C    Sleep   48.0W  300W | 32G      Disable|   0.0%     W28001210504  *
*-------------------------------------------------------------------------*
* 1      T20                 | 10.19.3         | 00:3e:0.0  Enable        *
* 30C    Sleep   48.0W  300W | 32G      Disable|   0.0%     W28001010604  *
"""


READINGS = {
    "T20": SmiOutput(
        "efsmi",
        "1.20.0",
        "2.4.20230829",
        (
            SmiCard("0", "T20", None, 30.0, None, 32768, None, "Enable"),
            SmiCard("1", "T20", None, 30.0, None, 32768, None, "Enable"),
        ),
    ),
}
"""What the tool's reader makes of the outputs, by their names here."""
