"""Sparse and nested tensors: each case gives on the device what it gives on the CPU, as far as the card has them."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.rehearsal.child import run_snippet  # noqa: E402
from torchferry.rehearsal import events  # noqa: E402

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
]

Case = Callable[[str], Any]


def coo(device: str, shape: tuple[int, ...] = (4, 5), number: int = 7, dense: int = 0, **options: Any) -> Any:
    """Return a sparse tensor that is not coalesced: an index stands twice."""
    generator = torch.Generator().manual_seed(number)
    sparse = len(shape) - dense
    indices = torch.stack([torch.randint(0, size, (number,), generator=generator) for size in shape[:sparse]])
    indices[:, -1] = indices[:, 0]
    values = torch.rand((number, *shape[sparse:]), generator=generator) + 0.5
    options.setdefault("dtype", torch.float32)
    return torch.sparse_coo_tensor(
        indices.to(device), values.to(device=device, dtype=options.pop("dtype")), shape, **options
    )


def dense(device: str, *shape: int, requires_grad: bool = False) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=generator).to(device).requires_grad_(requires_grad)


def csr(device: str, shape: tuple[int, int] = (4, 5)) -> Any:
    return coo("cpu", shape).coalesce().to_sparse_csr().to(device)


def parts(value: Any) -> list[Any]:
    """Take a result apart into what can be compared: dense tensors on the CPU and plain values."""
    if isinstance(value, torch.Tensor):
        head: list[Any] = [value.layout, value.dtype, value.requires_grad, value.is_nested]
        if value.is_nested:
            return [*head, *(each for part in value.unbind() for each in parts(part))]
        head.append(tuple(value.shape))
        value = value.detach()
        if value.layout == torch.sparse_coo:
            return [*head, value.is_coalesced(), value._indices().cpu(), value._values().cpu()]
        if value.layout in {torch.sparse_csr, torch.sparse_bsr}:
            return [*head, value.crow_indices().cpu(), value.col_indices().cpu(), value.values().cpu()]
        if value.layout in {torch.sparse_csc, torch.sparse_bsc}:
            return [*head, value.ccol_indices().cpu(), value.row_indices().cpu(), value.values().cpu()]
        return [*head, value.cpu()]
    if isinstance(value, (list, tuple)):
        return [len(value), *(each for part in value for each in parts(part))]
    return [value]


def devices_of(value: Any) -> set[str]:
    if isinstance(value, torch.Tensor):
        return {value.device.type}
    return {device for part in value for device in devices_of(part)} if isinstance(value, (list, tuple)) else set()


def check(case: Case, device: str, *, moves: bool = True) -> None:
    expected, found = case("cpu"), case(device)
    if moves:
        assert devices_of(found) <= {device}
    first, second = parts(expected), parts(found)
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert one == other


def in_place(change: Callable[[Any], Any], make: Case = coo) -> Case:
    """Return a case that gives the tensor that was changed, and whether it was itself that came back."""

    def case(device: str) -> Any:
        value = make(device)
        version = value._version
        returned = change(value)
        return [value, returned is value, value._version > version]

    return case


def into_out(change: Callable[[str, Any], Any], make: Case) -> Case:
    def case(device: str) -> Any:
        out = make(device)
        returned = change(device, out)
        return [out, returned is out]

    return case


def twice(value: Any) -> Any:
    return value + value


def empty_sparse(device: str) -> Any:
    return torch.empty(0, layout=torch.sparse_coo, device=device)


MADE: dict[str, Case] = {
    "indices and values": coo,
    "indices and values, dense dimensions": lambda d: coo(d, (4, 5, 3), dense=1),
    "no size": lambda d: torch.sparse_coo_tensor(torch.tensor([[0, 2], [1, 1]]), torch.ones(2), device=d),
    "lists": lambda d: torch.sparse_coo_tensor([[0, 2], [1, 1]], [1.0, 2.0], (3, 3), device=d),
    "only a size": lambda d: torch.sparse_coo_tensor((3, 4), device=d),
    "checked": lambda d: coo(d, check_invariants=True),
    "checked, coalesced": lambda d: torch.sparse_coo_tensor(
        [[0, 1], [1, 1]], [1.0, 2.0], (3, 3), device=d, is_coalesced=True, check_invariants=True
    ),
    "coalesced": lambda d: torch.sparse_coo_tensor([[0, 1], [1, 1]], [1.0, 2.0], (3, 3), device=d, is_coalesced=True),
    "double": lambda d: coo(d, dtype=torch.float64),
    "half": lambda d: coo(d, dtype=torch.float16),
    "integers": lambda d: coo(d, dtype=torch.int64),
    "complex": lambda d: coo(d, dtype=torch.complex64),
    "empty": lambda d: torch.empty(3, 4, layout=torch.sparse_coo, device=d),
    "zeros": lambda d: torch.zeros(3, 4, layout=torch.sparse_coo, device=d),
    "empty_like": lambda d: torch.empty_like(coo(d)),
    "zeros_like": lambda d: torch.zeros_like(coo(d)),
    "new_empty": lambda d: coo(d).new_empty((2, 2)),
    "to_sparse": lambda d: torch.eye(4, device=d).to_sparse(),
    "to_sparse, one dimension": lambda d: torch.eye(4, device=d).to_sparse(1),
    "eye, csr": lambda d: torch.eye(4, device=d).to_sparse_csr(),
    "eye, csc": lambda d: torch.eye(4, device=d).to_sparse_csc(),
    "eye, bsr": lambda d: torch.eye(4, device=d).to_sparse_bsr((2, 2)),
    "eye, bsc": lambda d: torch.eye(4, device=d).to_sparse_bsc((2, 2)),
    "csr": lambda d: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
    "csr of device tensors": lambda d: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2]).to(d), torch.tensor([1, 0]).to(d), torch.ones(2).to(d), (2, 2)
    ),
    "csc": lambda d: torch.sparse_csc_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
    "bsr": lambda d: torch.sparse_bsr_tensor([0, 1, 2], [1, 0], torch.ones(2, 2, 2), (4, 4), device=d),
    "compressed": lambda d: torch.sparse_compressed_tensor(
        [0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), layout=torch.sparse_csr, device=d
    ),
    "coo to csr": lambda d: coo(d).to_sparse_csr(),
    "coo to csc": lambda d: coo(d).to_sparse_csc(),
    "coo to bsr": lambda d: coo(d, (4, 4)).to_sparse_bsr((2, 2)),
    "csr to coo": lambda d: csr(d).to_sparse(),
    "csr to csc": lambda d: csr(d).to_sparse_csc(),
    "csr to bsr": lambda d: csr(d, (4, 4)).to_sparse_bsr((2, 2)),
    "moved coo": lambda d: coo("cpu").to(d),
    "moved csr": lambda d: csr("cpu").to(d),
    "moved and converted": lambda d: coo("cpu").to(d, torch.float64),
    "moved by a copy": lambda d: torch.zeros(4, 5, layout=torch.sparse_coo, device=d).copy_(coo("cpu")),
    "spdiags": lambda d: torch.sparse.spdiags(torch.ones(2, 3), torch.tensor([0, 1]), (3, 4)).to(d),
    "loaded": lambda d: torch.load(saved(coo("cpu")), map_location=d),
    "loaded csr": lambda d: torch.load(saved(csr("cpu")), map_location=d),
}

COMPUTED: dict[str, Case] = {
    "coalesce": lambda d: coo(d).coalesce(),
    "coalesce, dense dimensions": lambda d: coo(d, (4, 5, 3), dense=1).coalesce(),
    "coalesce, half": lambda d: coo(d, dtype=torch.float16).coalesce(),
    "coalesce, bool": lambda d: coo(d, dtype=torch.bool).coalesce(),
    "coalesce of nothing": lambda d: torch.sparse_coo_tensor((3, 4), device=d).coalesce(),
    "parts": lambda d: [coo(d).coalesce().indices(), coo(d).coalesce().values(), coo(d)._indices(), coo(d)._values()],
    "numbers": lambda d: [coo(d)._nnz(), coo(d).sparse_dim(), coo(d).dense_dim(), coo(d).is_coalesced()],
    "parts, csr": lambda d: [csr(d).crow_indices(), csr(d).col_indices(), csr(d).values(), csr(d)._nnz()],
    "to_dense": lambda d: coo(d).to_dense(),
    "to_dense, half": lambda d: coo(d, dtype=torch.float16).to_dense(),
    "to_dense, csr": lambda d: csr(d).to_dense(),
    "mm": lambda d: torch.mm(coo(d), dense(d, 5, 3)),
    "sparse.mm": lambda d: torch.sparse.mm(coo(d), dense(d, 5, 3)),
    "sparse.mm, sparse": lambda d: torch.sparse.mm(coo(d), coo(d, (5, 3))),
    "operator @": lambda d: coo(d) @ dense(d, 5, 3),
    "dense @ sparse": lambda d: dense(d, 3, 4) @ coo(d),
    "mm, csr": lambda d: csr(d) @ dense(d, 5, 3),
    "mm, dense and csr": lambda d: dense(d, 3, 4) @ csr(d),
    "mv": lambda d: coo(d).mv(dense(d, 5)),
    "mv, csr": lambda d: csr(d).mv(dense(d, 5)),
    "bmm": lambda d: torch.bmm(coo(d, (2, 4, 5)).coalesce(), dense(d, 2, 5, 3)),
    "addmm": lambda d: torch.addmm(dense(d, 4, 3), coo(d), dense(d, 5, 3)),
    "sparse.addmm": lambda d: torch.sparse.addmm(dense(d, 4, 3), coo(d), dense(d, 5, 3), beta=2),
    "addmm, csr": lambda d: torch.addmm(dense(d, 4, 3), csr(d), dense(d, 5, 3)),
    "hspmm": lambda d: torch.hspmm(coo(d), dense(d, 5, 3)),
    "sspaddmm": lambda d: torch.sspaddmm(coo(d, (4, 3)), coo(d), dense(d, 5, 3)),
    "smm": lambda d: torch.smm(coo(d), dense(d, 5, 3)),
    "sampled_addmm": lambda d: torch.sparse.sampled_addmm(csr(d), dense(d, 4, 3), dense(d, 3, 5)),
    "add": lambda d: coo(d) + coo(d, number=5),
    "add, itself": lambda d: twice(coo(d)),
    "add, scaled": lambda d: torch.add(coo(d), coo(d, number=5), alpha=3),
    "add, dense and sparse": lambda d: dense(d, 4, 5) + coo(d),
    "add, csr": lambda d: csr(d) + csr(d),
    "sub": lambda d: coo(d) - coo(d, number=5),
    "mul": lambda d: coo(d) * coo(d, number=5),
    "mul, number": lambda d: coo(d) * 3,
    "mul, number on the left": lambda d: 3 * coo(d),
    "mul, dense": lambda d: coo(d) * dense(d, 4, 5),
    "mul, dense scalar": lambda d: coo(d) * dense(d, 1)[0],
    "mul, csr": lambda d: csr(d) * 3,
    "div": lambda d: coo(d) / 2,
    "div, tensor on the CPU": lambda d: coo(d) / torch.tensor(2.0),
    "floor_divide": lambda d: coo(d) // 0.3,
    "neg": lambda d: -coo(d),
    "abs": lambda d: (-coo(d)).abs(),
    "sqrt": lambda d: coo(d).sqrt(),
    "relu": lambda d: torch.relu(-coo(d)),
    "sin, csr": lambda d: csr(d).sin(),
    "pow": lambda d: coo(d).pow(2),
    "isnan": lambda d: coo(d).isnan(),
    "sum": lambda d: coo(d).sum(),
    "sum, csr": lambda d: csr(d).sum(),
    "sparse.sum": lambda d: torch.sparse.sum(coo(d), 0),
    "sparse.sum, all": lambda d: torch.sparse.sum(coo(d)),
    "sparse.sum, dense dimension": lambda d: torch.sparse.sum(coo(d, (4, 5, 3), dense=1), (1, 2)),
    "sparse.softmax": lambda d: torch.sparse.softmax(coo(d), 1),
    "sparse.log_softmax": lambda d: torch.sparse.log_softmax(coo(d), 0),
    "norm": lambda d: coo(d).norm(),
    "any": lambda d: coo(d).any(),
    "transpose": lambda d: coo(d).t(),
    "transpose, csr": lambda d: csr(d).t(),
    "permute": lambda d: coo(d, (3, 4, 5)).permute(2, 0, 1),
    "cat": lambda d: torch.cat([coo(d), coo(d, (3, 5))], 0),
    "stack": lambda d: torch.stack([coo(d), coo(d)]),
    "unsqueeze": lambda d: coo(d).unsqueeze(1),
    "select": lambda d: coo(d)[1],
    "element": lambda d: coo(d)[1, 2],
    "narrow_copy": lambda d: coo(d).narrow_copy(0, 1, 2),
    "index_select": lambda d: coo(d).index_select(0, torch.tensor([0, 2], device=d)),
    "select, csr": lambda d: csr(d)[1],
    "sparse_mask": lambda d: dense(d, 4, 5).sparse_mask(coo(d).coalesce()),
    "sparse_mask, csr": lambda d: dense(d, 4, 5).sparse_mask(csr(d)),
    "clone": lambda d: coo(d).clone(),
    "clone, csr": lambda d: csr(d).clone(),
    "detach": lambda d: coo(d, requires_grad=True).detach(),
    "converted": lambda d: coo(d).double(),
    "converted, csr": lambda d: csr(d).double(),
    "view_as_real": lambda d: torch.view_as_real(coo(d, dtype=torch.complex64)),
    "conj": lambda d: coo(d, dtype=torch.complex64).conj(),
    "broadcast": lambda d: torch._sparse_broadcast_to(coo(d, (1, 5)), (4, 5)),
    "equal parts": lambda d: torch.equal(coo(d).coalesce().values(), coo(d).coalesce().values()),
    "resized as": lambda d: coo(d).sparse_resize_((6, 7), 2, 0),
}

CHANGED: dict[str, Case] = {
    "zero_": in_place(lambda s: s.zero_()),
    "mul_": in_place(lambda s: s.mul_(3)),
    "mul_, sparse": in_place(lambda s: s.mul_(coo(s.device.type, number=5))),
    "div_": in_place(lambda s: s.div_(2)),
    "neg_": in_place(lambda s: s.neg_()),
    "add_": in_place(lambda s: s.add_(coo(s.device.type, number=5))),
    "add_, scaled": in_place(lambda s: s.add_(coo(s.device.type, number=5), alpha=-2)),
    "add_, dense and sparse": in_place(lambda s: s.add_(coo(s.device.type), alpha=0.5), lambda d: dense(d, 4, 5)),
    "sub_": in_place(lambda s: s.sub_(coo(s.device.type))),
    "abs_": in_place(lambda s: s.abs_(), lambda d: coo(d).coalesce()),
    "sqrt_": in_place(lambda s: s.sqrt_(), lambda d: coo(d).coalesce()),
    "sin_, csr": in_place(lambda s: s.sin_(), csr),
    "zero_, csr": in_place(lambda s: s.zero_(), csr),
    "mul_, csr": in_place(lambda s: s.mul_(2), csr),
    "copy_": in_place(lambda s: s.copy_(coo(s.device.type, number=5))),
    "copy_ from the CPU": in_place(lambda s: s.copy_(coo("cpu", number=5))),
    "copy_, csr": in_place(lambda s: s.copy_(csr("cpu")), csr),
    "transpose_": in_place(lambda s: s.t_()),
    "resize_as_sparse_": in_place(lambda s: s.resize_as_sparse_(coo(s.device.type, (6, 7))), empty_sparse),
    "sparse_resize_and_clear_": in_place(lambda s: s.sparse_resize_and_clear_((6, 7), 1, 1)),
    "_coalesced_": in_place(lambda s: s._coalesced_(True)),
    "addmm_": in_place(lambda s: s.addmm_(coo(s.device.type), dense(s.device.type, 5, 3)), lambda d: dense(d, 4, 3)),
    "values in place": in_place(lambda s: [s._values().mul_(2), s][1]),
    "out, add": into_out(lambda d, out: torch.add(coo(d), coo(d, number=5), out=out), empty_sparse),
    "out, mul": into_out(
        lambda d, out: torch.mul(coo(d).coalesce(), coo(d, number=5).coalesce(), out=out), lambda d: coo(d) * 0
    ),
    "out, mm": into_out(lambda d, out: torch.mm(coo(d), dense(d, 5, 3), out=out), lambda d: torch.empty(0, device=d)),
    "out, sin": into_out(lambda d, out: torch.sin(coo(d), out=out), lambda d: coo(d) * 0),
    "out, hspmm": into_out(
        lambda d, out: torch.hspmm(coo(d), dense(d, 5, 3), out=out),
        lambda d: torch.sparse_coo_tensor((4, 3), device=d).sparse_resize_((4, 3), 1, 1),
    ),
    "out, addmm csr": into_out(
        lambda d, out: torch.addmm(dense(d, 4, 3), csr(d), dense(d, 5, 3), out=out), lambda d: dense(d, 4, 3)
    ),
}


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def gradients(make: Case, function: Callable[[Any, str], Any]) -> Case:
    """Return a case that gives a function's result and the gradient of its input."""

    def case(device: str) -> Any:
        value = make(device).detach().requires_grad_()
        result = function(value, device)
        total = result.to_dense() if result.layout != torch.strided else result
        (total * torch.arange(1.0, 1 + total.numel(), device=device).reshape(total.shape)).sum().backward()
        return [result, value.grad]

    return case


