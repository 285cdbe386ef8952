"""Tensors on the device: making, moving, looking at and sharing them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal

MADE: dict[str, Callable[[str], Any]] = {
    "tensor": lambda d: torch.tensor([1, 2], device=d),
    "as_tensor": lambda d: torch.as_tensor([1.0], device=d),
    "asarray": lambda d: torch.asarray([1.0, 2], device=d),
    "empty": lambda d: torch.empty(2, 3, device=d),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d),
    "zeros": lambda d: torch.zeros(2, device=d),
    "full": lambda d: torch.full((2,), 3, device=d),
    "arange": lambda d: torch.arange(4, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "randn": lambda d: torch.randn(3, device=d),
    "randint": lambda d: torch.randint(9, (3,), device=d),
    "randperm": lambda d: torch.randperm(5, device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "to": lambda d: torch.ones(2).to(d),
    "to another": lambda d: torch.ones(2, device=f"{d}:1").to(d),
    "new_zeros": lambda d: torch.ones(1, device=d).new_zeros(3),
    "new_tensor": lambda d: torch.ones(1, device=d).new_tensor([1.0, 2]),
    "zeros_like": lambda d: torch.zeros_like(torch.ones(2, device=d)),
    "rand_like": lambda d: torch.rand_like(torch.ones(2, device=d)),
    "device method": lambda d: getattr(torch.ones(2), d)(),
    "complex": lambda d: torch.complex(torch.ones(2, device=d), torch.ones(2, device=d)),
}


@pytest.mark.parametrize("way", MADE)
def test_every_way_to_make_a_tensor_ends_on_the_device(device: str, way: str) -> None:
    made = MADE[way](device)
    assert made.device == torch.device(device, 0)
    assert type(made) is torch.Tensor
    assert getattr(made, f"is_{device}")
    assert not made.is_cpu
    assert not made.is_cuda


def test_an_index_chooses_the_device(device: str) -> None:
    made = torch.ones(2, device=f"{device}:1")
    assert made.get_device() == 1
    assert (made + 1).device.index == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal 2"):
        torch.ones(2, device=f"{device}:2")


def test_from_numpy_and_back_through_the_cpu(device: str) -> None:
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(6.0).reshape(2, 3)
    assert (torch.from_numpy(values).to(device).t().cpu().numpy() == values.T).all()


def test_numpy_is_refused_as_on_a_card(device: str) -> None:
    with pytest.raises(TypeError, match=f"can't convert {device}:0 device type tensor to numpy"):
        torch.ones(2, device=device).numpy()


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "matmul": lambda a, b: a @ b,
    "cat": lambda a, b: torch.cat([a, b]),
    "in place": lambda a, b: a.mul_(b),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "linear": torch.nn.functional.linear,
    "out": lambda a, b: torch.add(a, a, out=b),
    "foreach": lambda a, b: torch._foreach_add_([a], [b]),
}


@pytest.mark.parametrize("way", MIXED)
@pytest.mark.parametrize("order", ["device first", "cpu first"])
def test_mixing_devices_is_refused(device: str, way: str, order: str) -> None:
    pair = [torch.ones(2, 2, device=device), torch.ones(2, 2)]
    with pytest.raises(RuntimeError, match=r"same device|Expected .* device"):
        MIXED[way](*(pair if order == "device first" else pair[::-1]))


def test_two_devices_of_one_kind_are_mixed_too(device: str) -> None:
    with pytest.raises(RuntimeError, match=f"{device}:0 and {device}:1"):
        torch.ones(2, device=device) + torch.ones(2, device=f"{device}:1")


def test_a_number_from_the_cpu_is_welcome(device: str) -> None:
    assert (torch.ones(2, device=device) + torch.tensor(2.0)).tolist() == [3, 3]


def test_values_are_read(device: str) -> None:
    values = torch.tensor([[1.5, 2], [3, 4]], device=device)
    assert values.tolist() == [[1.5, 2], [3, 4]]
    assert values[1, 0].item() == 3
    assert bool(values[0, 0])
    assert int(values[1, 1]) == 4
    assert f"{values[0, 0]:.2f}" == "1.50"
    assert torch.equal(values, values)
    assert torch.allclose(values, values + 1e-9)
    torch.testing.assert_close(values, values.clone())


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (lambda d: torch.tensor([1.0, 2], device=d), "tensor([1., 2.], device='{d}:0')"),
        (lambda d: torch.tensor(3, device=d), "tensor(3, device='{d}:0')"),
        (lambda d: torch.ones(1, device=d, requires_grad=True), "tensor([1.], device='{d}:0', requires_grad=True)"),
        (lambda d: torch.ones(1, device=d, dtype=torch.float16), "tensor([1.], device='{d}:0', dtype=torch.float16)"),
        (lambda d: torch.ones(0, 2, device=f"{d}:1"), "tensor([], device='{d}:1', size=(0, 2))"),
    ],
)
def test_printing_names_the_device(device: str, source: Callable[[str], Any], text: str) -> None:
    assert repr(source(device)) == text.format(d=device)


def test_a_large_tensor_prints_abbreviated(device: str) -> None:
    assert "..." in repr(torch.randn(50, 50, device=device))


def test_type_names(device: str) -> None:
    values = torch.ones(2, device=device)
    assert values.type() == f"torch.{device}.FloatTensor"
    assert values.type(torch.float16).dtype == torch.float16
    assert values.double().dtype == torch.float64


def test_views_share_memory(device: str) -> None:
    values = torch.arange(24.0, device=device).view(2, 3, 4)
    expected = torch.arange(24.0).view(2, 3, 4)
    for tensor in (values, expected):
        tensor.permute(2, 0, 1)[1:, :, ::2].add_(100)
        for part in tensor.unbind(0):
            part.mul_(2)
        for part in tensor.chunk(2, -1):
            part.sub_(1)
        tensor.split(1)[1].zero_()
        tensor.diagonal(0, 1, 2).fill_(7)
        tensor.unfold(2, 2, 2)[0].neg_()
        tensor[0].t().add_(1)
        tensor.as_strided((2, 2), (1, 4), 3).mul_(3)
    assert torch.equal(values.cpu(), expected)
    view = values.transpose(0, 1)
    assert view._is_view()
    assert view.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    assert values.expand(5, 2, 3, 4).stride(0) == 0


def test_metadata_changes_in_place(device: str) -> None:
    values = torch.arange(6.0, device=device).view(1, 2, 3).clone()
    assert values.squeeze_().unsqueeze_(0).transpose_(0, 2).shape == (3, 2, 1)
    assert values.squeeze_().t_().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert values.swapaxes_(0, 1).is_contiguous() is False


UNWRITTEN: dict[str, Callable[[str], Any]] = {
    "empty": lambda d: torch.empty(2, 3, device=d),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d, dtype=torch.complex64),
    "empty_like": lambda d: torch.empty_like(torch.ones(3, device=d)),
    "empty_permuted": lambda d: torch.empty_permuted((2, 3), (1, 0), device=d, dtype=torch.float16),
    "new_empty": lambda d: torch.ones(1, device=d).new_empty(4),
    "resize_": lambda d: torch.empty(0, device=d).resize_(3),
}


def test_deterministic_algorithms_let_storages_be_copied(device: str) -> None:
    layer = torch.nn.Linear(2, 2).to(device)
    torch.use_deterministic_algorithms(True)
    try:
        again = copy.deepcopy(layer)
        storage = layer.bias.untyped_storage().clone()
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(again.weight, layer.weight)
    assert storage.tolist() == layer.bias.untyped_storage().tolist()


@pytest.mark.parametrize("way", UNWRITTEN)
def test_deterministic_algorithms_fill_what_is_not_written(device: str, way: str) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert UNWRITTEN[way](device).isnan().all()
        assert torch.empty(3, device=device, dtype=torch.int8).tolist() == [127, 127, 127]
    finally:
        torch.use_deterministic_algorithms(False)


def test_memory_format_is_kept(device: str) -> None:
    values = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    moved = values.to(device)
    assert moved.stride() == values.stride()
    assert (moved * 2).is_contiguous(memory_format=torch.channels_last)
    assert moved.contiguous().stride() == (60, 20, 5, 1)
    assert torch.equal(moved.contiguous().cpu(), values)


def test_resize_and_storage(device: str) -> None:
    values = torch.arange(4.0, device=device)
    storage = values.untyped_storage()
    assert storage.device == torch.device(device, 0)
    assert storage.nbytes() == 16
    assert storage.cpu().device.type == "cpu"
    assert list(storage)[4:8] == list(torch.tensor([1.0]).untyped_storage())
    values.resize_(6)
    assert values[:4].tolist() == [0, 1, 2, 3]
    assert values.untyped_storage().nbytes() == 24
    values.untyped_storage().resize_(8)
    assert values[:2].tolist() == [0, 1]
    values.untyped_storage().resize_(0)
    assert values.untyped_storage().nbytes() == 0


def test_a_tensor_takes_over_another_ones_memory(device: str) -> None:
    values = torch.zeros(3, device=device)
    values.data = torch.ones(3, device=device)
    assert values.sum() == 3
    other = torch.full((2,), 5.0, device=device)
    values.set_(other)
    values[0] = 1
    assert other.tolist() == [1, 5]
    values.set_(other.untyped_storage(), 1, (1,), (1,))
    assert values.tolist() == [5]
    assert values.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def test_taking_over_memory_leaves_views_of_the_old_one_alone(device: str) -> None:
    values = torch.zeros(4, device=device)
    view = values[1:]
    other = torch.ones(4, device=device)
    values.set_(other)
    assert view.tolist() == [0, 0, 0]
    other.untyped_storage().resize_(8 * 4)
    assert values.untyped_storage().nbytes() == 8 * 4
    values.set_()
    assert values.shape == (0,)
    assert values.device.type == device
    assert other.sum().item() == 4


def test_out_grows_and_is_written_where_it_is(device: str) -> None:
    values = torch.arange(3.0, device=device)
    grown = torch.empty(0, device=device)
    assert torch.add(values, 1, out=grown) is grown
    assert grown.tolist() == [1, 2, 3]
    strided = torch.zeros(6, device=device)
    torch.add(values, 1, out=strided[::2])
    assert strided.tolist() == [1, 0, 2, 0, 3, 0]


@pytest.mark.parametrize("way", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_on_the_device_and_their_own(device: str, way: Callable[[Any], Any]) -> None:
    module = torch.nn.Linear(2, 2).to(f"{device}:1")
    copied = way(module)
    assert copied.weight.device == torch.device(device, 1)
    assert copied.weight.data_ptr() != module.weight.data_ptr()
    assert torch.equal(copied.weight, module.weight)


def test_default_device(device: str) -> None:
    torch.set_default_device(device)
    try:
        assert torch.ones(2).device.type == device
        assert torch.nn.Linear(2, 2).weight.device.type == device
    finally:
        torch.set_default_device(None)
    with torch.device(f"{device}:1"):
        assert torch.zeros(2).device.index == 1
    assert torch.zeros(2).device.type == "cpu"


def test_meta_becomes_real(device: str) -> None:
    with torch.device("meta"):
        module = torch.nn.Linear(3, 3)
    module.to_empty(device=device)
    torch.nn.init.ones_(module.weight)
    assert module.weight.sum().item() == 9


def test_module_to_keeps_its_parameters(device: str) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    weight = module[0].weight
    optimizer = torch.optim.SGD(module.parameters(), 1.0)
    module.to(device)
    assert module[0].weight is weight
    module(torch.randn(4, 3, device=device)).square().sum().backward()
    before = weight.detach().clone()
    optimizer.step()
    assert not torch.equal(before, weight)
    assert module.half()[0].weight.dtype == torch.float16
    assert module.cpu()[0].weight.device.type == "cpu"


def test_parameters_are_new_where_the_plugin_does_not_say_that_they_are_alike(tmp_path: Any) -> None:
    from tests.rehearsal.child import run_snippet

    profile = tmp_path / "card.toml"
    profile.write_text("keeps_parameter_identity = false\n")
    out, _ = run_snippet(
        """
        module = torch.nn.Linear(2, 2)
        weight = module.weight
        print(module.to(device).weight is weight)
        """,
        enable=f"profile={str(profile)!r}",
    )
    assert out == "False\n"


def test_dlpack_shares_memory(device: str) -> None:
    values = torch.arange(3.0, device=device)
    other = torch.from_dlpack(torch.to_dlpack(values))
    other[0] = 7
    assert other.device == values.device
    assert values.tolist() == [7, 1, 2]
    assert (other + values).tolist() == [14, 2, 4]
    with pytest.raises(ValueError, match="Unknown device type"):
        torch.from_dlpack(values)  # torch 2.13 asks for a type by name here, and knows no plugin's
