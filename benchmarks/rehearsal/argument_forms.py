"""A program that calls every renamed callable of a target's table in each form of arguments that CUDA's takes.

The forms are made from the signature in torch; only what a parameter needs beside a device is told here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch

from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target

DEVICES = ("0", '"cuda"', '"cuda:0"', 'torch.device("cuda")', 'torch.device("cuda", 0)', "None")
NUMBERS = ("0", "None")
NUMBERED = ("0", '"cuda:0"', 'torch.device("cuda", 0)')

_DEVICE = frozenset({"device", "peer_device"})

NEEDED = {
    "allocator": "",
    "callables": "",
    "autocast_fwd": "",
    "bwd": "",
    "cuda_graph": "torch.cuda.CUDAGraph()",
    "debug_mode": '"default"',
    "fraction": "0.5",
    "mem_ptr": "torch.cuda.caching_allocator_alloc(64)",
    "new_state": "torch.cuda.get_rng_state()",
    "new_states": "torch.cuda.get_rng_state_all()",
    "obj": "torch.ones(1).cuda()",
    "pool": "torch.cuda.MemPool()",
    "seed": "1",
    "size": "64",
    "stream": "torch.cuda.current_stream()",
    "stream_ptr": "torch.cuda.current_stream().cuda_stream",
    "mempool_id": "None",
}
"""What stands for a parameter; an empty text for what a program does not make in one line."""

WITH_INDEX = frozenset(
    {
        "caching_allocator_alloc",
        "can_device_access_peer.peer_device",
        "get_per_process_memory_fraction",
        "set_device",
        "set_per_process_memory_fraction",
        "use_mem_pool",
    }
)
"""CUDA itself refuses a device without an index here (torch 2.13 `torch/cuda/__init__.py`)."""

MOVERS = {
    "Tensor": ("torch.ones(2)", ("device", "non_blocking", "memory_format")),
    "Parameter": ("torch.nn.Parameter(torch.ones(2))", ("device", "non_blocking")),
    "Module": ("torch.nn.Linear(2, 2)", ("device",)),
    "LSTM": ("torch.nn.LSTM(2, 2)", ("device",)),
    "ScriptModule": ("torch.jit.script(torch.nn.Linear(2, 2))", ("device",)),
    "PackedSequence": ("torch.nn.utils.rnn.pack_sequence([torch.ones(2)])", ("device", "non_blocking")),
    "UntypedStorage": ("torch.ones(2).untyped_storage()", ("device", "non_blocking")),
    "TypedStorage": ("torch.ones(2).storage()", ("device", "non_blocking")),
}
"""What has a method `cuda`, and its parameters. CUDA's own takes a number alone for storages, and no None for packed
sequences, which hand on to `.to()` what they are given (torch 2.13 `torch/_utils.py`, `torch/nn/utils/rnn.py`)."""

_VALUES = {"non_blocking": "True", "memory_format": "torch.preserve_format"}

HEAD = '''"""Calls in every form of their arguments."""

import torch


def entered(value):
    if hasattr(value, "__enter__"):
        with value:
            pass
    device = getattr(value, "device", None)
    return getattr(device, "type", device) if not isinstance(value, torch.Tensor) else device.type
'''


def program(target: Target) -> str:
    """Return the text of the program for a target."""
    parts = [HEAD]
    for name, calls in [*_of_table(target), *_of_movers()]:  # without a call where `not_called` has the name
        for number, call in enumerate(dict.fromkeys(calls)):
            parts.append(f"\n\ndef probe_{name}__{number:02}():\n    return entered({call})\n")
    return "".join(parts)


def not_called(target: Target) -> list[str]:
    """Return the renamed callables that the program does not call, since `NEEDED` has no value for a parameter."""
    return [name for name, calls in _of_table(target) if not calls]


def _of_table(target: Target) -> Iterator[tuple[str, list[str]]]:
    for row in target.backend.table("api"):
        name = row.name.removeprefix("torch.cuda.")
        if row.status not in REWRITTEN or not row.holds_for(target.version) or "." in name.removeprefix("amp."):
            continue
        value: Any = torch.cuda
        for part in name.split(".") if name != row.name else ():
            value = getattr(value, part, None)
        if value is torch.cuda or not callable(value) or re.search(r"Tensor$|Storage$|Error$", name):
            continue
        yield name.replace(".", "_"), _calls(row.name, name, inspect.signature(value))


def _calls(path: str, name: str, signature: inspect.Signature) -> list[str]:
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    parameters = [each for each in signature.parameters.values() if each.kind in kinds]
    needed = [each for each in parameters if each.default is each.empty]
    values: dict[str, str] = {}
    for each in needed:
        values[each.name] = "0" if each.name in _DEVICE else NEEDED.get(each.name, "")
        if not values[each.name]:
            return []
    plain = ", ".join(values[each.name] for each in needed)
    calls = [f"{path}({plain})", f"{path}({', '.join(f'{key}={value}' for key, value in values.items())})"]
    for position, each in enumerate(parameters):
        others = {key: value for key, value in values.items() if key != each.name}
        before = [values.get(other.name, repr(other.default)) for other in parameters[:position]]
        for form in _forms(name, each):
            named = [f"{key}={value}" for key, value in {**others, each.name: form}.items()]
            calls.append(f"{path}({', '.join(named)})")
            if each.kind is each.POSITIONAL_OR_KEYWORD and not any("<" in text for text in before):
                after = [values[other.name] for other in parameters[position + 1 :] if other in needed]
                calls.append(f"{path}({', '.join([*before, form, *after])})")
    return calls


def _forms(name: str, parameter: inspect.Parameter) -> tuple[str, ...]:
    if parameter.name in _DEVICE:
        if name in WITH_INDEX or f"{name}.{parameter.name}" in WITH_INDEX:
            return NUMBERED
        return DEVICES if parameter.default is None else DEVICES[:-1]
    if parameter.default is parameter.empty or "<" in repr(parameter.default):
        return ()
    return (repr(parameter.default),)


def _of_movers() -> Iterator[tuple[str, list[str]]]:
    for kind, (made, parameters) in MOVERS.items():
        calls = [f"{made}.cuda()"]
        for form in NUMBERS if "Storage" in kind else NUMBERED if kind == "PackedSequence" else DEVICES:
            calls += [f"{made}.cuda({form})", f"{made}.cuda(device={form})"]
            if "non_blocking" in parameters and kind != "PackedSequence":
                calls += [f"{made}.cuda({form}, True)", f"{made}.cuda(device={form}, non_blocking=True)"]
        calls += [f"{made}.cuda({name}={_VALUES[name]})" for name in parameters if name in _VALUES]
        yield f"cuda_of_{kind}", calls
