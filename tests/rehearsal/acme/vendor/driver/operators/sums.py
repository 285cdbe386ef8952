"""What acme::blend computes; source: its documentation, if there were one."""

import torch


def blend(first: torch.Tensor, second: torch.Tensor, weight: float) -> torch.Tensor:
    """Return (1 - weight) * first + weight * second."""
    return (1 - weight) * first + weight * second


OPERATORS = {"blend": blend}
