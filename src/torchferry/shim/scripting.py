"""TorchScript: devices that are written into a program's graph, and `.cuda()` in it.

Scripting goes on as before: what comes out of `torch.jit.script`, `trace` and `load` gets the card's devices in place
of CUDA's. Python wrappers have no say inside a graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.core.messages import say
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver
from torchferry.shim.signatures import parameters

_TORCHS_OWN = "__torch__.torch."
"""How the names of torch's own scripted functions begin, which see the card."""

_AUTOCAST = "__torch__.torch.amp.autocast_mode.autocast"

_FRAMES_UP = "_frames_up"
"""Parameter that says how many frames above the call the names of a scripted class are looked up; ours is one more."""


def patch(patches: Patches, resolver: Resolver) -> None:
    """Redirect what TorchScript makes."""
    for name in ("script", "trace", "trace_module", "load", "freeze"):
        patches.set(torch.jit, name, _redirected(getattr(torch.jit, name), resolver))


def _redirected(original: Callable[..., Any], resolver: Resolver) -> Callable[..., Any]:
    devices = resolver.devices
    refused: set[str] = set()
    names = parameters(original)
    depth = names.index(_FRAMES_UP) if _FRAMES_UP in names else None

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if depth is not None:
            if depth < len(args):
                args = (*args[:depth], args[depth] + 1, *args[depth + 1 :])
            else:
                kwargs[_FRAMES_UP] = kwargs.get(_FRAMES_UP, 0) + 1
        made = original(*args, **kwargs)
        if devices.to_card:
            attributes: set[str] = set()
            for script, graph in _graphs(made):
                if script not in refused and _autocasts(graph):
                    if script:
                        refused.add(script)  # torch keeps it, and the next script is another matter
                    text = say(
                        "TorchScript's own autocast serves `cpu` and `cuda` alone, so this script would not change its"
                        " dtype on {target}; write `torch.autocast` around the call of the script",
                        target=resolver.target.title,
                    )
                    raise NotImplementedError(f"torchferry: {text}")
                _to_card(graph, graph, devices, attributes)
                graph.setInsertPoint(graph.return_node())  # where it stood may be a node that is gone
            _move_attributes(made, attributes, devices)
        return made

    return call


def _graphs(made: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs of a function, or of all methods of a module, and the names of those that torch keeps."""
    if isinstance(made, torch.jit.ScriptFunction):
        yield made.qualified_name, made.graph
    elif isinstance(made, torch.jit.ScriptModule):
        for module in made.modules():
            script: Any = getattr(module, "_c", None)
            for name in script._method_names() if script is not None else ():
                yield "", script._get_method(name).graph
    functions: Any = torch.jit._state._python_cu.get_functions  # its type stub gives it no result
    for function in functions():
        if not function.qualified_name.startswith(_TORCHS_OWN):
            yield function.qualified_name, function.graph


def _autocasts(block: Any) -> bool:
    """Whether a script enters `torch.autocast("cuda")`."""
    for node in block.nodes():
        if any(_autocasts(inner) for inner in node.blocks()):
            return True
        if node.kind() == "prim::CallMethod" and node.inputsAt(0).type().str() == _AUTOCAST:
            kinds = [value.node() for value in node.inputs() if value.type().str() == "str"]
            if any(kind.kind() == "prim::Constant" and kind.s("value") == cuda.DEVICE_TYPE for kind in kinds):
                return True
    return False


def _to_card(graph: Any, block: Any, devices: Devices, attributes: set[str]) -> None:
    """Rewrite a block, and add to `attributes` the names of those that it reads devices from."""
    for node in list(block.nodes()):
        for inner in node.blocks():
            _to_card(graph, inner, devices, attributes)
        if node.kind() == "prim::Constant" and node.output().type().str() == "Device":
            card = devices.to_card.get(node.s("value"))
            if card is not None:
                node.s_("value", str(card))
        elif node.kind() == "prim::GetAttr" and node.output().type().str() == "Device":
            attributes.add(node.s("name"))
        elif node.kind() == "aten::cuda":
            _moved(graph, node, devices)
        elif node.kind() == "prim::is_cuda":
            _asked(graph, node, devices)
        elif node.kind() in {"aten::eq", "aten::ne"}:
            _compared(graph, node, devices)


def _move_attributes(made: Any, names: set[str], devices: Devices) -> None:
    """Devices that a scripted module holds are read when it runs."""
    for module in made.modules() if isinstance(made, torch.jit.ScriptModule) else ():
        script: Any = getattr(module, "_c", None)
        for name in names:
            if script is not None and script.hasattr(name):
                held = script.getattr(name)
                card = devices.of(held)
                if card is not held:
                    script.setattr(name, card)


def _asked(graph: Any, node: Any, devices: Devices) -> None:
    """Put `device.type == card` in place of `is_cuda`, which asks for CUDA's tensors alone."""
    graph.setInsertPoint(node)
    device = graph.insertNode(graph.create("prim::device", [node.inputsAt(0)], 1)).output()
    device.setType(torch._C.DeviceObjType.get())
    kind = graph.insertNode(graph.create("prim::type", [device], 1)).output()
    kind.setType(torch._C.StringType.get())
    equal = graph.insertNode(graph.create("aten::eq", [kind, graph.insertConstant(devices.card)], 1)).output()
    equal.setType(torch._C.BoolType.get())
    node.output().replaceAllUsesWith(equal)
    node.destroy()


def _compared(graph: Any, node: Any, devices: Devices) -> None:
    """Compare a device's type with the card's where the program says `cuda`."""
    for i, other in ((0, 1), (1, 0)):
        constant = node.inputsAt(i).node()
        if node.inputsAt(other).node().kind() != "prim::type" or constant.kind() != "prim::Constant":
            continue
        if node.inputsAt(i).type().str() == "str" and constant.s("value") == cuda.DEVICE_TYPE:
            graph.setInsertPoint(node)
            node.replaceInput(i, graph.insertConstant(devices.card))


def _moved(graph: Any, node: Any, devices: Devices) -> None:
    """Put `to(device)` in place of `cuda()`."""
    graph.setInsertPoint(node)
    no, none = graph.insertConstant(False), graph.insertConstant(None)
    device = graph.insertConstant(torch.device(devices.card))
    moved = graph.insertNode(graph.create("aten::to", [node.inputsAt(0), device, none, no, no], 1))
    moved.output().setType(node.output().type())
    node.output().replaceAllUsesWith(moved.output())
    node.destroy()
