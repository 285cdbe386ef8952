"""Laws of the numerics tools, over the zoo: no verdict against its own table, and no program that is another one."""

from __future__ import annotations

import contextlib
import io
import json
import math
import operator
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.numerics.recorded import Told, record
from tests.numerics.zoo import DTYPES, FAULTS, ZOO, Planted, planted, trained
from torchferry.numerics.compare import CompareWithCPU
from torchferry.numerics.framework.dispatch import WholeMode
from torchferry.numerics.framework.operators import operator as described
from torchferry.numerics.framework.operators import unasked
from torchferry.numerics.framework.other_ways import _FUNCTIONS
from torchferry.numerics.recording import Recorder
from torchferry.numerics.report import diff
from torchferry.numerics.rundiff.alignment import align
from torchferry.numerics.rundiff.causes import CERTAIN, equal
from torchferry.numerics.rundiff.comparison import RunComparison, compare
from torchferry.numerics.rundiff.verdict import RunVerdict
from torchferry.numerics.runlog.record import read_record

pytestmark = pytest.mark.rehearsal

UNOBSERVED = {"ctc": "aten.ctc_loss.Tensor", "detector": "aten.prod"}
"""Models of the zoo in which a call is made without the tools."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def recorded(folder: Path, name: str, dtype: str = "float32") -> list[float]:
    with Recorder(folder) as recorder:
        return trained(name, dtype, ended=recorder.step)


def follows_its_table(result: RunComparison) -> bool:
    """Whether a verdict is the one that what is printed of its rows says, in each form of the report."""
    document = json.loads(diff.as_json(result, "en"))
    beyond = [row for row in document["modules"] if not float(row["error"]) <= float(row["limit"])]
    certain = [cause for cause in document["causes"] if cause["grade"] == CERTAIN]
    says = next(diff.lines(result, "en")).split(":")[0]
    expected = "DIFFERENT" if beyond or certain else "SAME" if document["complete"] else "NOT COMPARED TO THE END"
    return says == expected and document["same"] == (expected == "SAME") and bool(beyond) == (result.first is not None)


@pytest.mark.parametrize(("number", "name"), [*enumerate(ZOO)])
def test_a_run_is_the_same_as_itself_and_as_the_plain_one(tmp_path: Path, number: int, name: str) -> None:
    dtype = DTYPES[number % 3]
    plain = trained(name, dtype)
    assert recorded(tmp_path / "a", name, dtype) == recorded(tmp_path / "b", name, dtype) == plain
    result = compare(read_record(tmp_path / "a"), read_record(tmp_path / "b"))
    assert follows_its_table(result)
    assert result.verdict is (RunVerdict.INCOMPLETE if name in UNOBSERVED else RunVerdict.SAME)
    assert [UNOBSERVED[name] in str(gap) for gap in result.coverage.gaps] == [True] * (name in UNOBSERVED)
    assert result.aligned > 50
    assert {row.error for row in result.table.rows()} == {0.0}


@pytest.mark.parametrize(("number", "name"), [*enumerate(ZOO)][1::2])
def test_no_alarm_on_a_healthy_model_and_the_same_losses(number: int, name: str) -> None:
    dtype = DTYPES[(number + 1) % 3]
    with contextlib.redirect_stdout(io.StringIO()), CompareWithCPU() as tool:
        losses = trained(name, dtype)
    assert not tool.failed
    assert losses == trained(name, dtype)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("references")

    def reference(name: str) -> Path:
        if not (folder / name).exists():
            recorded(folder / name, name)
        return folder / name

    return reference


@pytest.mark.parametrize("fault", FAULTS[::6], ids=lambda fault: f"{fault.model}-{fault.operator}")
def test_a_wrong_kernel_is_named_first(tmp_path: Path, references: Callable[[str], Path], fault: Planted) -> None:
    reference = read_record(references(fault.model))
    with planted(fault.operator, fault.kind, fault.nth) as plant:
        recorded(tmp_path / "b", fault.model)
    assert plant.calls > fault.nth
    result = compare(reference, read_record(tmp_path / "b"))
    assert follows_its_table(result)
    assert result.first is not None
    named = result.first.phase if fault.named else result.first.operator
    assert (fault.named or fault.operator.strip("_")) in named


# What an optimizer makes of the same gradients.


@contextlib.contextmanager
def kernel(change: Callable[[int, Tensor, Tensor, dict[str, Tensor]], Any]) -> Iterator[None]:
    """Within the context AdamW changes what it made: of each parameter its number, it, what it was, and its state."""
    hooked = torch.optim.AdamW.step
    plain: Any = getattr(hooked, "__wrapped__", hooked)

    def step(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        before = [parameter.detach().clone() for parameter in parameters]
        out = plain(self, *args, **kwargs)
        with torch.no_grad():
            for number, (parameter, old) in enumerate(zip(parameters, before, strict=True)):
                change(number, parameter, old, self.state[parameter])
        return out

    torch.optim.AdamW.step = step  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.optim.AdamW.step = hooked  # type: ignore[method-assign]


OPTIMIZERS: dict[str, tuple[Callable[[int, Tensor, Tensor, dict[str, Tensor]], Any], str, bool]] = {
    "a tenth too small": (lambda n, new, old, state: new.copy_(old + 0.9 * (new - old)), "update", True),
    "two hundredths too small": (lambda n, new, old, state: new.copy_(old + 0.98 * (new - old)), "update", True),
    "the last left out": (lambda n, new, old, state: new.copy_(old) if n == 34 else None, "update", False),
    "one too small": (
        lambda n, new, old, state: new.copy_(old + 0.9 * (new - old)) if n == 7 else None, "update", False,
    ),
    "too much decay": (lambda n, new, old, state: new.sub_(old, alpha=1e-3), "update", True),
    "a wrong state": (lambda n, new, old, state: state["exp_avg_sq"].mul_(1.01), "optimizer state", False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "autocast"), [*((name, "") for name in OPTIMIZERS), ("a tenth too small", "bfloat16")]
)
def test_an_optimizer_is_judged_by_what_it_added_and_what_it_keeps(tmp_path: Path, name: str, autocast: str) -> None:
    change, phase, of_all = OPTIMIZERS[name]
    told = Told(dropout=0.0, steps=3)._replace(autocast=autocast)
    a = record(tmp_path / "a", told)
    with kernel(change):
        b = record(tmp_path / "b", told._replace(fused=False))  # another kernel of attention: gradients round otherwise
    result = compare(read_record(a), read_record(b))
    assert follows_its_table(result) or autocast
    assert result.verdict is RunVerdict.DIFFERENT
    of_step = any(cause.cause == "optimizer step" for cause in result.causes)
    assert of_step or not of_all or autocast
    assert of_step if result.first is None else result.first.phase == phase


def test_a_parameter_that_no_module_has_is_judged_too(tmp_path: Path) -> None:
    def run(folder: Path, rate: float) -> Path:
        torch.manual_seed(0)
        model, scale = nn.Linear(4, 4), nn.Parameter(torch.ones(4))
        optimizer = torch.optim.SGD([*model.parameters(), scale], 0.1)
        with Recorder(folder) as recorder:
            for _ in range(2):
                optimizer.zero_grad()
                (model(torch.ones(2, 4)) * scale).square().mean().backward()
                optimizer.step()
                with torch.no_grad():
                    scale.mul_(rate)
                recorder.step()
        return folder

    same = compare(*(read_record(run(tmp_path / name, 1.0)) for name in "ab"))
    assert same.same
    row = same.table.row("SGD[0][2]", "update")
    assert row is not None
    other = compare(read_record(tmp_path / "a"), read_record(run(tmp_path / "c", 1.01)))
    assert not other.same


# Infinities and NaN, and integers.


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (-math.inf, -math.inf, True), (math.inf, -math.inf, False), (math.nan, math.nan, True), (math.nan, 1.0, False),
        (math.inf, 1e308, False), ([1, -math.inf], [1, -math.inf], True), ([math.nan], [math.inf], False),
        ({"eps": math.inf}, {"eps": math.inf}, True), (True, 1, False), (1.0, 1.0 + 1e-9, True), (1, 2, False),
        ("max", "max", True), (None, None, True), (None, 0, False),
    ],
)  # fmt: skip
def test_what_is_given_is_equal_to_itself(one: object, two: object, same: bool) -> None:
    assert equal(one, two) is same


def special(folder: Path, fill: float, factor: float = 1.0) -> RunComparison:
    """Compare a run that puts special values among others with itself, or with one whose last operator differs."""

    def run(path: Path, times: float) -> Path:
        torch.manual_seed(0)
        net = nn.Linear(8, 8)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        mask = torch.ones(12, 12, dtype=torch.bool).tril()
        with Recorder(path) as recorder:
            for step in range(3):
                q = net(torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(step)))
                scores = (q @ q.transpose(1, 2)).masked_fill(~mask, fill).nan_to_num(0.0, 1.0, -20.0).softmax(-1)
                loss = (scores * times @ q).clamp(-math.inf, math.inf).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                recorder.step()
        return path

    return compare(read_record(run(folder / "a", 1.0)), read_record(run(folder / "b", factor)))


@pytest.mark.parametrize("fill", [-math.inf, math.inf, math.nan, -3.4e38])
def test_infinities_and_nan_in_arguments_are_the_same_as_themselves(tmp_path: Path, fill: float) -> None:
    result = special(tmp_path, fill)
    assert result.same, [cause.cause for cause in result.causes]
    assert follows_its_table(result)


@pytest.mark.parametrize("fill", [-math.inf, math.nan])
def test_infinities_are_not_named_for_a_difference_behind_them(tmp_path: Path, fill: float) -> None:
    result = special(tmp_path, fill, 1.1)
    [cause] = [cause for cause in result.causes if cause.cause == "argument of an operator"]
    assert "aten.mul" in cause.where
    assert result.first is not None
    assert result.first.operator == "aten.mul.Tensor"
    assert result.first.step == 0


def test_results_without_a_finite_number_are_counted(tmp_path: Path) -> None:
    def run(path: Path) -> Path:
        with Recorder(path) as recorder:
            x = torch.arange(512.0, requires_grad=True)
            (x.mul(math.nan).sum() + x.sum()).backward()
            recorder.step()
        return path

    result = compare(read_record(run(tmp_path / "a")), read_record(run(tmp_path / "b")))
    assert 1 == result.coverage.blind < result.aligned
    assert diff.document(result, "en")["not_known"] == 1
    assert "\n1 of them is NaN or infinite in both in all that was recorded" in "\n".join(diff.lines(result, "en"))


class Chooser(nn.Module):
    """Chooses rows by their scores, as a router does; `shift` moves scores that are nearly equal."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.weight, self.shift = nn.Parameter(torch.ones(30, 4)), shift

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.arange(30.0)
        scores[10] = torch.tensor(11.0 + self.shift)
        return (self.weight[(scores * x.mean()).topk(30).indices] * x).sum()


