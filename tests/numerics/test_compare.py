"""What CompareWithCPU finds, what it leaves alone, and that the program does not notice it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional  # noqa: E402

from tests.numerics.models import (  # noqa: E402
    GPT,
    LSTM,
    ConvNet,
    computes_lstm_under_autocast,
    next_word,
    words,
)
from tests.numerics.wrong import Wrong, one_off, times  # noqa: E402
from torchferry.core.errors import UsageError  # noqa: E402
from torchferry.numerics import CompareWithCPU  # noqa: E402
from torchferry.numerics.compare import ComparisonFailed  # noqa: E402
from torchferry.numerics.compare.exact import judge_nonfinite  # noqa: E402
from torchferry.numerics.compare.explanations import rounded  # noqa: E402
from torchferry.numerics.framework import launcher  # noqa: E402
from torchferry.numerics.report.compare import NAMES  # noqa: E402

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native


class Vision(nn.Module):
    """A small vision transformer: patches, attention with dropout, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layer(self.patches(images).flatten(2).transpose(1, 2)).mean(1))
        return scores


class Training:
    """Steps of one model on one device."""

    def __init__(self, kind: str, device: str, dtype: Any, amp: bool = False) -> None:
        torch.manual_seed(3)
        models: dict[str, Callable[[], nn.Module]] = {"gpt": GPT, "conv": ConvNet, "lstm": LSTM, "vision": Vision}
        self.model = models[kind]().to(device, dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3, eps=1e-4)  # 1e-8 is 0 in half
        shapes = {"conv": (4, 3, 12, 12), "lstm": (4, 6, 8), "vision": (4, 3, 16, 16)}
        self.batch = words(device) if kind == "gpt" else torch.randn(*shapes[kind]).to(device, dtype)
        self._gpt = kind == "gpt"
        self._amp = amp
        self._scaler = torch.amp.GradScaler(device, init_scale=2.0**10, enabled=amp)
        self._device = device

    def step(self) -> Tensor:
        self.optimizer.zero_grad()
        with torch.autocast(
            self._device, torch.float16 if self._device != "cpu" else torch.bfloat16, enabled=self._amp
        ):
            out = self.model(self.batch)
            loss = next_word(out, self.batch) if self._gpt else functional.cross_entropy(out.float(), _targets(out))
        self._scaler.scale(loss).backward()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        result: Tensor = loss.detach()
        return result


def _targets(out: Tensor) -> Tensor:
    targets: Tensor = torch.arange(out.shape[0], device=out.device) % out.shape[1]
    return targets


@pytest.fixture
def faults(native: Native) -> Iterator[Callable[[str, str, float], None]]:
    """Plant faults into the card, and take them out again."""
    planted: list[str] = []

    def plant(operator: str, kind: str, scale: float) -> None:
        native.set_fault(f"aten::{operator}", kind, scale, 0)
        planted.append(operator)

    yield plant
    for operator in planted:
        native.set_fault(f"aten::{operator}", "noise", 0.0, 1 << 60)


def run(training: Training, steps: int = 3, **options: Any) -> dict[str, Any]:
    with CompareWithCPU(**{"quiet": True, **options}) as tool:
        for _ in range(steps):
            training.step()
            tool.step()
    document: dict[str, Any] = tool.document("en")
    return document


def first_of(document: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = document["operators"][document["first_failure"]]
    return row


def complaints(document: dict[str, Any]) -> list[Any]:
    return [
        (row["status"], row["operator"], row["module"], row["reason"])
        for row in document["operators"]
        if row["status"] != "pass" and "mkldnn_rnn" not in row["operator"]  # on the CPU, it is the CPU's own
    ]


# --- healthy programs ---


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["gpt", "conv", "lstm", "vision"])
def test_no_false_alarm(kind: str, dtype: str, device: str) -> None:
    document = run(Training(kind, device, getattr(torch, dtype)), every=True)
    assert complaints(document) == []
    assert document["counts"]["pass"] > 100
    assert document["device"].startswith(device)


def test_no_false_alarm_with_amp(device: str) -> None:
    if device == "cpu":
        computes_lstm_under_autocast(torch.bfloat16)
    document = run(Training("lstm", device, torch.float32, amp=True), every=True)
    assert complaints(document) == []
    assert {row["phase"] for row in document["operators"]} >= {"forward", "backward", "optimizer", "gradient scaling"}


@pytest.mark.parametrize(
    "options",
    [{}, {"every": True}, {"background": False}, {"propagate": True}, {"standard": "cann-double"}, {"budget": 1.0}],
    ids=str,
)
def test_the_program_does_not_notice(options: dict[str, Any], device: str) -> None:
    def losses(tool: AbstractContextManager[Any]) -> tuple[list[Tensor], Tensor]:
        training = Training("vision", device, torch.float32)  # it has a dropout
        with tool as entered:
            seen = []
            for _ in range(3):
                seen.append(training.step().cpu())
                if entered is not None:
                    entered.step()
        return seen, torch.rand(4)

    plain, plain_draw = losses(nullcontext())
    beside, draw = losses(CompareWithCPU(quiet=True, **options))
    assert all(torch.equal(one, other) for one, other in zip(plain, beside, strict=True))
    assert torch.equal(plain_draw, draw)


