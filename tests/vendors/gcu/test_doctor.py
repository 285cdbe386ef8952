"""What the doctor advises on machines with Enflame cards."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.recorded import results_of
from tests.vendors.gcu.doctor import CASES


def test_the_process_that_has_a_card_open_is_named(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.check == "card.memory" and "links" in case.machine)
    (result,) = results_of(case, tmp_path)
    assert result.cause is not None
    assert "4711 python3 (/dev/gcu0)" in result.cause.render("en")
    assert result.commands == ("ps -o pid,user,etime,args -p 4711",)