def embedding(optimizer: str, **options: Any) -> Case:
    def case(device: str) -> Any:
        torch.manual_seed(0)
        layer: Any = nn.Embedding(10, 4, sparse=True).to(device)
        made = getattr(torch.optim, optimizer)(layer.parameters(), lr=0.1, **options)
        words = torch.tensor([[1, 2, 2], [7, 1, 0]], device=device)
        for _ in range(3):
            made.zero_grad()
            layer(words).pow(2).sum().backward()
            made.step()
        return [layer.weight, layer.weight.grad, layer.weight.grad.coalesce()]

    return case


def bag(mode: str) -> Case:
    def case(device: str) -> Any:
        torch.manual_seed(0)
        layer: Any = nn.EmbeddingBag(10, 4, mode=mode, sparse=True).to(device)
        words, offsets = torch.tensor([1, 2, 4, 5, 4, 3], device=device), torch.tensor([0, 4], device=device)
        result = layer(words, offsets)
        result.sum().backward()
        return [result, layer.weight.grad.coalesce()]

    return case


def clipped(device: str) -> Any:
    torch.manual_seed(0)
    layer: Any = nn.Embedding(10, 4, sparse=True).to(device)
    for _ in range(2):  # accumulates
        layer(torch.tensor([1, 2, 2], device=device)).sum().backward()
    layer.weight.grad = layer.weight.grad.coalesce()
    return [layer.weight.grad, layer.weight.grad.norm()]


