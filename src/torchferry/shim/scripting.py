"""TorchScript: devices that are written into a program's graph, and `.cuda()` in it.

Scripting goes on as before: what comes out of `torch.jit.script`, `trace` and `load` gets the card's devices in place
of CUDA's. Python wrappers have no say inside a graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches


def patch(patches: Patches, devices: Devices) -> None:
    """Redirect what TorchScript makes."""
    for name in ("script", "trace", "trace_module", "load", "freeze"):
        patches.set(torch.jit, name, _redirected(getattr(torch.jit, name), devices))


def _redirected(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        if devices.to_card:
            for graph in _graphs(made):
                _to_card(graph, graph, devices)
        return made

    return call


def _graphs(made: Any) -> Iterator[Any]:
    """Yield the graphs of a script: of a function, or of every method of a module and what it holds."""
    if isinstance(made, torch.jit.ScriptFunction):
        yield made.graph
    elif isinstance(made, torch.jit.ScriptModule):
        for module in made.modules():
            script: Any = getattr(module, "_c", None)
            for name in script._method_names() if script is not None else ():
                yield script._get_method(name).graph
    functions: Any = torch.jit._state._python_cu.get_functions  # its type stub gives it no result
    for function in functions():
        yield function.graph


def _to_card(graph: Any, block: Any, devices: Devices) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks():
            _to_card(graph, inner, devices)
        if node.kind() == "prim::Constant" and node.output().type().str() == "Device":
            card = devices.to_card.get(node.s("value"))
            if card is not None:
                node.s_("value", str(card))
        elif node.kind() == "aten::cuda":
            _moved(graph, node, devices)


def _moved(graph: Any, node: Any, devices: Devices) -> None:
    """Put `to(device)` in place of `cuda()`."""
    graph.setInsertPoint(node)
    no, none = graph.insertConstant(False), graph.insertConstant(None)
    device = graph.insertConstant(torch.device(devices.card))
    moved = graph.insertNode(graph.create("aten::to", [node.inputsAt(0), device, none, no, no], 1))
    moved.output().setType(node.output().type())
    node.output().replaceAllUsesWith(moved.output())
    node.destroy()
