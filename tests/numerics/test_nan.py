"""What NanInfTracker says of bad steps, and that it says nothing of good ones."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tests.numerics.models import GPT, LSTM, ConvNet, next_word, train, words  # noqa: E402
from torchferry.core.errors import UsageError  # noqa: E402
from torchferry.numerics import NanInfTracker  # noqa: E402
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
    with NanInfTracker(level=level) as tracker, pytest.raises(UsageError, match="active already"):
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
    with pytest.raises(UsageError, match="one option by two names"):
        NanInfTracker(target_op=["a"], target_list=["b"])


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
        (300, 0, ["of 300 calls of outermost modules in this step, the first 256 were looked at"]),
        (1, 4200, ["of the calls outside of modules in this step, the first 4000 were looked at"]),
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
    assert [note for note in notes if "looked at" in note] == said
