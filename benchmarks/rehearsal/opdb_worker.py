"""A part of one suite of opdb.py, in a process of its own: it may be ended by a crash or from outside at any time."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

import torchferry.rehearsal
from benchmarks.rehearsal.comparison import Leaves, Mover, difference, leaves, loss, not_further, tensors_in

LAYOUTS = {
    "coo": torch.sparse_coo,
    "csr": torch.sparse_csr,
    "csc": torch.sparse_csc,
    "bsr": torch.sparse_bsr,
    "bsc": torch.sparse_bsc,
}
"""Modes with sparse inputs."""

UNINITIALISED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Their elements are whatever was there, on any device."""


class OutOfTimeError(Exception):
    """An operator took longer than it may."""


class NoReferenceError(Exception):
    """The CPU's own answers contradict one another."""


def title(op: Any) -> str:
    """Return the operator's name with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def check(condition: bool, text: str) -> None:
    """Raise where a promise is broken that no value shows, such as the identity of a result."""
    if not condition:
        raise AssertionError(text)


def call(op: Callable[..., Any], positional: tuple[Any, ...], named: dict[str, Any], device: str) -> Any:
    """Call with the same random numbers on every device; factories that name no device get one."""
    torch.manual_seed(1)
    if tensors_in(positional, named) or "device" in named:
        return op(*positional, **named)
    with torch.device(device):
        return op(*positional, **named)


@functools.cache
def draws(name: str) -> bool:
    """Whether an operator takes random numbers, which fill a tensor in the order of its memory."""
    packet = getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]
    return any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads)


def forward(op: Any, sample: Any, mover: Mover) -> Leaves:
    """Results, and the inputs afterwards: nothing else may have been written."""
    positional, named = mover.move((sample.input, *sample.args)), mover.move(sample.kwargs)
    result = call(op.op, positional, named, mover.device)
    return leaves("result", result) + leaves("input afterwards", tensors_in(positional, named))


def backward(op: Any, sample: Any, mover: Mover) -> Leaves:
    """Results and the gradients of all inputs."""
    positional, named = mover.move((sample.input, *sample.args)), mover.move(sample.kwargs)
    result = call(op.op, positional, named, mover.device)
    seen = sample.output_process_fn_grad(result) if sample.output_process_fn_grad else result
    value = loss([seen])
    if value is not None:
        torch.autograd.backward(value)
    gradients = [t.grad for t in tensors_in(positional, named) if t.is_leaf and t.grad is not None]
    return leaves("result", result) + leaves("gradient", gradients)


def in_place(op: Any, sample: Any, mover: Mover) -> Leaves:
    """The input itself comes back, in its own memory."""
    positional, named = mover.move((sample.input, *sample.args)), mover.move(sample.kwargs)
    before = [t.data_ptr() for t in tensors_in(positional[0])]
    result = call(op.inplace_variant, positional, named, mover.device)
    if isinstance(positional[0], torch.Tensor):
        check(result is positional[0], "the in-place variant returns another tensor")
    if op.name not in {"resize_", "resize_as_"}:
        check(before == [t.data_ptr() for t in tensors_in(positional[0])], "the in-place variant moved the tensor")
    return leaves("input afterwards", tensors_in(positional, named))


def out(op: Any, sample: Any, mover: Mover) -> Leaves:
    """`out=` of no elements grows; one of the right size is written where it is, whatever its strides."""
    if "out" in sample.kwargs:
        raise NotImplementedError
    plain = call(op.op, mover.move((sample.input, *sample.args)), mover.move(sample.kwargs), mover.device)
    certain = op.name not in UNINITIALISED and not draws(op.aten_name)
    if not tensors_in(plain) or any(not isinstance(t, torch.Tensor) for t in leaves_of(plain)):
        raise NotImplementedError
    found: Leaves = []
    for label, target in (("out= of no elements", grown), ("out=", torch.empty_like), ("out= transposed", transposed)):
        positional, named = mover.move((sample.input, *sample.args)), mover.move(sample.kwargs)
        if target is transposed and any(t.dim() != 2 for t in tensors_in(plain)):
            continue  # the CPU's triu and tril write beyond such a tensor of more dimensions (torch 2.13)
        given = tree_map(target, plain) if isinstance(plain, torch.Tensor) else tuple(map(target, plain))
        addresses = [t.data_ptr() for t in tensors_in(given)]
        result = call(op.op, positional, {**named, "out": given}, mover.device)
        for mine, theirs in zip(tensors_in(given), tensors_in(result), strict=True):
            check(mine is theirs, f"{label}: another tensor comes back")
        if target is not grown:
            check(addresses == [t.data_ptr() for t in tensors_in(given)], f"{label}: the tensor was moved")
        if mover.device == "cpu" and certain:
            contradiction = difference(leaves(label, plain), leaves(label, given), "cpu", strides=False)
            if contradiction:
                raise NoReferenceError(contradiction)
        found += leaves(label, given)
    return found


def leaves_of(value: Any) -> list[Any]:
    """Return what is in a result, without labels."""
    return [leaf for _, leaf in leaves("", value)]


def grown(like: torch.Tensor) -> torch.Tensor:
    """Return a tensor that has to grow."""
    return torch.empty(0, dtype=like.dtype, device=like.device)


def transposed(like: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape with its strides the other way round."""
    shape = tuple(reversed(like.shape))
    return torch.empty(shape, dtype=like.dtype, device=like.device).permute(*reversed(range(like.dim())))