GRADIENTS: dict[str, Case] = {
    "to_dense": gradients(coo, lambda s, d: s.to_dense()),
    "coalesce": gradients(coo, lambda s, d: s.coalesce()),
    "sparse.mm, sparse": gradients(coo, lambda s, d: torch.sparse.mm(s, dense(d, 5, 3))),
    "sparse.mm, dense": gradients(lambda d: dense(d, 5, 3), lambda s, d: torch.sparse.mm(coo(d), s)),
    "mm": gradients(lambda d: dense(d, 5, 3), lambda s, d: coo(d) @ s),
    "csr @ dense": gradients(lambda d: dense(d, 5, 3), lambda s, d: csr(d) @ s),
    "sparse.mm, greatest": gradients(
        lambda d: dense(d, 5, 3), lambda s, d: torch.sparse.mm(csr(d).requires_grad_(), s, "amax")
    ),
    "sparse.mm, mean": gradients(lambda d: dense(d, 5, 3), lambda s, d: torch.sparse.mm(csr(d), s, "mean")),
    "sparse.sum": gradients(coo, lambda s, d: torch.sparse.sum(s, 0)),
    "sparse.softmax": gradients(lambda d: coo(d).coalesce(), lambda s, d: torch.sparse.softmax(s, 1)),
    "values": gradients(lambda d: coo(d).coalesce(), lambda s, d: s.values()),
    "made of values": gradients(
        lambda d: dense(d, 2), lambda s, d: torch.sparse_coo_tensor([[0, 1], [1, 0]], s, (2, 2), device=d)
    ),
    "to_sparse": gradients(lambda d: dense(d, 4, 5), lambda s, d: s.to_sparse()),
    "add": gradients(coo, lambda s, d: s + coo(d)),
    "mul": gradients(lambda d: coo(d).coalesce(), lambda s, d: s * coo(d).coalesce()),
    "moved": gradients(lambda d: coo("cpu"), lambda s, d: s.to(d)),
    "embedding, SGD": embedding("SGD"),
    "embedding, SparseAdam": embedding("SparseAdam"),
    "embedding, Adagrad": embedding("Adagrad"),
    "embedding bag, sum": bag("sum"),
    "embedding bag, mean": bag("mean"),
    "accumulated": clipped,
}


