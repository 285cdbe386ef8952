"""Configurations are told from the text, as far as it tells them, and never by running it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.triton.projects import HEAD, NPU, request_for
from torchferry.triton.project_kernels import described

C = "triton.Config"
TOLD = [
    (f"[{C}({{'B': 64}}, num_warps=4), {C}({{'B': 128}}, 8, 3)]",
     ["B=64 num_warps=4", "B=128 num_stages=3 num_warps=8"]),
    (f"[{C}({{'B': b}}, num_warps=w) for b in [16, 32] for w in (2, 4)]",
     ["B=16 num_warps=2", "B=16 num_warps=4", "B=32 num_warps=2", "B=32 num_warps=4"]),
    (f"[{C}({{'B': b}}) for b in SIZES if b > 16]", ["B=32", "B=64"]),
    ("made(2)", ["B=2", "B=4"]),
    (f"[{C}(kwargs={{'B': 1 << s}}) for s in range(4, 6)] + [{C}(dict(B=7), pre_hook=lambda a: a)]",
     ["B=16", "B=32", "B=7"]),
    (f"list(map_of()['x']) or [{C}({{'B': 1}})]", None),
    ("unknown()", None),
    (f"[{C}({{'B': 2 ** (10 ** 10)}})]", None),
    (f"[{C}({{'B': b}}) for b in range(10 ** 9)]", None),
    (f"[{C}({{'B': 'x' * 10 ** 9}})]", None),
    ("again()", None),
]  # fmt: skip
BEFORE = (
    "from sizes import SIZES\n"
    "def made(n=1):\n    found = []\n    for k in range(1, 3):\n        if k < 9:\n"
    "            found.append(triton.Config({'B': n * k}))\n    return found\n"
    "def again():\n    return again()\n"
)


@pytest.mark.parametrize(("text", "wanted"), TOLD)
def test_configurations(tmp_path: Path, text: str, wanted: list[str] | None) -> None:
    kernel = f"@triton.autotune(configs={text}, key=[])\n@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n"
    begun = time.monotonic()
    _, _, kernels = request_for(tmp_path, {"k.py": HEAD + BEFORE + kernel, "sizes.py": "SIZES = [16, 32] + [64]\n"})
    assert time.monotonic() - begun < 10
    (only,) = kernels
    if wanted is None:
        assert only.configurations == ()
        assert only.unread is not None
        return
    shown = [
        " ".join(f"{name}={value}" for name, value in (*each.constants, *each.options)) for each in only.configurations
    ]
    assert only.unread is None
    assert shown == wanted


def test_of_a_condition_that_nobody_can_tell_both_sides_are_tried_and_said(tmp_path: Path) -> None:
    lists = "A = [triton.Config({'B': 1})] if big() else [triton.Config({'B': 2})]\n"
    npu = "N = [triton.Config({'B': 3})] if not is_npu_available() else [triton.Config({'B': 4})]\n"
    kernel = "@triton.autotune(configs=A + N, key=[])\n@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n"
    _, known, kernels = request_for(tmp_path, {"k.py": HEAD + lists + npu + kernel})
    assert [dict(each.constants)["B"] for each in kernels[0].configurations] == [1, 2, 4]
    assert kernels[0].choices == ("big()",)
    assert described(known, "k.py", kernels[0].function, NPU).choices == ("big()",)