# --- faults ---

FAULTS = [
    ("addmm", "noise", 1e-2, "gpt", "GPT.blocks.0.qkv", "forward"),
    ("addmm", "noise", 1e-3, "gpt", "GPT.blocks.0.qkv", "forward"),
    ("convolution", "noise", 1e-2, "conv", "ConvNet.body.0", "forward"),
    ("convolution", "noise", 1e-3, "conv", "ConvNet.body.0", "forward"),
    ("native_layer_norm_backward", "noise", 1e-3, "gpt", "GPT.norm", "backward"),
    ("gelu_backward", "noise", 1e-2, "gpt", "GPT.blocks.2", "backward"),
    ("gelu", "nan", 0.0, "gpt", "GPT.blocks.0", "forward"),
    ("mm", "stride", 0.0, "gpt", "GPT.head", "backward"),
    ("_foreach_addcdiv_", "noise", 1e-2, "gpt", "", "optimizer"),
]


@pytest.mark.parametrize(("operator", "kind", "scale", "model", "module", "phase"), FAULTS)
def test_a_fault_is_found_first(
    operator: str, kind: str, scale: float, model: str, module: str, phase: str, rehearsed: Any, faults: Any
) -> None:
    training = Training(model, rehearsed.backend.DEVICE_TYPE, torch.float32)
    faults(operator, kind, scale)
    first = first_of(run(training))
    assert first["operator"].startswith(f"aten.{operator}")
    assert (first["module"], first["phase"], first["step"]) == (module, phase, 0)


@pytest.mark.parametrize(("dtype", "scale"), [("float16", 1e-2), ("float16", 1e-3), ("bfloat16", 1e-2)])
def test_a_fault_in_half_is_found(dtype: str, scale: float, rehearsed: Any, faults: Any) -> None:
    training = Training("gpt", rehearsed.backend.DEVICE_TYPE, getattr(torch, dtype))
    faults("addmm", "noise", scale)
    assert first_of(run(training))["operator"] == "aten.addmm"


def inferred(body: Callable[[], object]) -> Callable[[], object]:
    """Run a body where operators made of others come whole."""

    def run() -> object:
        with torch.inference_mode():
            return body()

    return run


def normalized() -> object:
    return torch.native_batch_norm(torch.linspace(-1, 3, 60).view(15, 4) ** 2, None, None, None, None, True, 0.1, 1e-5)


def one_for_all(out: Tensor, args: Any) -> Tensor:
    return out.fill_(1)


SUBTLE: dict[str, tuple[str, Any, Callable[[], object]]] = {
    "a list 1 % off": (
        "_foreach_mul.Scalar",
        lambda out, args: [one * 1.01 for one in out],
        lambda: torch._foreach_mul([torch.rand(9), torch.rand(20000)], 0.5),
    ),
    "the last element of a large list": (
        "_foreach_mul.Scalar",
        lambda out, args: [out[0].index_fill(0, torch.tensor([out[0].numel() - 1]), 7.0)],
        lambda: torch._foreach_mul([torch.rand(50000)], 0.5),
    ),
    "rounding down to half": (
        "_to_copy",
        lambda out, args: torch.nextafter(out, torch.zeros_like(out)),
        lambda: torch.rand(200).to(torch.float16),
    ),
    "a moved value": ("cat", one_off(1.0001), lambda: torch.cat([torch.rand(5), torch.rand(5)])),
    "a dropout that scales wrongly": (
        "native_dropout",
        lambda out, args: (out[0] * 1.01, out[1]),
        lambda: torch.native_dropout(torch.rand(100), 0.5, True),
    ),
    "a dropout that keeps too many": (
        "bernoulli.p",
        lambda out, args: torch.ones_like(out),
        lambda: torch.bernoulli(torch.rand(1000), 0.5),
    ),
    "a distribution that is too wide": ("rand", times(1.1), lambda: torch.rand(5000)),
    "an index of another value": (
        "max.dim",
        lambda out, args: (out[0], (out[1] + 1) % 5),
        lambda: torch.max(torch.rand(4, 5), 1),
    ),
    "one element that is not finite": ("exp", one_off(float("nan")), lambda: torch.exp(torch.rand(9))),
    "the middle of a large list": (
        "_foreach_mul.Scalar",
        lambda out, args: [out[0].index_fill(0, torch.arange(20000, 22000), 7.0)],
        lambda: torch._foreach_mul([torch.rand(100000)], 0.5),
    ),
    "another number than infinity": (
        "mul.Tensor",
        lambda out, args: torch.full_like(out, 3.0),
        lambda: torch.full((9,), 1000.0, dtype=torch.float16) * 1000,
    ),
    "a number at the edge, and far from it": (
        "mul.Tensor",
        lambda out, args: torch.full_like(out, 3.0),
        lambda: torch.full((9,), 65504.0, dtype=torch.float16) * 1,
    ),
    "a number where there is none": (
        "log",
        lambda out, args: torch.full_like(out, 5.0),
        lambda: torch.full((9,), -1.0).log(),
    ),
    "a mean that is saved for the backward": (
        "native_batch_norm",
        lambda out, args: (out[0], out[1] + 1e-3, out[2]),
        normalized,
    ),
    "a deviation that is saved for the backward": (
        "native_batch_norm",
        lambda out, args: (out[0], out[1], out[2] * 1.001),
        normalized,
    ),
    "a cast without autograd": ("to.dtype", times(7), inferred(lambda: torch.full((9,), 0.1).to(torch.float16))),
    "a reshape without autograd": ("reshape", times(7), inferred(lambda: torch.ones(2, 3).t().reshape(6))),
    "a sparse tensor made dense": ("_to_dense", times(7), lambda: torch.eye(3).to_sparse().to_dense()),
    "poisson": ("poisson", one_for_all, lambda: torch.poisson(torch.full((1000,), 5.0))),
    "multinomial": ("multinomial", one_for_all, lambda: torch.multinomial(torch.ones(10), 1000, replacement=True)),
    "multinomial without replacement": ("multinomial", one_for_all, lambda: torch.multinomial(torch.ones(10), 5)),
    "geometric": ("geometric_", one_for_all, lambda: torch.empty(1000).geometric_(0.5)),
    "exponential": ("exponential_", lambda out, args: out.mul_(1.3), lambda: torch.empty(5000).exponential_(2.0)),
    "cauchy": ("cauchy_", lambda out, args: out.mul_(1.3), lambda: torch.empty(5000).cauchy_()),
    "log-normal": ("log_normal_", one_for_all, lambda: torch.empty(1000).log_normal_()),
    "a normal distribution of each element": (
        "normal.Tensor_Tensor",
        times(1.1),
        lambda: torch.normal(torch.arange(5000.0) * 0, torch.arange(5000.0) + 1),
    ),
    "a complex product": ("mul.Tensor", one_off(1.001), lambda: torch.rand(9, dtype=torch.complex64) * 2j),
}


