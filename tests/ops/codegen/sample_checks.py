"""What the sample device must do, asked in a process of its own: torch takes one backend.

    python sample_checks.py LIBRARY

Prints one JSON object: for each check, `ok` or what went wrong.
"""

from __future__ import annotations

import ctypes
import json
import sys
import traceback
from collections.abc import Callable

import torch
from torch.utils import backend_registration

COUNTERS = ("tril", "lerp", "nonzero", "add", "avg_pool", "triu_meta", "triu", "mish_meta", "mish_autograd", "fill")
CHECKS: list[Callable[[], None]] = []
DEVICE = "sample"


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(function)
    return function


class Module:
    """What torch asks of `torch.<device>`."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        pass


def count(name: str) -> int:
    return int(library.sample_count(COUNTERS.index(name)))


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.device.type == DEVICE
    torch.testing.assert_close(actual.cpu(), expected)


def refused(call: Callable[[], object], *words: str) -> None:
    said = ""
    try:
        call()
    except RuntimeError as error:
        said = str(error)
    assert said
    assert all(word in said for word in words), said


@check
def legacy_meta_has_four_forms() -> None:
    before = count("tril")
    same(torch.tril(given, 1), torch.tril(host, 1))
    changed = given.clone()
    assert changed.tril_(-1) is changed
    same(changed, torch.tril(host, -1))
    out = torch.empty(0, device=DEVICE)
    assert torch.tril(given, out=out) is out
    same(out, torch.tril(host))
    transposed = torch.empty(5, 4, device=DEVICE).t()
    torch.tril(given, out=transposed)
    assert transposed.stride() == (1, 4)
    same(transposed, torch.tril(host))
    assert count("tril") == before + 4


@check
def legacy_takes_all_from_torch_but_the_stub() -> None:
    before = count("lerp")
    end, weight = torch.randn(4, 5), torch.rand(4, 5)
    same(torch.lerp(given, end.to(DEVICE), weight.to(DEVICE)), torch.lerp(host, end, weight))
    changed = given.clone()
    changed.lerp_(end.to(DEVICE), weight.to(DEVICE))
    same(changed, torch.lerp(host, end, weight))
    assert count("lerp") == before + 2


@check
def unstructured() -> None:
    before = count("nonzero")
    same(torch.nonzero(given), torch.nonzero(host))
    out = torch.empty(0, dtype=torch.long, device=DEVICE)
    torch.nonzero(given, out=out)
    same(out, torch.nonzero(host))
    assert count("nonzero") == before + 2


@check
def override_replaces_a_structured_operator() -> None:
    before = count("add")
    same(given + given, host + host)
    changed = given.clone()
    changed += given
    same(changed, 2 * host)
    out = torch.empty(0, device=DEVICE)
    torch.add(given, given, alpha=3, out=out)
    same(out, 4 * host)
    assert count("add") == before + 3


@check
def override_refuses_another_device_but_takes_single_values() -> None:
    refused(lambda: given + host, "Expected all tensors to be on the same device")
    refused(lambda: torch.add(given, given, out=torch.empty(4, 5)), "Expected all tensors to be on the same device")
    refused(lambda: torch.tensor(1.0).add_(given), "Expected all tensors to be on the same device")
    same(given + 2, host + 2)
    same(given + torch.tensor(2.0), host + 2)
    same(torch.tensor(2.0) + given, host + 2)


@check
def shared_function_is_torchs_own() -> None:
    numbers = torch.randn(3, dtype=torch.complex64)
    on_device = numbers.to(DEVICE)
    view = torch.view_as_real(on_device)
    assert view.data_ptr() == on_device.data_ptr()
    same(view, torch.view_as_real(numbers))


@check
def fallback_runs_on_the_cpu() -> None:
    value = host.clamp(-0.9, 0.9)
    same(torch.erfinv(value.to(DEVICE)), torch.erfinv(value))
    changed = value.to(DEVICE)
    changed.erfinv_()
    same(changed, torch.erfinv(value))


@check
def upstream_precomputed_values_arrive() -> None:
    image, before = torch.randn(1, 2, 8, 8), count("avg_pool")
    pool = torch.nn.functional.avg_pool2d
    same(pool(image.to(DEVICE), 3, 2, 1), pool(image, 3, 2, 1))
    assert count("avg_pool") == before + 1


@check
def own_preparation_with_own_precomputed_value() -> None:
    meta, kernel = count("triu_meta"), count("triu")
    same(torch.triu(given, 9), torch.triu(host, 9))  # the kernel checks that 9 became 5
    same(given.clone().triu_(), torch.triu(host))
    refused(lambda: torch.triu(torch.randn(3).to(DEVICE)), "triu of the sample device needs two dimensions")
    assert (count("triu_meta"), count("triu")) == (meta + 3, kernel + 2)


@check
def own_base_and_a_kernel_from_a_template() -> None:
    before = count("mish_meta")
    mish = torch.nn.functional.mish
    same(mish(given), mish(host))
    changed = given.clone()
    mish(changed, inplace=True)
    same(changed, mish(host))
    assert count("mish_meta") == before + 2


@check
def function_for_autograd() -> None:
    before = count("mish_autograd")
    torch.nn.functional.mish(given.clone().requires_grad_())
    assert count("mish_autograd") == before + 1


@check
def autograd_through_generated_kernels() -> None:
    end, weight = torch.randn(4, 5), torch.rand(4, 5)
    on_host, on_device = host.clone().requires_grad_(), given.clone().requires_grad_()
    torch.autograd.backward(torch.tril(torch.lerp(on_host, end, weight)).sum())
    torch.autograd.backward(torch.tril(torch.lerp(on_device, end.to(DEVICE), weight.to(DEVICE))).sum())
    assert on_host.grad is not None
    assert on_device.grad is not None
    same(on_device.grad, on_host.grad)


@check
def module_through_the_boxed_fallback() -> None:
    layer = torch.nn.Linear(5, 3)
    expected = layer(host)
    same(layer.to(DEVICE)(given), expected)


@check
def copies_cross_devices() -> None:
    same(host.to(DEVICE), host)
    target = torch.empty(4, 5, device=DEVICE)
    target.copy_(host)
    same(target, host)
    assert torch.equal(given.cpu(), host)
    assert given[0, 0].item() == host[0, 0].item()


@check
def thirty_four_registrations() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    assert sum(name.startswith("aten::") for name in registered) == 34, registered


def outcome(function: Callable[[], None]) -> str:
    try:
        function()
    except Exception:
        return traceback.format_exc()
    return "ok"


if __name__ == "__main__":
    backend_registration.rename_privateuse1_backend(DEVICE)
    torch.ops.load_library(sys.argv[1])  # type: ignore[no-untyped-call]
    library = ctypes.CDLL(sys.argv[1])
    library.sample_count.restype = ctypes.c_int64
    torch._register_device_module(DEVICE, Module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend()
    torch.autograd.set_multithreading_enabled(False)  # a thread of autograd's may outlive the interpreter
    torch.manual_seed(0)
    host = torch.randn(4, 5)
    given = host.to(DEVICE)
    print(json.dumps({function.__name__: outcome(function) for function in CHECKS}))