def ragged(device: str, **options: Any) -> Any:
    return torch.nested.nested_tensor([dense("cpu", 2, 4), dense("cpu", 3, 4)], device=device, **options)


def jagged(device: str, **options: Any) -> Any:
    return ragged(device, layout=torch.jagged, **options)


def encoder(device: str) -> Any:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval().to(device)
    mask = torch.tensor([[False, False, False], [False, False, True]], device=device)
    with torch.no_grad():
        return model(dense(device, 2, 3, 8), src_key_padding_mask=mask)


def padded_gradient(device: str) -> Any:
    value = ragged(device, requires_grad=True)
    torch.nested.to_padded_tensor(value * 2, 0.0).sum().backward()
    return value.grad


def jagged_gradient(device: str) -> Any:
    value = jagged(device, requires_grad=True)
    (value * 3).values().sum().backward()
    return value.grad


def jagged_attention(device: str) -> Any:
    query = torch.nested.nested_tensor(
        [dense("cpu", 2, 2, 4), dense("cpu", 3, 2, 4)], device=device, layout=torch.jagged, requires_grad=True
    )
    heads = query.transpose(1, 2)
    result = nn.functional.scaled_dot_product_attention(heads, heads, heads)
    result.values().sum().backward()  # type: ignore[no-untyped-call]
    return [result.transpose(1, 2).contiguous(), query.grad]


