"""PyTorch's device-generic test machinery on the rehearsal device, with the databases that the wheel contains.

    python benchmarks/rehearsal/generic.py [--output FILE] [unittest arguments, such as -k modules]

The wheel has the machinery (`instantiate_device_type_tests`, which finds the device by itself and makes a class of
tests for it) and the databases of operators, modules and optimizers, each with what PyTorch knows it may skip. It does
not have the test files, which generic.py takes from a folder: the checks below are written after them. What fails on
the CPU too says nothing about the device, and is counted apart. It needs numpy and expecttest.
"""

# ruff: noqa: E402, PT009 - the device comes before the machinery, and its assertEqual compares tensors

from __future__ import annotations

import copy
import json
import pickle
import sys
import unittest
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import torchferry.rehearsal

DEVICE = torchferry.rehearsal.enable("sdaa", devices=2).backend.DEVICE_TYPE  # before the machinery looks for devices

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal import (
    common_device_type,
    common_methods_invocations,
    common_modules,
    common_optimizers,
)
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.custom_op_db import custom_op_db

from benchmarks.rehearsal.comparison import Mover, difference, leaves, tensors_in

ops: Any = common_device_type.ops
modules: Any = common_modules.modules
optims: Any = common_optimizers.optims
instantiate_device_type_tests: Any = common_device_type.instantiate_device_type_tests

op_db = common_methods_invocations.op_db
DOUBLE = [op for op in op_db if op.supports_autograd and torch.float64 in op.dtypes]
FORWARD_MODE = [op for op in DOUBLE if op.supports_forward_ad]
BATCHED = [op for op in op_db if torch.float32 in op.dtypes and not op.variant_test_name]
METHODS = [op for op in op_db if op.method_variant is not None and torch.float32 in op.dtypes]
FOREACH = [
    op
    for kind in ("unary", "binary", "pointwise", "reduce", "other")
    for op in getattr(common_methods_invocations, f"foreach_{kind}_op_db")
]
FOREACH_DTYPES = (torch.float32, torch.float16, torch.int64, torch.complex64)
FEW = 2