MODES: dict[str, Callable[[Any, Any, Mover], Leaves]] = {
    "forward": forward,
    "backward": backward,
    "inplace": in_place,
    "out": out,
    "noncontiguous": forward,
    **dict.fromkeys(LAYOUTS, forward),
    **{f"{layout}-backward": backward for layout in LAYOUTS},
}


def applies(op: Any, mode: str, dtype: torch.dtype) -> bool:
    """Whether the operator has such a mode for the dtype on the CPU."""
    if dtype not in op.dtypes:
        return False
    if mode.endswith("backward"):
        return bool(op.supports_autograd) and dtype in op.supported_backward_dtypes("cpu")
    if mode == "out":
        return bool(op.supports_out)
    return mode != "inplace" or op.inplace_variant is not None


def sparse_samples(op: Any, layout: torch.layout, dtype: torch.dtype, *, requires_grad: bool) -> Iterator[Any]:
    """Yield the database's own sparse inputs; for an operator that takes such and has none, dense ones made sparse."""
    if not op.supports_sparse_layout(layout):
        return
    try:
        yield from op.sample_inputs_sparse(layout, "cpu", dtype, requires_grad=requires_grad)
    except NotImplementedError:
        block = (1, 1) if layout in {torch.sparse_bsr, torch.sparse_bsc} else None
        for sample in op.sample_inputs("cpu", dtype):
            if isinstance(sample.input, torch.Tensor) and (layout == torch.sparse_coo or sample.input.dim() == 2):
                sample.input = sample.input.to_sparse(layout=layout, blocksize=block).requires_grad_(requires_grad)
                yield sample


def samples(op: Any, mode: str, dtype: torch.dtype, most: int) -> Iterator[Any]:
    """Yield inputs on the CPU."""
    torch.manual_seed(0)
    layout, _, direction = mode.partition("-")
    if layout in LAYOUTS:
        made = sparse_samples(op, LAYOUTS[layout], dtype, requires_grad=direction == "backward")
    else:
        made = op.sample_inputs("cpu", dtype, requires_grad=mode == "backward")
    for number, sample in enumerate(made):
        if number == most:
            return
        yield sample.noncontiguous() if mode == "noncontiguous" else sample


def measure(op: Any, mode: str, dtype: torch.dtype, device: str, most: int) -> dict[str, object]:
    """Return how many samples agree; `control` means that the CPU does not agree with itself either."""
    agree, rounded, control, number = 0, 0, 0, 0
    first = ""
    run = MODES[mode]
    for sample in samples(op, mode, dtype, most):
        try:
            expected = run(op, sample, Mover("cpu"))
        except OutOfTimeError:
            raise
        except NoReferenceError as error:
            number, control, first = number + 1, control + 1, first or str(error)
            continue
        except Exception:
            continue  # what the CPU does not do is no measure for the device
        number += 1
        text, found = attempt(run, op, sample, device, expected)
        if not text:
            agree += 1
        elif attempt(run, op, sample, "cpu", expected)[0]:
            control += 1
        elif found is not None and nearer(run, op, sample, expected, found):
            agree, rounded = agree + 1, rounded + 1
        first = first or text
    failed = number - agree - control
    result = "fail" if failed else "control" if control else "pass" if number else "no sample"
    return {
        "result": result,
        "samples": number,
        "agree": agree,
        "rounded": rounded,
        "control": control,
        "first": first if result in {"fail", "control"} or rounded else "",
    }


def attempt(
    run: Callable[..., Leaves], op: Any, sample: Any, device: str, expected: Leaves
) -> tuple[str, Leaves | None]:
    """Return what differs on `device`, and what was found there."""
    try:
        found = run(op, sample, Mover(device))
        text = difference(expected, found, device, values=op.name not in UNINITIALISED)
    except OutOfTimeError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", None
    return text, found


def nearer(run: Callable[..., Leaves], op: Any, sample: Any, expected: Leaves, found: Leaves) -> bool:
    """Whether the device, which multiplies halves in float32, is as near to double precision as the CPU is."""
    try:
        return not_further(run(op, sample, Mover("cpu", widen=True)), expected, found)
    except OutOfTimeError:
        raise
    except Exception:
        return False


def main() -> None:
    """Measure the part of the operators that the parent names, and append a line for each to its file."""
    plan = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    device = torchferry.rehearsal.enable(plan["target"], devices=2, plugin=plan["plugin"]).backend.DEVICE_TYPE

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGALRM, interrupt)
    path = Path(plan["file"])
    done = {json.loads(line)["op"] for line in path.read_text().splitlines() if '"started"' not in line}
    dtype = getattr(torch, plan["dtype"])
    with open(path, "a", encoding="utf-8") as file:

        def put(op: str, fields: dict[str, object]) -> None:
            file.write(json.dumps({"op": op, "shard": plan["shard"], **fields}) + "\n")
            file.flush()

        for number, op in enumerate(op_db):
            name = title(op)
            if number % plan["shards"] != plan["shard"] or name in done or (plan["only"] and name not in plan["only"]):
                continue
            if not applies(op, plan["mode"], dtype):
                put(name, {"result": "does not apply"})
                continue
            put(name, {"result": "started"})
            begin = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, plan["seconds"])
            try:
                fields = measure(op, plan["mode"], dtype, device, plan["samples"])
            except OutOfTimeError:
                fields = {"result": "out of time"}
            except Exception as error:
                fields = {"result": "no sample", "first": f"{type(error).__name__}: {error}"[:200]}
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            put(name, {**fields, "seconds": round(time.monotonic() - begin, 2)})
    sys.stdout.flush()
    os._exit(0)  # nothing is left to tidy up, and a crash on the way out would be taken for an operator's


if __name__ == "__main__":
    main()
