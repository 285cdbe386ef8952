"""What a card does not have: dtypes, operators, precision. And what the rehearsal notes of it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.rehearsal.child import run_snippet  # noqa: E402
from torchferry.core.ownwork import OwnWork  # noqa: E402
from torchferry.rehearsal import events  # noqa: E402

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def noted() -> Iterator[Callable[[str], dict[str, int]]]:
    """Return how often each subject of a kind was noted."""
    events.recorder.clear()

    def of(kind: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for key, count in events.recorder.counts().items():
            if key.kind == kind:
                found[key.subject] = found.get(key.subject, 0) + count.times
        return found

    yield of
    events.recorder.clear()


DOUBLES: dict[str, Callable[[str], Any]] = {
    "made": lambda d: torch.ones(2, dtype=torch.float64, device=d),
    "made from a number": lambda d: torch.tensor(3.5, dtype=torch.float64, device=d),
    "moved": lambda d: torch.ones(2, dtype=torch.float64).to(d),
    "module moved": lambda d: torch.nn.Linear(2, 2).double().to(d),
    "converted": lambda d: torch.ones(2, device=d).double(),
    "result": lambda d: torch.ones(2, device=d).sum(dtype=torch.float64),
    "like": lambda d: torch.zeros_like(torch.ones(2, device=d), dtype=torch.float64),
    "empty": lambda d: torch.empty(2, dtype=torch.float64, device=d),
    "strided": lambda d: torch.empty_strided((2,), (1,), dtype=torch.float64, device=d),
    "arange": lambda d: torch.arange(3.0, dtype=torch.float64, device=d),
}


@pytest.mark.parametrize("way", DOUBLES)
def test_a_dtype_that_is_missing(device: str, native: Any, noted: Any, way: str) -> None:
    native.set_dtypes(["float64"], [], [])
    with pytest.raises(TypeError, match="SDAA does not support Double"):
        DOUBLES[way](device)
    assert noted("missing-dtype") == {"float64": 1}


def test_what_is_single_precision_does_not_suffer_from_it(device: str, native: Any, noted: Any) -> None:
    native.set_dtypes(["float64"], [], [])
    values = torch.ones(2, device=device)
    values.mean().item()
    (values * 2.5).sum().item()
    torch.linspace(0, 1, 5, device=device)
    torch.tensor([1.5], device=device)
    torch.nn.utils.clip_grad_norm_([torch.nn.Parameter(values)], 1.0)
    optimizer = torch.optim.Adam([torch.nn.Parameter(values.clone())])
    optimizer.param_groups[0]["params"][0].grad = values
    optimizer.step()
    torch.allclose(values, values)
    assert noted("missing-dtype") == {}


def test_integers_of_half_the_width(device: str, native: Any, noted: Any) -> None:
    native.set_dtypes([], ["int64"], [])
    fits = torch.tensor([1 << 30, -5], device=device)
    assert fits.dtype == torch.int64
    assert fits.tolist() == [1 << 30, -5]
    assert noted("narrowed") == {}
    assert (fits * 4).tolist() == [0, -20]  # 2^32 wraps to 0
    assert torch.tensor([(1 << 40) + 7], device=device).tolist() == [7]
    assert noted("narrowed")["int64"] >= 2


def test_floats_of_half_the_width(device: str, native: Any) -> None:
    native.set_dtypes([], ["float64"], [])
    third = torch.tensor(1 / 3, dtype=torch.float64)
    there = third.to(device)
    assert there.dtype == torch.float64
    assert there.item() == third.float().item()
    assert (there / 7).item() == torch.tensor(there.item() / 7).float().item()
    held = torch.ones(1, dtype=torch.float64, device=device)
    held.add_(1e-12)
    assert held.item() == 1


def test_dtypes_that_differ_in_some_other_way_are_noted(device: str, native: Any, noted: Any) -> None:
    native.set_dtypes([], [], ["bfloat16"])
    values = torch.ones(2, device=device).bfloat16()
    assert noted("noted-dtype") == {}  # moving it is no use of it
    for _ in range(3):
        values.asinh()
    assert noted("noted-dtype") == {"bfloat16": 1}


def test_matrix_products_read_fewer_bits(device: str, native: Any) -> None:
    values = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    there = values.to(device)
    exact = values.double() @ values.double()
    errors = []
    for bits in (0, 10):
        native.set_rounding(matmul=bits)
        errors.append(((there @ there).cpu().double() - exact).abs().max().item())
    assert errors[0] < 1e-4
    assert 1e-3 < errors[1] < 5e-1
    assert torch.equal((there + there).cpu(), values + values)


LAID_OUT: dict[str, Callable[[Any], Any]] = {
    "convolution": lambda image: torch.nn.functional.conv2d(image, torch.ones(4, 3, 3, 3, device=image.device)),
    "transposed convolution": lambda image: torch.nn.functional.conv_transpose2d(
        image, torch.ones(3, 4, 3, 3, device=image.device)
    ),
    "depthwise convolution": lambda image: torch.nn.functional.conv2d(
        image, torch.ones(3, 1, 3, 3, device=image.device), groups=3
    ),
    "product": lambda image: image[0, 0].t() @ image[0, 0],
    "batched product": lambda image: image[0].transpose(1, 2) @ image[0].expand(3, 8, 8),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_the_precision_of_products_does_not_change_how_results_are_laid_out(
    name: str, device: str, native: Any
) -> None:
    found = []
    for bits in (0, 10):
        native.set_rounding(matmul=bits, convolution=bits)
        image = torch.ones(2, 3, 8, 8, device=device).to(memory_format=torch.channels_last).requires_grad_()
        result = LAID_OUT[name](image)
        result.sum().backward()
        found.append((result.stride(), image.grad.stride(), result.tolist(), image.grad.tolist()))
    assert found[0] == found[1]


def test_a_missing_operator(device: str, native: Any, noted: Any) -> None:
    values = torch.ones(2, device=device)
    native.set_mode("aten::erf", "missing")
    try:
        with pytest.raises(NotImplementedError, match=r"Could not run 'aten::erf' .* 'sdaa' backend"):
            torch.erf(values)
    finally:
        native.set_mode("aten::erf", "native")
    assert torch.erf(values)[0].item() == pytest.approx(0.8427, abs=1e-4)
    assert noted("missing-operator") == {"aten::erf": 1}


def test_an_operator_of_the_hot_ones_can_be_missing_too(device: str, native: Any) -> None:
    values = torch.ones(2, 2, device=device)
    native.set_mode("aten::mm", "missing")
    try:
        with pytest.raises(NotImplementedError, match="aten::mm"):
            values @ values
    finally:
        native.set_mode("aten::mm", "native")


def test_an_operator_that_runs_on_the_cpu_warns_once(device: str, native: Any, noted: Any) -> None:
    values = torch.ones(2, device=device)
    native.set_mode("aten::nonzero", "fallback")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                assert torch.nonzero(values).device.type == device
    finally:
        native.set_mode("aten::nonzero", "native")
    texts = [str(each.message) for each in caught if "aten::nonzero" in str(each.message)]
    assert len(texts) == 1
    assert "not currently supported on the SDAA backend and will fall back to run on the CPU" in texts[0]
    assert noted("fallback") == {"aten::nonzero": 3}


def test_an_operator_of_another_library_can_fall_back(device: str, native: Any, noted: Any) -> None:
    make: Any = torch.library.Library
    library = make("ferry_test_other", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CPU")
    native.set_others_fall_back(True)
    try:
        assert torch.ops.ferry_test_other.double(torch.ones(2, device=device)).tolist() == [2, 2]
    finally:
        native.set_others_fall_back(False)
    assert noted("fallback") == {"ferry_test_other::double": 1}


def test_a_fallback_can_be_silent(device: str, native: Any, noted: Any) -> None:
    native.set_fallback_warns(False)
    native.set_mode("aten::trace", "fallback")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.trace(torch.eye(2, device=device))
    finally:
        native.set_mode("aten::trace", "native")
    assert noted("fallback") == {"aten::trace": 1}


def test_an_operator_of_a_library_needs_a_cpu_kernel(device: str) -> None:
    library = torch.library.Library("ferry_test_limits", "FRAGMENT")
    library.define("doubled(Tensor x) -> Tensor")
    library.define("nowhere(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: x * 2, "CPU")
    values = torch.ones(2, device=device)
    doubled = torch.ops.ferry_test_limits.doubled(values)
    assert doubled.tolist() == [2, 2]
    assert doubled.device == values.device
    with pytest.raises(NotImplementedError, match="Could not run 'ferry_test_limits::nowhere'"):
        torch.ops.ferry_test_limits.nowhere(values)


def test_waiting_for_the_device_is_noted(device: str, noted: Any) -> None:
    values = torch.tensor([1.0, 2], device=device)
    values.sum()
    assert noted("synchronisation") == {}
    values[0].item()
    values[values > 1]
    values.nonzero()
    found = noted("synchronisation")
    assert {"aten::_local_scalar_dense", "aten::nonzero"} <= set(found)


def test_what_torch_does_to_print_save_and_load_is_one_event_each(device: str, noted: Any) -> None:
    events.recorder.clear()
    values = {"a": torch.ones(4, device=device), "b": torch.ones(2, device=device)}
    events.recorder.clear()
    str(values["a"])
    torch.save(values, file := io.BytesIO())
    torch.load(io.BytesIO(file.getvalue()))
    values["a"].cpu()
    found = {(key.kind, key.subject): count for key, count in events.recorder.counts().items()}
    assert found == {
        ("synchronisation", "printing a tensor"): events.Count(1, found["synchronisation", "printing a tensor"].amount),
        ("to-host", "torch.save"): events.Count(1, 24),
        ("to-device", "torch.load"): events.Count(1, 24),
        ("to-host", "float32"): events.Count(1, 16),
    }


def test_copies_are_counted_in_bytes(device: str, noted: Any) -> None:
    torch.ones(100).to(device).cpu()
    amounts = {key.kind: count.amount for key, count in events.recorder.counts().items()}
    assert amounts["to-device"] == 400
    assert amounts["to-host"] == 400


def test_what_a_tool_copies_for_itself_is_not_the_programs(device: str, noted: Any) -> None:
    values = torch.ones(100, device=device)
    events.recorder.clear()
    with OwnWork():
        values.cpu()
        values[0].item()
        with OwnWork():
            pass
        values.cpu()
    assert not events.recorder.counts()
    values.cpu()
    assert {key.kind for key in events.recorder.counts()} == {"to-host"}


def test_what_happens_is_noted_at_the_users_line(device: str, noted: Any) -> None:
    torch.ones(2, device=device).cpu()
    (place,) = {key.place for key in events.recorder.counts() if key.kind == "to-host"}
    assert place.file == __file__
    assert place.line > 0


def test_memory_formats_that_the_plugin_refuses() -> None:
    """Texts of torch_npu's own sources; what looks at no format raises nothing."""
    out, _ = run_snippet(
        """
        x = torch.ones(1, 2, 3, 3, device=device)
        other = torch.channels_last
        for attempt in (
            lambda: x.to(memory_format=other),
            lambda: torch.nn.Conv2d(2, 2, 1).to(device).to(memory_format=other),
            lambda: x.contiguous(memory_format=other),
            lambda: torch.empty(1, 2, 3, 3, device=device, memory_format=other),
        ):
            try:
                attempt()
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        assert torch.zeros_like(x, memory_format=other).is_contiguous()
        y = torch.ones(1, 2, 3, 3).to(memory_format=other).to(device)
        assert y.is_contiguous(memory_format=other) and (y + 1).sum() == 36
        # the plugin lays out what it computes in the usual order
        assert (y + 1).is_contiguous() and torch.nn.Conv2d(2, 2, 1).to(device)(y).is_contiguous()
        assert y.clone().stride() == torch.ones_like(y).stride() == y.stride()
        z = x.permute(0, 2, 3, 1).requires_grad_()
        z.contiguous().sum().backward()
        assert z.grad is not None
        from torchferry.rehearsal import events
        print(sorted((key.kind, key.subject) for key, _ in events.recorder.counts().items() if "format" in key.subject))
        """,
        "npu",
    )
    refused = "Only contiguous_format or preserve_format is supported."
    assert out.splitlines() == [
        refused,
        refused,
        "NPU contiguous operator only supported contiguous memory format.",
        "Only c10::MemoryFormat::Contiguous is supported for creating a npu tensor",
        str(
            [
                ("memory-format", f"{name}(memory_format=torch.channels_last)")
                for name in ("contiguous", "empty", "to", "to")
            ]
        ),
    ]
    out, _ = run_snippet(
        "print(torch.ones(1, 2, 3, 3, device=device).to(memory_format=torch.channels_last).stride())", "musa"
    )
    assert out == "(18, 1, 6, 2)\n"
