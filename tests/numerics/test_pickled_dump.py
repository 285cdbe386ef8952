"""The inputs that a vendor's tool pickled are read as values; nothing that such a file names is run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from torchferry.core.errors import TorchferryError
from torchferry.numerics import replay
from torchferry.numerics.replay import compare_for_single_op, nan_inf_track_for_single_op

aten = torch.ops.aten


def dumped(folder: Path, operator: str, *args: Any, **kwargs: Any) -> Path:
    path = folder / f"torch.ops.{operator}_inputs.pkl"
    path.write_bytes(pickle.dumps({"args": args, "kwargs": kwargs}))
    return path


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "aten.addmm": ((torch.ones(4), torch.ones(3, 5), torch.ones(5, 4).double().float()), {}),
    "aten.add.Tensor": ((torch.arange(12.0).view(3, 4).half().t(), torch.ones(4, 3).half()), {"alpha": 2}),
    "aten.cat": (([torch.ones(2, 1), torch.zeros(2, 3)], 1), {}),
    "aten._to_copy": ((torch.ones(2, 3, 4, 4),), {"dtype": torch.bfloat16, "memory_format": torch.channels_last}),
    "aten.full_like": ((torch.ones(2, dtype=torch.complex64), complex(1, -2)), {"layout": torch.strided}),
    "aten.where.self": ((torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor(float("inf"))), {}),
    "aten.clone": ((torch.empty(0, 3),), {}),
    "aten.view": ((torch.nn.Parameter(torch.ones(4, 2)), torch.Size([2, 4])), {}),
}


@pytest.mark.parametrize("operator", CALLS)
def test_the_call_is_the_one_that_was_dumped(operator: str, tmp_path: Path) -> None:
    args, kwargs = CALLS[operator]
    base, _, overload = operator.removeprefix("aten.").partition(".")
    function = getattr(getattr(aten, base), overload or "default")
    call = replay.read(dumped(tmp_path, operator, *args, **kwargs), "cpu")
    assert (call.name, call.overload) == (f"aten::{base}", overload)
    made, expected = replay.run(call), function(*args, **kwargs)
    assert made[-1].dtype == expected.dtype
    assert torch.equal(made[-1], expected)


def test_the_tools_own_functions_take_such_a_file(tmp_path: Path) -> None:
    path = dumped(tmp_path, "aten.div.Tensor", torch.ones(3), torch.zeros(3))
    right, args, kwargs, out = compare_for_single_op(path, aten.div, 0.01, 0.01, device="cpu")
    assert (right, len(args), kwargs, out.isinf().all().item()) == (True, 2, {}, True)
    assert not nan_inf_track_for_single_op(path, aten.div, device="cpu")[0]
    of_a_rank = path.rename(path.with_name("torch.ops.aten.div.Tensor_inputs_rank3.pkl"))
    assert replay.read(of_a_rank, "cpu").name == "aten::div"


class Calls:
    def __init__(self, function: Any, *args: Any) -> None:
        self.reduced = function, args

    def __reduce__(self) -> Any:
        return self.reduced


def test_no_function_that_a_file_names_is_called(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    for function, args in (
        (os.mkdir, (str(trace),)),
        (eval, ("1",)),
        (torch.load, (str(trace),)),
        (getattr, (1, "real")),
    ):
        path = dumped(tmp_path, "aten.relu", Calls(function, *args))
        with pytest.raises(TorchferryError, match="nothing of it is run"):
            replay.read(path, "cpu")
    assert not trace.exists()


def _twice() -> list[Any]:
    value: list[Any] = ["x"]
    for _ in range(60):
        value = [value, value]
    return value


def _deep() -> bytes:
    return b"\x80\x04" + b"]" * 5000 + b"a" * 4999 + b"."


HOSTILE = {
    "nothing": b"",
    "text": b"no pickle",
    "no inputs": pickle.dumps([torch.ones(2)]),
    "keys that are no names": pickle.dumps({"args": (), "kwargs": {1: 2}}),
    "a list that doubles": pickle.dumps({"args": _twice(), "kwargs": {}}),
    "a list that is deep": _deep(),
    "an object": pickle.dumps({"args": (Path("x"),), "kwargs": {}}),
    "a view beyond its storage": pickle.dumps({"args": (torch.ones(8),), "kwargs": {}}).replace(
        b"K\x08\x85", b"K\x7f\x85"
    ),
    "no mark": b"\x80\x04t.",
    "the empty stack": b"\x80\x04R.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_other_files_are_refused_in_words(name: str, tmp_path: Path) -> None:
    path = tmp_path / "torch.ops.aten.relu_inputs.pkl"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(TorchferryError, match="is not replayed"):
        replay.read(path, "cpu")


def test_every_cut_is_refused_and_the_device_is_asked_for(tmp_path: Path) -> None:
    path = dumped(tmp_path, "aten.relu", torch.ones(2, 2))
    whole = path.read_bytes()
    with pytest.raises(TorchferryError, match="on which device"):
        replay.read(path)
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(TorchferryError):
            replay.read(path, "cpu")
    nameless = tmp_path / "inputs.pkl"
    nameless.write_bytes(whole)
    with pytest.raises(TorchferryError, match="does not say the operator"):
        replay.read(nameless, "cpu")
