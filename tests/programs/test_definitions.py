"""Functions and classes whose name is bound more than once: which definition a program calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.test_demands import OTHER, TRY, need

PROGRAM = "import os\nimport torch\n{}\nprint(torch.ones(1))\n"
FLAG = TRY + "if HAVE:\n    def ones():\n        return cupy.ones(1)\nelse:\n    {}\nprint(ones())\n"
TRIED = (
    "try:\n    import cupy\n    def ones():\n        return cupy.ones(1)\nexcept ImportError:\n    {}\nprint(ones())"
)
CLASSES = (
    TRY + "class Fast:\n    def go(self):\n        return cupy.ones(1)\n"
    "class Slow:\n    def go(self):\n        return torch.ones(1)\n"
)
FIRST = "def f():\n    import cupy\n    return cupy.ones(1)\n"
AGAIN = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRIED.format("def ones():\n        return torch.ones(1)"), "GUARDED"),
        (TRIED.format("from slow import ones"), "GUARDED"),
        (TRIED.format("ones = torch.ones"), "GUARDED"),
        (TRIED.format("pass"), "ALWAYS"),
        (TRIED.format("ones = None"), "ALWAYS"),
        (TRIED.format("def ones():\n        raise ImportError('cupy')"), "ALWAYS"),
        (TRIED.format("def ones(path='x'):\n        if not os.path.exists(path):\n            raise OSError\n"), "GUARDED"),  # noqa: E501
        ("try:\n    import cupy\nexcept ImportError:\n    def ones():\n        return 1\nelse:\n    def ones():\n"
         "        return cupy.ones(1)\nprint(ones())", "GUARDED"),
        ("try:\n    import cupy\nexcept ImportError:\n    x = 1\nelse:\n    x = cupy.ones(1)\nprint(x)", "GUARDED"),
        ("try:\n    import yaml\nexcept ImportError:\n    x = 1\nelse:\n    import cupy\nprint(1)", "ALWAYS"),
        ("try:\n    import cupy\n    class A:\n        def get(self):\n            return cupy.ones(1)\n"
         "except ImportError:\n    class A:\n        def get(self):\n            return 1\nprint(A().get())",
         "GUARDED"),
        ("try:\n    import yaml\n    def ones():\n        import cupy\nexcept ImportError:\n    def ones():\n"
         "        return 1\nprint(ones())", "ALWAYS"),
        (FLAG.format("def ones():\n        return 1"), "GUARDED"),
        (FLAG.format("def ones():\n        raise ImportError('cupy')"), "ALWAYS"),
        (FLAG.format("print('slow')"), "ALWAYS"),
        (FLAG.replace("if HAVE", "if not HAVE").format("def ones():\n        return 1"), "ALWAYS"),
        (CLASSES + "B = Fast if cupy else Slow\nprint(B().go())", "GUARDED"),
        (CLASSES + "B = Slow if cupy else Fast\nprint(B().go())", "ALWAYS"),
        (CLASSES + "B = Fast if cupy else Slow\nprint(B().go(), Fast())", "ALWAYS"),
        (CLASSES + "B = Fast\nprint(B().go())", "ALWAYS"),
        # a later definition takes the place of an earlier one
        (FIRST + AGAIN + "print(f())", "NEVER"),
        (FIRST + "print(f())\n" + AGAIN, "ALWAYS"),
        (FIRST + "g = f\n" + AGAIN + "print(g())", "ALWAYS"),
        (AGAIN + FIRST + "print(f())", "ALWAYS"),
        ("def g():\n    return f()\n" + FIRST + "g()\n" + AGAIN, "ALWAYS"),
        ("import functools\n@functools.lru_cache\n" + FIRST + AGAIN + "print(f())", "ALWAYS"),
        (FIRST + "if os.path.exists('x'):\n    def f():\n        return 1\nprint(f())", "ALWAYS"),
        ("class A:\n    def go(self):\n        import cupy\nclass A:\n    def go(self):\n        return 1\nA().go()", "NEVER"),  # noqa: E501
        ("if os.name == 'nt':\n    def f():\n        import cupy\nelse:\n    def f():\n        return 1\nf()",
         "OPTION os.name == 'nt' (main.py:3)"),
        ("if os.name == 'posix':\n    def f():\n        import cupy\nelse:\n    def f():\n        return 1\nf()", "ALWAYS"),  # noqa: E501
        ("if os.path.exists('x'):\n    def f():\n        import cupy\nelse:\n    def f():\n        return 1\nf()", "CHOSEN"),  # noqa: E501
        (OTHER + "if yaml:\n    print(1)\n" + FIRST + "f()", "ALWAYS"),
    ],
)  # fmt: skip
def test_a_name_means_the_definition_that_is_run(tmp_path: Path, text: str, expected: str) -> None:
    files = {"main.py": PROGRAM.format(text), "slow.py": "import torch\ndef ones():\n    return torch.ones(1)\n"}
    assert need(files, tmp_path) == expected


KINDS = (
    "from collections import OrderedDict\n"
    "class Fast:\n    def __init__(self):\n        import cupy\nclass Slow:\n    def go(self):\n        return 1\n"
    "def make(kind='slow'):\n    return {}[kind]()\n"
)


@pytest.mark.parametrize(
    "table",
    [
        "dict(fast=Fast, slow=Slow)",
        "{'fast': Fast, 'slow': Slow}",
        "dict([('fast', Fast), ('slow', Slow)])",
        "OrderedDict([('fast', Fast), ('slow', Slow)])",
    ],
)
@pytest.mark.parametrize(("call", "expected"), [("make()", "OPTION"), ("make('fast')", "ALWAYS"), ("1", "NEVER")])
def test_a_table_is_asked_where_it_is_written(tmp_path: Path, table: str, call: str, expected: str) -> None:
    at_once, kept = (
        KINDS.replace("{}", table),
        f"from collections import OrderedDict\nNETS = {table}\n{KINDS.replace('{}', 'NETS')}",
    )
    for name, text in {"at_once": at_once, "kept": kept}.items():
        said = need({"main.py": PROGRAM.replace("{}", f"{text}print({call})")}, tmp_path / name).split()[0]
        assert said == expected


HANDLER = "import signal\nimport sys\ndef f(*given):\n    import cupy\n"
VALUES = "def f():\n    import cupy\n    yield 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HANDLER + "signal.signal(signal.SIGUSR1, f)", "CHOSEN"),
        (HANDLER + "sys.excepthook = f", "CHOSEN"),
        (HANDLER + "signal.signal(signal.SIGUSR1, f)\nf()", "ALWAYS"),
        (HANDLER + "import atexit\natexit.register(f)", "ALWAYS"),
        (VALUES + "g = f()", "CHOSEN"),
        (VALUES + "g = f()\nprint(next(g))", "ALWAYS"),
        (VALUES + "for x in f():\n    print(x)", "ALWAYS"),
        (VALUES.replace("yield", "return") + "g = f()", "ALWAYS"),
    ],
)
def test_what_python_calls_by_itself_may_never_run(tmp_path: Path, text: str, expected: str) -> None:
    assert need({"main.py": PROGRAM.format(text)}, tmp_path) == expected
