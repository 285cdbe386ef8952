"""A text names a target by its words, in any case and beside any letters that are not of the same word."""

from __future__ import annotations

import re

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules import target_words as module
from torchferry.rules.target_words import names_target, target_words

TARGET = Target(registry.load("musa"))
TEXTS = [
    "",
    "x.musa()",
    "MUSA = 1",
    "is_Musa_there",
    "musaic",
    "\U0001f680 x.cuda()",
    "\U0001f680 x.musa()",
    "\u4e2d\u6587 MUSA",
    "mu\u017fa",
    "\u0130 mu\u017fa",
    "\u212a torch",
    "\udc80 musa",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_names_a_target_where_its_words_are_found(text: str) -> None:
    assert names_target(TARGET, text) == (target_words(*TARGET.words).search(text) is not None)


def test_every_letter_that_is_taken_for_an_ascii_one_is_known() -> None:
    letter = re.compile("[a-z]", re.IGNORECASE)
    assert {chr(code) for code in range(0x80, 0x110000) if letter.match(chr(code))} == set(module._TAKEN_FOR_ASCII)