NESTED: dict[str, Case] = {
    "made": ragged,
    "made of device tensors": lambda d: torch.nested.nested_tensor([dense(d, 2, 4), dense(d, 3, 4)]),
    "as_nested_tensor": lambda d: torch.nested.as_nested_tensor([dense(d, 2, 4), dense(d, 3, 4)]),
    "moved": lambda d: ragged("cpu").to(d),
    "unbind": lambda d: list(ragged(d).unbind()),
    "to_padded_tensor": lambda d: torch.nested.to_padded_tensor(ragged(d), -1.0),
    "sizes": lambda d: [ragged(d)._nested_tensor_size().tolist(), ragged(d).size(0), ragged(d).dim()],
    "linear": lambda d: nn.functional.linear(ragged(d), dense(d, 3, 4), dense(d, 3)),
    "matmul": lambda d: torch.matmul(ragged(d), ragged(d).transpose(1, 2)),
    "add": lambda d: ragged(d) + ragged(d),
    "mul": lambda d: ragged(d) * 2,
    "relu": lambda d: torch.relu(-ragged(d)),
    "softmax": lambda d: torch.softmax(ragged(d), -1),
    "layer_norm": lambda d: nn.functional.layer_norm(ragged(d), (4,), dense(d, 4), dense(d, 4)),
    "transpose": lambda d: ragged(d).transpose(1, 2).contiguous(),
    "clone": lambda d: ragged(d).clone(),
    "detach": lambda d: ragged(d, requires_grad=True).detach(),
    "half": lambda d: ragged(d).half(),
    "sum": lambda d: ragged(d).sum(-1, keepdim=True),
    "select": lambda d: ragged(d)[1],
    "bmm": lambda d: torch.bmm(ragged(d), ragged(d).transpose(1, 2)),
    "back to the CPU": lambda d: ragged(d).to("cpu").to(d),
    "from padding and a mask": lambda d: torch._nested_tensor_from_mask(
        dense(d, 2, 3, 4), torch.tensor([[True, True, False], [True, True, True]], device=d)
    ),
    "gradient": padded_gradient,
    "encoder with a padding mask": encoder,
    "jagged": jagged,
    "jagged, moved": lambda d: jagged("cpu").to(d),
    "jagged, add": lambda d: twice(jagged(d)),
    "jagged, linear": lambda d: nn.functional.linear(jagged(d), dense(d, 3, 4), dense(d, 3)),
    "jagged, layer_norm": lambda d: nn.functional.layer_norm(jagged(d), (4,)),
    "jagged, softmax": lambda d: torch.softmax(jagged(d), -1),
    "jagged, sum": lambda d: torch.sum(jagged(d), dim=1),
    "jagged, to_padded_tensor": lambda d: torch.nested.to_padded_tensor(jagged(d), 0.0),
    "jagged, from jagged": lambda d: torch.nested.nested_tensor_from_jagged(
        dense(d, 5, 4), torch.tensor([0, 2, 5], device=d)
    ),
    "jagged, narrow": lambda d: torch.nested.narrow(
        dense(d, 2, 4, 3), 1, 0, torch.tensor([2, 3], device=d), layout=torch.jagged
    ).contiguous(),
    "jagged, gradient": jagged_gradient,
    "jagged, attention": jagged_attention,
}


