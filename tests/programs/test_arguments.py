"""The verdict of programs in which it decides to which parameter a call gives what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import judged
from torchferry.programs.model import Verdict

B, W, M = Verdict.BLOCKED, Verdict.WITHOUT, Verdict.MAY_NEED

ASKS = "if flash:\n            import flash_attn\n"
STATIC = f"class A:\n    @staticmethod\n    def run(x, flash=False, n=1):\n        {ASKS}"
BY_SELF = "    def go(self):\n        self.run(0, True)\n"
OF_CLASS = f"class A:\n    @classmethod\n    def run(cls, x, flash=False):\n        {ASKS}"
METHOD = f"class A:\n    def run(self, x, flash=%s):\n        {ASKS}"
BASE = f"class B:\n    def __init__(self, x, flash=%s):\n        {ASKS}"
MIDDLE = "class M(B):\n    pass\nclass A(M):\n    def __init__(self):\n        %s.__init__(self, 0, True)\n"
HANDS_ON = "class A(B):\n    def __init__(self, x):\n        %s\n"
STARRED = "class A(B):\n    def __init__(self, x, *args):\n        B.__init__(self, x, *args)\n"
CONFIG = (
    "class Config:\n    def __init__(self, flash=False):\n        self.flash = flash\n"
    "class B:\n    def __init__(self, config):\n        if config.flash:\n            import flash_attn\n"
    "class A(B):\n    def __init__(self, config):\n        super().__init__(config)\nclass C(B):\n    pass\n"
)


@pytest.mark.parametrize(
    ("definitions", "body", "expected"),
    [
        (STATIC, "A.run(1, False)", W),
        (STATIC, "A.run(0, True)", B),
        (STATIC, "A().run(0, True)", B),
        (STATIC + BY_SELF, "A().go()", B),
        (OF_CLASS, "A.run(0, True)", B),
        (OF_CLASS, "A.run(1, False)", W),
        (METHOD % False, "a = A()\n    A.run(a, 0, True)", B),
        (METHOD % True, "a = A()\n    A.run(a, 1, False)", W),
        (BASE % False + HANDS_ON % "B.__init__(self, x, True)", "A(0)", B),
        (BASE % True + HANDS_ON % "B.__init__(self, x, False)", "A(1)", W),
        (BASE % True + HANDS_ON % "B.__init__(self, x)", "A(1)", B),
        (BASE % True + HANDS_ON % "B.__init__(self, x, flash=False)", "A(1)", W),
        (BASE % False + MIDDLE % "M", "A()", B),
        (BASE % False + MIDDLE % "B", "A()", B),
        (BASE % False + STARRED, "A(1)", W),
        (BASE % True + STARRED, "A(1)", B),
        (BASE % False + STARRED, "A(1, True)", B),
        (BASE % True + STARRED, "A(1, False)", M),
        (BASE % False + STARRED, "A(*eval(input()))", M),
        (BASE % False + STARRED, "for make in [A]:\n        make(1, True)\n    A(1)", M),
        (CONFIG, "A(Config())", W),
        (CONFIG, "A(Config(True))", B),
        (CONFIG, "A(Config(False))\n    C(Config(True))", B),
    ],
)
def test_an_argument_comes_to_its_parameter(definitions: str, body: str, expected: Verdict, tmp_path: Path) -> None:
    text = f"import torch\n{definitions}def main():\n    {body}\nif __name__ == '__main__':\n    main()\n"
    assert judged(tmp_path, {"train.py": text})["train.py"].verdict is expected
