"""Code that is traced or compiled: `torch.compile`, `torch.export`, `make_fx`, TorchScript.

A tracer answers what a program asks of a tensor's device from its own record of the tensor, past the attributes of
`torch.Tensor`. The one who asks is the module whose code is traced.

TorchScript has the devices written into a program's graph. Scripting goes on as before: what comes out of
`torch.jit.script`, `trace` and `load` gets the card's devices in place of CUDA's, since Python wrappers have no say
inside a graph.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say
from torchferry.shim import torch_versions
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.devices import Devices, parameter_names
from torchferry.shim.patch_tensors import shown_device
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

_OWN_DEVICE = (
    ("torch._subclasses.fake_tensor", "FakeTensor"),
    ("torch.nn.utils._expanded_weights.expanded_weights_impl", "ExpandedWeight"),
    ("torch.distributed.tensor._shards_wrapper", "LocalShardsWrapper"),
)
"""torch's tensor classes with an attribute `device` of their own: `torch.export` and `make_fx` trace with the first."""


_COMPILER = "torch._inductor.compile_fx"
"""Module of inductor, the default backend of `torch.compile`, and its function `compile_fx`."""


def patch_compile(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect each tracer, once it is imported; a torch whose tracer is built otherwise keeps its own answers."""
    devices = resolver.devices

    def step(module: ModuleType) -> None:
        tensor = module.TensorVariable
        for name in ("method_attr_device", "method_attr_is_cuda"):
            original = vars(tensor).get(name)
            if original is not None:
                patches.set(tensor, name, _shown_to_tracer(original, name, module, devices, policy))

    patches.when_imported("torch._dynamo.variables.tensor", step)
    for path, name in _OWN_DEVICE:
        patches.when_imported(path, _show_device(patches, name, devices, policy))

    def explain(module: ModuleType) -> None:
        patches.set(module, "compile_fx", _explained(module.compile_fx, resolver.target))

    patches.when_imported(_COMPILER, explain)


def _explained(original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    """Return inductor's entry; where it fails for want of a code generator or of Triton, the reason is said."""

    @functools.wraps(original)
    def compile_fx(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as error:
            reason = _reason(error, target) if _concerns(args, target.backend.DEVICE_TYPE) else None
            if reason is None:
                raise
            text = say("{reason}; TORCH_COMPILE_DISABLE=1 runs the program without torch.compile", reason=reason)
            raise NotImplementedError(f"torchferry: {noted(text, target.api('torch.compile').remark)}") from error

    return compile_fx


def _reason(error: BaseException, target: Target) -> Message | None:
    from torch._inductor.codegen.common import get_scheduling_for_device

    device = target.backend.DEVICE_TYPE
    if get_scheduling_for_device(device) is None:
        return say(
            "`torch.compile` with inductor generates no code for {target}: the installed plugin registers nothing for"
            " `{device}`",
            target=target.title,
            device=device,
        )
    if "triton" in f"{type(error).__name__} {error}".lower():
        return say("`torch.compile` with inductor fails on {target}: {error}", target=target.title, error=error)
    return None


def _concerns(args: tuple[Any, ...], device: str) -> bool:
    """Whether a graph, or what it is given, has a tensor on the card."""
    graph = getattr(args[0], "graph", None) if args else None
    values = [value for node in getattr(graph, "nodes", ()) for value in (node.meta.get("example_value"),)]
    given = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return any(isinstance(value, torch.Tensor) and value.device.type == device for value in (*values, *given))


def _show_device(patches: Patches, name: str, devices: Devices, policy: CallerPolicy) -> Callable[[ModuleType], None]:
    def step(module: ModuleType) -> None:
        kind: Any = getattr(module, name, None)
        device_property = vars(kind).get("device") if isinstance(kind, type) else None
        if isinstance(device_property, property) and device_property.fget is not None:
            get = shown_device(device_property.fget, devices, policy)
            patches.set(kind, "device", property(get, device_property.fset, device_property.fdel))

    return step


def _shown_to_tracer(
    original: Callable[..., Any], name: str, module: ModuleType, devices: Devices, policy: CallerPolicy
) -> Callable[..., Any]:
    asks_device = name == "method_attr_device"

    @functools.wraps(original)
    def method_attr(self: Any, tx: Any) -> Any:
        cuda_device = devices.to_cuda.get(self.device)
        if cuda_device is None or policy.decide(tx.f_globals.get("__name__", "")):
            return original(self, tx)
        value = cuda_device if asks_device else cuda_device.type == cuda.DEVICE_TYPE
        return torch_versions.traced_constant(module, tx, value)

    return method_attr


_TORCHS_OWN = "__torch__.torch."
"""How the names of torch's own scripted functions begin, which see the card."""

_AUTOCAST = "__torch__.torch.amp.autocast_mode.autocast"

_FRAMES_UP = "_frames_up"
"""Parameter that says how many frames above the call the names of a scripted class are looked up; ours is one more."""


def patch_torchscript(patches: Patches, resolver: Resolver) -> None:
    """Redirect what TorchScript makes."""
    for name in ("script", "trace", "trace_module", "load", "freeze"):
        patches.set(torch.jit, name, _scripted_for_card(getattr(torch.jit, name), resolver))


_scripting = threading.local()
"""Whether a thread is scripting something."""


def _scripted_for_card(original: Callable[..., Any], resolver: Resolver) -> Callable[..., Any]:
    devices = resolver.devices
    refused: set[str] = set()
    names = parameter_names(original)
    depth = names.index(_FRAMES_UP) if _FRAMES_UP in names else None

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if depth is not None:
            if depth < len(args):
                args = (*args[:depth], args[depth] + 1, *args[depth + 1 :])
            else:
                kwargs[_FRAMES_UP] = kwargs.get(_FRAMES_UP, 0) + 1
        # torch scripts what a function calls while it scripts that: whose graph is not whole until then
        is_outermost = not getattr(_scripting, "is_under_way", False)
        _scripting.is_under_way = True
        try:
            scripted = original(*args, **kwargs)
        finally:
            if is_outermost:
                _scripting.is_under_way = False
        if devices.to_card and is_outermost:
            attributes: set[str] = set()
            for script, graph in _graphs(scripted):
                if script not in refused and _autocasts(graph):
                    if script:
                        refused.add(script)  # torch keeps it, and the next script is another matter
                    text = say(
                        "TorchScript's own autocast supports only `cpu` and `cuda`, so this script would not "
                        "change its dtype on {target}; put `torch.autocast` around the call of the script",
                        target=resolver.target.title,
                    )
                    raise NotImplementedError(f"torchferry: {text}")
                _to_card(graph, graph, devices, attributes)
                graph.setInsertPoint(graph.return_node())  # where it stood may be a node that is gone
            _move_attributes(scripted, attributes, devices)
        return scripted

    return call


def _graphs(scripted: Any) -> Iterator[tuple[str, Any]]:
    """Yield the graphs of a function, or of all methods of a module, and the names of those that torch keeps."""
    if isinstance(scripted, torch.jit.ScriptFunction):
        yield scripted.qualified_name, scripted.graph
    elif isinstance(scripted, torch.jit.ScriptModule):
        for module in scripted.modules():
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
            _replace_cuda_call(graph, node, devices)
        elif node.kind() == "prim::is_cuda":
            _replace_is_cuda(graph, node, devices)
        elif node.kind() in {"aten::eq", "aten::ne"}:
            _replace_comparison(graph, node, devices)


def _move_attributes(scripted: Any, names: set[str], devices: Devices) -> None:
    """Devices that a scripted module holds are read when it runs."""
    for module in scripted.modules() if isinstance(scripted, torch.jit.ScriptModule) else ():
        script: Any = getattr(module, "_c", None)
        for name in names:
            if script is not None and script.hasattr(name):
                held = script.getattr(name)
                card = devices.of(held)
                if card is not held:
                    script.setattr(name, card)


def _replace_is_cuda(graph: Any, node: Any, devices: Devices) -> None:
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


def _replace_comparison(graph: Any, node: Any, devices: Devices) -> None:
    """Compare a device's type with the card's where the program says `cuda`."""
    for i, other in ((0, 1), (1, 0)):
        constant = node.inputsAt(i).node()
        if node.inputsAt(other).node().kind() != "prim::type" or constant.kind() != "prim::Constant":
            continue
        if node.inputsAt(i).type().str() == "str" and constant.s("value") == cuda.DEVICE_TYPE:
            graph.setInsertPoint(node)
            node.replaceInput(i, graph.insertConstant(devices.card))


def _replace_cuda_call(graph: Any, node: Any, devices: Devices) -> None:
    """Put `to(device)` in place of `cuda()`."""
    graph.setInsertPoint(node)
    no, none = graph.insertConstant(False), graph.insertConstant(None)
    device = graph.insertConstant(torch.device(devices.card))
    moved = graph.insertNode(graph.create("aten::to", [node.inputsAt(0), device, none, no, no], 1))
    moved.output().setType(node.output().type())
    node.output().replaceAllUsesWith(moved.output())
    node.destroy()
