"""Faults as the command line orders them."""

from __future__ import annotations

import pytest

from torchferry.core.errors import UsageError
from torchferry.rehearsal.faults import Fault, parse

RIGHT = {
    "op=aten.addmm,kind=noise,scale=1e-2": Fault("noise", "aten::addmm", 0.01),
    "op=aten::addmm,kind=nan": Fault("nan", "aten::addmm"),
    "op=addmm,kind=nan": Fault("nan", "aten::addmm"),
    "op=aten.add.Tensor,kind=stride,after=3": Fault("stride", "aten::add.Tensor", after=3),
    "op=add.Tensor,kind=slow,scale=0.5": Fault("slow", "aten::add.Tensor", 0.5),
    "kind=oom,after=9": Fault("oom", after=9),
    "op=c10d.allreduce,kind=die,rank=1": Fault("die", "c10d::allreduce", rank=1),
    " op=mm , kind=hang ": Fault("hang", "aten::mm"),
}
WRONG = {
    "": "setting of a fault",
    "op=mm": "has no `kind=`",
    "op=mm,kind=noize": "noise",
    "kind=nan": "has no `op=`",
    "op=,kind=nan": "has no value",
    "op=mm,kind=noise,scale=much": "could not convert",
    "op=mm,kind=nan,after=1.5": "invalid literal",
    "op=mm,kind=nan,ofter=1": "after",
}


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_understood(text: str) -> None:
    assert parse(text) == RIGHT[text]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    advice = caught.value.advice
    assert WRONG[text] in caught.value.message.render("en") + ("" if advice is None else advice.render("en"))
