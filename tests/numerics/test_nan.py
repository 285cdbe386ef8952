"""What NanInfTracker says of bad steps, and that it says nothing of good ones."""

from __future__ import annotations

import gc
import math
import subprocess
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.numerics.models import GPT, LSTM, ConvNet, next_word, train, words  # noqa: E402
from tests.processes import HANGS  # noqa: E402
from tests.warm_python import ferry, python  # noqa: E402
from torchferry.core.errors import UsageError  # noqa: E402
from torchferry.numerics import CompareWithCPU, NanInfTracker, nan_inf_track_for_single_op  # noqa: E402
from torchferry.numerics.callfile.reading import read_call  # noqa: E402
from torchferry.numerics.framework import launcher  # noqa: E402
from torchferry.numerics.framework.statistics import described, parts, worst  # noqa: E402
from torchferry.numerics.nan.rerun import Buffers  # noqa: E402
from torchferry.numerics.nan.tracker import NotFiniteError  # noqa: E402

LEVELS = ("watch", "operator")


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class RootOfDropout(nn.Module):
    """NaN by what dropout draws."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + 0 * (functional.dropout(x, 0.5).pow(2).sum(-1, keepdim=True) - 900).sqrt()
        return result


class RootOfZero(nn.Module):
    """Finite forward; 0 / 0 in backward."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + (x - x).abs().sqrt() * 0
        return result


