"""Layers and functions, forward and backward, equal to the CPU's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional
nn = torch.nn

pytestmark = pytest.mark.rehearsal

IMAGE = (2, 3, 8, 8)
LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(8, 4), (2, 8)),
    "Bilinear": (lambda: Twice(nn.Bilinear(8, 8, 4)), (2, 8)),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1), (2, 3, 8)),
    "Conv2d": (lambda: nn.Conv2d(3, 6, 3, padding="same", groups=3, bias=False), IMAGE),
    "Conv2d circular": (lambda: nn.Conv2d(3, 6, 3, padding=1, padding_mode="circular", dilation=2), IMAGE),
    "Conv3d": (lambda: nn.Conv3d(3, 4, 3), (2, 3, 4, 4, 4)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), IMAGE),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), IMAGE),
    "BatchNorm2d eval": (lambda: nn.BatchNorm2d(3).eval(), IMAGE),
    "GroupNorm": (lambda: nn.GroupNorm(3, 3), IMAGE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True), IMAGE),
    "LayerNorm": (lambda: nn.LayerNorm([8, 8]), IMAGE),
    "RMSNorm": (lambda: nn.RMSNorm(8), IMAGE),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), IMAGE),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4)), (2, 8)),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), (2, 8)),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGE),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, 1), IMAGE),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(3), IMAGE),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (2, 4, 3, 3)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), IMAGE),
    "Unfold": (lambda: nn.Unfold(3), IMAGE),
    "PReLU": (nn.PReLU, IMAGE),
    "GELU": (nn.GELU, IMAGE),
    "SiLU": (nn.SiLU, IMAGE),
    "Hardswish": (nn.Hardswish, IMAGE),
    "Softmax": (lambda: nn.Softmax(1), IMAGE),
    "GLU": (nn.GLU, IMAGE),
    "MultiheadAttention": (lambda: Twice(nn.MultiheadAttention(8, 2)), (5, 2, 8)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (5, 2, 8)),
    "TransformerEncoder eval": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval(),
        (2, 5, 8),
    ),
    "LSTM": (lambda: nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), (3, 6, 4)),
    "LSTM projected": (lambda: nn.LSTM(4, 5, proj_size=3), (6, 3, 4)),
    "LSTM without bias": (lambda: nn.LSTM(4, 5, bias=False), (6, 3, 4)),
    "GRU": (lambda: nn.GRU(4, 5, 2, batch_first=True, bidirectional=True), (3, 6, 4)),
    "GRU without bias": (lambda: nn.GRU(4, 5, bias=False), (6, 3, 4)),
    "RNN": (lambda: nn.RNN(4, 5, 2, nonlinearity="relu"), (6, 3, 4)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 5), (3, 4)),
    "GRUCell": (lambda: nn.GRUCell(4, 5), (3, 4)),
    "RNNCell": (lambda: nn.RNNCell(4, 5), (3, 4)),
}


class Twice(nn.Module):  # type: ignore[misc,name-defined]
    """Hands the input on as each of a layer's inputs."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Any) -> Any:
        if isinstance(self.layer, nn.MultiheadAttention):
            return self.layer(values, values, values)
        return self.layer(values, values)


def leaves(result: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(device: str, name: str) -> None:
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    here = make()
    there = copy.deepcopy(here).to(device)
    outcomes = []
    values = torch.randn(shape)
    for module, place in ((here, "cpu"), (there, device)):
        inputs = values.clone().to(place).requires_grad_()
        results = leaves(module(inputs))
        weights = [torch.linspace(-1, 1, r.numel(), device=r.device).view(r.shape) for r in results]
        sum((r * w).sum() for r, w in zip(results, weights, strict=True)).backward()
        found = [*results, inputs.grad, *(p.grad for p in module.parameters()), *module.buffers()]
        assert all(tensor.device == inputs.device for tensor in found)
        outcomes.append([tensor.detach().cpu() for tensor in found])
    for expected, found in zip(*outcomes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences(device: str, kind: str) -> None:
    module = getattr(nn, kind)(4, 5, batch_first=True)
    values, lengths = torch.randn(3, 6, 4), torch.tensor([6, 4, 2])
    padded = []
    for place in ("cpu", device):
        module.to(place)
        packed = nn.utils.rnn.pack_padded_sequence(values.to(place), lengths, batch_first=True)
        output, _ = module(packed)
        padded.append(nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0].cpu())
    torch.testing.assert_close(*padded)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [None, torch.bool, torch.float32])
