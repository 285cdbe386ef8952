"""How a rehearsed command ended, by its events and by what it printed last."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.rehearsal.aggregate import Aggregate, EventSum
from torchferry.rehearsal.ending import End, end_of

TREE = Path("/tree")


def event(kind: str, subject: str, line: int, file: str = "/tree/train.py") -> EventSum:
    return EventSum(kind, subject, "", file, line, 1, 1)


def aggregate(*events: EventSum) -> Aggregate:
    return Aggregate(1, 1, 0, (4,), {"aten::add": 1}, (), events)


def trace(error: str, *frames: tuple[str, int]) -> str:
    lines = "".join(f'  File "{file}", line {line}, in f\n    code()\n' for file, line in frames)
    return f"Traceback (most recent call last):\n{lines}{error}\n"


MAIN = ("/tree/train.py", 9)
INSIDE = ("/env/lib/python3.11/site-packages/lib/a.py", 3)
OPERATOR = event("missing-operator", "aten::foo", 9)
FAILED = trace("NotImplementedError: aten::foo", MAIN)


@pytest.mark.parametrize(
    ("events", "code", "printed", "why", "subject", "place"),
    [
        ([], 0, "", "well", "", ("", 0)),
        ([], None, "epoch 1", "time", "", ("", 0)),
        ([OPERATOR], 1, FAILED, "card", "aten::foo", MAIN),
        # it was caught, and the end has another reason
        ([OPERATOR], 1, trace("FileNotFoundError: data", ("/tree/data.py", 4)), "itself", "", ("/tree/data.py", 4)),
        ([OPERATOR], 0, "", "well", "", ("", 0)),
        # what goes wrong without a word
        ([event("cuda-remnant", "autocast('cuda')", 5)], 0, "", "card", "autocast('cuda')", ("/tree/train.py", 5)),
        ([event("cuda-question", "torch.cuda.is_available", 5)], 0, "", "well", "", ("", 0)),
        ([], 1, trace("ModuleNotFoundError: No module named 'apex.amp'", MAIN), "package", "apex.amp", MAIN),
        ([], 1, trace("AssertionError: Torch not compiled with CUDA enabled", MAIN), "card", "cuda", MAIN),
        ([], 1, trace("OSError: libcudart.so.12: cannot open shared object file", MAIN), "card", "cuda", MAIN),
        ([event("not-rehearsed", "torch.npu.graph", 9)], 1, trace("RuntimeError: no", MAIN), "not rehearsed",
         "torch.npu.graph", MAIN),
        ([], 2, "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --x\n", "itself", "", ("", 0)),
        # the launcher's own traceback comes behind that of the process
        ([OPERATOR], 1, FAILED.replace("\n", "\n[rank0]: ") + trace("torch.distributed.ChildFailedError: x", INSIDE),
         "card", "aten::foo", MAIN),
        # the one that raised stands in front of the one that it led to
        ([], 1, trace("KeyError: 'a'", MAIN) + "\nDuring handling\n\n" + trace("ValueError: b", ("/tree/b.py", 2)),
         "itself", "", ("/tree/b.py", 2)),
    ],
)  # fmt: skip
def test_why(
    events: list[EventSum], code: int | None, printed: str, why: str, subject: str, place: tuple[str, int]
) -> None:
    found = end_of(aggregate(*events), code, printed, TREE)
    assert (found.why, found.subject, (found.file, found.line)) == (why, subject, place)


def test_the_package_in_which_it_failed() -> None:
    torch = ("/env/lib/python3.11/site-packages/torch/nn/modules/module.py", 1)
    assert end_of(aggregate(), 1, trace("ValueError: a", MAIN, INSIDE, torch), TREE).package == "lib"
    assert end_of(aggregate(), 1, trace("ValueError: a", INSIDE, MAIN, torch), TREE).package == ""


def test_an_operator_says_more_than_a_remnant() -> None:
    events = event("cuda-remnant", "cuda", 9), OPERATOR
    assert end_of(aggregate(*events), 1, FAILED, TREE).kind == "missing-operator"


@given(st.text(alphabet='Traceback (most recent call last):\n  File "/tree/a.py", line 1\nError: []', max_size=300))
def test_any_output_is_read(printed: str) -> None:
    assert isinstance(end_of(aggregate(), 1, printed, TREE), End)
