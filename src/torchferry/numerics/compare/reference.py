"""A call run again on the CPU: in higher precision, or in the dtype of the device.

Where the CPU has no kernel for an operator, it is run by others that it has. Vendors' fused operators are described in
the data of their backends (`fused.toml`): which function of these one means, and which of its arguments are that one's.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from torchferry.backends.fused import Fused, fused_operators
from torchferry.core.messages import say
from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.snapshot import Snapshot, Untestable, replaced
from torchferry.numerics.framework.operators import Operator, tensors

# The program's random numbers, while an operator of somebody else's runs again on the CPU.
#
# Operators of torch say by a tag that they draw. One that a program registers may draw and not say so: run again, it
# would take numbers that the program is still to get.

_OWN = frozenset({"aten", "prims"})
"""Namespaces whose operators say whether they draw."""


@cache
def is_foreign(operator: Operator) -> bool:
    """Whether the reference runs code of which nothing is known: neither torch's nor a description of ours."""
    return operator.space not in _OWN and decomposition(operator) is None


def run(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operator on the CPU, as a description of ours says where there is one.

    Raises:
        Untestable: it moved a generator of the program's, which is put back.
        Exception: whatever the operator raises.
    """
    instead = decomposition(operator)
    function = operator.overload if instead is None else instead
    if not is_foreign(operator):
        return function(*args, **kwargs)
    with kept():
        return function(*args, **kwargs)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put the generators of the CPU back as they were.

    Raises:
        Untestable: one was moved.
    """
    numpy: Any = sys.modules.get("numpy.random")
    before = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.get_state()
    try:
        yield
    finally:
        moved = not torch.equal(torch.get_rng_state(), before[0]) or random.getstate() != before[1]
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpy is not None:
            moved |= not _same(numpy.get_state(), before[2])
            numpy.set_state(before[2])
    if moved:
        raise Untestable(say("the operator draws random numbers without declaring it"))


def _same(state: Any, other: Any) -> bool:
    return all(
        bool((its_own == its).all()) if hasattr(its_own, "all") else its_own == its
        for its_own, its in zip(state, other, strict=True)
    )


_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


class CpuReference:
    """Runs one call on the CPU, in the dtypes that are asked for.

    Communication, and what draws random numbers, must not come here: running it again would change the program. What
    draws without saying so is found out here, and the program's generators stay as they were.
    """

    def __init__(self, operator: Operator, snapshot: Snapshot, slots: tuple[int, ...] = ()) -> None:
        """Prepare runs of a call.

        Args:
            operator: What is called.
            snapshot: What it is given.
            slots: Numbers of the results that are asked for: those that the device gave; all where it is empty.
        """
        self._operator = operator
        self._snapshot = snapshot
        self._slots = slots
        self.further: frozenset[int] = frozenset()
        """Numbers of the results that the last run gave and nobody asked for."""
        self.args: tuple[Any, ...] = ()
        """Arguments of the last run; those that it writes to are as they were written."""
        self.kwargs: dict[str, Any] = {}
        self.change: Callable[[Tensor], Tensor] | None = None
        """What is done to the copied values first."""

    def same(self) -> list[Tensor]:
        """Return the results in the dtypes of the device.

        Raises:
            Untestable: the CPU has no kernel for it.
        """
        return self._run(lambda dtype: dtype, None)

    def wide(self, results: list[torch.dtype]) -> tuple[list[Tensor], torch.dtype]:
        """Return the results in higher precision than any dtype of the call, and the precision.

        Args:
            results: Dtypes of the device's results.

        Raises:
            Untestable: the CPU has no kernel for it.
        """
        dtypes = {*self._snapshot.dtypes(), *results}
        half = not dtypes & {torch.float32, torch.float64, torch.complex64, torch.complex128}
        choices = (torch.float32, torch.float64) if half else (torch.float64, torch.float32)
        refused: Untestable | None = None
        for choice in choices:
            if choice is torch.float32 and torch.float64 in dtypes:
                continue
            try:
                return self._run(widening(choice), choice), choice
            except Untestable as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _run(self, widen: Callable[[torch.dtype], torch.dtype], wide: torch.dtype | None) -> list[Tensor]:
        operator = self._operator
        if tolerances.is_opaque(operator):
            raise Untestable(say("its workspace has a format that only the device's own kernel can read"))
        args, kwargs = self.arguments(widen, fresh=bool(operator.written))
        if wide is not None:
            args, kwargs = tolerances.widened(operator, args, kwargs)
        self.args, self.kwargs = args, kwargs
        try:
            out = run(operator, args, kwargs)
        except Untestable:
            raise
        except Exception as error:
            first = str(error).strip().partition("\n")[0][:200]
            raise Untestable(
                say("the CPU cannot run this operator: {error}", error=first or type(error).__name__)
            ) from None
        made = dict(operator.numbered(args, kwargs, out))
        self.further = frozenset(made).difference(self._slots) if self._slots else frozenset()
        slots = self._slots or tuple(made)
        lacking = [slot for slot in slots if slot not in made and slot < max(made, default=-1)]
        if lacking:
            raise Untestable(say("the CPU leaves out result {n}, which the device gives", n=lacking[0]))
        return [made[slot] for slot in slots if slot in made]

    def arguments(
        self, widen: Callable[[torch.dtype], torch.dtype], fresh: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments on the CPU, of the dtypes that `widen` says."""
        apart = fresh and not tolerances.is_elementwise_list(self._operator)
        args, kwargs = self._snapshot.build(widen, fresh, self.change, apart)
        return adapted(self._operator, args, kwargs, widen)


def widening(wide: torch.dtype) -> Callable[[torch.dtype], torch.dtype]:
    """Return what dtypes become in a precision: those that are not floating stay."""

    def widen(dtype: torch.dtype) -> torch.dtype:
        if dtype.is_complex:
            return _COMPLEX[wide]
        return wide if dtype.is_floating_point else dtype

    return widen


def adapted(
    operator: Operator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    widen: Callable[[torch.dtype], torch.dtype],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that name the CPU and the dtypes of the run."""

    def adapt(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return widen(value)
        return torch.device("cpu")

    kind = (torch.dtype, torch.device)
    args = tuple([value if _is_of_tensors(value) else replaced(value, kind, adapt) for value in args])
    kwargs = {key: replaced(value, kind, adapt) for key, value in kwargs.items()}
    if "pin_memory" in kwargs:
        kwargs["pin_memory"] = False
    if _takes_device(operator) and kwargs.get("device") is None:
        if not any(_has_tensor(value) for value in (*args, *kwargs.values())):
            kwargs["device"] = torch.device("cpu")  # a factory, where the program has another default device
    if "dtype" in kwargs and kwargs["dtype"] is None:
        del kwargs["dtype"]
    return args, kwargs


@cache
def _takes_device(operator: Operator) -> bool:
    return any(item.name == "device" for item in operator.overload._schema.arguments)


def _is_of_tensors(value: Any) -> bool:
    """Whether an argument is a tensor, or a list of tensors: there is no dtype or device in it."""
    return isinstance(value, Tensor) or (isinstance(value, list) and bool(value) and isinstance(value[0], Tensor))


def _has_tensor(value: Any) -> bool:
    return next(tensors(value), None) is not None


Function = Callable[..., Any]

_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@cache
def decomposition(operator: Operator) -> Function | None:
    """Return a function that gives what the operator gives, or None where the CPU has its own kernel."""
    name = operator.overload.name()
    if operator.name in _MEANINGS:
        return _MEANINGS[operator.name]
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _KEYS):
        return None
    vendors = fused_operators().get(f"{operator.space}::{operator.base}")
    if vendors is not None:
        return _vendors(vendors, operator)
    return _torch_decomposition(operator)


def _torch_decomposition(operator: Operator) -> Function | None:
    """Return what torch's compiler would run instead."""
    from torch._decomp import global_decomposition_table

    decomposition: Function | None = global_decomposition_table["post_autograd"].get(operator.overload)
    return decomposition


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    heads, its = query.shape[1], key.shape[1]
    if its != heads:
        key, value = (each.repeat_interleave(heads // its, 1) for each in (key, value))
    return functional.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, scale=scale)


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> list[Tensor]:
    return [_attention(query, key, value, None, is_causal, scale)]


def _biased(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    *rest: Any,
    scale: float | None = None,
    **named: Any,
) -> list[Tensor]:
    switches = [argument for argument in rest if isinstance(argument, bool)]
    if rest and isinstance(rest[0], bool) and "compute_log_sumexp" not in named and len(switches) > 1:
        switches = switches[1:]  # compute_log_sumexp stands before dropout_p and is_causal
    is_causal = bool(named.get("is_causal", switches[0] if switches else False))
    return [_attention(query, key, value, attn_bias, is_causal, scale)]


def _overrideable(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> list[Tensor]:
    return [_attention(query, key, value, attn_bias, is_causal, scale)]


def _differentiated(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, gradient: Tensor, *how: Any) -> Any:
    with torch.enable_grad():
        leaves = [each.detach().requires_grad_() for each in (query, key, value)]
        out = _attention(leaves[0], leaves[1], leaves[2], bias, *how)
        return list(torch.autograd.grad(out, leaves, gradient))


def _flash_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any) -> Any:
    is_causal = (
        next(argument for argument in rest if isinstance(argument, bool))
        if "is_causal" not in named
        else named["is_causal"]
    )
    return _differentiated(query, key, value, None, grad_out, is_causal, named.get("scale"))


def _overrideable_backward(
    grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, *rest: Any, **named: Any
) -> Any:
    switches = [argument for argument in rest if isinstance(argument, bool)]
    is_causal = named.get("is_causal", switches[-1] if switches else False)
    bias = attn_bias if attn_bias is not None and attn_bias.numel() else None
    return _differentiated(query, key, value, bias, grad_out, is_causal, named.get("scale"))


def _efficient_backward(
    grad_out_: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, *rest: Any, **named: Any
) -> Any:
    switches = [argument for argument in rest if isinstance(argument, bool)]
    bias = attn_bias if attn_bias is not None and attn_bias.numel() else None
    return _differentiated(query, key, value, bias, grad_out_, bool(switches and switches[-1]), named.get("scale"))


def _lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> list[Tensor]:
    gates = input_gates + hidden_gates
    for bias in (input_bias, hidden_bias):
        if bias is not None:
            gates = gates + bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return [o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)]


def _lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> list[Tensor]:
    i, f, g, o = workspace.chunk(4, 1)
    tanh = cy.tanh()
    through = torch.zeros_like(cx) if grad_cy is None else grad_cy
    by_output = torch.zeros_like(cx) if grad_hy is None else grad_hy
    to_cell = by_output * o * (1 - tanh * tanh) + through
    gates = torch.cat(
        (
            to_cell * g * i * (1 - i),
            to_cell * cx * f * (1 - f),
            to_cell * i * (1 - g * g),
            by_output * tanh * o * (1 - o),
        ),
        1,
    )
    results = [gates, to_cell * f]
    return [*results, gates.sum(0)] if has_bias else results


def _gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> list[Tensor]:
    if input_bias is not None and hidden_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    ir, iz, inew = input_gates.chunk(3, 1)
    hr, hz, hnew = hidden_gates.chunk(3, 1)
    reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (inew + reset * hnew).tanh()
    return [new + update * (hx - new), torch.cat((reset, update, new, hx, hnew), 1)]


def _scaled_mm(
    left: Tensor,
    right: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    out = (left * scale_a) @ (right * scale_b) if scale_a.numel() == 1 or scale_a.shape[-1] == 1 else None
    if out is None:
        raise NotImplementedError("scales of blocks")
    out = out if bias is None else out + bias
    return out if scale_result is None else out * scale_result


def _batch_norm(
    given: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> Any:
    return torch.native_batch_norm(given, weight, bias, mean, variance, training, momentum, epsilon)


def _convolution(
    given: Tensor, weight: Tensor, padding: Any, stride: Any, dilation: Any, groups: int, *rest: Any, **named: Any
) -> Tensor:
    plain = [0] * len(padding)
    return torch.convolution(given, weight, None, stride, padding, dilation, False, plain, groups)


_MEANINGS: dict[str, Function] = {
    "aten._scaled_dot_product_flash_attention": _flash,
    "aten._scaled_dot_product_flash_attention_backward": _flash_backward,
    "aten._scaled_dot_product_efficient_attention": _biased,
    "aten._scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "aten._scaled_dot_product_cudnn_attention": _biased,
    "aten._scaled_dot_product_fused_attention_overrideable": _overrideable,
    "aten._scaled_dot_product_fused_attention_overrideable_backward": _overrideable_backward,
    "aten._thnn_fused_lstm_cell": _lstm_cell,
    "aten._thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "aten._thnn_fused_gru_cell": _gru_cell,
    "aten.cudnn_batch_norm": _batch_norm,
    "aten.cudnn_convolution": _convolution,
    "aten.convolution_overrideable": torch.convolution,
    "aten.convolution_backward_overrideable": lambda *args: torch.ops.aten.convolution_backward(
        args[0], args[1], args[2], [args[2].shape[0]], *args[3:-1], [*args[-1]]
    ),
    "aten._scaled_mm": _scaled_mm,
}
"""Operators that some devices have and the CPU does not."""

# --- what fused operators of vendors mean ---


def rms_norm(given: Tensor, weight: Tensor, epsilon: float = 1e-6) -> list[Tensor]:
    """Return the normalized input, and the reciprocal of its root mean square."""
    scale = torch.rsqrt(given.square().mean(tuple(range(-weight.dim(), 0)), keepdim=True) + epsilon)
    return [given * scale * weight, scale]


def swiglu(given: Tensor, dim: int = -1) -> list[Tensor]:
    """Return silu(first half) * second half."""
    first, second = given.chunk(2, dim)
    return [functional.silu(first) * second]


def rotary(given: Tensor, cosine: Tensor, sine: Tensor) -> list[Tensor]:
    """Return the input with its halves rotated."""
    first, second = given.chunk(2, -1)
    return [given * cosine + torch.cat((-second, first), -1) * sine]


def fast_gelu(given: Tensor) -> list[Tensor]:
    """Return x * sigmoid(1.702 x)."""
    return [given * torch.sigmoid(1.702 * given)]


def cast(given: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Return the input in another dtype."""
    return [given.to(dtype)]


def same(given: Tensor) -> list[Tensor]:
    """Return the input: only how it lies in the device's memory changes."""
    return [given]


def masked_softmax(given: Tensor, mask: Tensor, scale: float = 1.0) -> list[Tensor]:
    """Return the softmax of the scaled input, where the mask is true left out."""
    return [torch.softmax((given * scale).masked_fill(mask.bool(), -10000.0), -1)]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    layout: str,
    mask: Tensor | None = None,
    scale: float = 1.0,
    keep: float = 1.0,
) -> list[Tensor]:
    """Return attention for tensors in one of the layouts BSH, SBH, BSND and BNSD; a true mask leaves out.

    Raises:
        NotImplementedError: another layout, or dropout.
    """
    if keep != 1.0:
        raise NotImplementedError("dropout inside of it")
    split = {
        "BNSD": lambda tensor: tensor,
        "BSND": lambda tensor: tensor.transpose(1, 2),
        "BSH": lambda tensor: tensor.unflatten(-1, (-1, query.shape[-1] // heads)).transpose(1, 2),
        "SBH": lambda tensor: tensor.unflatten(-1, (-1, query.shape[-1] // heads)).permute(1, 2, 0, 3),
    }
    join = {
        "BNSD": lambda tensor: tensor,
        "BSND": lambda tensor: tensor.transpose(1, 2),
        "BSH": lambda tensor: tensor.transpose(1, 2).flatten(2),
        "SBH": lambda tensor: tensor.permute(2, 0, 1, 3).flatten(2),
    }
    if layout not in split:
        raise NotImplementedError(f"layout {layout}")
    parts = [split[layout](tensor) for tensor in (query, key, value)]
    allowed = None if mask is None else ~mask.bool()
    out = _attention(parts[0], parts[1], parts[2], allowed, False, None if math.isnan(scale) else scale)
    return [join[layout](out)]


MEANINGS: dict[str, Function] = {
    "rms_norm": rms_norm,
    "swiglu": swiglu,
    "rotary": rotary,
    "fast_gelu": fast_gelu,
    "cast": cast,
    "same": same,
    "masked_softmax": masked_softmax,
    "attention": attention,
}
"""What fused operators may mean, by the name that the tables use."""


def _vendors(row: Fused, operator: Operator) -> Function | None:
    meaning = MEANINGS.get(row.means)
    if meaning is None:
        return None
    names = [item.name for item in operator.overload._schema.arguments]
    defaults = {
        item.name: item.default_value for item in operator.overload._schema.arguments if item.has_default_value()
    }

    def run(*args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        for key, values in row.allowed.items():
            if key in given and given[key] not in (values or (None, [])):
                raise NotImplementedError(f"{key}={given[key]!r}")
        return meaning(**{ours: given[its] for ours, its in row.arguments.items() if its in given})

    return run
