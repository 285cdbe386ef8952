"""Every optimizer in each of its implementations takes the steps that it takes on the CPU."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal

OPTIMIZERS = (
    "SGD",
    "Adam",
    "AdamW",
    "Adagrad",
    "RMSprop",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "Rprop",
    "ASGD",
    "LBFGS",
    "Adafactor",
    "Muon",
)
FUSED = {"SGD", "Adam", "AdamW", "Adagrad"}
WITHOUT_FOREACH = {"LBFGS", "Muon"}
IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "default": {},
    "foreach": {"foreach": True},
    "for-loop": {"foreach": False},
    "fused": {"fused": True},
}
CASES = [
    (name, implementation)
    for name in OPTIMIZERS
    for implementation, options in IMPLEMENTATIONS.items()
    if not ("fused" in options and name not in FUSED) and not ("foreach" in options and name in WITHOUT_FOREACH)
]


def train(name: str, device: str, options: dict[str, Any], **more: Any) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(5, 3).to(device)), torch.nn.Parameter(torch.randn(4, 4).to(device))]
    optimizer = getattr(torch.optim, name)(parameters, lr=0.05, **options, **more)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum(parameter.square().sum() for parameter in parameters)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return [parameter.detach().cpu() for parameter in parameters], optimizer


@pytest.mark.parametrize(("name", "implementation"), CASES)
def test_steps_equal_the_cpus(device: str, name: str, implementation: str) -> None:
    if not hasattr(torch.optim, name):
        pytest.skip(f"this torch has no {name}")
    options = IMPLEMENTATIONS[implementation]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, optimizer = train(name, device, options)
        expected, _ = train(name, "cpu", options)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    for state in optimizer.state.values():
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                assert value.device.type == device, key


@pytest.mark.parametrize("name", ["Adam", "SGD"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_options_equal_the_cpus(device: str, name: str, implementation: str) -> None:
    more: dict[str, Any] = {"weight_decay": 0.1, "maximize": True}
    more.update({"amsgrad": True} if name == "Adam" else {"momentum": 0.9, "nesterov": True})
    options = IMPLEMENTATIONS[implementation]
    for mine, theirs in zip(
        train(name, device, options, **more)[0], train(name, "cpu", options, **more)[0], strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_foreach_is_the_default(device: str, rehearsed: Any) -> None:
    native = rehearsed.native
    before = native.operators_used().get("aten::_foreach_sqrt", 0)
    train("Adam", device, {})
    assert native.operators_used()["aten::_foreach_sqrt"] > before


def test_state_is_loaded_onto_the_device(device: str) -> None:
    _, saved = train("AdamW", "cpu", {})
    parameters = [torch.nn.Parameter(torch.randn(5, 3, device=device)), torch.nn.Parameter(torch.ones(4, 4).to(device))]
    loaded = torch.optim.AdamW(parameters)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.state[parameters[0]]["exp_avg"].device.type == device
    parameters[0].grad = torch.ones_like(parameters[0])
    loaded.step()


@pytest.mark.parametrize("foreach", [None, True, False])
def test_gradients_are_clipped(device: str, foreach: bool | None) -> None:
    parameters = [torch.nn.Parameter(torch.ones(2, device=device)), torch.nn.Parameter(torch.ones(3, device=device))]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 2.0)
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)
    assert norm.item() == pytest.approx(20**0.5)
    assert torch.nn.utils.get_total_norm([p.grad for p in parameters]).item() == pytest.approx(1, abs=1e-5)
    torch.nn.utils.clip_grad_value_(parameters, 0.1, foreach=foreach)
    assert max(p.grad.max().item() for p in parameters) == pytest.approx(0.1)


def test_averaged_weights_follow(device: str) -> None:
    module = torch.nn.Linear(2, 2).to(device)
    average = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    average.update_parameters(module)
    with torch.no_grad():
        module.weight.add_(2)
    average.update_parameters(module)
    torch.testing.assert_close(average.module.weight, module.weight - 1)


@pytest.mark.parametrize("name", ["_foreach_addcmul", "_foreach_addcdiv", "_foreach_addcmul_", "_foreach_addcdiv_"])
def test_numbers_for_a_list_of_tensors_are_read_on_the_cpu(device: str, name: str) -> None:
    def updated(scalars: Any) -> Any:
        values = [torch.full((3,), float(i), device=device) for i in (1, 2, 3)]
        found = getattr(torch, name)(values, values, values, scalars=scalars)
        return torch.stack(list(values if found is None else found)).cpu()

    numbers = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(updated(numbers), updated(numbers.tolist()))
    with pytest.raises(RuntimeError, match="Expected scalars to be on CPU"):
        updated(numbers.to(device))
