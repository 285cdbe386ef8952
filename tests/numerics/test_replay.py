"""A call that is written is the same call when it is read: every dtype, layout and kind of argument."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from torchferry.core.errors import TorchferryError
from torchferry.numerics import replay
from torchferry.numerics.callfile.building import Builder, made_by
from torchferry.numerics.callfile.reading import DTYPES

aten = torch.ops.aten
CPU = torch.device("cpu")


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal bit for bit, and laid out alike."""
    if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
        return False
    return not one.numel() or torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor: Tensor) -> Tensor:
    line = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    return line.flatten().view(torch.uint8)


def written(folder: Path, overload: Any, *args: Any, **kwargs: Any) -> replay.Call:
    return replay.read(replay.write(folder, overload, args, kwargs, None, {}))


def arguments(call: replay.Call) -> tuple[list[Any], dict[str, Any]]:
    builder = Builder(call, CPU)
    document = call.document
    return (
        [builder.value(node) for node in document["args"]],
        {key: builder.value(node) for key, node in document["kwargs"].items()},
    )


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back(name: str, tmp_path: Path) -> None:
    dtype = DTYPES[name]
    size = torch.empty(0, dtype=dtype).element_size()
    source = torch.Generator().manual_seed(1)
    value = torch.randint(0, 2 if name == "bool" else 256, (6 * size,), generator=source).to(torch.uint8)
    tensor = value.view(dtype).reshape(2, 3)
    (back,), _ = arguments(written(tmp_path, aten.clone.default, tensor))
    assert same(back, tensor)


BASE = torch.arange(24.0).reshape(2, 3, 4)

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "whole": lambda: BASE,
    "transposed": lambda: BASE.permute(2, 0, 1),
    "column": lambda: BASE[:, :, 1],
    "stepped": lambda: BASE[:, ::2],
    "offset": lambda: torch.arange(1000.0)[777:790:3],
    "expanded": lambda: torch.ones(1).expand(1000, 1000),
    "expanded within": lambda: torch.arange(3.0)[:, None].expand(3, 4),
    "unfolded": lambda: torch.arange(9.0).unfold(0, 4, 1),
    "unfolded far in": lambda: torch.arange(900.0)[300:309].unfold(0, 4, 2),
    "one number": lambda: torch.tensor(3.0),
    "nothing": lambda: torch.empty(0, 5),
    "nothing, far in": lambda: torch.arange(9.0)[9:],
    "channels last": lambda: torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    "conjugate": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "negative bit": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
    "part of complex": lambda: torch.randn(5, dtype=torch.complex128).imag,
    "parameter": lambda: nn.Parameter(torch.randn(3)),
    "not finite": lambda: torch.tensor([math.inf, -math.inf, math.nan, -0.0, 1e-45]),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_comes_back(name: str, tmp_path: Path) -> None:
    tensor = LAYOUTS[name]()
    folder = replay.write(tmp_path, aten.clone.default, (tensor,), {}, None, {})
    (back,), _ = arguments(replay.read(folder))
    assert same(back, tensor)
    assert back.is_conj() == tensor.is_conj()
    assert back.is_neg() == tensor.is_neg()
    assert (folder / "tensors.safetensors").stat().st_size < 3000, "memory that the tensor does not see is written"


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=4),
    steps=st.lists(st.integers(0, 7), min_size=4, max_size=4),
    offset=st.integers(0, 600),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool]),
)
def test_any_strides_and_offset_come_back(
    shape: list[int], steps: list[int], offset: int, dtype: torch.dtype, tmp_path_factory: pytest.TempPathFactory
) -> None:
    storage = torch.arange(offset + sum(4 * step for step in steps) + 1).to(dtype)
    tensor = storage.as_strided(shape, steps[: len(shape)], offset)
    (back,), _ = arguments(written(tmp_path_factory.mktemp("call"), aten.clone.default, tensor))
    assert same(back, tensor)


def test_aliases_and_identity_come_back(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    whole, part = base.reshape(3, 4), base[4:8]
    pair = torch.randn(4, dtype=torch.complex64)
    call = written(tmp_path, aten._foreach_add_.List, [whole, part, whole], [part, whole, torch.view_as_real(pair)])
    (first, second), _ = arguments(call)
    assert first[0] is first[2]
    assert second[1] is first[0]
    assert first[1] is second[0]
    first[0][1, 1] = 99.0
    assert float(first[1][1]) == 99.0


VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "whole number": 2**62,
    "number": 0.1,
    "one as float": 1.0,
    "infinite": math.inf,
    "negative infinite": -math.inf,
    "complex": 1 - 2.5j,
    "complex, not finite": complex(math.inf, -1),
    "text": 'none "quoted" \u4e2d',
    "dtype": torch.bfloat16,
    "float8": torch.float8_e4m3fn,
    "device": torch.device("cpu"),
    "layout": torch.strided,
    "memory format": torch.channels_last,
    "numbers": [1, 2, -3],
    "floats": [1.0, 2.5],
    "nested": [[1, None], [True]],
}


@pytest.mark.parametrize("name", VALUES)
def test_every_kind_of_argument_comes_back(name: str, tmp_path: Path) -> None:
    value = VALUES[name]
    (by_position, _), by_name = arguments(written(tmp_path, aten.add.Tensor, value, torch.ones(1), alpha=value))
    for back in (by_position, by_name["alpha"]):
        assert back == value
        assert type(back) is type(value)


def test_nan_comes_back(tmp_path: Path) -> None:
    (back,), _ = arguments(written(tmp_path, aten.clone.default, math.nan))
    assert math.isnan(back)