@pytest.mark.parametrize(("shift", "verdict"), [(2e-6, "same"), (0.5, "different")])
def test_ties_by_index_are_ties(tmp_path: Path, shift: float, verdict: str) -> None:
    def run(path: Path, moved: float) -> Path:
        model = Chooser(moved)
        with Recorder(path) as recorder:
            model(torch.ones(4)).backward()
            recorder.step()
        return path

    result = compare(read_record(run(tmp_path / "a", -shift)), read_record(run(tmp_path / "b", shift)))
    text = "\n".join(diff.lines(result, "en"))
    assert follows_its_table(result)
    assert result.verdict.value == verdict
    assert ("2 of 30 indices differ, their scores are within" in text) is (verdict == "same")


class Divides(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.table, self.wrong = nn.Parameter(torch.randn(20, 4)), wrong

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(30) - 15
        places = torch.div(places, 4, rounding_mode="trunc" if self.wrong else "floor") + 5
        result: Tensor = (self.table[places] * x).sum()
        return result


def test_a_wrong_index_is_named_and_not_its_first_reader(tmp_path: Path) -> None:
    def run(path: Path, wrong: bool) -> Path:
        torch.manual_seed(0)
        model = Divides(wrong)
        with Recorder(path) as recorder:
            model(torch.ones(4)).backward()
            recorder.step()
        return path

    result = compare(read_record(run(tmp_path / "a", False)), read_record(run(tmp_path / "b", True)))
    assert result.first is not None
    assert result.first.operator.startswith("aten.div")
    assert result.first.differing == (12, 30)
    assert "12 of 30 integers differ, which must be the same" in "\n".join(diff.lines(result, "en"))


def test_what_an_operator_without_a_counterpart_did_is_unknown(tmp_path: Path) -> None:
    class Layer(nn.Module):
        def __init__(self, other: bool) -> None:
            super().__init__()
            self.inner, self.out, self.other = nn.Linear(8, 8), nn.Linear(8, 8), other

        def forward(self, x: Tensor) -> Tensor:
            y = self.inner(x)
            result: Tensor = self.out(functional.hardswish(y) if self.other else functional.silu(y)).sum()
            return result

    def run(path: Path, other: bool) -> Path:
        torch.manual_seed(0)
        model = Layer(other)
        with Recorder(path) as recorder:
            model(torch.randn(3, 8)).backward()
            recorder.step()
        return path

    result = compare(read_record(run(tmp_path / "a", False)), read_record(run(tmp_path / "b", True)))
    assert result.first is not None
    assert result.first.came_in is None
    text = "\n".join(diff.lines(result, "en"))
    assert "the error of its inputs is not known: Layer aten.silu has no counterpart" in text
    assert "the error of its inputs was 0" not in text
    [cause] = [cause for cause in result.causes if cause.cause == "fused kernel"]
    assert "differs by" in str(cause.advice)
    assert "round" in str(cause.advice)
    assert "and rounding by" in str(cause.advice)


def test_modules_are_compared_by_what_they_give(tmp_path: Path) -> None:
    told = Told(dropout=0.0, steps=1)
    rows = [
        read_record(record(tmp_path / name, told._replace(halved=halved))).ranks[0].steps[0].rows()
        for name, halved in (("a", None), ("b", 0.0))
    ]
    a, b = rows
    assert a is not None
    assert b is not None
    pairs = [(a.keys[i], b.keys[j]) for i, j in align(a, b, {}).pairs if a.keys[i].phase == "forward"]
    others = [(one.module, one.base, two.base) for one, two in pairs if one.base != two.base]
    assert others == [(f"Language.blocks.{number}.attention.qkv", "addmm", "add") for number in range(3)]
    assert all(one.base == two.base for one, two in pairs if "qkv" not in one.module)


# What is frozen.

R = torch.randn
BACKWARDS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "attention": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), ((1, 2, 8, 16),) * 3,
    ),
    "attention with a bias": (
        lambda q, k, v, bias: functional.scaled_dot_product_attention(q, k, v, attn_mask=bias),
        ((1, 2, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16), (1, 2, 8, 8)),
    ),
    "convolution": (functional.conv2d, ((2, 3, 6, 6), (4, 3, 3, 3), (4,))),
    "transposed convolution": (functional.conv_transpose2d, ((2, 3, 5, 5), (3, 4, 3, 3), (4,))),
    "layer norm": (lambda x, w, b: functional.layer_norm(x, (8,), w, b), ((4, 8), (8,), (8,))),
    "group norm": (lambda x, w, b: functional.group_norm(x, 2, w, b), ((4, 8, 3), (8,), (8,))),
    "batch norm": (lambda x, w, b: functional.batch_norm(x, None, None, w, b, True), ((4, 8, 3), (8,), (8,))),
    "linear": (functional.linear, ((4, 8), (5, 8), (5,))),
    "grid": (
        lambda x, grid: functional.grid_sample(x, grid.sigmoid(), align_corners=False), ((1, 2, 5, 5), (1, 4, 4, 2)),
    ),
    "prelu": (functional.prelu, ((4, 8, 3), (8,))),
    "distances": (torch.cdist, ((4, 3), (5, 3))),
    "lerp": (torch.lerp, ((4, 8), (4, 8), (4, 8))),
}  # fmt: skip