def test_attention(device: str, causal: bool, masked: Any) -> None:
    if causal and masked is not None:
        pytest.skip("one or the other")
    query = torch.randn(2, 4, 8, 16, requires_grad=True)
    mask = None if masked is None else torch.randn(8, 8).gt(0).fill_diagonal_(True).to(masked)
    outcomes = []
    for place in ("cpu", device):
        inputs = query.detach().to(place).requires_grad_()
        given = None if mask is None else mask.to(place)
        result = functional.scaled_dot_product_attention(inputs, inputs, inputs, given, is_causal=causal)
        result.square().sum().backward()
        outcomes.append((result.detach().cpu(), inputs.grad.cpu()))
    torch.testing.assert_close(outcomes[0], outcomes[1], rtol=1e-4, atol=1e-5)


def test_embeddings(device: str) -> None:
    indices = torch.tensor([1, 2, 2, 7])
    table = nn.Embedding(10, 3, max_norm=1.0, padding_idx=7)
    bag = nn.EmbeddingBag(10, 3, mode="sum")
    found = []
    for place in ("cpu", device):
        layers = copy.deepcopy(table).to(place), copy.deepcopy(bag).to(place)
        there = indices.to(place)
        loss = layers[0](there).square().sum() + layers[1](there, torch.tensor([0, 2], device=place)).square().sum()
        loss.backward()
        found.append([parameter.cpu() for layer in layers for parameter in (layer.weight.detach(), layer.weight.grad)])
    torch.testing.assert_close(found[0], found[1])


