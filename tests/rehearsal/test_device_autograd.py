"""Autograd on the device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.rehearsal.child import run_snippet

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.rehearsal


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(4),
    )


def test_gradients_and_buffers_equal_the_cpus(device: str) -> None:
    inputs = torch.randn(4, 3, 14, 14, generator=torch.Generator().manual_seed(1))
    here, there = model(), model()
    here(inputs), there(inputs)
    there.load_state_dict(here.state_dict())
    there.to(device)
    for module, values in ((here, inputs), (there, inputs.to(device))):
        functional.cross_entropy(module(values), torch.arange(4, device=values.device)).backward()
    for (name, expected), found in zip(here.named_parameters(), there.parameters(), strict=True):
        assert found.grad.device.type == device, name
        torch.testing.assert_close(found.grad.cpu(), expected.grad, msg=name)
    for (name, expected), found in zip(here.named_buffers(), there.buffers(), strict=True):
        torch.testing.assert_close(found.cpu(), expected, msg=name)


def test_an_input_changed_in_place_is_noticed(device: str) -> None:
    leaf = torch.ones(3, device=device, requires_grad=True)
    middle = leaf * 2
    product = middle * middle
    middle.add_(1)
    with pytest.raises(RuntimeError, match=f"modified by an inplace operation: .*{device}.*version 1"):
        product.sum().backward()


def test_a_change_through_a_view_is_noticed(device: str) -> None:
    leaf = torch.ones(3, device=device, requires_grad=True)
    middle = leaf * 2
    product = middle.exp() * middle
    middle[1:].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_leaf_is_not_changed_in_place(device: str) -> None:
    leaf = torch.ones(3, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf.add_(1)
    with torch.no_grad():
        leaf.add_(1)
    assert leaf._version == 1


def test_gradients_go_through_views(device: str) -> None:
    leaf = torch.arange(6.0, device=device, requires_grad=True)
    copied = leaf.clone()
    copied.view(2, 3)[0].mul_(5)
    copied.view(3, 2).t()[1, 1:].zero_()
    copied.sum().backward()
    assert leaf.grad.tolist() == [5, 5, 5, 0, 1, 0]


def test_a_second_derivative(device: str) -> None:
    leaf = torch.randn(3, device=device, requires_grad=True)
    (first,) = torch.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
    first.sum().backward()
    torch.testing.assert_close(leaf.grad, 6 * leaf.detach())


def test_gradcheck(device: str) -> None:
    leaf = torch.randn(3, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (x.sin() @ x.t()).sum(), (leaf,))
    assert torch.autograd.gradgradcheck(lambda x: (x.sin() @ x.t()).sum(), (leaf,))


def test_hooks_see_the_device(device: str) -> None:
    seen: list[str] = []
    module = torch.nn.Linear(2, 2).to(device)
    module.register_forward_hook(lambda *a: seen.append(f"forward {a[2].device.type}"))
    module.register_full_backward_hook(lambda *a: seen.append(f"backward {a[2][0].device.type}"))
    module.weight.register_post_accumulate_grad_hook(lambda p: seen.append(f"accumulated {p.grad.device.type}"))
    inputs = torch.randn(2, 2, device=device, requires_grad=True)
    inputs.register_hook(lambda g: seen.append(f"input {g.device.type}"))
    module(inputs).sum().backward()
    assert sorted(seen) == sorted(
        [f"forward {device}", f"backward {device}", f"accumulated {device}", f"input {device}"]
    )


def test_saved_tensors_go_to_the_cpu_and_back(device: str) -> None:
    leaf = torch.randn(3, device=device, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        leaf.exp().sum().backward()
    torch.testing.assert_close(leaf.grad, leaf.detach().exp())


def test_a_function_of_ones_own(device: str) -> None:
    class Twice(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, values: Any) -> Any:
            ctx.save_for_backward(values)
            return values * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            assert ctx.saved_tensors[0].device == gradient.device
            return gradient * 2

    leaf = torch.ones(2, device=device, requires_grad=True)
    Twice.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


def test_an_operator_without_a_formula_of_autograd_runs_on_what_requires_a_gradient(device: str) -> None:
    library = torch.library.Library("torchferry_test_autograd", "DEF")
    library.define("twice(Tensor values) -> Tensor")
    library.impl("twice", lambda values: values.detach() * 2, "PrivateUse1")
    values = torch.ones(2, device=device, requires_grad=True)
    assert torch.ops.torchferry_test_autograd.twice(values).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_repeats_the_dropout(device: str, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    def block(values: Any) -> Any:
        return functional.dropout(values, 0.5) * values

    leaf = torch.randn(64, device=device, requires_grad=True)
    result = checkpoint(block, leaf, use_reentrant=reentrant)
    result.sum().backward()
    kept = result.detach() != 0
    torch.testing.assert_close(leaf.grad, torch.where(kept, 4 * leaf.detach(), 0.0))


def test_threads_share_the_device(device: str) -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                leaf = torch.randn(8, 8, device=device, requires_grad=True)
                (leaf @ leaf).sum().backward()
                torch.testing.assert_close(leaf.grad, (leaf.sum(0)[:, None] + leaf.sum(1)).detach())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_backward_runs_in_the_thread_that_calls_it_also_where_the_cpus_came_before_the_device() -> None:
    out, _ = run_snippet(
        """
        import threading

        seen = []

        class Where(torch.autograd.Function):
            @staticmethod
            def forward(ctx, values):
                return values * 2

            @staticmethod
            def backward(ctx, gradient):
                seen.append(threading.get_ident())
                return gradient * 2

        def work():
            with torch.inference_mode():  # puts the state of the thread back
                torch.ones(2, device=device)
            Where.apply(torch.ones(2, device=device, requires_grad=True)).sum().backward()
            print(seen.pop() == threading.get_ident())

        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """,
        before="torch.ones(2, requires_grad=True).sum().backward()",
    )
    assert out.split() == ["True", "True"]


def test_a_thread_has_its_own_current_device(device: str, rehearsed: Any) -> None:
    seen: list[int] = []
    rehearsed.namespace.set_device(1)
    try:
        thread = threading.Thread(target=lambda: seen.append(torch.ones(1, device=device).get_device()))
        thread.start()
        thread.join()
        assert torch.ones(1, device=device).get_device() == 1
    finally:
        rehearsed.namespace.set_device(0)
    assert seen == [0]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": torch.func.vmap(lambda a: (a * 2).sum()),
    "vmap of mm": lambda x: torch.func.vmap(lambda a: a @ a.t(), in_dims=1)(x[None].expand(2, 3, 4)),
    "grad": torch.func.grad(lambda a: (a**3).sum()),
    "vmap of grad": torch.func.vmap(torch.func.grad(lambda a: a.sin().sum())),
    "jacrev": lambda x: torch.func.jacrev(torch.sin)(x[0]),
    "jacfwd": lambda x: torch.func.jacfwd(lambda a: a.exp().cumsum(0))(x[0]),
    "hessian": lambda x: torch.func.hessian(lambda a: (a**3).sum())(x[0]),
    "jvp": lambda x: torch.func.jvp(torch.tanh, (x,), (torch.ones_like(x),))[1],
    "functionalize": torch.func.functionalize(lambda a: a.clone().add_(1)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_function_transforms_equal_the_cpus(device: str, transform: str) -> None:
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    found = TRANSFORMS[transform](values.to(device))
    assert found.device.type == device
    torch.testing.assert_close(found.cpu(), TRANSFORMS[transform](values))


def test_forward_mode(device: str) -> None:
    forward_ad: Any = torch.autograd.forward_ad
    values = torch.randn(3, device=device)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(values, torch.ones_like(values))
        tangent = forward_ad.unpack_dual(dual.sin()).tangent
    torch.testing.assert_close(tangent, values.cos())


def test_inference_mode(device: str) -> None:
    module = torch.nn.Linear(3, 3).to(device)
    with torch.inference_mode():
        result = module(torch.ones(2, 3, device=device)).relu_()
        view = result[0]
    assert result.is_inference()
    assert view.is_inference()
    assert not result.requires_grad
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        (module.weight * result[:1]).sum().backward()


def test_anomaly_detection_names_the_function(device: str) -> None:
    leaf = torch.zeros(1, device=device, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan"):
        (leaf.sqrt() * 0).sum().backward()