@pytest.mark.parametrize("name", MADE)
def test_ways_to_a_sparse_tensor(device: str, name: str) -> None:
    check(MADE[name], device)


@pytest.mark.parametrize("name", COMPUTED)
def test_sparse_operators(device: str, name: str) -> None:
    check(COMPUTED[name], device)


@pytest.mark.parametrize("name", CHANGED)
def test_sparse_tensors_that_are_written_to(device: str, name: str) -> None:
    check(CHANGED[name], device)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_are_sparse(device: str, name: str) -> None:
    check(GRADIENTS[name], device, moves=name != "moved")


@pytest.mark.parametrize("name", NESTED)
def test_nested_tensors(device: str, name: str) -> None:
    check(NESTED[name], device)


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


MIXED: dict[str, Callable[[str], Any]] = {
    "sparse and sparse": lambda d: coo(d) + coo("cpu"),
    "sparse on the CPU and dense": lambda d: torch.mm(coo("cpu"), dense(d, 5, 3)),
    "sparse and dense on the CPU": lambda d: torch.mm(coo(d), dense("cpu", 5, 3)),
    "dense and sparse on the CPU": lambda d: dense(d, 4, 5) + coo("cpu"),
    "csr and dense on the CPU": lambda d: csr(d) @ dense("cpu", 5, 3),
    "sparse_mask": lambda d: dense("cpu", 4, 5).sparse_mask(coo(d).coalesce()),
    "two devices": lambda d: coo(f"{d}:0") + coo(f"{d}:1"),
    "two devices, aliased": lambda d: torch.mm(coo(f"{d}:0"), dense(f"{d}:1", 5, 3)),
    "nested and nested": lambda d: ragged(d) + ragged("cpu"),
}


@pytest.mark.parametrize("way", MIXED)
def test_sparse_tensors_of_two_devices_do_not_mix(device: str, noted: Any, way: str) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        MIXED[way](device)
    assert noted("mixed-devices")


def test_results_stay_on_their_device(device: str) -> None:
    second = f"{device}:1"
    made = coo(second)
    for value in (made.coalesce(), made + made, made.to_dense(), made @ dense(second, 5, 3), made.t(), csr(second) * 2):
        assert str(value.device) == second
    assert str(made._values().device) == str(made._indices().device) == second
    assert str(torch.empty((2, 2), layout=torch.sparse_coo, device=second)._values().device) == second
    assert str(coo(device).to(second).coalesce().values().device) == second
    assert str(ragged(second).unbind()[0].device) == second


def test_memory_is_counted_once(device: str, native: Any) -> None:
    start = native.memory(0).allocated
    indices = torch.zeros(2, 1024, dtype=torch.int64, device=device)
    values = torch.ones(1024, device=device)
    used = native.memory(0).allocated - start
    assert used == 2 * 8 * 1024 + 4 * 1024
    made = torch.sparse_coo_tensor(indices, values, (3, 3))
    same = (made._values(), made._indices(), made.detach())
    assert made._values().data_ptr() == values.data_ptr()
    assert native.memory(0).allocated - start == used
    other = made.clone()
    assert native.memory(0).allocated - start == 2 * used
    coalesced = made.coalesce()
    assert coalesced._nnz() == 1
    del indices, values, made, same, other, coalesced
    assert native.memory(0).allocated == start