def test_a_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    source = torch.Generator().manual_seed(5)
    torch.rand(7, generator=source)
    call = written(tmp_path, aten.rand.generator, [4], generator=source)
    (made,) = replay.run(call)
    assert torch.equal(made, torch.rand(4, generator=source))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse(), "sparse_coo"),
    "compressed": (lambda: torch.eye(3).to_sparse_csr(), "sparse_csr"),
    "quantized": (lambda: torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8), "quantized"),
    "meta": (lambda: torch.empty(3, device="meta"), "no values"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
    "subclass": (lambda: torch.randn(3).as_subclass(_Subclass), "_Subclass"),
    "object": (object, "object"),
}


class _Subclass(Tensor):
    pass


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_described_and_refused(name: str, tmp_path: Path) -> None:
    make, word = REFUSED[name]
    call = written(tmp_path, aten.add.Tensor, make(), torch.ones(3))
    assert word in call.described[0]
    with pytest.raises(TorchferryError, match=word):
        replay.run(call)


def test_what_it_ran_in_is_told(tmp_path: Path) -> None:
    from torchferry.numerics.framework.attribution import Where

    where = Where("backward", "GPT.blocks.0.mlp", "aten.gelu")
    note = {"ratio": math.nan, "input": torch.ones(2), "why": ("a", {1: 2.0})}
    folder = replay.write(tmp_path, aten.mm.default, (torch.ones(2, 2),) * 2, {}, where, note, step=7)
    document = json.loads((folder / "call.json").read_text())
    assert document["where"] == {"phase": "backward", "module": "GPT.blocks.0.mlp", "source": "aten.gelu", "step": 7}
    assert document["environment"]["torch"] == torch.__version__
    assert document["observed"] == {"ratio": "nan", "input": "torch.float32[2]", "why": ["a", {"1": 2.0}]}
    assert sorted(path.name for path in folder.iterdir()) == ["call.json", "tensors.safetensors", "test_aten_mm.py"]


def test_the_library_of_the_format_reads_the_tensors(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    tensors = [
        torch.randn(3),
        torch.randn(3).bfloat16(),
        torch.tensor([True, False]),
        torch.randn(2, dtype=torch.complex64),
    ]
    folder = replay.write(tmp_path, aten.cat.default, (tensors,), {}, None, {})
    found = library.load_file(folder / "tensors.safetensors")
    assert [found[f"s{index}"].dtype for index in range(4)] == [torch.float32, torch.bfloat16, torch.bool, torch.uint8]
    assert torch.equal(found["s0"], tensors[0])
    assert torch.equal(found["s3"].view(torch.complex64), tensors[3])


class Writer(TorchDispatchMode):
    """Writes each call before it runs, and replays it after."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.calls = 0
        self.wrong: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        call = written(self.folder, func, *args, **kwargs)
        out = func(*args, **kwargs)
        self.calls += 1
        made, again = made_by(call, func, list(args), kwargs, out), replay.run(call)
        if len(made) != len(again):
            self.wrong.append(f"{func}: {len(made)} results, {len(again)}")
        elif call.document["kind"] != "allocate":
            self.wrong += [f"{func}" for one, other in zip(made, again, strict=True) if not same(one, other)]
        self.wrong += [f"{func} {one.why}" for one in replay.judge(call, CPU) if one.status == replay.FAIL]
        return out


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu", batch_first=True)
        self.head = nn.Linear(16, 32)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(self.block(self.embed(x), mask)).flatten(0, 1)  # type: ignore[no-any-return]


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(16, 32)),
        torch.randn(12, 8),
    ),
    "conv": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(288, 32)),
        torch.randn(12, 3, 8, 8).to(memory_format=torch.channels_last),
    ),
    "gpt": lambda: (GPT(), torch.randint(0, 32, (2, 6))),
    "lstm": lambda: (_Last(), torch.randn(12, 5, 4)),
}


class _Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 32)

    def forward(self, x: Tensor) -> Tensor:
        with torch.backends.mkldnn.flags(enabled=False):  # its workspace holds whatever lay in memory
            return self.lstm(x)[0][:, -1]  # type: ignore[no-any-return]


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("name", MODELS)
def test_every_call_of_a_training_step_replays_bit_for_bit(name: str, optimizer: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    target = torch.randint(0, 32, (12,))
    optimize = optimizer(model.parameters(), lr=0.1, foreach=True)
    with Writer(tmp_path) as writer:
        nn.functional.cross_entropy(model(x), target).backward()
        optimize.step()
    assert writer.wrong == []
    assert writer.calls > 20


def test_writing_and_replaying_leave_the_random_stream_alone(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    call = written(tmp_path, aten.bernoulli_.float, torch.empty(9))
    replay.run(call)
    replay.judge(call, CPU)
    assert torch.equal(torch.rand(4), expected)


def test_what_is_worked_on_in_place_is_written_as_it_was(tmp_path: Path) -> None:
    value = torch.tensor([1.0, 2.0])
    call = replay.capture(aten.sub_.Scalar, (value, math.inf), {})
    value.sub_(math.inf)
    folder = replay.save(tmp_path, call, None, {})
    (back, _), _ = arguments(replay.read(folder))
    assert back.tolist() == [1.0, 2.0]
    assert replay.run(replay.read(folder))[0].tolist() == [-math.inf, -math.inf]


def test_copies_are_written_as_the_tensors_of_a_device_that_is_not_here(tmp_path: Path) -> None:
    x = torch.ones(2, 2)
    folder = replay.write(tmp_path, aten.bernoulli_.float, (x,), {}, None, {}, device="npu:0")
    call = replay.read(folder)
    assert call.document["tensors"][0]["device"] == "npu:0"
    assert call.document["random"] == {}, "those of now are not those of the call"
    assert replay.run(call)[0].device == CPU
