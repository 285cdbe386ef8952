"""Outputs of tools and failures, recorded with Tecorigin cards."""

from __future__ import annotations

from torchferry.backends.smi import Holder, SmiCard, SmiOutput

# Tecorigin model adaptation guide (2024)
SDAA_T100 = """
Wed Jun  5 02:46:48 2024
+-----------------------------------------------------------------------------+
|  TCML: 1.10.0        SDAADriver: 1.1.2b1        SDAARuntime: 1.1.2b0        |
|-------------------------------+----------------------+----------------------|
| Index  Name                   | Bus-Id               | Health      Volatile |
|        Temp          Pwr Usage|          Memory-Usage|             SPE-Util |
|=============================================================================|
|   0    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |        0MB / 15296MB |                   0% |
|-------------------------------+----------------------+----------------------|
|   1    TECO_AICARD_01         | 00000000:01:00.0     | OK                   |
|        35C                90W |      165MB / 15296MB |                   0% |
+-------------------------------+----------------------+----------------------+
| Processes:                                                                  |
|  Tcaicard     PID      Process name                            Memory Usage |
|=============================================================================|
|     1       76262      python3.8                                     165 MB |
+-----------------------------------------------------------------------------+
"""

# public installation notes of driver 3.2.1 (2026): the next layout of the table
SDAA_115 = """
|  TECO-SMI: 1.15.0        SDAADriver: 3.2.0        SDAARuntime: 3.2.0        |
| Index  Name                   | Bus-Id               | Health      SPE-Util |
|        Temp          Pwr Usage|          Memory-Usage|                      |
|=============================================================================|
|   0    TECO_AICARD_01         | 00000000:0C:00.0     | OK                0% |
|        40C                90W |        0MB / 65536MB |                      |
|   1    TECO_AICARD_01         | 00000000:10:00.0     | OK                0% |
|        38C                88W |        0MB / 65536MB |                      |
| No Process Running                                                          |
"""

# teco-modelzoo FAQ 6: `Volatile SPE-Util` N/A means that the card is gone
SDAA_LOST = SDAA_T100.replace("165MB / 15296MB |                   0% |", "165MB / 15296MB |                  N/A |")


READINGS = {
    "SDAA_T100": SmiOutput(
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
    "SDAA_115": SmiOutput(
        "teco-smi",
        "1.15.0",
        "3.2.0",
        (
            SmiCard("0", "TECO_AICARD_01", "OK", 40.0, 0, 65536, "0%"),
            SmiCard("1", "TECO_AICARD_01", "OK", 38.0, 0, 65536, "0%"),
        ),
        runtime="3.2.0",
    ),
}
"""What the tool's reader makes of the outputs, by their names here."""