def test_ctc_loss(device: str) -> None:
    logits = torch.randn(6, 2, 5)
    labels = torch.randint(1, 5, (2, 3))
    found = []
    for place in ("cpu", device):
        leaf = logits.detach().clone().to(place).requires_grad_()
        lengths = torch.tensor([6, 6]), torch.tensor([3, 2])
        loss = functional.ctc_loss(leaf.log_softmax(-1), labels.to(place), *lengths)
        loss.backward()
        found.append((loss.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(found[0], found[1])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "svd": lambda a: torch.linalg.svd(a).S,
    "eigh": lambda a: torch.linalg.eigh(a).eigenvalues,
    "eig": lambda a: torch.linalg.eig(a).eigenvalues.abs().sort().values,
    "qr": lambda a: torch.linalg.qr(a).R.abs(),
    "cholesky": torch.linalg.cholesky,
    "inv": torch.linalg.inv,
    "pinv": torch.linalg.pinv,
    "det": torch.linalg.det,
    "slogdet": lambda a: torch.linalg.slogdet(a).logabsdet,
    "solve": lambda a: torch.linalg.solve(a, a[0]),
    "lstsq": lambda a: torch.linalg.lstsq(a, a).solution,
    "lu": lambda a: torch.linalg.lu(a).L,
    "matrix_exp": torch.linalg.matrix_exp,
    "matrix_norm": lambda a: torch.linalg.matrix_norm(a, 2),
    "fft": lambda a: torch.fft.fft(a).abs(),
    "rfft2": lambda a: torch.fft.irfft2(torch.fft.rfft2(a)),
    "stft": lambda a: torch.stft(a.flatten(), 8, window=torch.ones(8, device=a.device), return_complex=True).abs(),
    "grid_sample": lambda a: functional.grid_sample(
        a[None, None], functional.affine_grid(torch.eye(2, 3, device=a.device)[None], [1, 1, 6, 6], align_corners=False)
    ),
    "interpolate": lambda a: functional.interpolate(a[None, None], size=(7, 5), mode="bicubic", antialias=True),
    "cdist": lambda a: torch.cdist(a, a.flip(0)),
    "histc": lambda a: torch.histc(a, 5, -3, 3),
    "quantile": lambda a: a.quantile(0.3, 0),
    "cumprod": lambda a: a.cumprod(1),
    "logcumsumexp": lambda a: a.logcumsumexp(0),
    "erfinv": lambda a: torch.erfinv(a.tanh()),
    "digamma": lambda a: torch.digamma(a.abs() + 1),
    "einsum": lambda a: torch.einsum("ij,kj,kl->il", a, a, a),
    "tensordot": lambda a: torch.tensordot(a, a, 1),
    "kron": lambda a: torch.kron(a, a),
    "median": lambda a: a.median(1).values,
    "kthvalue": lambda a: a.kthvalue(2).values,
    "renorm": lambda a: a.renorm(2, 0, 1.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(device: str, name: str) -> None:
    values = torch.randn(6, 6, generator=torch.Generator().manual_seed(4))
    values = values @ values.t() + torch.eye(6)
    found = FUNCTIONS[name](values.to(device))
    assert found.device.type == device
    torch.testing.assert_close(found.cpu(), FUNCTIONS[name](values), rtol=1e-4, atol=1e-4)


def test_a_fourier_transform_of_halves(device: str) -> None:
    """The CPU's libraries refuse them; whether the card does is nothing that the rehearsal could see there."""
    values = torch.randn(64, generator=torch.Generator().manual_seed(4)).half()
    there = values.to(device)
    found = torch.stft(there, 16, window=torch.ones(16, device=device).half(), return_complex=True)
    assert found.dtype is torch.complex32
    expected = torch.stft(values.float(), 16, window=torch.ones(16), return_complex=True)
    torch.testing.assert_close(found.cpu().to(torch.complex64), expected, rtol=1e-2, atol=1e-2)


def test_complex_numbers(device: str) -> None:
    values = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    there = values.to(device)
    conjugate = there.conj()
    assert conjugate.is_conj()
    assert conjugate.data_ptr() == there.data_ptr()
    torch.testing.assert_close((conjugate * there).cpu(), values.conj() * values)
    torch.testing.assert_close((conjugate @ there).cpu(), values.conj() @ values)
    assert not conjugate.resolve_conj().is_conj()
    assert conjugate.imag.is_neg()
    torch.testing.assert_close(conjugate.imag.cpu(), values.conj().imag)
    conjugate.mul_(2)
    torch.testing.assert_close(there.cpu(), values * 2)
    there.real.zero_()
    assert there.cpu().real.abs().sum() == 0
    torch.view_as_real(there)[:, 1] = 5
    assert there.tolist() == [5j] * 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_the_cpu_lacks_in_half_precision_is_there(device: str, dtype: Any) -> None:
    values = torch.rand(2, 3, 4, 4, 4).to(dtype)
    found = functional.avg_pool3d(values.to(device), 2)
    assert found.dtype == dtype
    torch.testing.assert_close(found.cpu(), functional.avg_pool3d(values.float(), 2).to(dtype))


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "mv"])
def test_products_in_half_precision_grow_their_out(device: str, name: str) -> None:
    left = torch.randn(4, 4, device=device).half()
    arguments = {
        "mm": (left, left),
        "bmm": (left[None], left[None]),
        "addmm": (left, left, left),
        "mv": (left, left[0]),
    }[name]
    expected = getattr(torch, name)(*arguments)
    for out in (
        torch.empty(0, device=device).half(),
        torch.zeros_like(expected),
        torch.zeros_like(expected)[..., None],
    ):
        given = out.squeeze(-1) if out.dim() > expected.dim() else out
        address = given.data_ptr()
        assert getattr(torch, name)(*arguments, out=given) is given
        assert torch.equal(given, expected)
        assert address in (0, given.data_ptr())


def test_abs_of_bool_as_on_cuda(device: str) -> None:
    given = [torch.tensor(values, device=device) for values in ([True, False], [-1.5, 2.0], [-(2**40) - 1, 3])]
    given += [given[1].half(), torch.complex(given[1], given[1])]
    expected = [torch.tensor(values) for values in ([True, False], [1.5, 2.0], [2**40 + 1, 3])]
    expected += [expected[1].half(), given[4].cpu().abs()]
    for found in (torch._foreach_abs(given), [each.abs() for each in given]):
        assert [each.device.type for each in found] == [device] * 5
        torch.testing.assert_close([each.cpu() for each in found], expected, rtol=0, atol=0)
    torch._foreach_abs_(given[:4])
    torch.testing.assert_close([each.cpu() for each in given[:4]], expected[:4], rtol=0, atol=0)


def test_integer_histograms_are_there_as_on_cuda(device: str) -> None:
    found = torch.histc(torch.tensor([0, 1, 1, 3], device=device), 4, 0, 3)
    assert found.dtype == torch.int64
    assert found.tolist() == [1, 2, 0, 1]


@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_the_cpus_fused_one(device: str, mask: str | None, dtype: Any) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 9, 16, dtype=dtype) for _ in range(3)]
    hidden = None if mask is None else torch.randn(9, 9, dtype=dtype)
    if hidden is not None and mask == "bool":
        hidden = hidden > -1
    results = []
    for where in ("cpu", device):
        moved = [value.clone().to(where).requires_grad_() for value in inputs]
        result = torch.nn.functional.scaled_dot_product_attention(
            *moved, attn_mask=None if hidden is None else hidden.to(where)
        )
        result.float().square().sum().backward()
        results.append([result.detach().cpu(), *(value.grad.cpu() for value in moved)])
    for right, value in zip(*results, strict=True):
        assert torch.equal(right, value)