class Masked(nn.Module):
    """Infinities that become finite again."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + torch.exp(torch.log(x.detach() * 0))
        return result


class MaskedRow(nn.Module):
    """A row with nothing to attend to."""

    def forward(self, x: Tensor) -> Tensor:
        everything = torch.ones_like(x, dtype=torch.bool)
        weights: Tensor = x.masked_fill(everything, float("-inf")).softmax(-1)
        return x + weights


class Overflow(nn.Module):
    """More than float16 holds."""

    def forward(self, x: Tensor) -> Tensor:
        large = (x.detach() * 0 + 60000).half() * 2
        return x + (large - large).float()


class Metric(nn.Module):
    """Something that is not finite and that nothing depends on."""

    def forward(self, x: Tensor) -> Tensor:
        self.share = (x.detach() * 0).sum() / (x.detach() * 0).sum()
        return x


def plant(model: nn.Module, module: nn.Module, step: int = 1) -> Callable[[int], None]:
    def before(number: int) -> None:
        if number == step:
            model.blocks[1].extra = module  # type: ignore[index, union-attr]

    return before


def first(tracker: NanInfTracker) -> dict[str, Any]:
    finding: dict[str, Any] = tracker.document()["findings"][0]
    return finding


@pytest.mark.parametrize(
    ("module", "operator", "kind", "phase", "source"),
    [
        (RootOfDropout(), "aten.sqrt", "nan", "forward", ""),
        (RootOfZero(), "aten.div.Tensor", "nan", "backward", "aten.sqrt"),
        (MaskedRow(), "aten._softmax", "nan", "forward", ""),
        (Overflow(), "aten.mul.Tensor", "inf", "forward", ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_the_first_call_is_named(
    device: str, level: Any, module: nn.Module, operator: str, kind: str, phase: str, source: str
) -> None:
    model = GPT().to(device)
    with NanInfTracker(level=level) as tracker:
        train(model, words(device), next_word, before=plant(model, module))
    finding = first(tracker)
    origin = finding["origins"][0]
    assert finding["step"] == 1
    assert (origin["operator"], origin["kind"], origin["phase"], origin["source"]) == (operator, kind, phase, source)
    assert origin["module"] == "GPT.blocks.1.extra"
    assert origin["line"].rpartition(":")[0] == __file__
    assert origin["inputs"]
    assert sum(one[kind] for one in origin["outputs"]) > 0
    assert tracker.document()["bad_steps"] == [1, 2]


@pytest.mark.parametrize("module", [nn.Identity(), Masked(), Metric()], ids=lambda module: type(module).__name__)
def test_what_reaches_nothing_is_not_reported(device: str, level: Any, module: nn.Module) -> None:
    model = GPT().to(device)
    with NanInfTracker(level=level) as tracker:
        train(model, words(device), next_word, before=plant(model, module))
    assert tracker.document()["findings"] == []
    assert tracker.document()["steps"] == 3


def test_a_loss_is_named_though_its_gradients_are_finite(device: str, level: Any) -> None:
    with NanInfTracker(level=level) as tracker:
        train(GPT().to(device), words(device), lambda scores, batch: (scores.flatten()[:4] * 0 - 1).log().sum())
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["module"], origin["phase"]) == ("aten.log", "", "forward")
    assert origin["line"].rpartition(":")[0] == __file__


def test_the_backward_of_a_loss_is_named(device: str, level: Any) -> None:
    def loss(scores: Tensor, batch: Tensor) -> Tensor:
        return next_word(scores, batch) + (scores - scores.detach()).pow(2).sum().sqrt() * 0

    with NanInfTracker(level=level) as tracker:
        train(GPT().to(device), words(device), loss)
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["phase"], origin["source"]) == ("aten.div.Tensor", "backward", "aten.sqrt")
    assert origin["line"].rpartition(":")[0] == __file__


def test_an_optimizer_is_named_with_its_settings(device: str, level: Any) -> None:
    with NanInfTracker(level=level) as tracker:
        train(GPT().to(device), words(device), next_word, lr=float("inf"))
    finding = first(tracker)
    origin = finding["origins"][0]
    assert (finding["step"], origin["operator"], origin["phase"]) == (1, "AdamW.step", "optimizer")
    assert "lr=inf" in origin["constants"]


def test_an_input_is_named(device: str, level: Any) -> None:
    images = torch.rand(2, 3, 8, 8)
    images[1, 2, 3, 4] = float("nan")
    with NanInfTracker(level=level) as tracker:
        train(ConvNet().to(device), images.to(device), lambda scores, _: scores.sum(), steps=1)
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["module"], origin["outputs"][0]["nan"]) == ("input", "ConvNet", 1)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "gpt": (GPT, lambda: words("cpu")),
    "convolutions": (ConvNet, lambda: torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))),
    "lstm": (LSTM, lambda: torch.rand(4, 6, 8, generator=torch.Generator().manual_seed(0))),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_program_computes_the_same(device: str, level: Any, name: str) -> None:
    make, batch = MODELS[name]

    def run(tracked: bool) -> tuple[list[float], Tensor]:
        torch.manual_seed(3)
        model = make().to(device)
        with NanInfTracker(enabled=tracked, level=level) as tracker:
            losses = train(
                nn.Sequential(model, nn.Dropout(0.2)), batch().to(device), lambda scores, _: scores.pow(2).mean()
            )
        assert not tracker.document()["findings"]
        return losses, torch.rand(3)

    plain, tracked = run(False), run(True)
    assert plain[0] == tracked[0]
    assert torch.equal(plain[1], tracked[1])


def test_running_statistics_are_kept_as_they_are_now() -> None:
    """torch does not count what a batch norm writes."""
    norm, buffers = nn.BatchNorm1d(4), Buffers()
    for _ in range(2):
        norm(torch.rand(8, 4))
        assert all(torch.equal(one.buffer, one.values) for one in buffers.keep(norm))
    assert buffers.keep(norm)[0].values is buffers.keep(norm)[0].values


def test_running_again_changes_nothing(device: str, level: Any) -> None:
    def run(tracked: bool) -> tuple[Tensor, Tensor]:
        torch.manual_seed(3)
        norm = nn.BatchNorm1d(4)
        model = nn.Sequential(norm, nn.Dropout(0.5), RootOfZero()).to(device)
        with NanInfTracker(enabled=tracked, level=level) as tracker:
            train(model, torch.rand(8, 4).to(device), lambda scores, _: scores.sum())
        assert bool(tracker.document()["findings"]) is tracked
        assert norm.running_mean is not None
        return norm.running_mean.cpu(), torch.rand(3)

    for plain, tracked in zip(run(False), run(True), strict=True):
        assert torch.equal(plain, tracked)


def test_a_scaler_may_overflow(device: str, level: Any) -> None:
    model = GPT().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**40)
    with NanInfTracker(level=level) as tracker:
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.float16):
                loss = next_word(model(words(device)), words(device))
            scaler.scale(loss.half() if device == "cpu" else loss).backward()
            scaler.step(optimizer)
            scaler.update()
    document = tracker.document()
    assert document["findings"] == []
    assert document["overflows"] == [0, 1, 2, 3][: len(document["overflows"])] != []
    assert document["steps"] == 4


def scaled(device: str, level: Any, extra: nn.Module, steps: int) -> NanInfTracker:
    """Train a model with a part of its own under a gradient scaler and the tracker."""
    model = GPT().to(device)
    model.blocks[1].extra = extra
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device)
    with NanInfTracker(level=level) as tracker:
        for _ in range(steps):
            optimizer.zero_grad()
            scaler.scale(next_word(model(words(device)), words(device))).backward()
            scaler.step(optimizer)
            scaler.update()
    return tracker


def test_a_scaler_does_not_hide_a_bad_forward(device: str, level: Any) -> None:
    tracker = scaled(device, level, RootOfDropout(), steps=1)
    assert first(tracker)["origins"][0]["operator"] == "aten.sqrt"
    assert tracker.document()["overflows"] == []


def test_a_scaler_does_not_hide_a_bad_backward(device: str, level: Any) -> None:
    document = scaled(device, level, RootOfZero(), steps=2).document()
    assert document["bad_steps"] == [0]
    assert 0 not in document["overflows"]
    origin = document["findings"][0]["origins"][0]
    assert (origin["operator"], origin["phase"], origin["module"]) == (
        "aten.div.Tensor",
        "backward",
        "GPT.blocks.1.extra",
    )
    assert any("gradient scaler" in note for note in document["findings"][0]["notes"])


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_keep_their_modules(device: str, level: Any, reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self, block: nn.Module) -> None:
            super().__init__()
            self.block = block

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = checkpoint(self.block, x, use_reentrant=reentrant)
            return result

    model = GPT().to(device)
    model.blocks[1].extra = RootOfDropout()
    model.blocks[1] = Checkpointed(model.blocks[1])
    with NanInfTracker(level=level) as tracker:
        train(model, words(device), next_word, steps=1)
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["module"]) == ("aten.sqrt", "GPT.blocks.1.block.extra")


def test_keyword_arguments_are_given_again(device: str, level: Any) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, *, values: Tensor, power: float) -> dict[str, Tensor]:
            return {"loss": (self.layer(values) - 9).pow(power).sum()}

    model = Named().to(device)
    with NanInfTracker(level=level) as tracker:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(values=torch.ones(2, 4, device=device), power=0.5)["loss"].backward()
        optimizer.step()
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["constants"]) == ("aten.pow.Tensor_Scalar", ["0.5"])


def test_a_forward_alone_is_looked_at(device: str, level: Any) -> None:
    model = GPT().to(device).eval()
    model.blocks[2].extra = MaskedRow()
    with torch.no_grad(), NanInfTracker(level=level) as tracker:
        model(words(device))
        tracker.step()
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["module"]) == ("aten._softmax", "GPT.blocks.2.extra")


def test_functions_without_modules(device: str) -> None:
    with NanInfTracker() as tracker:
        values = torch.zeros(3, device=device)
        torch.relu(values / values)
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["kind"], origin["module"]) == ("aten.div.Tensor", "nan", "")


def test_tensors_of_every_kind_pass(device: str) -> None:
    with warnings.catch_warnings(), NanInfTracker() as tracker:
        warnings.simplefilter("ignore")
        torch.zeros(2, 3, device="meta") / 0
        torch.eye(3).to_sparse() * 2
        torch.complex(torch.ones(2), torch.ones(2)).to(device).abs()
        torch.ones(4, device=device).to(torch.float8_e4m3fn).to(torch.float32)
        torch.zeros(0, 4, device=device).sum(0) / 1
        torch.ones(3, device=device, dtype=torch.int64) // 2
        torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).dequantize()
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert tracker.document()["findings"] == []


def test_a_mode_of_the_programs_own_goes_on(device: str, level: Any) -> None:
    model = GPT().to(device)
    with FlopCounterMode(display=False) as plain:
        next_word(model(words(device)), words(device)).backward()
    with NanInfTracker(level=level), FlopCounterMode(display=False) as counted:
        next_word(model(words(device)), words(device)).backward()
    assert counted.get_total_flops() == plain.get_total_flops() > 0


def test_an_exception_of_the_program_passes(device: str, level: Any) -> None:
    class Raises(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("mine")

    model = GPT().to(device)
    with pytest.raises(KeyError, match="mine"), NanInfTracker(level=level):
        train(model, words(device), next_word, before=plant(model, Raises()))
    with NanInfTracker(level=level) as tracker:
        train(GPT().to(device), words(device), next_word)
    assert tracker.document()["findings"] == []


def test_the_span_of_steps(device: str, level: Any) -> None:
    model = GPT().to(device)
    with NanInfTracker(level=level, start_step=2) as tracker:
        train(model, words(device), next_word, before=plant(model, RootOfDropout(), step=1))
    assert first(tracker)["step"] == 2
    with NanInfTracker(level=level, end_step=1) as tracker:
        train(GPT().to(device), words(device), lambda scores, batch: scores.sum() / 0)
    assert tracker.document()["bad_steps"] == [0]


def test_it_can_stop_the_program(device: str, level: Any) -> None:
    model = GPT().to(device)
    with pytest.raises(NotFiniteError, match=r"aten\.sqrt"), NanInfTracker(level=level, stop=True):
        train(model, words(device), next_word, before=plant(model, RootOfDropout()))


def test_it_writes_to_a_folder_that_it_makes(device: str, level: Any, tmp_path: Any) -> None:
    model = GPT().to(device)
    with NanInfTracker(level=level, should_log_to_file=True, output_dir=tmp_path / "logs"):
        train(model, words(device), next_word, before=plant(model, RootOfDropout()))
    assert "aten.sqrt" in (tmp_path / "logs" / "nan_rank_0.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"level": "fast"}, "unknown level `fast`"),
        ({"dump_error_data": True}, "needs `output_dir`"),
        ({"should_log_to_file": True}, "needs `output_dir`"),
    ],
)
def test_wrong_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        NanInfTracker(**options)


def test_entering_twice_is_refused(level: Any) -> None:
    with NanInfTracker(level=level) as tracker, pytest.raises(UsageError, match="already active"):
        tracker.__enter__()


def test_nothing_stays(level: Any) -> None:
    from torch.nn.modules import module
    from torch.optim import optimizer
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    def state() -> list[Any]:
        return [
            dict(module._global_forward_hooks),
            dict(module._global_forward_pre_hooks),
            dict(optimizer._global_optimizer_pre_hooks),
            dict(optimizer._global_optimizer_post_hooks),
            torch.autograd.backward,
            torch.amp.GradScaler.step,
            torch.amp.GradScaler.update,
            list(_get_current_dispatch_mode_stack()),
        ]

    before = state()
    with NanInfTracker(level=level):
        train(GPT(), words("cpu"), next_word, steps=1)
    assert state() == before
    with NanInfTracker(level=level):
        nn.Linear(2, 2)(torch.ones(1, 2))  # without backward: the tape is still in place
    assert state() == before


def test_memory_does_not_grow(level: Any) -> None:
    model = GPT()
    with NanInfTracker(level=level):
        train(model, words("cpu"), next_word, steps=3)
        gc.collect()
        before = len(gc.get_objects())
        train(model, words("cpu"), next_word, steps=20)
        gc.collect()
        assert abs(len(gc.get_objects()) - before) < 20


def test_compiled_models_stay_compiled_while_all_is_well(device: str) -> None:
    graphs = 0

    def backend(graph: Any, inputs: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    torch.compiler.reset()
    model = GPT().to(device)
    with warnings.catch_warnings(), NanInfTracker(level="watch") as tracker:
        warnings.simplefilter("ignore")
        train(torch.compile(model, backend=backend), words(device), next_word, steps=2)
        assert graphs == 1
        model.blocks[1].extra = RootOfZero()
        train(torch.compile(model, backend=backend), words(device), next_word, steps=1)
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["module"]) == ("aten.div.Tensor", "GPT.blocks.1.extra")


def test_an_option_by_its_older_name() -> None:
    with NanInfTracker(target_list=["torch.ops.aten.log"]) as tracker:
        torch.zeros(2).sub(1).sqrt()
        torch.zeros(2).sub(1).log()
    assert [one["operator"] for one in first(tracker)["origins"]] == ["aten.log"]
    with pytest.raises(UsageError, match="two names of one option"):
        NanInfTracker(target_op=["a"], target_list=["b"])


@pytest.mark.parametrize("name", ["skip_op", "white_list"])
def test_an_operator_that_is_skipped_is_not_looked_at(name: str) -> None:
    skipped: dict[str, Any] = {name: ["sqrt"]}
    with NanInfTracker(**skipped) as tracker:
        torch.zeros(2).sub(1).sqrt()
        torch.zeros(2).sub(1).log()
    assert [origin["operator"] for origin in first(tracker)["origins"]] == ["aten.log"]


def test_a_forward_of_nothing_is_not_part_of_a_step(device: str, level: Any) -> None:
    """Detectors find their strides by a forward of uninitialized memory; profilers count operations so."""
    model = ConvNet().to(device)
    garbage = torch.full((1, 3, 8, 8), float("nan"), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**126)
    with NanInfTracker(level=level) as tracker:
        model.eval()(garbage)
        with torch.no_grad():
            model(garbage)
        model.train()
        for _ in range(2):
            scores = model(torch.rand(2, 3, 8, 8).to(device)) * 1e4
            scaler.scale((scores - scores.detach()).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert tracker.document()["findings"] == []
    assert tracker.document()["overflows"] == [0, 1]


@pytest.mark.parametrize(
    ("calls", "between", "said"),
    [
        (3, 1, []),
        (300, 0, ["of 300 calls of outermost modules in this step, the first 256 were examined"]),
        (1, 4200, ["of the calls outside modules in this step, the first 4000 were examined"]),
    ],
)
def test_what_was_too_much_to_keep_is_said(calls: int, between: int, said: list[str]) -> None:
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with NanInfTracker(level="watch") as tracker:
        total = sum(layer(torch.ones(1, 2)).sum() for _ in range(calls)) * float("nan")
        for _ in range(between):
            total = total + 1
        total.backward()
        optimizer.step()
    notes = tracker.document()["findings"][0]["notes"]
    assert [note for note in notes if "examined" in note] == said


class _Worse(torch.autograd.Function):  # type: ignore[misc, name-defined]
    """Finite forward; a gradient that is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * float("nan")


