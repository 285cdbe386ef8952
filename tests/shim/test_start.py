"""What the start of the redirect leaves out to be quick: it finds the same, and reads the rest when it is asked."""

from __future__ import annotations

import functools
import inspect
from types import BuiltinFunctionType
from typing import Any

import pytest

from tests.shim.test_redirect import redirected

torch = pytest.importorskip("torch")

from torchferry.shim import patch_factories  # noqa: E402 - torch may be missing
from torchferry.shim.devices import parameter_names  # noqa: E402

PRIVATE = {"_assert_tensor_metadata", "_nested_tensor_from_tensor_list", "_pin_memory", "_resize_output_"}
"""Take a device and are no factories."""


def names(owner: Any, prefix: str) -> set[str]:
    """Return the functions of torch whose operator has a parameter `device`, asked of every schema."""
    found = set()
    for name in dir(owner):
        value = getattr(owner, name)
        if isinstance(value, BuiltinFunctionType) or getattr(value, "__module__", "") == "torch.functional":
            schemas = torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}")
            if any(argument.name == "device" for schema in schemas for argument in schema.arguments):
                found.add(name)
    return found


@pytest.mark.parametrize(("owner", "prefix"), [(torch, ""), (torch.fft, "fft_"), (torch.nested, "nested_")])
def test_no_function_that_takes_a_device_is_missed(owner: Any, prefix: str) -> None:
    redirected = {name for place, name in patch_factories.factories() if place is owner}
    assert names(owner, prefix) - redirected - patch_factories._NOT_FACTORIES <= PRIVATE
    assert not redirected & PRIVATE


def example(a: int, *rest: int, device: str = "", **more: int) -> None: ...


@functools.wraps(example)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


def replaced(*args: Any, **kwargs: Any) -> None: ...


replaced.__signature__ = inspect.Signature([inspect.Parameter("device", inspect.Parameter.KEYWORD_ONLY)])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "function",
    [example, wrapped, replaced, functools.partial(example, 1), torch.nn.Module().to, torch.load, torch.cuda.Stream],
    ids=["a function", "a wrapper", "a signature of its own", "partly applied", "a method", "of torch", "a class"],
)
def test_parameters_are_those_that_python_tells(function: Any) -> None:
    told = inspect.signature(function).parameters.values()
    named = [one.name for one in told if one.kind is not one.VAR_KEYWORD]
    assert parameter_names(function)[: len(named)] == named


def test_a_builtin_that_tells_no_parameters_is_an_error() -> None:
    with pytest.raises(ValueError, match="no signature"):
        parameter_names(torch.zeros)


def test_tables_of_libraries_and_packages_are_read_when_somebody_asks() -> None:
    printed = redirected("""
        from torchferry.core import toml
        read, load = [], toml.load_own
        toml.load_own = lambda path: (read.append(path.stem), load(path))[1]
        redirect = enable()
        print(sorted(set(read) & {"libraries", "packages", "env"}))
        print(torch.cuda.is_available(), sorted(set(read) & {"libraries", "packages", "env"}))
        redirect.disable()
    """)
    assert printed.splitlines() == ["[]", "True ['libraries', 'packages']"]


def test_names_taken_before_make_tensors_on_the_card() -> None:
    printed = redirected("""
        from torch import empty, randn, triu_indices, zeros
        c = torch.device("cuda:1")
        with enable():
            made = [f(2, device=c) for f in (zeros, empty, randn)] + [triu_indices(2, 2, device="cuda")]
            made += [torch.ops.aten.empty_strided([2], [1], device=c), torch.ops.aten.eye(2, device=c)]
            print(*[x.device for x in made], made[0].tolist())
            try:
                torch.ops.aten._sparse_coo_tensor_with_dims(1, 1, [2], layout=torch.sparse_coo, device=c)
            except NotImplementedError as error:  # the card was asked, and has none
                print("'musa'" in str(error))
        try:
            zeros(2, device=c)
        except NotImplementedError as error:
            print("'CUDA' backend" in str(error))
    """)
    assert printed.splitlines() == ["cuda:1 cuda:1 cuda:1 cuda:0 cuda:1 cuda:1 [0.0, 0.0]", "True", "True"]


def test_garbage_is_collected_again_afterwards() -> None:
    printed = redirected("""
        import gc
        with enable():
            print(gc.isenabled())
        try:
            enable("no such target")
        except Exception:
            print(gc.isenabled())
        gc.disable()
        enable().disable()
        print(gc.isenabled())
    """)
    assert printed.split() == ["True", "True", "False"]
