"""Ranks: what should be equal on all processes of a training is compared, and the first that differs is named."""

from __future__ import annotations

from torchferry.numerics.ranks.agreement import Agreement, Difference, check_equal_across_ranks

__all__ = ["Agreement", "Difference", "check_equal_across_ranks"]
