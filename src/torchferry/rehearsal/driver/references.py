"""What references of a vendor's operators are made of: plain formulas of torch's, and gradients that torch derives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NoReturn

import torch

from torchferry.rehearsal import events
from torchferry.rehearsal.autocast import without_autocast
from torchferry.rehearsal.published_limits import formulas


def below_autocast(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a formula that computes in the dtypes that it names, as a kernel does: autocast ends at the operator.

    What it is made of is no call of the program's, so that the limits of the card's kernels do not hold for it.
    """

    @wraps(formula)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        enter = formulas.enter
        enter(1)
        try:
            with without_autocast():
                return formula(*args, **kwargs)
        finally:
            enter(-1)

    return kernel


def gradient(
    forward: Callable[..., Any], inputs: Sequence[torch.Tensor | None], grads: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of a formula, as torch derives them: what an operator of its own computes on the card.

    Args:
        forward: The formula; it returns a tensor, or several.
        inputs: What it is given; None where an optional tensor is not there.
        grads: The gradients of its results, in their order; None where a result has none.
    """
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [None if tensor is None else _leaf(tensor) for tensor in inputs]
        results = forward(*leaves)
        results = results if isinstance(results, (tuple, list)) else (results,)
        pairs = [(result, grad) for result, grad in zip(results, grads, strict=False) if grad is not None]
        wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        derived = iter(
            torch.autograd.grad(
                [result for result, _ in pairs],
                wanted,
                [grad.to(result.dtype).reshape(result.shape) for result, grad in pairs],
                allow_unused=True,
            )
        )
    return tuple(next(derived) if leaf is not None and leaf.requires_grad else None for leaf in leaves)


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    copy = tensor.clone() if tensor.is_inference() else tensor.detach()
    return copy.requires_grad_(copy.is_floating_point() or copy.is_complex())


def zeros_where_none(
    gradients: Sequence[torch.Tensor | None], inputs: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor | None, ...]:
    """Return gradients with zeros for each input that is there and has none."""
    return tuple(
        torch.zeros_like(tensor) if grad is None and tensor is not None else grad
        for grad, tensor in zip(gradients, inputs, strict=True)
    )


# --- formulas of more than one reference ---


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mode: str = "half", rotate: torch.Tensor | None = None
) -> torch.Tensor:
    """Return x * cos + turned(x) * sin: turned by a matrix, or halves swapped, or neighbours.

    Raises:
        RuntimeError: another mode.
    """
    if rotate is not None:
        turned = x @ rotate
    elif mode in ("half", "rotary_half"):
        first, second = x.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    elif mode in ("interleave", "rotary_interleaved"):
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        raise RuntimeError(f"unknown rotary_mode {mode!r}")
    return cos * x + sin * turned


def attention_scores(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Return query @ key^T of batch, heads, sequence, width; a head of keys may serve several of queries."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    return query.float() @ key.float().transpose(-1, -2)


def attend(
    scores: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor | None, keep_prob: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return Dropout(Softmax(scores)) @ value in float32, each row's largest score, and its total of exponentials."""
    if hidden is not None:
        scores = scores.masked_fill(hidden, torch.finfo(torch.float32).min)
    largest = scores.amax(-1, keepdim=True)
    weights = (scores - largest).exp()
    total = weights.sum(-1, keepdim=True)
    weights = weights / total
    if keep_prob < 1.0:
        weights = torch.nn.functional.dropout(weights, 1.0 - keep_prob)
    value = value.repeat_interleave(scores.shape[1] // value.shape[1], 1)
    return weights @ value.float(), largest, total


def outside_band(scores: torch.Tensor, before: int | None, after: int, shift: int | torch.Tensor = 0) -> torch.Tensor:
    """Return which keys are more than `before` places before a query's own place, or more than `after` behind it.

    Args:
        scores: What has a row for each query and a column for each key.
        before: None where all keys before are seen.
        after: How many keys behind are seen.
        shift: How much further to the right a query's own place is than its row's number.
    """
    rows, columns = scores.shape[-2:]
    places = torch.arange(columns, device=scores.device), torch.arange(rows, device=scores.device)[:, None]
    distance = places[0] - places[1] - shift
    return distance > after if before is None else (distance > after) | (distance < -before)


def refuse(operator: str, what: str) -> NoReturn:
    """Refuse what an operator can on the card and its reference cannot, by name.

    Raises:
        NotImplementedError: always.
    """
    events.record("not-rehearsed", operator, what)
    raise NotImplementedError(f"{operator} with {what}: not rehearsed")
