"""Encoders of torch that make nested tensors of a padded batch: `torch.nn.TransformerEncoder` with a padding mask.

The encoder takes this way where it is evaluated without gradients (torch/nn/modules/transformer.py of torch 2.13,
`TransformerEncoder.__init__` and `forward`; devices of plugins since torch 2.1). It computes the same without it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from torchferry.backends.removed import release, torch_of
from torchferry.rules.base import PythonContext, calls_to, keyword_of
from torchferry.rules.distributed.tensors import values
from torchferry.rules.object_uses import expressions_of
from torchferry.rules.value_steps import TracedExpression
from torchferry.source.flow.syntax import last_name

OPERATOR = "_transformer_encoder_layer_fwd"
"""What each layer of the encoder calls with the nested tensor."""

WORD = "src_key_padding_mask"

_SWITCHED_OFF = "set_fastpath_enabled(False)"
_SINCE = "2.1"

_ENCODER, _TRANSFORMER = "torch.nn.TransformerEncoder", "torch.nn.Transformer"
_LAYER = "torch.nn.TransformerEncoderLayer"

_PLACES = {
    _ENCODER: {"encoder_layer": 0, "enable_nested_tensor": 3},
    _TRANSFORMER: {"nhead": 1, "activation": 6, "custom_encoder": 7, "batch_first": 10, "norm_first": 11, "bias": 12},
    _LAYER: {"nhead": 1, "activation": 4, "batch_first": 6, "norm_first": 7, "bias": 8},
}
"""Parameters of the classes with their positions."""

_MASKS = {_ENCODER: {WORD: 2, "mask": 1}, _TRANSFORMER: {WORD: 5, "src_mask": 2}}
"""The padding mask of a call, and the other one with which the encoder makes no nested tensors."""

REMEDIES = {_ENCODER: "enable_nested_tensor=False", _TRANSFORMER: f"torch.backends.mha.{_SWITCHED_OFF}"}
"""What keeps each from making them."""

_ACTIVATIONS = ("relu", "gelu")

_SAME = frozenset({"to", "cuda", "eval", "train", "half", "float", "bfloat16", "double", "requires_grad_", "apply"})
"""Methods of a module that return it."""

_EVALUATED = (".eval()", ".train(False)")
_WITHOUT_GRADIENTS = ("no_grad", "inference_mode", "set_grad_enabled")


def nested_encoders(context: PythonContext) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that make an encoder which makes nested tensors where the project uses it, with their names."""
    if WORD not in context.text or release(torch_of(context.target)) < release(_SINCE):
        return
    encoders = [
        (call, name) for name, call in calls_to(context) if name in _MASKS and _takes_nested(context, name, call)
    ]
    if encoders and _is_evaluated(context):
        yield from ((call, name) for call, name in encoders if _is_given_padding(context, name, call))


def _takes_nested(context: PythonContext, name: str, call: ast.Call) -> bool:
    """Whether an encoder takes nested tensors, by what it is made of."""
    if name == _TRANSFORMER:
        return _given(call, "custom_encoder", _PLACES[name]) is None and _is_fast(context, call, name)
    switch, layer = (_given(call, each, _PLACES[name]) for each in ("enable_nested_tensor", "encoder_layer"))
    if layer is None or (isinstance(switch, ast.Constant) and not switch.value):
        return False
    layers = values(context, layer)
    if isinstance(layer, ast.Attribute) and last_name(layer.value) == "self":
        stored = context.file.attributes.get(layer.attr, ())
        statements = [context.file.parents.get(each) for each in stored if isinstance(each.ctx, ast.Store)]
        layers = [each.value for each in statements if isinstance(each, ast.Assign)]
    return bool(layers) and all(
        isinstance(each, ast.Call) and context.names.qualified(each.func) == _LAYER and _is_fast(context, each, _LAYER)
        for each in layers
    )


def _is_fast(context: PythonContext, call: ast.Call, name: str) -> bool:
    """Whether layers that a call makes have a fast way: `batch_first` is asked for, and nothing keeps them from it."""
    places = _PLACES[name]
    activation = _given(call, "activation", places)
    if isinstance(activation, (ast.Attribute, ast.Call)) and last_name(activation).lower() not in _ACTIVATIONS:
        return False
    return (
        True in _constants(context, _given(call, "batch_first", places))
        and True not in _constants(context, _given(call, "norm_first", places))
        and False not in _constants(context, _given(call, "bias", places))
        and not any(
            isinstance(heads, int) and heads % 2 for heads in _constants(context, _given(call, "nhead", places))
        )
        and all(each in _ACTIVATIONS for each in _constants(context, activation))
    )


def _constants(context: PythonContext, expression: ast.expr | None) -> list[object]:
    if expression is None:
        return []
    return [each.value for each in values(context, expression) if isinstance(each, ast.Constant)]


def _given(call: ast.Call, parameter: str, places: Mapping[str, int]) -> ast.expr | None:
    """Return what a call gives to a parameter by its name or its position; None where it is not evident."""
    keyword = keyword_of(call, parameter)
    if keyword is not None:
        return keyword.value
    before = call.args[: places[parameter] + 1]
    starred = any(isinstance(argument, ast.Starred) for argument in before)
    return before[-1] if len(before) == places[parameter] + 1 and not starred else None


def _is_evaluated(context: PythonContext) -> bool:
    """Whether the project evaluates something without gradients, and does not switch the fast way off."""

    def writes(text: str) -> bool:
        return text in context.text or (context.project is not None and context.project.writes(text))

    return any(map(writes, _EVALUATED)) and any(map(writes, _WITHOUT_GRADIENTS)) and not writes(_SWITCHED_OFF)


def _is_given_padding(context: PythonContext, name: str, call: ast.Call) -> bool:
    """Whether a call of the encoder gives it a padding mask, and no other mask."""
    padding, other = _MASKS[name]
    origin = TracedExpression(call, context.file, context.names)
    for value, above in expressions_of(context.values, [origin], _SAME | {context.target.backend.DEVICE_TYPE}):
        if isinstance(above, ast.Call) and above.func is value.node:
            if _is_given(above, padding, _MASKS[name]) and not _is_given(above, other, _MASKS[name]):
                return True
    return False


def _is_given(call: ast.Call, parameter: str, places: Mapping[str, int]) -> bool:
    """Whether a call evidently gives a parameter something, and not None."""
    given = _given(call, parameter, places)
    return given is not None and not (isinstance(given, ast.Constant) and given.value is None)
