"""What is cut of a project for a kernel: what it names, at its own lines, and nothing that runs the project."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.triton.projects import HEAD, cut

KERNEL = "@triton.jit\ndef kernel(x):\n    {body}\n"


def lines_of(text: str) -> dict[int, str]:
    return {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}


def test_a_kernel_keeps_its_lines_and_brings_what_it_names(tmp_path: Path) -> None:
    files = {
        "pkg/kernels.py": "import os, triton\nimport triton.language as tl\nfrom pkg import more\n"
        "from .deep import SIZE\n"
        'print("side effect")\nUNUSED = os.getcwd()\n\n@triton.autotune(configs=[], key=[])\n'
        "@triton.jit\ndef kernel(x, B: tl.constexpr):\n    more.helper(x + SIZE)\n",
        "pkg/__init__.py": "raise SystemExit",
        "pkg/more.py": f"{HEAD}import torch\nDEVICE = torch.device('cuda')\n"
        "@triton.jit\ndef helper(x):\n    return inner(x)\n"
        "@triton.jit\ndef inner(x):\n    return tl.exp(x)\n@triton.jit\ndef other(x):\n    return x\n",
        "pkg/deep.py": f"{HEAD}BASE = 4\nSIZE = tl.constexpr(BASE * 2)\n",
    }
    text = cut(tmp_path, files)
    assert text.lacking == ()
    by_path = {module.path: module for module in text.modules}
    assert text.modules[-1].path == "pkg/kernels.py"
    assert set(by_path) == {"pkg/kernels.py", "pkg/more.py", "pkg/deep.py"}
    assert lines_of(by_path["pkg/kernels.py"].text) == {
        1: "import triton",
        9: "@triton.jit",
        10: "def kernel(x, B: tl.constexpr):",
        11: "    more.helper(x + SIZE)",
    }
    assert lines_of(by_path["pkg/deep.py"].text) == {
        2: "import triton.language as tl",
        3: "BASE = 4",
        4: "SIZE = tl.constexpr(BASE * 2)",
    }
    helper = by_path["pkg/more.py"].text
    assert "inner" in helper
    assert "torch" not in helper
    assert "other" not in helper
    places = {module.path: number for number, module in enumerate(text.modules)}
    assert set(by_path["pkg/kernels.py"].names) == {
        ("more", places["pkg/more.py"], ""),
        ("SIZE", places["pkg/deep.py"], "SIZE"),
    }
    assert text.called == (("pkg/more.py", "helper", 6), ("pkg/more.py", "inner", 9))


LACKING = [
    ("N = open('f').read()\n", "x + N", "`N` needs `open('f')"),
    ("from torch import pi\n", "x + pi", "`pi` comes from `torch`"),
    ("class N:\n    x = 1\n", "x + N.x", "`N` is no constant"),
    ("", "x + missing", "`missing` is defined nowhere"),
    ("", "tl.core.os.system('x')", "is not of Triton's language"),
    ("", "x.__class__", "is not of Triton's language"),
    ("", "getattr(tl.core, 'o' + 's')", "is not of Triton's language"),
    ("", "eval('x')", "is not of Triton's language"),
    ("", "__builtins__['eval']('x')", "is not of Triton's language"),
    ("", "triton.runtime.jit.os.abort()", "is not of Triton's language"),
    ("N = (lambda: 1)()\n", "x + N", "needs `(lambda: 1)()`"),
    ("M = triton.runtime.driver\nN = M.active\n", "x + N", "needs `M.active`"),
]


@pytest.mark.parametrize(("before", "body", "reason"), LACKING)
def test_what_would_run_the_project_or_leave_triton_is_said(
    tmp_path: Path, before: str, body: str, reason: str
) -> None:
    text = cut(tmp_path, {"k.py": HEAD + before + KERNEL.format(body=body)})
    assert text.modules == ()
    assert reason in text.lacking[0].render("en")
    assert "k.py:" in text.lacking[0].render("en")


def test_a_kernel_inside_of_a_function_is_not_cut(tmp_path: Path) -> None:
    inside = HEAD + "def make():\n    @triton.jit\n    def kernel(x):\n        return x\n"
    assert "inside of a function" in cut(tmp_path, {"k.py": inside}).lacking[0].render("en")


CONDITIONS = [
    # a condition that asks for the target is told; of others both sides are left, and said
    ("if is_npu_available():\n    S = 1\nelse:\n    S = 2\n", None, 1, ()),
    ("if not is_npu_available() and new():\n    S = 1\nelse:\n    S = 2\n", None, 2, ()),
    ("import os\nif os.environ.get('FAST', '0') == '1':\n    S = 1\nelse:\n    S = 2\n", None, 2, ()),
    ("if TYPE_CHECKING:\n    S = 1\nelif BACKEND == 'npu':\n    S = 2\nelse:\n    S = 3\n", None, 2, ()),
    ("if new():\n    S = 1\nelse:\n    S = 2\n", True, 1, ()),
    ("if new():\n    S = 1\nelse:\n    S = 2\n", False, 2, ()),
    ("if new():\n    S = 1\nelse:\n    S = 2\n", None, 1, ("k.py:3: new()",)),
    ("try:\n    from triton.gone import S\nexcept ImportError:\n    S = 2\n", None, 2, ()),
]


@pytest.mark.parametrize(("before", "supposed", "value", "assumed"), CONDITIONS)
def test_conditions_at_import(
    tmp_path: Path, before: str, supposed: bool | None, value: int, assumed: tuple[str, ...]
) -> None:
    text = cut(tmp_path, {"k.py": HEAD + before + KERNEL.format(body="return x + S")}, supposed=supposed)
    assert text.lacking == ()
    assert text.assumed == assumed
    names: dict[str, object] = {}
    lines = [line for line in text.modules[-1].text.split("\n") if not line.startswith(("import ", "@triton"))]
    exec("\n".join(lines), names)
    assert names["S"] == value


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(
        st.sampled_from(
            [
                "A = 1", "B = 2; C = 3", "if cond():\n    D = 1\nelse:\n    D = 2",
                "try:\n    E = 1\nexcept Exception:\n    E = 2",
                "if one():\n    F = 1\nelif two():\n    F = 2\nelse:\n    F = 3", "G = (1 +\n     2)", "",
                "if a():\n    if b():\n        H = 1\n    else:\n        H = 2",
                "@triton.jit\n\ndef I(x):\n    return x",
            ]
        ),
        max_size=8,
    ),
    used=st.sets(st.sampled_from("ABCDEFGHI"), max_size=5),
)  # fmt: skip
def test_what_is_cut_is_python_of_as_many_lines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], used: set[str]
) -> None:
    body = KERNEL.format(body="return " + " + ".join(["x", *sorted(used)]))
    source = HEAD + "\n".join(parts) + "\n" + body
    text = cut(tmp_path_factory.mktemp("cut"), {"k.py": source})
    for module in text.modules:
        compile(module.text, "k.py", "exec")
        assert module.text.count("\n") >= source.rstrip("\n").count("\n")
        line = source.split("\n").index("def kernel(x):")
        assert module.text.split("\n")[line] == "def kernel(x):"