class TestOperators(TestCase):
    """After test_ops.py, test_ops_gradients.py and test_fake_tensor.py."""

    @ops(METHODS, allowed_dtypes=(torch.float32,))  # type: ignore[untyped-decorator]
    def test_method_is_the_function(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in islice(op.sample_inputs(device, dtype), FEW):
            found = []
            for variant in (op.op, op.method_variant):
                torch.manual_seed(0)
                found.append(variant(copy.deepcopy(sample.input), *sample.args, **sample.kwargs))
            if not op.name.startswith(("empty", "new_empty")):
                self.assertEqual(*found)

    @ops(DOUBLE, allowed_dtypes=(torch.float64,))  # type: ignore[untyped-decorator]
    def test_gradients(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for call, inputs in gradient_inputs(op, device, dtype):
            self.assertTrue(
                torch.autograd.gradcheck(
                    call, inputs, fast_mode=True, check_undefined_grad=False, nondet_tol=op.gradcheck_nondet_tol
                )
            )

    @ops(FORWARD_MODE, allowed_dtypes=(torch.float64,))  # type: ignore[untyped-decorator]
    def test_forward_mode(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for call, inputs in gradient_inputs(op, device, dtype):
            self.assertTrue(
                torch.autograd.gradcheck(
                    call,
                    inputs,
                    fast_mode=True,
                    check_forward_ad=True,
                    check_backward_ad=False,
                    check_undefined_grad=False,
                    nondet_tol=op.gradcheck_nondet_tol,
                )
            )

    @ops(BATCHED, allowed_dtypes=(torch.float32,))  # type: ignore[untyped-decorator]
    def test_fake_tensors_look_like_the_real_ones(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in islice(op.sample_inputs(device, dtype), FEW):
            with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                try:
                    inputs = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, sample)
                    fake = op.op(inputs.input, *inputs.args, **inputs.kwargs)
                except torch._subclasses.fake_tensor.UnsupportedFakeTensorException:
                    continue
                except torch._subclasses.fake_tensor.DynamicOutputShapeException:
                    continue
                except torch._subclasses.fake_tensor.DataDependentOutputException:
                    continue
            real = op.op(sample.input, *sample.args, **sample.kwargs)
            for expected, found in zip(tensors_in(real), tensors_in(fake), strict=True):
                self.assertEqual(expected.shape, found.shape)
                self.assertEqual(expected.dtype, found.dtype)
                self.assertEqual(expected.device, found.device)


def gradient_inputs(op: Any, device: str, dtype: torch.dtype) -> Iterator[tuple[Any, tuple[torch.Tensor, ...]]]:
    """Yield functions of the inputs that need a gradient, with these inputs."""
    for sample in islice(op.sample_inputs(device, dtype, requires_grad=True, small_inputs_only=True), FEW):
        everything = (sample.input, *sample.args, sample.kwargs)
        flat, structure = torch.utils._pytree.tree_flatten(everything)
        where = [i for i, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]

        def call(
            *inputs: torch.Tensor,
            flat: list[Any] = flat,
            where: list[int] = where,
            structure: Any = structure,
            sample: Any = sample,
        ) -> Any:
            given = list(flat)
            for i, value in zip(where, inputs, strict=True):
                given[i] = value
            *positional, named = torch.utils._pytree.tree_unflatten(given, structure)
            torch.manual_seed(0)
            result = op.gradcheck_wrapper(op.op, *positional, **named)
            if sample.output_process_fn_grad is not None:
                result = sample.output_process_fn_grad(result)
            return tuple(t for t in tensors_in(result) if t.is_floating_point() or t.is_complex())

        inputs = tuple(flat[i] for i in where)
        if inputs and any(result.requires_grad for result in call(*inputs)):
            yield call, inputs


class TestForeach(TestCase):
    """After test_foreach.py."""

    @ops(FOREACH, allowed_dtypes=FOREACH_DTYPES)  # type: ignore[untyped-decorator]
    def test_equals_the_cpu(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for variant in filter(None, (op.method_variant, op.inplace_variant)):
            for sample in islice(op.sample_inputs("cpu", dtype), 30):
                found = []
                for mover in (Mover("cpu"), Mover(device)):
                    positional, named = mover.move((sample.input, *sample.args)), mover.move(sample.kwargs)
                    try:
                        result = variant(*positional, **named)
                    except (RuntimeError, TypeError) as error:
                        result = type(error).__name__  # such as a result that does not fit the type of an input
                    found.append(leaves("result", result) + leaves("inputs", positional))
                self.assertEqual(difference(found[0], found[1], torch.device(device).type), "")


class TestModules(TestCase):
    """After test_modules.py."""

    @modules(common_modules.module_db, allowed_dtypes=(torch.float32,))  # type: ignore[untyped-decorator]
    def test_equals_the_cpu(self, device: str, dtype: torch.dtype, module_info: Any, training: bool) -> None:
        for module, sample in cases(module_info, dtype, training):
            there = copy.deepcopy(module).to(device)
            found = []
            for part, mover in ((module, Mover("cpu")), (there, Mover(device))):
                torch.manual_seed(0)
                positional, named = mover.move(sample.forward_input.args), mover.move(sample.forward_input.kwargs)
                result = part(*positional, **named)
                total = sum(t.sum() for t in tensors_in(result) if t.requires_grad)
                if isinstance(total, torch.Tensor):
                    torch.autograd.backward(total)
                found.append(leaves("result", result) + leaves("gradient", [p.grad for p in part.parameters()]))
            self.assertEqual(difference(found[0], found[1], torch.device(device).type), "")

    @modules(common_modules.module_db, allowed_dtypes=(torch.float32,))  # type: ignore[untyped-decorator]
    def test_factories_copies_and_pickles(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for sample in module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        ):
            arguments, options = sample.constructor_input.args, sample.constructor_input.kwargs
            module = module_info.module_cls(*arguments, **options).to(device, dtype)
            if any(torch.nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
                continue
            copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), module.to("cpu").to(device)]
            for each in copies:
                self.assertEqual(module.state_dict(), each.state_dict())
                for tensor in (*each.parameters(), *each.buffers()):
                    self.assertEqual(tensor.device.type, torch.device(device).type)


def cases(module_info: Any, dtype: torch.dtype, training: bool) -> Iterator[tuple[Any, Any]]:
    """Yield modules on the CPU with their inputs."""
    for sample in module_info.module_inputs_func(
        module_info, device="cpu", dtype=dtype, requires_grad=False, training=training
    ):
        if sample.forward_input is None:
            continue
        torch.manual_seed(0)
        module = module_info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        yield module.to(dtype).train(training), sample


class TestOptimizers(TestCase):
    """After test_optim.py."""

    @optims(common_optimizers.optim_db, dtypes=[torch.float32])  # type: ignore[untyped-decorator]
    def test_equals_the_cpu(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        for chosen in optim_info.optim_inputs_func(device=device):
            for implementation in ({}, *({name: True} for name in optim_info.supported_impls if name != "capturable")):
                if "differentiable" in implementation or "capturable" in chosen.kwargs:
                    continue
                found = []
                for place in ("cpu", device):
                    torch.manual_seed(0)
                    weights = [torch.randn(5, 5).to(place).requires_grad_() for _ in range(2)]
                    options = {
                        name: value.to(place) if isinstance(value, torch.Tensor) and value.dim() else value
                        for name, value in chosen.kwargs.items()
                    }
                    optimizer = optim_info.optim_cls(weights, **{**options, **implementation})

                    def closure(weights: list[torch.Tensor] = weights, optimizer: Any = optimizer) -> torch.Tensor:
                        optimizer.zero_grad()
                        loss = torch.stack([weight.square().sum() for weight in weights]).sum()
                        torch.autograd.backward(loss)
                        return loss

                    for _ in range(3):
                        optimizer.step(closure)
                    found.append([weight.detach().cpu() for weight in weights])
                self.assertEqual(found[0], found[1], msg=f"{chosen.desc} {implementation}")


class TestFunctions(TestCase):
    """After test_autograd_function and the tests of custom operators in functorch."""

    @ops([*autograd_function_db, *custom_op_db], allowed_dtypes=(torch.float32,))  # type: ignore[untyped-decorator]
    def test_equals_the_cpu(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
            found = []
            for mover in (Mover("cpu"), Mover(device)):
                positional, named = mover.move((sample.input, *sample.args)), mover.move(sample.kwargs)
                result = op.op(*positional, **named)
                total = sum(t.sum() for t in tensors_in(result) if t.requires_grad)
                if isinstance(total, torch.Tensor):
                    torch.autograd.backward(total)
                gradients = [t.grad for t in tensors_in(positional) if t.is_leaf]
                found.append(leaves("result", result) + leaves("gradient", gradients))
            self.assertEqual(difference(found[0], found[1], torch.device(device).type), "")


for case in (TestOperators, TestForeach, TestModules, TestOptimizers, TestFunctions):
    instantiate_device_type_tests(case, globals(), only_for=(DEVICE, "cpu"))


def reason(text: str) -> str:
    """Return the last exception of a traceback in a line."""
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "To execute", "This message"))]
    named = [i for i, line in enumerate(lines) if "Error" in line.partition(":")[0] or "Exception" in line]
    return " ".join(lines[named[-1] :] if named else lines[-1:])[:200]


def main(output: Path | None, rest: list[str]) -> None:
    """Run the tests and write what they came to; the rest are arguments of unittest."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    program = unittest.main(module=__name__, argv=[sys.argv[0], *rest], exit=False, warnings="ignore")
    done = program.result
    failed = {name(test): reason(text) for test, text in (*done.failures, *done.errors)}
    both = {test: text for test, text in failed.items() if DEVICE in test and test.replace(DEVICE, "cpu") in failed}
    own = {test: text for test, text in failed.items() if DEVICE in test and test not in both}
    skipped = sum(1 for test, _ in done.skipped if DEVICE in name(test))
    tests = done.testsRun // 2
    print(f"{tests} tests, {skipped} skipped by PyTorch, {len(both)} fail on the CPU too, {len(own)} here only")
    for test, text in sorted(own.items()):
        print(f"  {test}: {text}")
    if output is not None:
        figures = {"tests": tests, "skipped": skipped, "both": both, "own": own}
        document = {"torch": str(torch.__version__), **figures}
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def name(test: unittest.TestCase) -> str:
    """Return the test's name without its class, which is called after the device in capitals."""
    case, _, method = test.id().rpartition(".")
    family = case.rpartition(".")[2].removesuffix("CPU").removesuffix(DEVICE.upper()).removesuffix("PRIVATEUSE1")
    return f"{family}.{method}"