def test_attention_holds_no_scores_of_all_positions(device: str, rehearsed: Any) -> None:
    query = torch.randn(1, 1, 2048, 8, device=device)
    rehearsed.namespace.reset_peak_memory_stats()
    before = rehearsed.namespace.memory_allocated()
    torch.nn.functional.scaled_dot_product_attention(query, query, query)
    assert rehearsed.namespace.max_memory_allocated() - before < 2048 * 2048


def test_attention_in_double_precision_has_a_second_derivative(device: str) -> None:
    query = torch.randn(1, 2, 3, 4, device=device, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q), (query,), fast_mode=True
    )


MISMATCHED: dict[str, Callable[[Any, Any], Any]] = {
    "mm": torch.mm,
    "addmm": lambda x, y: torch.addmm(y, x, x),
    "bmm": lambda x, y: torch.bmm(x[None], y[None]),
    "baddbmm": lambda x, y: torch.baddbmm(y[None], x[None], x[None]),
    "linear": torch.nn.functional.linear,
    "conv1d": lambda x, y: torch.nn.functional.conv1d(x[None], y[None]),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MISMATCHED)
def test_products_of_different_precisions_are_refused(device: str, name: str, dtype: Any) -> None:
    half, single = torch.ones(3, 3, device=device, dtype=dtype), torch.ones(3, 3, device=device)
    for pair in ((half, single), (single, half)):
        with pytest.raises(RuntimeError, match=r"same|dtype|type"):
            MISMATCHED[name](*pair)


def test_an_outer_product_of_different_precisions_has_the_wider_one(device: str) -> None:
    half = torch.ones(3, device=device, dtype=torch.float16)
    assert torch.addr(torch.ones(3, 3, device=device), half, half).dtype == torch.float32
    assert torch.addr(torch.ones(3, 3, device=device, dtype=torch.float16), half, half).dtype == torch.float16
    assert (half**2.5j).dtype == (2.5j**half).dtype == torch.complex32
    assert (half.bfloat16() ** 2.5j).dtype == torch.complex64
