"""Each defect of a peer's comparison tool that its code shows, and that ours does not have it.

The names say the defect; the numbers are those of the list that the peer's users would recognise: what was compared,
how tolerances were chosen, what the tool did to the program, and what it wrote.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tests.numerics.wrong import Wrong, one_off, times  # noqa: E402
from torchferry.numerics import CompareWithCPU, open_module_tracker  # noqa: E402
from torchferry.numerics.compare import ComparisonFailed  # noqa: E402
from torchferry.numerics.compare.snapshot import take  # noqa: E402
from torchferry.numerics.compare.worker import Worker  # noqa: E402

Body = Callable[[], object]


def found(body: Body, wrong: Wrong | None = None, **options: Any) -> dict[str, Any]:
    """Return what the tool finds in a program, on a device that is right, or wrong in one operator."""
    options = {"every": True, "quiet": True, **options}
    if wrong is None:
        with CompareWithCPU(**options) as tool:
            body()
    else:
        with wrong, CompareWithCPU(**options) as tool:
            body()
        assert wrong.calls, "the operator that is wrong was never called"
    result: dict[str, Any] = tool.document("en")
    return result


def statuses(document: dict[str, Any], operator: str) -> set[str]:
    return {row["status"] for row in document["operators"] if row["operator"] == operator}


def half(*shape: int, seed: int = 0, dtype: Any = None) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    result: Tensor = values.to(dtype or torch.float16)
    return result


def add_99(out: Any, args: Any) -> Any:
    args[0][0].add_(99)
    return out


def naive_half_sum(out: Tensor, args: Any) -> Tensor:
    total: Tensor = torch.zeros((), dtype=torch.float16)
    for value in args[0]:
        total += value
    return total


def squared() -> None:
    one = torch.full((3,), 3.0)
    one.mul_(one)


class Deep(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner: nn.Module = Deep(depth - 1) if depth else nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


# --- what is compared ---

WRONG = {
    "1 lists that are written to": (
        "_foreach_add_.List",
        add_99,
        lambda: torch._foreach_add_([torch.ones(3)], [torch.ones(3)]),
    ),
    "1 running statistics": (
        "native_batch_norm",
        lambda out, args: args[3].add_(1e-3) is not None and out,
        lambda: functional.batch_norm(half(4, 3).float(), torch.zeros(3), torch.ones(3), training=True),
    ),
    "2 results beyond the first": (
        "_foreach_add.Scalar",
        lambda out, args: out[:1],
        lambda: torch._foreach_add([torch.ones(1), torch.zeros(2)], 1.0),
    ),
    "3 shapes that broadcast": ("neg", lambda out, args: out[:1, :1].clone(), lambda: torch.neg(torch.ones(5, 7))),
    "3 another dtype": ("exp", lambda out, args: out.double(), lambda: torch.exp(torch.ones(3))),
    "3 another layout": ("exp", lambda out, args: out.t().contiguous().t(), lambda: torch.exp(half(3, 4).float())),
    "4 small gradients that are gone": (
        "sigmoid_backward",
        lambda out, args: out * 0,
        lambda: torch.ops.aten.sigmoid_backward(torch.full((10,), 2e-3), torch.full((10,), 0.5)),
    ),
    "4 one element in a large gradient": (
        "mm",
        one_off(1.001),
        lambda: torch.mm(half(256, 300).float(), half(300, 256).float()),
    ),
    "5 sums that are kept in half": ("sum", naive_half_sum, lambda: torch.sum(half(2000).abs())),
    "7 booleans": ("gt.Scalar", lambda out, args: ~out, lambda: torch.gt(half(9), 0)),
    "8 factories": ("ones", times(2.0), lambda: torch.ones(3)),
    "13 infinities of the other sign": (
        "log",
        lambda out, args: torch.full_like(out, float("inf")),
        lambda: torch.log(torch.zeros(4)),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_is_found(case: str) -> None:
    name, change, body = WRONG[case]
    document = found(body, Wrong(name, change))
    first = document["operators"][document["first_failure"]]
    assert first["operator"] == f"aten.{name}"
    assert document["counts"]["fail"] == 1


RIGHT: dict[str, tuple[str, Body]] = {
    "4 a product of bfloat16, correctly rounded": (
        "aten.mm",
        lambda: torch.mm(half(256, 256, dtype=torch.bfloat16), half(256, 256, seed=1, dtype=torch.bfloat16)),
    ),
    "6 embedding in half": ("aten.embedding", lambda: functional.embedding(torch.tensor([1, 2]), half(5, 4))),
    "6 gather in half": ("aten.gather", lambda: torch.gather(half(5, 4), 1, torch.zeros(5, 1, dtype=torch.int64))),
    "6 masks in half": ("aten.masked_fill.Scalar", lambda: half(3, 3).masked_fill(torch.eye(3).bool(), 0.0)),
    "11 parts of a storage with an offset": (
        "aten.add.Tensor",
        lambda: torch.arange(16.0).view(4, 4)[1:3, 1:3].as_strided((2, 2), (4, 1), 9) + 1,
    ),
    "11 one tensor twice": ("aten.mul_.Tensor", squared),
}


@pytest.mark.parametrize("case", RIGHT)
def test_passes(case: str) -> None:
    name, body = RIGHT[case]
    document = found(body)
    assert statuses(document, name) == {"pass"}
    assert not document["counts"]["fail"] + document["counts"]["warn"]


def test_3_the_usual_order_is_no_error() -> None:
    """Some plugins lay out every result in it, whatever the order of the input."""
    contiguous = Wrong("exp", lambda out, args: out.contiguous())
    document = found(lambda: torch.exp(half(3, 4).float().t()), contiguous)
    assert document["first_failure"] is None, document


def test_4_the_tolerance_that_was_given_hides_nothing() -> None:
    name, change, body = WRONG["4 small gradients that are gone"]
    document = found(body, Wrong(name, change), atol=1e-3, rtol=1e-3)
    assert statuses(document, f"aten.{name}") == {"warn"}


def test_9_random_operators_are_no_errors() -> None:
    def body() -> None:
        torch.empty(500).uniform_()
        torch.empty(500).normal_()
        functional.dropout(torch.ones(500), 0.5)
        torch.rand(500)
        torch.randn(500)
        torch.bernoulli(torch.full((500,), 0.5))
        torch.randint(0, 9, (500,))
        torch.randperm(50)

    document = found(body)
    assert not document["counts"]["fail"] + document["counts"]["warn"] + document["counts"]["untested"]
    assert {"aten.uniform_", "aten.rand", "aten.randperm"} <= {row["operator"] for row in document["operators"]}


@pytest.mark.parametrize("name", ["torch.ops.aten.exp", "aten.exp", "exp", "torch.ops.aten.exp.default"])
def test_9_names_match(name: str) -> None:
    def body() -> None:
        torch.exp(torch.ones(3)).sin()

    assert not statuses(found(body, white_list=[name]), "aten.exp")
    assert not statuses(found(body, target_op=[name]), "aten.sin")
    assert statuses(found(body, target_list=[name]), "aten.exp") == {"pass"}  # 19: the peer's manual says target_op


@pytest.mark.parametrize("every", [False, True])
def test_10_the_program_draws_the_same_numbers(every: bool) -> None:
    def draws() -> Tensor:
        torch.manual_seed(0)
        functional.dropout(torch.ones(8), 0.5)
        drawn: Tensor = torch.rand(3)
        return drawn

    alone = draws()
    with CompareWithCPU(every=every, quiet=True):
        beside = draws()
    assert torch.equal(alone, beside)


def test_11_copies_are_as_small_as_the_storage() -> None:
    wide = torch.ones(1).expand(1 << 20)
    assert take((wide,), {}, 1 << 30).size == 4
    column = torch.zeros(1000, 1000)[:, 3]
    (store,) = take((column,), {}, 1 << 30).stores
    assert store.tensor.numel() == 999 * 1000 + 1  # strides are kept; only its own elements were copied


def test_12_communication_is_not_run_again(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        document = found(lambda: torch.distributed.all_reduce(torch.ones(3)))
    finally:
        torch.distributed.destroy_process_group()
    assert document["skipped"]["communication"] >= 1
    assert not any("c10d" in row["operator"] for row in document["operators"])


def test_13_infinities_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    name, change, body = WRONG["13 infinities of the other sign"]
    found(body, Wrong(name, change), quiet=False)
    assert "Element at index (0,) is not close: inf (cpu) vs -inf (cpu), inf apart" in capsys.readouterr().out


def test_14_what_cannot_be_tested_stops_nothing(tmp_path: Path) -> None:
    document = found(
        lambda: (
            torch.poisson(torch.ones(3)).cauchy_().log_normal_().geometric_(0.5)
            + torch.ops.aten._standard_gamma(torch.ones(3))
        ),
        dump_error_data=True,
        output_dir=tmp_path,
    )
    assert document["counts"]["untested"] == 5  # three numbers say nothing of a distribution
    assert not document["counts"]["fail"]
    assert not any(tmp_path.iterdir())


def test_15_views_are_not_copied() -> None:
    def body() -> None:
        square = torch.ones(4, 4)
        square.t().permute(1, 0).expand(2, 4, 4).select(0, 0).split(2)

    document = found(body)
    assert {row["operator"] for row in document["operators"]} == {"aten.ones"}
    assert document["skipped"]["view"] == 5


# --- what is written ---


def failing(tmp_path: Path) -> list[Path]:
    with pytest.raises(ComparisonFailed, match=r"aten\.sub_"):
        found(
            lambda: torch.tensor([1.0, 2.0]).sub_(5),
            Wrong("sub_.Tensor", lambda out, args: args[0].add_(1)),
            dump_error_data=True,
            output_dir=tmp_path / "made",
        )
    return list((tmp_path / "made").iterdir())


def test_16_17_18_inputs_as_they_were_before(tmp_path: Path) -> None:
    from torchferry.numerics.replay import read, run

    (first,) = failing(tmp_path)
    assert not list(tmp_path.rglob("*.pkl"))
    (result,) = run(read(first))
    assert result.tolist() == [-4.0, -3.0]  # the inputs were not overwritten
    failing(tmp_path)
    assert len(list((tmp_path / "made").iterdir())) == 2  # nor is the first directory


def test_18_folders_are_made(tmp_path: Path) -> None:
    found(lambda: torch.ones(2), quiet=False, verbose=True, should_log_to_file=True, output_dir=tmp_path / "a" / "b")
    text = (tmp_path / "a" / "b" / "compare_result_rank0.txt").read_text()
    assert "torch.ops.aten.ones(forward) succeeds to pass CompareWithCPU test" in text


# --- what it does to the program ---


def test_24_compiled_programs_run(tmp_path: Path) -> None:
    compiled = torch.compile(lambda x: torch.exp(x) + 1, backend="eager")
    document = found(lambda: compiled(torch.ones(3)))
    assert document["compiled"]
    assert statuses(document, "aten.exp") == {"pass"}


def test_25_names_cost_the_same_at_any_depth() -> None:
    def calls(depth: int) -> int:
        model, count = Deep(depth), 0

        def profile(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        with CompareWithCPU(quiet=True, budget=0) as tool:
            model(torch.ones(1, 2))
            gc.collect()
            gc.disable()  # what others left would be counted too
            sys.setprofile(profile)
            try:
                model(torch.ones(1, 2))
            finally:
                sys.setprofile(None)
                gc.enable()
        assert any(row["module"].endswith("inner") for row in tool.document()["operators"])
        return count

    assert calls(80) < 1_000 * calls(8)  # a doubling for each level would be 2**72 times as many


def test_26_nothing_is_kept_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    one = torch.ones(4)

    def calls(tool: CompareWithCPU) -> int:
        with tool:
            for _ in range(300):
                one + 1
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(3000):
                one + 1
            gc.collect()
            return len(gc.get_objects()) - before

    assert calls(CompareWithCPU(quiet=True)) < 300
    assert calls(CompareWithCPU(quiet=True, enable_ranks=[7])) < 50


def test_27_models_that_work_in_place() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.one(x)
            y += x
            result: Tensor = self.act(y)
            return result

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), Residual())
    open_module_tracker(model)
    document = found(lambda: model(torch.randn(2, 4)).sum().backward())
    assert "Sequential.2" in {row["module"] for row in document["operators"]}


def test_28_what_breaks_off_leaves_nothing_behind() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4))

    def body() -> None:
        with pytest.raises(IndexError):
            model(torch.tensor([99]))
        out = model(torch.tensor([1]))
        torch.autograd.grad(out.sum(), model[1].weight)
        torch.ones(3).exp()

    document = found(body)
    (row,) = [row for row in document["operators"] if row["operator"] == "aten.exp"]
    assert (row["module"], row["phase"]) == ("", "forward")


def test_28_checkpoint() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.b(checkpoint(self.a, x, use_reentrant=False))
            return result

    model = Inner()
    document = found(lambda: model(torch.randn(2, 4, requires_grad=True)).sum().backward())
    places = {(row["module"], row["phase"]) for row in document["operators"] if row["operator"] == "aten.addmm"}
    forward = {("Inner.a.0", "forward"), ("Inner.a.2", "forward"), ("Inner.b", "forward")}
    assert places == {*forward, ("Inner.a.0", "recompute")}


def test_29_phases() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def body() -> None:
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()

    phases = {row["operator"]: row["phase"] for row in found(body)["operators"]}
    assert phases["aten.addmm"] == "forward"
    assert phases["aten.mm"] == "backward"
    assert phases["aten._foreach_addcdiv_.ScalarList"] == "optimizer"


def test_30_standard_output_is_the_programs_own(tmp_path: Path) -> None:
    before, seen = sys.stdout, []

    def body() -> None:
        torch.ones(2)
        seen.append(sys.stdout)

    found(
        body,
        quiet=False,
        verbose=True,
        should_log_to_file=True,
        output_dir=tmp_path,
    )
    assert seen == [before]


def test_31_disabled_costs_nothing() -> None:
    record_stream = Tensor.record_stream
    with CompareWithCPU(enabled=False) as tool:
        assert not _get_current_dispatch_mode_stack()
        assert not torch.nn.modules.module._global_forward_hooks
        assert Tensor.record_stream is record_stream
        tool.step()
    with CompareWithCPU(start_step=1, end_step=2, quiet=True) as tool:
        assert not _get_current_dispatch_mode_stack()
        tool.step()
        assert _get_current_dispatch_mode_stack()
        assert Tensor.record_stream is record_stream
        tool.step()
        assert not _get_current_dispatch_mode_stack()


class Piece:
    size = 1


def test_a_fork_frees_nothing_of_what_its_parents_thread_has_yet_to_do() -> None:
    goes_on = threading.Event()

    def do(_: Piece) -> None:
        goes_on.wait()

    worker = Worker(do, most=10, background=True)
    pieces = [Piece(), Piece()]
    waiting = weakref.ref(pieces[1])
    for piece in pieces:
        worker.submit(piece, patient=True)
    thread = worker._thread
    assert thread is not None
    worker.forget()  # as after a fork, where the locks of an allocator may be held for ever
    del pieces, piece
    assert waiting() is not None
    worker.wait()  # for nothing
    goes_on.set()
    thread.join()
