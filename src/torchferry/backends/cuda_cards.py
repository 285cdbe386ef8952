"""The names and capabilities of NVIDIA's cards, from `cuda/cards.toml`: whether a program may mean one of them."""

from __future__ import annotations

from functools import lru_cache

from torchferry.backends.datafile import DATA
from torchferry.core import toml


@lru_cache(maxsize=1)
def capabilities() -> frozenset[tuple[int, int]]:
    """Return the compute capabilities that NVIDIA's cards have."""
    pairs = (text.partition(".") for text in _document()["capabilities"])
    return frozenset((int(major), int(minor)) for major, _, minor in pairs)


def is_in_name(text: str) -> bool:
    """Whether a text may be a part of the name of one of NVIDIA's cards, in any case."""
    return any(text.casefold() in name for name in _names())


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    families: dict[str, list[str]] = _document()["families"]
    return tuple(f"nvidia {family}{number}".casefold() for family, numbers in families.items() for number in numbers)


@lru_cache(maxsize=1)
def _document() -> dict[str, dict[str, list[str]]]:
    document: dict[str, dict[str, list[str]]] = toml.load_own(DATA / "cuda" / "cards.toml")
    return document
