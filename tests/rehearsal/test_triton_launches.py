"""What a rehearsal keeps of launches of Triton kernels, for `triton check --launches`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.triton.projects import HEAD, request_for
from torchferry.rehearsal.aggregate import collect
from torchferry.rehearsal.triton_launches import LaunchRecord
from torchferry.triton.recorded import read_launches, recorded_signatures


class FakeTensor:
    """What the record asks of a tensor."""

    def __init__(self, dtype: str, address: int = 64) -> None:
        self.dtype = f"torch.{dtype}"
        self._address = address

    def data_ptr(self) -> int:
        return self._address


def kernel(x: Any, n: Any, eps: Any, BLOCK: "tl.constexpr", bias: Any = None) -> None:  # type: ignore[name-defined]  # noqa: N803, F821, UP037
    """Stand for a kernel's function."""


PLACE = ("/there/run.py", 3)


def given(**changes: Any) -> dict[str, Any]:
    return {"x": FakeTensor("bfloat16"), "n": 4096, "eps": 1e-5, "BLOCK": 64, "bias": None, **changes}


def test_launches_that_compile_alike_are_one() -> None:
    record = LaunchRecord()
    for changes in ({}, {"n": 32}, {"eps": 0.5}, {"x": FakeTensor("bfloat16", 1024)}):
        record.add(kernel, given(**changes), PLACE)
    for other in (
        {"n": 33},
        {"n": 1},
        {"n": 1 << 40},
        {"BLOCK": 128},
        {"x": FakeTensor("float16")},
        {"bias": object()},
    ):
        record.add(kernel, given(**other), PLACE)
    record.add(kernel, given(x=FakeTensor("bfloat16", 4)), PLACE)
    document = record.document()
    launches = document["triton_launches"]
    assert isinstance(launches, list)
    assert [each["times"] for each in launches] == [4, 1, 1, 1, 1, 1, 1, 1]
    assert launches[0]["arguments"] == [
        {"name": "x", "kind": "tensor", "type": "bfloat16", "aligned": True},
        {"name": "n", "kind": "scalar", "type": "i32", "value": 4096},
        {"name": "eps", "kind": "scalar", "type": "fp32"},
        {"name": "BLOCK", "kind": "value", "value": 64},
        {"name": "bias", "kind": "value", "value": None},
    ]
    assert launches[-1]["arguments"][0]["aligned"] is False
    assert (launches[0]["kernel"], launches[0]["line"]) == ("kernel", kernel.__code__.co_firstlineno)


def test_what_is_not_kept_is_counted() -> None:
    record = LaunchRecord()
    for number in range(1_010):
        record.add(kernel, given(BLOCK=number), PLACE)
    assert record.document()["triton_launches_left_out"] == 10


def test_processes_are_put_together_and_a_check_reads_them(tmp_path: Path) -> None:
    record = LaunchRecord()
    record.add(kernel, given(), PLACE)
    for process in (1, 2):
        (tmp_path / f"process-{process}.json").write_text(json.dumps(record.document()), encoding="utf-8")
    (tmp_path / "process-3.json").write_text('{"triton_launches": [{"kernel": 1}]}', encoding="utf-8")
    aggregate = collect(tmp_path)
    (launch,) = aggregate.triton_launches
    assert launch["times"] == 2
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"triton_launches": list(aggregate.triton_launches)}), encoding="utf-8")
    text = HEAD + "@triton.jit\ndef kernel(x, n, eps, BLOCK: tl.constexpr, bias=None):\n    pass\n"
    _, _, kernels = request_for(tmp_path / "project", {"k.py": text})
    found, others = recorded_signatures(read_launches(file).launches, kernels, tmp_path)
    assert [each.text for each in found["k.py", "kernel"][0].arguments] == ["*bf16", "i32:16", "fp32", "64", "None"]
    assert others == []
