"""What a report of operators says of the limits that a vendor publishes for its kernels."""

from __future__ import annotations

import pytest

from torchferry.backends.registry import load
from torchferry.backends.target import Target
from torchferry.ops.judging import judge
from torchferry.ops.lists import of_target
from torchferry.ops.needs import OperatorNeed, RunNeeds
from torchferry.ops.report import OperatorReport, document, lines

NPU = of_target(Target(load("npu"), ""))

MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
SORT = "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"
EXPM1 = "aten::expm1(Tensor self) -> Tensor"
GATHER = "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"


def need(name: str, dtypes: tuple[str, ...], schema: str) -> OperatorNeed:
    return OperatorNeed(f"aten::{name}", calls=1, dtypes=dtypes, schema=schema)


@pytest.mark.parametrize(
    ("name", "dtypes", "schema", "refused"),
    [
        ("mm", ("float64",), MM, ("float64",)),
        ("mm", ("int64",), MM, ("int64",)),
        ("mm", ("bfloat16", "float32"), MM, ()),
        ("expm1", ("float64",), EXPM1, ("float64",)),
        ("sort", ("float32", "int64"), SORT, ()),
        ("sort", ("float64", "int64"), SORT, ("float64",)),
        ("gather", ("float32", "int64"), GATHER, ()),
        ("cat", ("float64",), "aten::cat(Tensor[] tensors, int dim=0) -> Tensor", ()),
    ],
)
def test_dtypes_that_no_kernel_takes(name: str, dtypes: tuple[str, ...], schema: str, refused: tuple[str, ...]) -> None:
    (judged,) = judge([need(name, dtypes, schema)], NPU)
    assert judged.refused == refused
    if refused:
        assert judged.remark is not None
        assert f"no kernel of the card takes {refused[0]} (aclnn" in judged.remark.render("en")


def test_the_report_names_them_without_being_asked() -> None:
    run = RunNeeds("trace", ("python", "x.py"), "2.13.0", "npu", "npu", ())
    report = OperatorReport(NPU, run, judge([need("expm1", ("float64",), EXPM1)], NPU))
    text = "\n".join(lines(report, "en"))
    assert "dtypes and ranks that the card's kernels do not take" in text
    assert "no kernel of the card takes float64 (aclnnExpm1)" in text
    assert document(report)["operators"][0]["refused_dtypes"] == ["float64"]


@pytest.mark.parametrize(
    ("shape", "rank"),
    [("float32[2,2,2,2,2,2,2,2,2]", 9), ("float32[2,2], float32[2,2,2,2,2,2,2,2]", 0), ("float32[]", 0)],
)
def test_ranks_that_no_kernel_takes(shape: str, rank: int) -> None:
    schema = "aten::abs(Tensor self) -> Tensor"
    wanted = OperatorNeed("aten::abs", calls=1, dtypes=("float32",), schema=schema, shapes={shape: 1})
    (judged,) = judge([wanted], NPU)
    assert judged.refused_rank == rank
    said = "" if judged.remark is None else judged.remark.render("en")
    assert said == ("no kernel of the card takes 9 dimensions (aclnnAbs)" if rank else "")


def test_a_dtype_that_nobody_names_is_said() -> None:
    schema = "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()"
    (judged,) = judge([need("_foreach_add_.Scalar", ("float64",), schema)], NPU)
    assert judged.remark is not None
    assert judged.remark.render("en") == "the vendor does not say whether the kernel takes float64"


def test_what_differs_from_run_to_run_is_said() -> None:
    schema = "aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values) -> Tensor(a!)"
    (judged,) = judge([need("_index_put_impl_", ("float32", "int64"), schema)], NPU)
    assert judged.remark is not None
    assert judged.remark.render("en") == "not deterministic by default (aclnnIndexPutImpl)"