def test_sparse_gradients_are_looked_at(level: Any) -> None:
    table = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    with NanInfTracker(level=level) as tracker:
        for step in range(2):
            optimizer.zero_grad()
            scores = table(torch.tensor([1, 2]))
            (_Worse.apply(scores) if step else scores).sum().backward()
            optimizer.step()
    document = tracker.document()
    assert (document["bad_steps"], document["unread"]) == ([1], {})
    if level == "operator":
        assert first(tracker)["origins"][0]["operator"] == "aten.mul.Tensor"


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_what_lies_in_a_tensor_is_found(layout: Any) -> None:
    whole = torch.tensor([[0.0, float("inf")], [0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = whole.to_sparse(layout=layout)
        nested = torch.nested.nested_tensor([torch.ones(2), torch.full((3,), float("nan"))], layout=torch.jagged)
    assert list(map(worst, (whole, tensor, nested, torch.arange(3)))) == [1, 1, 2, 0]
    assert described(tensor).inf == 1
    assert parts(torch.ones(2, device="meta")) is None


def test_a_gradient_that_cannot_be_read_is_counted(level: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchferry.numerics.nan.watch.parts", lambda tensor: None)
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with NanInfTracker(level=level) as tracker:
        layer(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert tracker.document()["unread"] == {"Tensor float32 torch.strided": 3}  # two gradients and the loss


def _written(parameter: nn.Parameter, gradient: Tensor) -> None:
    with torch.no_grad():
        parameter.sub_(0.01 * gradient)
    parameter.grad = None


def _by_its_data(parameter: nn.Parameter, gradient: Tensor) -> None:
    parameter.data.sub_(0.01 * gradient)
    parameter.grad = None


def _to_zero(parameter: nn.Parameter, gradient: Tensor) -> None:
    parameter.data.sub_(0.01 * gradient)
    gradient.zero_()


@pytest.mark.parametrize("update", [_written, _by_its_data, _to_zero])
def test_a_program_that_has_no_optimizer(level: Any, update: Callable[[nn.Parameter, Tensor], None]) -> None:
    """Nothing says where a step ends, but that it has used its gradients."""
    layer = nn.Linear(4, 4)
    with NanInfTracker(level=level) as tracker:
        for step in range(300):
            loss = layer(torch.rand(2, 4)).pow(2).mean()
            (loss * float("nan") if step == 290 else loss).backward()
            for parameter in layer.parameters():
                assert parameter.grad is not None
                update(parameter, parameter.grad)
            assert len(tracker._memory.roots) == 1
    document = tracker.document()
    assert (document["steps"], document["bad_steps"], document["unlooked"]) == (300, [*range(290, 300)], 0)
    origin = first(tracker)["origins"][0]
    assert (origin["operator"], origin["kind"]) == ("aten.mul.Tensor", "nan")


def test_microbatches_before_the_first_step_are_one_step(device: str, level: Any) -> None:
    layer = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**126)
    with NanInfTracker(level=level) as tracker:
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(3):
                scores = layer(torch.rand(2, 4, device=device)) * 1e4
                scaler.scale((scores - scores.detach()).mean()).backward()
                assert not tracker._unaided
            scaler.step(optimizer)
            scaler.update()
    document = tracker.document()
    assert (document["steps"], document["findings"]) == (2, [])
    assert document["overflows"]


def test_a_forward_that_is_never_differentiated_is_looked_at(level: Any) -> None:
    layer = nn.Linear(2, 2)
    with NanInfTracker(level=level) as tracker:
        for number in range(400):
            layer(torch.full((1, 2), float("nan") if number == 390 else 1.0))
    assert first(tracker)["origins"][0]["operator"] == "input"
    assert tracker.document()["unlooked"] == 0


def test_results_of_a_step_without_an_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchferry.numerics.nan.mode.MOST", 64)
    values = torch.ones(3)
    with NanInfTracker() as tracker:
        masked = torch.full((3,), float("-inf"))
        for number in range(500):
            values = values * 1.0 + masked.exp()
            if number == 300:
                values = values - 1e9
                values = values.log()
        assert tracker._mode is not None
        assert len(tracker._mode._results) <= 65
    document = tracker.document()
    assert [one["operator"] for one in document["findings"][0]["origins"]] == ["aten.log"]
    assert document["unlooked_results"] > 0  # all that follows is bad, and too much


def test_healthy_results_without_an_end_are_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchferry.numerics.nan.mode.MOST", 64)
    values = torch.ones(3)
    with NanInfTracker() as tracker:
        for _ in range(500):
            values = values * 1.0 + torch.full((3,), float("-inf")).exp()
    document = tracker.document()
    assert (document["findings"], document["unlooked_results"]) == ([], 0)


@pytest.mark.parametrize("shape", [(1, 4), (4, 4)], ids=["infinite", "nan"])
def test_an_infinite_input_is_named(level: Any, shape: tuple[int, int]) -> None:
    layer = nn.Linear(shape[0], shape[1])
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]).expand(4, shape[0]))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    batch = torch.ones(2, shape[0])
    batch[0, 0] = float("inf")
    with NanInfTracker(level=level) as tracker:
        (layer(batch) * 2).sum().backward()
        optimizer.step()
    finding = first(tracker)
    origin = finding["origins"][0]
    assert (origin["operator"], origin["kind"], origin["module"]) == ("input", "inf", "Linear")
    assert not any("finite one" in note for note in finding["notes"])


def test_nothing_is_said_to_have_run_again_that_did_not() -> None:
    with NanInfTracker() as tracker:
        torch.tensor([-1.0]).sqrt()
    assert first(tracker)["origins"][0]["operator"] == "aten.sqrt"
    assert first(tracker)["notes"] == []


@pytest.mark.parametrize("file", ["a file", "in a file"])
def test_a_call_that_cannot_be_written_is_told_all_the_same(level: Any, tmp_path: Any, file: str, capfd: Any) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" if file == "a file" else tmp_path / "file" / "folder"
    model = GPT()
    tracker = NanInfTracker(level=level, dump_error_data=True, output_dir=folder)
    with pytest.raises(NotFiniteError, match=r"aten\.sqrt[\s\S]*could not be written: cannot write"), tracker:
        train(model, words("cpu"), next_word, before=plant(model, RootOfDropout()))
    assert first(tracker)["step"] == 1
    assert "aten.sqrt" in capfd.readouterr().err


def test_a_large_call_is_made_smaller(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchferry.numerics.callfile.writing.LIMIT", 256)
    values = torch.ones(64, 64)
    values[40, 3] = -1
    tracker = NanInfTracker(dump_error_data=True, output_dir=tmp_path)
    with pytest.raises(NotFiniteError), tracker:
        Root()(values)
    (folder,) = tmp_path.iterdir()
    assert str(folder) in first(tracker)["dump"]
    written = read_call(folder)
    assert sum(storage.numel() for storage in written.storages.values()) <= 256
    assert written.document["observed"]["shrunk"]["from"] == 64 * 64 * 4
    right, *_ = nan_inf_track_for_single_op(folder)
    assert not right


class Root(nn.Module):
    """A square root."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sqrt()


def test_a_fault_of_the_tool_is_not_one_of_the_program(level: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("a fault of mine")

    monkeypatch.setattr("torchferry.numerics.nan.tracker.bad_gradients", broken)
    with NanInfTracker(level=level) as tracker:
        train(GPT(), words("cpu"), next_word)
    document = tracker.document()
    assert "a fault of mine" in document["error"]
    assert (document["steps"], document["findings"]) == (3, [])
    assert "a fault of mine" in capfd.readouterr().err


class MakesMask(nn.Module):
    """Makes a mask of infinities, as torch's own transformers do, which find that they do not need it."""

    def __init__(self, spoil: str = "") -> None:
        super().__init__()
        self.layer, self.spoil = nn.Linear(4, 4), spoil

    def forward(self, x: Tensor) -> Any:
        mask = torch.log(torch.tril(torch.ones(4, 4)))
        self.aside = torch.log(x * 0) if self.spoil == "aside" else x
        x = self.layer(x)
        if self.spoil == "result":
            x = x + mask
        self.kept = torch.sqrt(-x.abs() - 1) if self.spoil == "kept" else x
        return None if self.spoil == "kept" else x


@pytest.mark.parametrize(
    ("spoil", "operator"), [("", None), ("aside", "aten.log"), ("result", "aten.log"), ("kept", "aten.sqrt")]
)
def test_what_a_module_makes_and_does_not_give(level: Any, spoil: str, operator: str | None) -> None:
    model = MakesMask(spoil)
    with torch.no_grad(), NanInfTracker(level=level) as tracker:
        for _ in range(3):
            given = model(torch.ones(4, 4))
            if spoil == "aside":
                given = given + model.aside
    found = [origin["operator"] for finding in tracker.document()["findings"] for origin in finding["origins"]]
    if level == "operator":
        assert operator in found if operator else not found
    else:
        assert not found or spoil == "result"  # it looks at what modules give


def test_what_goes_into_a_graph_is_not_looked_at(level: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No card captures here: a device that says it does, while a second step is taken."""
    captures = False
    for place in ("watch", "tracker"):
        monkeypatch.setattr(f"torchferry.numerics.nan.{place}.capturing", lambda: captures)
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with NanInfTracker(level=level) as tracker:
        for step in range(2):
            captures = step == 1
            if captures:
                monkeypatch.setattr("torchferry.numerics.nan.tracker.bad_gradients", None)
            optimizer.zero_grad()
            (layer(torch.ones(1, 2)).sum() * (float("nan") if captures else 1)).backward()
            optimizer.step()
    document = tracker.document()
    assert (document["steps"], document["findings"], document.get("error")) == (2, [], None)
    assert document["captured"]


def test_what_goes_into_a_graph_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = False
    monkeypatch.setattr("torchferry.numerics.compare.mode.capturing", lambda: captures)
    layer = nn.Linear(2, 2)
    with torch.no_grad(), CompareWithCPU(quiet=True, every=True) as compare:
        for step in range(3):
            captures = step > 0
            layer(torch.ones(1, 2))
    document = compare.document("en")
    assert {row["operator"]: row["count"] for row in document["operators"]}["aten.addmm"] == 1
    assert document["skipped"]["into a captured graph, whose runs are not seen"] >= 2


def test_the_devices_own_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchferry.numerics.framework import dispatch

    begun = False
    module = types.SimpleNamespace(is_initialized=lambda: begun, is_current_stream_capturing=lambda: True)
    monkeypatch.setattr(torch._C, "_get_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    dispatch._question.cache_clear()
    try:
        assert not dispatch.capturing()
        begun = True
        assert dispatch.capturing()
    finally:
        dispatch._question.cache_clear()


def test_a_rank_that_is_known_late(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that start their own processes say the rank only to init_process_group."""
    for name in launcher._RANKS:
        monkeypatch.delenv(name, raising=False)
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        (layer(torch.ones(1, 2)).sum() * float("nan")).backward()
        optimizer.step()

    trackers = [
        NanInfTracker(level="watch", enable_ranks=[rank], should_log_to_file=True, output_dir=tmp_path)
        for rank in (0, 1)
    ]
    assert launcher.known_rank() is None
    store = torch.distributed.HashStore()
    with trackers[0], trackers[1]:
        torch.distributed.init_process_group("fake", store=store, rank=1, world_size=2)
        try:
            step()
        finally:
            assert launcher.rank() == 1
            assert [bool(tracker.document()["findings"]) for tracker in trackers] == [False, True]
            torch.distributed.destroy_process_group()
    assert [path.name for path in tmp_path.iterdir()] == ["nan_rank_1.log"]


def test_distributed_and_plain_parameters_together(level: Any) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        model = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        parallelize_module(model, mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
        with NanInfTracker(level=level) as tracker:
            for step in range(2):
                scores = model(torch.randn(2, 8))
                (_Worse.apply(scores) if step else scores).sum().backward()
                optimizer.step()
        document = tracker.document()
        assert (document["bad_steps"], document["unread"], document.get("error")) == ([1], {}, None)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("trains", [True, False])
def test_a_weight_that_was_bad_from_the_beginning_is_named(level: Any, trains: bool) -> None:
    model = GPT()
    with torch.no_grad():
        model.get_parameter("blocks.1.up.weight")[0, 0] = float("nan")
    with NanInfTracker(level=level) as tracker:
        if trains:
            train(model, words("cpu"), next_word)
        else:
            with torch.no_grad():
                model(words("cpu"))
    finding = first(tracker)
    assert finding["step"] == 0
    assert (finding["origins"][0]["operator"], finding["origins"][0]["module"]) == (
        "parameter weight",
        "GPT.blocks.1.up",
    )
    assert "the parameter GPT.blocks.1.up.weight was nan before the first step" in finding["notes"][0]


@pytest.mark.parametrize(("trains", "counted"), [(True, "1 of 3 steps"), (False, "1 of 3 calls of models")])
def test_a_command_tells_a_finding_once(trains: bool, counted: str, tmp_path: Path) -> None:
    step = "optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()" if trains else "model(x)"
    program = (
        "import torch\nmodel = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(model.parameters(), 0.0)\n"
        f"with torch.set_grad_enabled({trains}):\n    for i in range(3):\n"
        f"        x = torch.full((2, 4), float('nan') if i == 2 else 1.0)\n        {step}\n"
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    command = [ferry(), "-m", "torchferry", "nan", "--", python(), "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.stdout + done.stderr).count("first came from") == 1
    assert f"{counted} were not finite" in done.stdout


@pytest.mark.parametrize(
    ("dtype", "gain", "bad", "said"),
    [
        (torch.float16, 300.0, None, True),
        (torch.bfloat16, 300.0, None, False),  # whose range is that of float32
        (torch.float16, 300.0, math.inf, False),  # infinite in any dtype
        (torch.float32, 1e38, None, False),
    ],
)
def test_a_range_that_is_too_narrow_is_named_only_where_float32_is_finite(
    dtype: Any, gain: float, bad: float | None, said: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    class Wide(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * gain if bad is None else x * bad) * gain

    with torch.no_grad(), NanInfTracker():
        nn.Sequential(Wide())(torch.full((2, 3), 7.0, dtype=dtype))
    assert ("the same call is finite in float32" in capfd.readouterr().err) == said