@pytest.mark.parametrize("case", SUBTLE)
def test_subtle_faults(case: str) -> None:
    name, change, body = SUBTLE[case]
    body()
    with Wrong(name, change), CompareWithCPU(quiet=True) as tool:
        body()
    assert first_of(tool.document("en"))["operator"].removesuffix(".default") == f"aten.{name}"


# --- what differs from run to run ---

TERMS = torch.arange(96) % 12
GIVEN = torch.linspace(-3, 5, 96 * 8).sin_().view(96, 8) + 0.3

SUMS: dict[str, Callable[[str, Any], object]] = {
    "embedding_dense_backward": lambda place, dtype: torch.ops.aten.embedding_dense_backward(
        GIVEN.to(place, dtype), TERMS.to(place), 12, -1, False
    ),
    "scatter_add": lambda place, dtype: torch.zeros(12, 8, device=place, dtype=dtype).scatter_add(
        0, TERMS[:, None].expand(96, 8).to(place), GIVEN.to(place, dtype)
    ),
    "index_add": lambda place, dtype: torch.zeros(12, 8, device=place, dtype=dtype).index_add(
        0, TERMS.to(place), GIVEN.to(place, dtype), alpha=-1
    ),
    "index_put": lambda place, dtype: torch.zeros(12, 8, device=place, dtype=dtype).index_put(
        (TERMS.to(place),), GIVEN.to(place, dtype), accumulate=True
    ),
    "scatter_reduce": lambda place, dtype: torch.zeros(12, 8, device=place, dtype=dtype).scatter_reduce(
        0, TERMS[:, None].expand(96, 8).to(place), GIVEN.to(place, dtype), "mean"
    ),
    "cumsum": lambda place, dtype: GIVEN.to(place, dtype).cumsum(1),
    "convolution_backward": lambda place, dtype: torch.ops.aten.convolution_backward(
        *(GIVEN[:n].reshape(shape).to(place, dtype) for n, shape in ((36, (2, 4, 6, 6)), (48, (2, 3, 8, 8)))),
        GIVEN.view(-1)[:108].view(4, 3, 3, 3).to(place, dtype),
        *([4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True] * 3),
    ),
    "upsample_bilinear2d_backward": lambda place, dtype: torch.ops.aten.upsample_bilinear2d_backward(
        GIVEN[:64].reshape(1, 8, 8, 8).to(place, dtype), [8, 8], [1, 8, 4, 4], False
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_noise_does_not_excuse_itself(name: str, dtype: str, rehearsed: Any, faults: Any) -> None:
    card = rehearsed.backend.DEVICE_TYPE
    body = SUMS[name]
    with CompareWithCPU(quiet=True) as tool:
        body(card, getattr(torch, dtype))
    assert complaints(tool.document("en")) == []
    faults("_index_put_impl_" if name == "index_put" else name, "noise", 0.3 if dtype == "bfloat16" else 0.1)
    with CompareWithCPU(quiet=True) as tool:
        body(card, getattr(torch, dtype))
    first = first_of(tool.document("en"))
    assert first["operator"].startswith(f"aten.{name}")
    if dtype == "float32":
        assert "more than reordered additions explain" in first["reason"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("count", [64, 1500])
def test_another_order_of_addition_is_right(count: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchferry.numerics.compare import explanations

    terms = torch.randn(count, 40, generator=torch.Generator().manual_seed(1)).to(getattr(torch, dtype))

    def device(seed: int) -> Tensor:
        """Add in the dtype of the terms, each time in another order, as atomic additions do."""
        total = torch.zeros(40, dtype=terms.dtype)
        for number in torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist():
            total += terms[number]
        result: Tensor = total[None]
        return result

    differences = (device(1).double() - device(2).double()).abs()
    monkeypatch.setattr(explanations, "_device_noise", lambda call, number: differences)
    with Wrong("index_add", lambda out, args: device(3)), CompareWithCPU(quiet=True) as tool:
        torch.zeros(1, 40, dtype=terms.dtype).index_add(0, torch.zeros(count, dtype=torch.int64), terms)
    assert complaints(tool.document("en")) == []


@pytest.mark.parametrize(
    ("overload", "device", "kernel"),
    [
        (torch.ops.aten.convolution_backward.default, "npu", "aclnnConvolutionBackward"),
        (torch.ops.aten.nll_loss_forward.default, "npu", "aclnnNLLLoss"),
        (torch.ops.aten.convolution_backward.default, "musa", ""),
        (torch.ops.aten.convolution_backward.default, "cpu", ""),
        (torch.ops.aten.mm.default, "npu", ""),
    ],
)
def test_kernels_that_do_not_compute_the_same_each_time(overload: Any, device: str, kernel: str) -> None:
    from torchferry.numerics.compare import tolerances
    from torchferry.numerics.framework.operators import operator

    assert tolerances.varying_kernel(operator(overload), device) == kernel


# --- operators of the program ---


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """Operators that a program registers: one draws, one remembers, one does neither."""
    with torch.library._scoped_library("numerics_test", "FRAGMENT") as made:
        for name in ("noisy", "counted", "plain"):
            made.define(f"{name}(Tensor x) -> Tensor")
        calls: list[Tensor] = []

        def counted(x: Tensor) -> Tensor:
            calls.append(x)
            return x * len(calls)

        made.impl("noisy", lambda x: x * (torch.rand_like(x) > 0.1), "CompositeExplicitAutograd")
        made.impl("counted", counted, "CompositeExplicitAutograd")
        made.impl("plain", lambda x: x * 3 + 1, "CompositeExplicitAutograd")
        yield torch.ops.numerics_test


OWN = {
    "noisy": ("untested", "the operator draws random numbers without declaring it"),
    "counted": (
        "untested",
        "two runs on the CPU differ: the operator draws random numbers or keeps state without declaring it",
    ),
    "plain": ("pass", ""),
}


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_operators_of_the_program(name: str, propagate: bool, library: Any) -> None:
    def drawn() -> Tensor:
        torch.manual_seed(0)
        for _ in range(3):
            getattr(library, name)(torch.ones(50))
        numbers: Tensor = torch.rand(4)
        return numbers

    alone = drawn()
    with CompareWithCPU(quiet=True, every=True, propagate=propagate) as tool:
        beside = drawn()
    assert torch.equal(alone, beside)
    found = {(row["status"], row["reason"]) for row in tool.document("en")["operators"] if name in row["operator"]}
    assert found == {OWN[name]}


# --- what is compared of a call ---


def test_parts_of_calls_are_said_and_come_to_all() -> None:
    left, right = torch.randn(512, 256), torch.randn(256, 256)
    bad: list[int] = []

    def fifth_row(out: Tensor, args: Any) -> Tensor:
        bad.append(1)
        return out if len(bad) == 1 else out.index_fill(0, torch.tensor([5]), 0.0)

    with Wrong("mm", fifth_row), CompareWithCPU(quiet=True, every=True) as tool:
        for _ in range(5):
            left @ right
    document = tool.document("en")
    rows = [row for row in document["operators"] if row["operator"] == "aten.mm"]
    assert document["in_part"] == sum(row["in_part"] for row in rows) == 4
    assert sum(row["elements"] for row in rows) == 2 * 512 * 256
    assert sum(row["all_elements"] for row in rows) == 5 * 512 * 256
    assert [row["status"] for row in rows if row["count"] == 1 and row["in_part"]] == ["fail"]


def test_lists_are_whole_at_first_and_then_in_parts() -> None:
    values = [torch.ones(30000), torch.ones(5)]
    with CompareWithCPU(quiet=True, every=True) as tool:
        for _ in range(2):
            torch._foreach_mul(values, 2.0)
    (row,) = (row for row in tool.document()["operators"] if "foreach" in row["operator"])
    assert (row["in_part"], row["elements"], row["all_elements"]) == (1, 30005 + 3 * 4096 + 5, 2 * 30005)


def test_results_that_are_not_compared_are_counted() -> None:
    with CompareWithCPU(quiet=True) as tool:
        functional.scaled_dot_product_attention(*torch.ones(3, 1, 2, 16, 8, requires_grad=True))
    rows = [row for row in tool.document("en")["operators"] if "attention" in row["operator"]]
    assert [(row["status"], row["results_left"]) for row in rows] == [("pass", 1)]
    assert rows[0]["reason"] == "1 result not compared: only the device's own backward reads it"


def test_a_variance_in_the_place_of_the_deviation_is_said() -> None:
    def variance(out: Any, args: Any) -> Any:
        return out[0], out[1], out[2] ** -2 - 1e-5

    with Wrong("native_batch_norm", variance), CompareWithCPU(quiet=True) as tool:
        normalized()
    (row,) = (row for row in tool.document("en")["operators"] if "norm" in row["operator"])
    assert (row["status"], row["reason"]) == (
        "pass",
        "it saves the variance, but the CPU saves the inverse of its square root",
    )


def test_copies_are_waited_for_once_and_on_their_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchferry.numerics.compare import snapshot

    seen: list[str] = []

    @contextmanager
    def device(which: Any) -> Iterator[None]:
        seen.append(f"on {which}")
        yield
        seen.append("back")

    event = SimpleNamespace(record=lambda: seen.append("record"), synchronize=lambda: seen.append("wait"))
    module = SimpleNamespace(device=device, Event=lambda: event)
    empty = torch.empty
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    monkeypatch.setattr(torch, "empty", lambda size, dtype, pin_memory: empty(size, dtype=dtype))
    monkeypatch.setattr(snapshot, "sends", lambda device: True)
    crossing = snapshot.Crossing()
    first = crossing.add(torch.ones(3))
    crossing.go()
    second = crossing.add(torch.full((2, 2), 2.0))
    crossing.go()
    assert not seen
    crossing.mark_sent()
    assert first.tensor.tolist() == [1.0, 1.0, 1.0]
    assert second.tensor.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert seen == ["on cpu", "record", "back", "wait", "wait"]


def test_what_crosses_together_keeps_its_values_and_strides() -> None:
    from torchferry.numerics.compare.snapshot import Crossing

    given = [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.tensor(7.0),
        torch.empty(0, 4),
        torch.arange(3).expand(2, 3),
        torch.arange(8)[::2],
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.tensor([True, False]),
        torch.arange(5, dtype=torch.bfloat16),
        torch.arange(1 << 17).reshape(2, -1),  # large: in a buffer of its own
    ]
    crossing = Crossing()
    crossed = [crossing.add(tensor) for tensor in given]
    crossing.go()
    crossing.mark_sent()
    kept = [tensor.clone() for tensor in given]
    given[0].zero_()
    for tensor, before, fetched in zip(given, kept, crossed, strict=True):
        assert fetched.dtype is tensor.dtype
        assert torch.equal(fetched.tensor, before)
        assert not tensor.is_contiguous() or fetched.tensor.stride() == tensor.stride()
    assert crossed[1].tensor.stride() == (1, 3)
    assert crossed[0].buffer is crossed[2].buffer is not None
    assert crossed[-1].buffer is None
    assert fetched_flat(given[-1]).tolist() == given[-1].reshape(-1).tolist()


def fetched_flat(tensor: Tensor) -> Tensor:
    from torchferry.numerics.compare.snapshot import Crossing

    crossing = Crossing()
    fetched = crossing.add(tensor, flat=True)
    crossing.go()
    crossing.mark_sent()
    return fetched.tensor


def test_a_device_that_sends_no_more_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchferry.numerics.compare import snapshot

    def refused(*size: int, pin_memory: bool = False, **how: Any) -> Tensor:
        if pin_memory:
            raise RuntimeError("no pinned memory is left")
        made: Tensor = empty(*size, **how)
        return made

    empty = torch.empty
    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None)
    monkeypatch.setattr(torch, "get_device_module", lambda kind: SimpleNamespace(Event=lambda: event))
    monkeypatch.setattr(torch, "empty", refused)
    monkeypatch.setattr(snapshot, "_PINNED", {"cpu": True})
    assert snapshot.fetch(torch.ones(3)).tensor.tolist() == [1.0, 1.0, 1.0]
    assert snapshot._PINNED == {"cpu": False}


def test_nested_tensors_beside_a_golden_run() -> None:
    with CompareWithCPU(quiet=True, propagate=True) as tool:
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]) * 2
    assert not tool.failed


# --- what is odd ---


def chosen(indices: list[Any]) -> object:
    return torch.ops.aten.index.Tensor(torch.ones(3, 3), indices)


ODD: dict[str, tuple[Callable[[], object], str]] = {
    "no elements": (lambda: torch.ones(0, 3) + 1, "pass"),
    "complex": (lambda: torch.fft.fft(torch.rand(64)) * 2j, "pass"),
    "float8": (lambda: torch.rand(64).to(torch.float8_e4m3fn).view(8, 8).clone().float(), "pass"),
    "sparse": (lambda: torch.eye(3).to_sparse() * 2, "pass"),
    "products of sparse": (lambda: torch.sparse.mm(torch.eye(9).to_sparse(), torch.ones(9, 9) / 3), "pass"),
    "products of sparse rows": (lambda: torch.eye(9).to_sparse_csr() @ (torch.ones(9, 9) / 3), "pass"),
    "dense of sparse": (lambda: torch.eye(3).to_sparse().to_dense(), "pass"),
    "a list of indices with None": (lambda: chosen([None, torch.tensor([1])]), "pass"),
    "a list of indices that ends with None": (lambda: chosen([torch.tensor([1]), None]), "pass"),
    "complex numbers of a distribution": (lambda: torch.randn(1000, dtype=torch.complex64), "pass"),
    "too few of a distribution": (lambda: torch.rand(20), "untested"),
    "a distribution of which the range is known": (lambda: torch.zeros(99).random_(), "untested"),
    "integers": (lambda: torch.arange(5) // 2, "pass"),
    "equal values": (lambda: torch.zeros(4, 5).sort(1), "pass"),
    "infinity, as it should be": (lambda: torch.zeros(3).log().softmax(0), "pass"),
    "overflow in half": (lambda: torch.full((3,), 6e4, dtype=torch.float16) * 2, "pass"),
    "scatter": (lambda: torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.ones(3) / 3), "pass"),
    "out=": (lambda: torch.add(torch.ones(3), 1, out=torch.empty(3)), "pass"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8).clone(), "untested"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2, "untested"),
    "no rule for what it draws": (lambda: torch._standard_gamma(torch.ones(3)), "untested"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_tensors(case: str) -> None:
    body, status = ODD[case]
    with CompareWithCPU(quiet=True) as tool:
        body()
    document = tool.document("en")
    assert not document["counts"]["fail"] + document["counts"]["warn"]
    assert document["counts"][status]
    if status == "pass":
        assert complaints(document) == []
    else:
        assert all(reason for status, _, _, reason in complaints(document))


def test_tensors_on_several_devices(rehearsed: Any) -> None:
    card = rehearsed.backend.DEVICE_TYPE
    with CompareWithCPU(every=True, quiet=True) as tool:
        places = [torch.rand(5, device=place) for place in ("cpu", f"{card}:0", f"{card}:1")]
        moved = [place.exp().to("cpu") for place in places]
        places[0] + torch.tensor(2.0, device="cpu")
        places[1] * places[2].to(f"{card}:0")
        with pytest.raises(RuntimeError, match="same device"):
            places[1] + places[2]
    counts = tool.document()["counts"]
    assert (counts["fail"], counts["pass"] >= 3) == (0, True)  # exp on both cards, and the product
    assert all(torch.equal(one, place.cpu().exp()) for one, place in zip(moved, places, strict=True))


class Refusing(torch.Tensor):  # type: ignore[misc,name-defined]
    """A tensor whose operators raise."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise ValueError(f"{func} is refused")


@pytest.mark.parametrize("every", [False, True])
def test_what_a_subclass_raises_passes_through(every: bool) -> None:
    refusing = torch.ones(3).as_subclass(Refusing)
    with CompareWithCPU(every=every, quiet=True) as tool:
        torch.ones(3) + 1
        with pytest.raises(ValueError, match=r"aten\.add\.Tensor is refused"):
            refusing + 1
        torch.ones(3) * 2
    document = tool.document()
    assert (document["counts"]["fail"], document["counts"]["pass"] > 0) == (0, True)


def test_tensors_without_values_pass_through() -> None:
    with CompareWithCPU(quiet=True) as tool:
        torch.ones(3, device="meta") + 1
        with FakeTensorMode():
            torch.ones(3) + 1
    with FakeTensorMode(), CompareWithCPU(quiet=True):
        torch.ones(3) + 1
    assert complaints(tool.document()) == []


def test_more_than_the_memory_is_untested() -> None:
    with CompareWithCPU(quiet=True, memory_limit=1 << 20) as tool:
        torch.ones(10) + torch.zeros(1 << 20).sum()
    ((status, _, _, reason),) = [one for one in complaints(tool.document("en")) if "sum" in one[1]]
    assert status == "untested"
    assert "at most 1 MB" in reason


def test_inputs_that_are_rounded_first_are_recognized() -> None:
    def tf32(out: Tensor, args: Any) -> Tensor:
        product: Tensor = torch.mm(rounded(args[0], 10, True), rounded(args[1], 10, True))
        return product

    left, right = torch.randn(64, 256), torch.randn(256, 64)
    with Wrong("mm", tf32), CompareWithCPU(quiet=True) as tool:
        torch.mm(left, right)
    (row,) = tool.document("en")["operators"]
    assert (row["status"], row["reason"]) == ("warn", "the device rounds inputs of products to 10 bits")


def test_infinity_where_the_cpu_has_none() -> None:
    large = torch.full((4,), 6e4, dtype=torch.float16)
    with Wrong("sin", lambda out, args: torch.full_like(out, float("inf"))), CompareWithCPU(quiet=True) as tool:
        torch.sin(large)
    assert tool.document()["counts"]["fail"] == 1


# --- its options ---


@pytest.mark.parametrize("standard", [name for name in NAMES if name != "given"])
def test_standards(standard: str) -> None:
    def counts(change: Any) -> dict[str, int]:
        left = torch.randn(40, 40, generator=torch.Generator().manual_seed(1))
        with Wrong("mm", change), CompareWithCPU(quiet=True, standard=standard) as tool:
            torch.mm(left, left)
        found: dict[str, int] = tool.document()["counts"]
        return found

    assert counts(times(1.0))["pass"] == 1
    assert counts(times(1.5))["fail"] == 1


def one_more(out: Any, args: Any) -> Any:
    out.view(-1)[:1].add_(1.0)
    return out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (times(1.5), "only 0 % of the elements are within"),
        (one_more, "the largest error is 1; at most max(0.01, 32 ULP) is allowed"),
    ],
)
def test_a_standard_of_two_needs_says_which_is_not_met(change: Any, said: str) -> None:
    left = torch.rand(40, 40, generator=torch.Generator().manual_seed(1))

    with Wrong("mm", change), CompareWithCPU(quiet=True, standard="cann-mixed") as tool:
        torch.mm(left, left)
    (row,) = [row for row in tool.document()["operators"] if row["operator"] == "aten.mm"]
    assert row["status"] == "fail"
    assert said in row["reason"]


@pytest.mark.parametrize(
    ("ours", "wide", "same", "said"),
    [
        (math.inf, 1.0, math.inf, "1 NaN or infinity, as on the CPU in the same dtype, but not in higher precision"),
        (1.0, math.inf, 1.0, "1 finite number where the CPU has NaN or infinity in higher precision, but not in"),
        (1.0, math.inf, math.inf, "1 finite number where the CPU has NaN or infinity, also in float32"),
        (math.inf, 1.0, 1.0, "1 NaN or infinity where the CPU has none"),
    ],
)
def test_what_is_not_finite_is_said_of_the_side_that_has_it(ours: float, wide: float, same: float, said: str) -> None:
    values = [torch.tensor([1.0, value], dtype=torch.float64) for value in (ours, wide, same)]
    verdict = judge_nonfinite(values[0].float(), values[1], torch.float32, lambda: values[2]).verdict
    assert verdict is not None
    assert said in str(verdict.reason)


def test_tolerances_that_are_given() -> None:
    def status(by: float, **options: Any) -> str:
        with Wrong("exp", times(by)), CompareWithCPU(quiet=True, **options) as tool:
            torch.exp(torch.ones(3))
        (row,) = [row for row in tool.document()["operators"] if row["operator"] == "aten.exp"]
        result: str = row["status"]
        return result

    assert status(1.01, atol=1e-3, rtol=1e-3) == "fail"
    assert status(1.0001, atol=1e-3, rtol=1e-3) == "warn"
    assert status(1.0001, atol=1e-3, rtol=1e-3, standard="given") == "pass"
    assert status(1.0, atol=0.0, rtol=0.0) == "warn"  # as accurate as float32 allows, and not the same as float64
    assert status(1.0, atol=0.0, rtol=0.0, standard="given") == "fail"


@pytest.mark.parametrize(
    "options",
    [
        {"standard": "unknown"},
        {"standard": "given"},
        {"standard": "torch", "atol": 1.0},
        {"target_op": ["a"], "target_list": ["b"]},
    ],
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CompareWithCPU(**options)


def test_on_fail(tmp_path: Path) -> None:
    seen: list[Any] = []
    with Wrong("exp", times(2)), CompareWithCPU(quiet=True, on_fail=seen.append) as tool:
        torch.exp(torch.ones(3))
        tool.wait()
    assert [row.operator for row in seen] == ["aten.exp"]

    def stopped() -> None:
        with Wrong("exp", times(2)), CompareWithCPU(quiet=True, on_fail="raise"):
            torch.exp(torch.ones(3))
            raise AssertionError("the program was to stop before")

    with pytest.raises(ComparisonFailed, match=r"aten\.exp"):
        stopped()


def test_what_is_raised_in_the_thread_comes_out() -> None:
    def broken(row: Any) -> None:
        raise KeyError("mine")

    def program() -> None:
        with Wrong("exp", times(2)), CompareWithCPU(quiet=True, on_fail=broken) as tool:
            torch.exp(torch.ones(3))
            tool.wait()

    with pytest.raises(KeyError, match="mine"):
        program()


def test_steps() -> None:
    with CompareWithCPU(quiet=True, start_step=1, end_step=2, every=True) as tool:
        for _ in range(4):
            torch.ones(2).exp()
            tool.step()
    document = tool.document()
    assert {(row["step"], row["count"]) for row in document["operators"]} == {(1, 1)}
    assert document["steps"] == 4


def test_first_of_each_kind() -> None:
    with CompareWithCPU(quiet=True, budget=0.0) as tool:
        for _ in range(3):
            for shape in ((2,), (3,)):
                torch.ones(shape).exp()
    document = tool.document()
    assert document["counts"]["pass"] == 4
    assert document["not_sampled"] == 8


def test_the_budget_comes_to_all(device: str) -> None:
    training = Training("gpt", device, torch.float32)
    with CompareWithCPU(quiet=True, budget=1.0) as tool:
        for _ in range(40):
            training.step()
            tool.step()
    rows = [row for row in tool.document()["operators"] if row["operator"] == "aten.addmm"]
    assert sum(row["count"] for row in rows) > 20
    assert len({row["module"] for row in rows}) > 5


def test_drift_of_the_golden_run() -> None:
    training = Training("gpt", "cpu", torch.bfloat16)
    document = run(training, propagate=True)
    drift = {(row["operator"], row["module"]): row["drift"] for row in document["operators"]}
    assert drift["aten.embedding", "GPT.embedding"] < 0.01
    assert drift["aten.addmm", "GPT.head"] > drift["aten.addmm", "GPT.blocks.0.qkv"] > 1e-4
    exact = run(Training("gpt", "cpu", torch.float64), propagate=True)
    assert max(row["drift"] or 0 for row in exact["operators"]) < 1e-12


def test_entered_twice_and_beside_itself() -> None:
    with CompareWithCPU(quiet=True) as tool:
        with tool, CompareWithCPU(quiet=True) as other:
            torch.ones(2).exp()
        torch.ones(3).exp()
    assert tool.document()["counts"]["pass"] == 4
    assert other.document()["counts"]["pass"] == 2


def test_exceptions_of_the_program_pass_through() -> None:
    def program() -> None:
        with CompareWithCPU(quiet=True):
            torch.ones(2).exp()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program()
    with CompareWithCPU(quiet=True) as tool, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    assert not tool.failed


def test_threads() -> None:
    training = Training("gpt", "cpu", torch.float32)

    def work() -> None:
        for _ in range(3):
            out = training.model(training.batch)
            torch.autograd.grad(next_word(out, training.batch), list(training.model.parameters()))

    with CompareWithCPU(quiet=True, every=True) as tool:
        other = threading.Thread(target=work)  # modes are a thread's own: it is not seen, and does not disturb
        other.start()
        work()
        other.join()
    assert complaints(tool.document()) == []


def test_a_rank_that_is_known_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that start their own processes say the rank only to init_process_group."""
    for name in launcher._RANKS:
        monkeypatch.delenv(name, raising=False)
    layer = nn.Linear(2, 2)
    tools = [CompareWithCPU(quiet=True, every=True, enable_ranks=[rank]) for rank in (0, 1)]
    with tools[0], tools[1]:
        layer(torch.ones(1, 2))
        torch.distributed.init_process_group("fake", store=torch.distributed.HashStore(), rank=1, world_size=2)
        try:
            for _ in range(3):
                layer(torch.ones(1, 2))
        finally:
            torch.distributed.destroy_process_group()
    compared = [{row["operator"]: row["count"] for row in tool.document()["operators"]} for tool in tools]
    assert not compared[0]
    assert compared[1]["aten.addmm"] == 4


def test_no_thread_is_left_when_python_ends() -> None:
    """Python would stop it inside of torch, which aborts the process."""
    layer = nn.Linear(64, 64)
    tool = CompareWithCPU(every=True, quiet=True)
    for _ in range(2):  # and it begins again
        with tool:
            for _ in range(20):
                layer(torch.ones(8, 64))
        assert not [one for one in threading.enumerate() if one.name == "torchferry-compare"]
    rows = {row["operator"]: row["count"] for row in tool.document()["operators"]}
    assert rows["aten.addmm"] == 40


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with CompareWithCPU(verbose=True, should_log_to_file=True, output_dir=tmp_path / "file" / "folder") as tool:
        torch.ones(2).exp()
        torch.ones(3).exp()
    assert tool.document()["counts"]["pass"] == 4
    assert capsys.readouterr().err.count("cannot write") == 1


@pytest.mark.parametrize("count", [3, 1 << 16])
def test_a_result_of_float64_stays_as_it_is_while_it_is_measured(count: int) -> None:
    from torchferry.numerics.compare.tolerances import ErrorBound
    from torchferry.numerics.compare.verdict import of_bound

    device, reference = torch.full((count,), 3.0, dtype=torch.float64), torch.ones(count, dtype=torch.float64)
    assert of_bound(device, reference, ErrorBound(0.0, 1.0)) == 2.0
    assert bool((device == 3.0).all())
