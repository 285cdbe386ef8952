"""`fp32_precision`, the newer way to say how exact products are, turns the card's own switch as `allow_tf32` does."""

from __future__ import annotations

import pytest

from tests.shim.test_redirect import redirected

torch = pytest.importorskip("torch")

if not hasattr(torch.backends, "fp32_precision"):
    pytest.skip("torch has no fp32_precision before 2.9", allow_module_level=True)

PROGRAM = """
import warnings
said = []
warnings.showwarning = lambda message, *rest: said.append(str(message))
warnings.simplefilter("always")
redirect = enable()
products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
def told():
    return products.allow_tf32, convolutions.allow_tf32
convolutions.allow_tf32 = False
said.clear()
"""

OWN, ONE = "npu", "musa"
"""A target with a switch for products and one for convolutions, and one with a single switch."""


@pytest.mark.parametrize(
    ("target", "line", "expected"),
    [
        (OWN, "products.fp32_precision = 'tf32'", (True, False)),
        (ONE, "products.fp32_precision = 'tf32'", (True, False)),
        (OWN, "products.fp32_precision = 'tf32'; products.fp32_precision = 'ieee'", (False, False)),
        (OWN, "convolutions.conv.fp32_precision = 'ieee'; convolutions.conv.fp32_precision = 'tf32'", (False, True)),
        (OWN, "torch.backends.fp32_precision = 'tf32'", (True, False)),
        (OWN, "products.fp32_precision = 'ieee'; torch.backends.fp32_precision = 'tf32'", (False, False)),
        (OWN, "convolutions.fp32_precision = 'tf32'", (True, False)),
        (OWN, "with torch.backends.flags(fp32_precision='tf32'): pass", (False, False)),
    ],
)
def test_the_cards_switch_follows(target: str, line: str, expected: tuple[bool, bool]) -> None:
    assert redirected(f"{PROGRAM}\n{line}\nprint(told())", target) == str(expected)


def test_where_two_switches_are_one_each_is_read_as_it_was_set() -> None:
    line = "products.allow_tf32 = True; print(torch.backends.mudnn.allow_tf32, told(), len(said))"
    assert redirected(f"{PROGRAM}\n{line}", ONE) == "True (True, False) 1"


def test_it_is_said_once_and_by_its_own_name() -> None:
    printed = redirected(f"{PROGRAM}\nfor _ in range(3):\n    products.fp32_precision = 'tf32'\nprint(said)", OWN)
    assert printed.count("`torch.backends.cuda.matmul.fp32_precision` sets `torch.npu.matmul.allow_hf32`") == 1


def test_what_is_no_precision_changes_nothing() -> None:
    line = "try:\n    products.fp32_precision = 'exact'\nexcept RuntimeError as error:\n    print(error)\nprint(told())"
    assert redirected(f"{PROGRAM}\n{line}", OWN).splitlines() == ["Unknown precision: exact", "(False, False)"]


def test_afterwards_the_setting_is_torchs_alone() -> None:
    printed = redirected(
        f"{PROGRAM}\nredirect.disable()\nproducts.fp32_precision = 'tf32'\nprint(torch.npu.matmul.allow_hf32)", OWN
    )
    assert printed == "False"