@pytest.mark.parametrize("name", BACKWARDS)
def test_what_is_frozen_is_no_missing_result(device: str, name: str) -> None:
    function, shapes = BACKWARDS[name]
    choice = random.Random(len(name))
    patterns = {tuple(choice.random() < 0.6 for _ in shapes) for _ in range(4)} | {(True, False, True)[: len(shapes)]}
    with contextlib.redirect_stdout(io.StringIO()), CompareWithCPU(every=True) as tool:
        for pattern in sorted(patterns):
            torch.manual_seed(1)
            given = [torch.randn(*shape).to(device) for shape in shapes]
            for tensor, needed in zip(given, (*pattern, *[False] * len(shapes)), strict=False):
                tensor.requires_grad_(needed)
            out = function(*given)
            if out.requires_grad:
                out.pow(2).sum().backward()
    assert not tool.failed
    assert not any("leaves out" in str(row) for row in tool.document().get("untested", []))


def test_a_result_that_was_asked_for_and_is_missing_fails() -> None:
    backward = torch.ops.aten.convolution_backward.default
    given = (R(1, 2, 3, 3), R(1, 2, 4, 4), R(2, 2, 2, 2), [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    assert unasked(described(backward), (*given, [True, False, True]), {}) == frozenset({1})
    assert unasked(described(torch.ops.aten.add.Tensor), (), {}) is None
    made = backward(*given, [True, True, True])
    numbered = dict(described(backward).numbered(given, {}, (made[0], None, made[2])))
    assert numbered.keys() == {0, 2}
    assert numbered[2] is made[2]
    reasons: list[str] = []
    for mask in ([True, True, True], [True, False, True]):

        class Leaves(WholeMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                out = func(*args, **(kwargs or {}))
                return (out[0], None, out[2]) if func is backward else out

        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), Leaves(), CompareWithCPU(every=True) as tool:
            backward(*given, mask)
        assert tool.failed is all(mask)
        reasons.append(shown.getvalue())
    assert "the device leaves out result 1, which was asked for" in reasons[0]


# The observed program is the program.

SQUARE = torch.randn(6, 6, generator=torch.Generator().manual_seed(3))
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "ctc_loss": (
        lambda: functional.ctc_loss(
            R(9, 2, 5, generator=torch.Generator().manual_seed(1)).log_softmax(-1), torch.ones(2, 3, dtype=torch.int64),
            torch.tensor([9, 8]), torch.tensor([3, 2]),
        ),
        "aten::ctc_loss.Tensor",
    ),
    "ctc_loss with numbers": (
        lambda: functional.ctc_loss(
            R(9, 2, 5, generator=torch.Generator().manual_seed(1)).log_softmax(-1), torch.ones(2, 3, dtype=torch.int64),
            *((9, 8), (3, 2)),  # type: ignore[arg-type]
        ),
        "",
    ),
    "one matrix for all": (lambda: SQUARE.expand(5, 6, 6).contiguous() @ SQUARE[None], "aten::matmul"),
    "torch.matmul of one": (lambda: torch.matmul(SQUARE[None], SQUARE.expand(5, 6, 6).contiguous()), "aten::matmul"),
    "matrices": (lambda: SQUARE.expand(5, 6, 6).contiguous() @ SQUARE.expand(5, 6, 6), ""),
    "svdvals": (lambda: torch.linalg.svdvals(SQUARE), "aten::linalg_svdvals"),
    "eigvalsh": (lambda: torch.linalg.eigvalsh(SQUARE @ SQUARE.T), "aten::linalg_eigvalsh"),
    "eigvals": (lambda: torch.linalg.eigvals(SQUARE).abs(), "aten::linalg_eigvals"),
    "condition": (lambda: torch.linalg.cond(SQUARE), "aten::linalg_cond"),
    "nuclear norm": (lambda: torch.linalg.matrix_norm(SQUARE, "nuc"), "aten::linalg_matrix_norm"),
    "other norm": (lambda: torch.linalg.matrix_norm(SQUARE), ""),
}  # fmt: skip


class Listening(WholeMode):
    """Counts what it was told that it could not see."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def not_seen(self, overload: Any, args: Any, kwargs: Any, out: Any) -> None:
        assert torch._C._len_torch_dispatch_stack() == 0
        self.unseen.append(overload.name())


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_would_take_another_way_are_made_without_us(name: str) -> None:
    call, unseen = CALLS[name]
    plain = call()
    with Listening() as mode:
        seen = call()
    assert torch.equal(plain, seen)
    assert mode.unseen == [unseen] * bool(unseen)


def test_the_backward_of_a_product_takes_its_own_way() -> None:
    def gradient() -> Tensor:
        leaf = SQUARE.expand(5, 6, 6).clone().requires_grad_()
        leaf.prod(1).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    with Listening() as mode:
        seen = gradient()
        assert torch._C._len_torch_dispatch_stack() == 1
    assert torch.equal(seen, gradient())
    assert mode.unseen == ["aten::prod"]


def test_functions_are_as_they_were_before_and_can_be_scripted() -> None:
    places = [place for way in _FUNCTIONS for place in way.places if not place.startswith("torch.Tensor")]
    originals = {place: operator.attrgetter(place.partition(".")[2])(torch) for place in places}

    def product(a: Tensor, b: Tensor) -> Tensor:
        return torch.matmul(a, b)

    with Listening():
        scripted = torch.jit.script(product)
        assert torch.matmul is not originals["torch.matmul"]
    assert torch.equal(scripted(SQUARE, SQUARE), SQUARE @ SQUARE)
    assert all(operator.attrgetter(place.partition(".")[2])(torch) is value for place, value in originals.items())
    assert "__matmul__" not in vars(Tensor)
