"""The name by which programs import what reads two records and compares them; it is in `runlog` and `rundiff`."""

from __future__ import annotations

import sys

from torchferry.numerics.rundiff import comparison
from torchferry.numerics.runlog import record

sys.modules[f"{__name__}.record"] = record
sys.modules[f"{__name__}.comparison"] = comparison
