"""The test that an operator begins with: on the device against the CPU, with PyTorch's own sample inputs (OpInfo)."""

from __future__ import annotations

from collections.abc import Collection
from string import Template

_TEXT = Template('''\
"""Tests of $root on the device against the CPU, with PyTorch's own sample inputs (OpInfo).

    python -m pytest $file

Runs on a machine with the plugin, or in a rehearsal: torchferry rehearse -t NAME -- python -m pytest $file
Needs pytest, numpy and expecttest.
"""

from pathlib import Path

import pytest
import torch
$plugin
LIBRARY = Path(__file__).with_name("$library")
if LIBRARY.exists():  # else the plugin itself has the kernels
    torch.ops.load_library(str(LIBRARY))

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402 - after the kernels

KEY = "$key"
DEVICE = $device
DTYPES = ($dtypes)  # what the card has
REGISTERED = $registered
OPERATORS = [op for op in op_db if "$root" in (op.aten_name, op.name.rpartition(".")[2])]
CASES = [(op, dtype) for op in OPERATORS for dtype in DTYPES if dtype in op.supported_dtypes("cpu")]

for_each = pytest.mark.parametrize("op, dtype", CASES, ids=lambda part: str(getattr(part, "formatted_name", part)))


def samples(op, dtype, requires_grad=False):
    return list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))


def on_device(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(DEVICE).requires_grad_(value.requires_grad)


def tensors(value):
    return [each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def call(function, sample):
    return function(sample.input, *sample.args, **sample.kwargs)


def same(actual, expected):
    actual, expected = tensors(actual), tensors(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        assert one.device.type == DEVICE
        torch.testing.assert_close(one.detach().cpu(), other.detach(), equal_nan=True)


def refused(function, sample):
    """Whether the CPU refuses it too: then there is nothing to compare."""
    try:
        call(function, sample)
    except (RuntimeError, TypeError, IndexError, ValueError):
        return True
    return False


@pytest.mark.parametrize("name", REGISTERED)
def test_the_kernel_is_ours(name):
    lines = [line for line in torch._C._dispatch_dump("aten::" + name).splitlines() if line.startswith(KEY + ":")]
    assert lines, "nothing is registered for " + KEY
    assert "Register$vendor" in lines[0], lines[0]


def test_torch_has_samples():
    assert CASES, "torch has no OpInfo of $root for these dtypes: write tests of your own"


@for_each
def test_forward(op, dtype):
    for sample in samples(op, dtype):
        same(call(op, sample.transform(on_device)), call(op, sample))


@for_each
def test_inputs_that_are_not_contiguous(op, dtype):
    for sample in samples(op, dtype):
        strided = sample.noncontiguous()
        same(call(op, strided.transform(on_device)), call(op, strided))


@for_each
def test_broadcasting(op, dtype):
    broadcast = [sample for sample in samples(op, dtype) if sample.broadcasts_input or _differ(sample)]
    if not broadcast:
        pytest.skip("no sample has tensors of several shapes")
    for sample in broadcast:
        same(call(op, sample.transform(on_device)), call(op, sample))


def _differ(sample):
    return len({each.shape for each in tensors((sample.input, sample.args, sample.kwargs))}) > 1


@for_each
def test_empty(op, dtype):
    compared = 0
    for sample in samples(op, dtype):
        empty = sample.transform(lambda value: value[:0] if isinstance(value, torch.Tensor) and value.dim() else value)
        if not refused(op, empty):
            same(call(op, empty.transform(on_device)), call(op, empty))
            compared += 1
    if not compared:
        pytest.skip("the CPU takes no empty tensors")


@for_each
def test_in_place(op, dtype):
    change = op.inplace_variant
    compared = 0
    for sample in samples(op, dtype):
        if change is None or sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
            continue
        host = sample.transform(lambda value: value.clone() if isinstance(value, torch.Tensor) else value)
        device = sample.transform(on_device)
        if refused(change, host):
            continue
        assert call(change, device) is device.input
        same(device.input, host.input)
        compared += 1
    if not compared:
        pytest.skip("there is no in-place form for these samples")


@for_each
def test_out(op, dtype):
    if not op.supports_out:
        pytest.skip("there is no out form")
    for sample in samples(op, dtype):
        expected = call(op, sample)
        device = sample.transform(on_device)
        for make in (_of_no_size, _of_other_strides):
            out = torch.utils._pytree.tree_map(make, expected)
            strides = [each.stride() for each in tensors(out)]
            returned = call(lambda *args, **kwargs: op(*args, **kwargs, out=out), device)
            assert [each.data_ptr() for each in tensors(returned)] == [each.data_ptr() for each in tensors(out)]
            same(out, expected)
            if make is _of_other_strides:
                assert [each.stride() for each in tensors(out)] == strides


def _of_no_size(tensor):
    return torch.empty(0, dtype=tensor.dtype, device=DEVICE)


def _of_other_strides(tensor):
    return torch.empty(tensor.shape[::-1], dtype=tensor.dtype, device=DEVICE).permute(*reversed(range(tensor.dim())))


@for_each
def test_backward(op, dtype):
    if not op.supports_autograd or dtype not in (torch.float32, torch.complex64):
        pytest.skip("no gradient, or one that float16 is too coarse for")
    for sample in samples(op, dtype, requires_grad=True):
        device = sample.transform(on_device)
        for expected, actual in zip(_gradients(op, sample), _gradients(op, device)):
            assert (expected is None) == (actual is None)
            if expected is not None:
                same(actual, expected)


def _gradients(op, sample):
    inputs = [each for each in tensors((sample.input, sample.args, sample.kwargs)) if each.requires_grad]
    out = [each for each in tensors(sample.output_process_fn_grad(call(op, sample))) if each.requires_grad]
    return torch.autograd.grad(out, inputs, [torch.ones_like(each) for each in out], allow_unused=True)
''')


DTYPES = ("float32", "float16", "bfloat16", "complex64", "int64", "bool")
"""What an operator is tested with, where the card has it."""


def opinfo_test(
    root: str, registered: list[str], *, file: str, key: str, plugin: str, vendor: str, lacking: Collection[str] = ()
) -> str:
    """Return the test.

    Args:
        root: What the operator is called in torch: `tril`.
        registered: The operators that are registered, with overloads.
        file: Name of the test.
        key: Dispatch key of the backend.
        plugin: Python package that makes the device known; empty where torch loads it by itself.
        vendor: What the files of registrations are called after, capitalised.
        lacking: Dtypes that the card lacks.
    """
    names = ", ".join(f'"{name}"' for name in sorted(registered))
    return _TEXT.substitute(
        root=root,
        file=file,
        plugin=f"import {plugin}  # noqa: F401 - the device\n" if plugin else "",
        library=f"lib{vendor.lower()}.so",
        key=key,
        device="torch._C._get_privateuse1_backend_name()" if key == "PrivateUse1" else f'"{key.lower()}"',
        registered=f"({names},)" if len(registered) == 1 else f"({names})",
        vendor=vendor,
        dtypes=", ".join(f"torch.{name}" for name in DTYPES if name not in lacking),
    )
