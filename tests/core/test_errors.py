"""Errors that the user can mend, as a traceback shows them."""

from __future__ import annotations

import pytest

from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.messages import say


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TorchferryError(say("{why}", why="interrupted")), "interrupted"),
        (UsageError(say("{why}", why="a"), say("{why}", why="b")), "a; b"),
        (unknown_name("target", "nppu", ["npu"]), "unknown target `nppu`; did you mean `npu`? (known: npu)"),
        (
            unknown_name("operator", "nix", [f"op{number:02}" for number in range(99)]),
            f"unknown operator `nix`; known: {', '.join(f'op{number:02}' for number in range(40))}, ...",
        ),
    ],
)
def test_a_traceback_shows_the_advice_as_well(
    error: TorchferryError, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHFERRY_LANG", "en")
    assert str(error) == text
    assert "; ".join(error.lines()) == text
