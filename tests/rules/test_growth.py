"""The work that a file takes grows with its length, whatever it is full of: counted in calls, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult, Selection
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry


def listed(item: str, separator: str = ", ") -> Callable[[int], str]:
    return lambda n: separator.join(item.replace("@", str(i)) for i in range(n))


FULL_OF: dict[str, tuple[str, Callable[[int], str]]] = {
    # what the file is full of: the text around it, with `...` where it stands
    "calls in one line": ("x = [...]", listed("torch.ones(2).cuda()")),
    "calls in one line that is not ASCII": ("x = ['é', ...]", listed("torch.ones(2).cuda()")),
    "calls of their own lines": ("...", listed("torch.ones(2).cuda()", "\n")),
    "statements in one line": ("...", listed("torch.ones(2).cuda()", "; ")),
    "fields of one f-string": ("x = f'...'", listed("{torch.ones(2).cuda()}", "")),
    "f-strings": ("x = [...]", listed("y.to(f'cuda:{i}')")),
    "conditions": ("x = [...]", listed("(1 if torch.cuda.is_available() else 2)")),
    "a dictionary": ("d = {...}\ntorch.ones(2, device=d['a1'])", listed("'a@': 'cuda:@'")),
    "keys": ("d = {...}\nd[torch.ones(2).device.type]", listed("'cuda:@': 1")),
    "a list": ("for x in [...]: torch.ones(2, device=x)", listed("'cuda:@'")),
    "comparisons": ("x = any([...])", listed("d == 'cuda:@'")),
    "alternatives": ("x = d in (...)", listed("'cuda:@'")),
    "results": ("def f(d):\n ...\ntorch.ones(1, device=f(2))", listed("if d == @: return 'cuda:@'", "\n ")),
    "assignments": ("...", listed("d = 'cuda:@'; torch.ones(1, device=d)", "\n")),
    "early returns": ("def f(x):\n ...", listed("if not torch.cuda.is_available(): return @", "\n ")),
    "early returns of their own": ("def f(x):\n ...", listed("if not x@.is_cuda: return @", "\n ")),
    "early returns and calls": ("def f(x):\n ...", listed("if not torch.cuda.is_available(): return @\n g@(x)", "\n ")),
    "suppressions": ("...", listed("x = torch.ones(2).cuda()  # torchferry: ignore[DST]", "\n")),
}
SHELL = listed("CUDA_VISIBLE_DEVICES=@ python train.py --device cuda:@", "; ")


def counted(function: Callable[[], FileResult]) -> tuple[int, FileResult]:
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        result = function()
    finally:
        sys.setprofile(None)
    return count, result


@pytest.mark.parametrize("full_of", [*FULL_OF, "commands"])
def test_work_grows_with_the_length(full_of: str, tmp_path: Path) -> None:
    engine = Engine(tmp_path, Target(registry.load("npu")), rules(), selection=Selection(), account=True)
    counts = []
    for n in (20, 50, 400):  # the first fills caches
        if full_of == "commands":
            entry, text = Entry("run.sh", Kind.SHELL), SHELL(n)
        else:
            around, items = FULL_OF[full_of]
            entry, text = Entry("a.py", Kind.PYTHON), f"import torch\n{around.replace('...', items(n))}\n"
        (tmp_path / entry.path).write_text(text, encoding="utf-8")
        count, result = counted(partial(engine.examine, entry, rewrite=True))
        assert result.failure is None
        assert len(result.fixed) + len(result.remaining) >= n
        counts.append(count)
    assert counts[2] < 12 * counts[1], counts