def test_values_are_shared_with_what_they_were_made_from(device: str) -> None:
    values = torch.ones(2, device=device)
    made = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2), device=device)
    values.fill_(5)
    assert made.to_dense().sum().item() == 10
    made._values().fill_(7)
    assert values.tolist() == [7, 7]
    other = made.coalesce()
    other.values().zero_()
    assert values.tolist() == [7, 7]


def test_a_dtype_that_the_card_lacks_is_refused_in_sparse_tensors(device: str, native: Any, noted: Any) -> None:
    native.set_dtypes(["float64"], [], [])
    ways: tuple[Callable[[], Any], ...] = (
        lambda: coo("cpu", dtype=torch.float64).to(device),
        lambda: coo(device).double(),
        lambda: torch.empty((2, 2), dtype=torch.float64, layout=torch.sparse_coo, device=device),
        lambda: csr("cpu").double().to(device),
        lambda: torch.sparse.softmax(coo(device), 1, dtype=torch.float64),
    )
    for way in ways:
        with pytest.raises(TypeError, match="SDAA does not support Double"):
            way()
    assert noted("missing-dtype")["float64"] >= 5


def test_an_operator_that_the_user_took_away_is_missing_for_sparse_tensors_too(device: str, native: Any) -> None:
    native.set_mode("aten::_coalesce", "missing", every_layout=True)
    native.set_mode("aten::neg", "missing")
    try:
        with pytest.raises(NotImplementedError, match=r"aten::_coalesce \(sparse\)"):
            coo(device).coalesce()
        with pytest.raises(NotImplementedError, match="aten::neg"):
            dense(device, 2).neg()
        assert coo(device)._nnz() == 7
    finally:
        native.set_mode("aten::_coalesce", "native", every_layout=True)
        native.set_mode("aten::neg", "native")


@pytest.mark.parametrize(
    ("operator", "case"),
    [
        ("aten::_coalesce", COMPUTED["coalesce"]),
        ("aten::addmm", COMPUTED["addmm"]),
        ("aten::mul.out", CHANGED["out, mul"]),
    ],
)
def test_a_fault_reaches_sparse_operators(device: str, native: Any, noted: Any, operator: str, case: Case) -> None:
    native.set_fault(operator, "nan", 0.0, 0)
    try:
        found = case(device)
    finally:
        native.fail_allocation(0)
        native.set_fault(operator, "noise", 0.0, 1 << 60)
    assert any(
        bool(each.isnan().any()) for each in parts(found) if isinstance(each, torch.Tensor) and each.is_floating_point()
    )
    assert noted("fault")


def test_sparse_operators_are_counted_apart(device: str, native: Any) -> None:
    before = native.operators_used().get("aten::_coalesce (sparse)", 0)
    coo(device).coalesce()
    used = native.operators_used()
    assert used["aten::_coalesce (sparse)"] == before + 1
    assert used["aten::_sparse_coo_tensor_with_dims_and_tensors (sparse)"] > 0
    ragged(device)
    jagged(device)


def test_moving_a_sparse_tensor_is_a_transfer(device: str, noted: Any) -> None:
    coo("cpu").to(device).cpu()
    assert noted("to-device")
    assert noted("to-host")


def test_a_sparse_tensor_prints_and_pickles(device: str) -> None:
    value = coo(device)
    assert f"device='{device}:0'" in repr(value)
    assert "layout=torch.sparse_coo" in repr(value)
    assert "layout=torch.sparse_csr" in repr(csr(device))
    for twin in (copy.deepcopy(value), pickle.loads(pickle.dumps(value)), torch.load(saved(value))):
        assert twin.device.type == device
        assert torch.equal(twin.to_dense().cpu(), value.to_dense().cpu())
    assert torch.load(saved(value), map_location="cpu").device.type == "cpu"


def test_gradcheck_of_sparse_functions(device: str) -> None:
    value = coo(device, dtype=torch.float64).coalesce().requires_grad_()
    right = dense(device, 5, 3).double().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.autograd.gradcheck(torch.sparse.mm, (value, right), masked=True)
        assert torch.autograd.gradcheck(lambda s: torch.sparse.sum(s, 0).to_dense(), (value,), masked=True)


_CASES = """
import sys, warnings
warnings.simplefilter("ignore")
import tests.rehearsal.test_sparse as table
lines = {lines!r}
for group, names in lines.items():
    for name, expected in names.items():
        try:
            table.check(getattr(table, group)[name], device, moves=name != "moved")
            found = ""
        except Exception as error:
            found = f"{{type(error).__name__}}: {{error}}"
        assert (expected in found) if expected else not found, (group, name, expected, found)
print("done")
"""

