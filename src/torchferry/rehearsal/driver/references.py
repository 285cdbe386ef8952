"""What references of a vendor's operators are made of: plain formulas of torch's, and gradients that torch derives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from torchferry.rehearsal import events


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


def refuse(operator: str, what: str) -> NoReturn:
    """Refuse what an operator can on the card and its reference cannot, by name.

    Raises:
        NotImplementedError: always.
    """
    events.record("not-rehearsed", operator, what)
    raise NotImplementedError(f"{operator} with {what}: not rehearsed")