# Torch catches the refusal of the nested transpose and goes on to its other way, which ends so; the summary has both.
_WITHOUT_TRANSPOSE = "scaled_dot_product_attention: If inputs are nested tensors they must be contiguous"

# Its product has no element that is zero, nor an index twice.
_OTHER_ELEMENTS = "AssertionError"

NPU = {
    "MADE": dict.fromkeys(MADE, ""),
    "COMPUTED": {
        **dict.fromkeys(COMPUTED, ""),
        **dict.fromkeys(
            ("mm", "sparse.mm", "operator @", "dense @ sparse", "mv", "addmm", "sparse.addmm"),
            "'aten::addmm' with a sparse",
        ),
        **dict.fromkeys(("mm, csr", "mm, dense and csr", "addmm, csr"), "'aten::addmm.out' with a sparse compressed"),
        "sparse.mm, sparse": "'aten::_sparse_sparse_matmul' with a sparse tensor on 'npu': the plugin does",
        "mv, csr": "'aten::addmv.out' with a sparse compressed",
        "bmm": "'aten::bmm' with a sparse",
        "hspmm": "'aten::hspmm' with a sparse",
        "sspaddmm": "'aten::sspaddmm.out'",
        "smm": "'aten::sspaddmm.out'",
        "sampled_addmm": "'aten::sparse_sampled_addmm' with a sparse compressed",
        "add, csr": "'aten::add.out' with a sparse compressed",
        **dict.fromkeys(
            ("mul", "mul, number", "mul, number on the left", "mul, dense", "mul, dense scalar"), _OTHER_ELEMENTS
        ),
        "sparse.softmax": "'aten::_sparse_softmax'",
        "sparse.log_softmax": "'aten::_sparse_log_softmax'",
        "index_select": "'aten::index_select' with a sparse",
    },
    "GRADIENTS": {
        "coalesce": _OTHER_ELEMENTS,
        "embedding, SGD": "",
        "embedding, SparseAdam": "RuntimeError: The size of tensor a (",
        "embedding, Adagrad": "",
        "embedding bag, sum": "",
        "accumulated": "",
        "sparse.sum": "'aten::_sparse_sum_backward'",
    },
    "NESTED": {
        "made": "",
        "unbind": "",
        "to_padded_tensor": "",
        "sizes": "",
        "add": "'aten::add.Tensor' with a nested tensor on 'npu'",
        "encoder with a padding mask": "'aten::_transformer_encoder_layer_fwd' with a nested tensor",
        "jagged": "",
        "jagged, linear": "",
        "jagged, sum": "",
        "jagged, to_padded_tensor": "",
        "jagged, gradient": "",
        "jagged, attention": _WITHOUT_TRANSPOSE,
    },
}

MUSA = {
    "MADE": {"indices and values": "", "to_sparse": "", "only a size": "'aten::_sparse_coo_tensor_with_dims'"},
    "COMPUTED": {
        "coalesce": "",
        "parts": "",
        "to_dense": "'aten::_to_dense' with a sparse tensor on 'musa': the plugin does not register it",
        "mm": "with a sparse",
        "add": "'aten::add.Tensor' with a sparse",
    },
    "GRADIENTS": {"embedding, SGD": "'aten::add_.Tensor' with a sparse"},
    "NESTED": {
        "made": "",
        "unbind": "",
        "gradient": "'aten::mul.Tensor' with a nested",
        "jagged": "",
        "jagged, add": "",
        "jagged, attention": _WITHOUT_TRANSPOSE,
    },
}

GCU = {
    "MADE": {
        "indices and values": "'aten::_sparse_coo_tensor_with_dims_and_tensors' with a sparse tensor on 'gcu'",
        "moved coo": "on 'gcu': the plugin does not register it",
        "csr": "crow_indices expected",
    },
    "GRADIENTS": {"embedding, SGD": "'aten::_sparse_coo_tensor_with_dims_and_tensors'"},
    "NESTED": {"relu": "with a nested tensor on 'gcu'", "jagged": "", "jagged, linear": ""},
}

PTEX = {
    "MADE": {
        "indices and values": "with a sparse tensor on 'xla': PyTorch itself makes no such tensors for this device",
        "moved coo": "PyTorch itself makes no such tensors",
    },
    "GRADIENTS": {"embedding, SGD": "PyTorch itself makes no such tensors"},
    "NESTED": {"made": "INTERNAL ASSERT", "jagged": "", "jagged, add": "", "jagged, linear": ""},
}


@pytest.mark.parametrize(("target", "lines"), [("npu", NPU), ("musa", MUSA), ("gcu", GCU), ("ptex", PTEX)])
def test_each_card_has_what_its_plugin_registers(target: str, lines: dict[str, dict[str, str]]) -> None:
    out, _ = run_snippet(_CASES.format(lines=lines), target)
    assert "done" in out
