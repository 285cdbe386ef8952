"""Code around what the target lacks: whether it goes on without it, or ends the program all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, judged

TRY = (
    "import sys\nimport torch\ntry:\n    import cupy\n    HAVE = True\n"
    "except ImportError:\n    cupy, HAVE = None, False\n"
)
TRIED = "import sys\nimport torch\ntry:\n    import cupy\nexcept ImportError:\n    {}\nprint(torch.ones(1))\n"
OTHER = "try:\n    import yaml\nexcept ImportError:\n    yaml = None\n"
ARGS = (
    "import argparse\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--fast', action='store_true')\nargs = parser.parse_args()\n"
)

LOAD = (
    "def load(path):\n    try:\n        import cupy\n    except ImportError:\n        cupy = None\n"
    "    return open(path).read()\n"
)


def need(files: Files, root: Path, what: str = "cupy") -> str:
    """Return how surely `main.py` comes to a package, with the option that it needs for that."""
    program = judged(root, files)["main.py"]
    ways = [obstacle.call_path for obstacle in (*program.blockers, *program.optional) if obstacle.what == what]
    return " ".join([ways[0].reachability.name, *ways[0].options]) if ways else "NEVER"


ENDING = [
    # a check that always fails where the package is missing
    (TRY + "if cupy is None:\n    raise ImportError('cupy')\n", "ALWAYS"),
    (TRY + "def main():\n    if not HAVE:\n        raise ImportError('cupy')\nmain()\n", "ALWAYS"),
    (TRY + "def main():\n    if not HAVE:\n        raise ImportError('cupy')\nprint(1)\n", "GUARDED"),
    (TRY + "if HAVE:\n    y = cupy.e\nelse:\n    y = torch.ones(1)\n    if y != 1:\n        raise ValueError\n",
     "GUARDED"),
    (TRY + "assert HAVE\n", "ALWAYS"),
    (TRY + "assert cupy is not None, 'install it'\n", "ALWAYS"),
    (TRY + "assert cupy is None or HAVE\n", "GUARDED"),
    (TRY + "if not HAVE:\n    sys.exit('cupy')\n", "ALWAYS"),
    (TRY + "if not HAVE:\n    print('cupy')\n    sys.exit(1)\n", "ALWAYS"),
    (TRY + "if HAVE:\n    print(1)\nelse:\n    raise SystemExit\n", "ALWAYS"),
    (TRY + "if HAVE:\n    raise SystemExit('not with cupy')\n", "GUARDED"),
    (TRY + "def run():\n    if HAVE:\n        return 1\n    raise ImportError('cupy')\nrun()\n", "ALWAYS"),
    (TRY + "def run():\n    if not HAVE:\n        return 1\n    raise ImportError\nrun()\n", "GUARDED"),
    (TRY + "try:\n    if not HAVE:\n        raise ImportError\n    print(2)\nexcept ImportError:\n    print(1)\n",
     "GUARDED"),
    (TRY + "try:\n    if not HAVE:\n        raise ImportError('cupy')\nexcept ValueError:\n    print(1)\n", "ALWAYS"),
    (TRY + "try:\n    if not HAVE:\n        raise RuntimeError\nexcept RuntimeError:\n    print(1)\n", "GUARDED"),
    (TRY + ARGS + "if args.fast and not HAVE:\n    parser.error('install cupy')\n", "OPTION --fast"),
    (TRY + ARGS + "if args.fast:\n    if not HAVE:\n        raise ImportError('cupy')\n", "OPTION --fast"),
    (TRY + ARGS + "assert HAVE or not args.fast\n", "OPTION --fast"),
    (TRY + OTHER + "if cupy is None and yaml is None:\n    raise ImportError('one of them')\n", "GUARDED"),
    (TRY + OTHER + "assert cupy is not None or yaml is not None\n", "GUARDED"),
    (TRY + OTHER + "if yaml is None:\n    if cupy is None:\n        raise ImportError('one of them')\n", "GUARDED"),
    (TRY + OTHER + "if cupy is None or yaml is None:\n    raise ImportError('both')\n", "ALWAYS"),
    (TRY + "try:\n    import pycuda.driver as drv\nexcept ImportError:\n    drv = None\n"
     "if cupy is None and drv is None:\n    raise ImportError('one of them')\n", "ALWAYS"),
    (TRY + "class Net:\n    def __init__(self):\n        if cupy is None:\n            exit(1)\nNet()\n", "ALWAYS"),
    (TRY + "class Net:\n    def __init__(self):\n        if cupy is None:\n            raise ImportError\n", "GUARDED"),
    (TRY + "import unittest\nif cupy is None:\n    raise unittest.SkipTest('cupy')\n", "GUARDED"),
    (TRY + "import warnings\nif not HAVE:\n    warnings.warn('slow')\n", "GUARDED"),
    (TRY + "import logging\nlogger = logging.getLogger()\nif not HAVE:\n    logger.error('slow')\n", "GUARDED"),
    # a handler that ends the program by what it calls
    (TRIED.format("cupy = None"), "GUARDED"),
    ("def die(text):\n    print(text)\n    raise SystemExit(1)\n" + TRIED.format("die('cupy')"), "ALWAYS"),
    ("def die(text):\n    print(text)\n    sys.exit(1)\n" + TRIED.format("die('cupy')"), "ALWAYS"),
    ("def say(text):\n    if text == 'stop':\n        sys.exit(1)\n    print(text)\n" + TRIED.format("say('cupy')"),
     "GUARDED"),
    ("def say(text):\n    return print(text)\n    raise SystemExit(1)\n" + TRIED.format("say('cupy')"), "GUARDED"),
    (ARGS + TRIED.format("parser.error('cupy')"), "ALWAYS"),
    (ARGS + TRIED.format("if args.fast:\n        raise"), "OPTION --fast"),
    (TRIED.replace("ImportError:", "ImportError as e:").format("if 'cupy' not in str(e):\n        raise"), "GUARDED"),
    (TRIED.format("try:\n        import numpy as cupy\n    except ImportError:\n        raise SystemExit"), "GUARDED"),
    (TRIED.format("def ones():\n        raise ImportError('cupy')") + "ones()\n", "ALWAYS"),
    (TRIED.format("def ones():\n        raise ImportError('cupy')"), "GUARDED"),
    (TRIED.format("class A:\n        def __getattr__(self, name):\n            raise ImportError\n    cupy = A()"),
     "GUARDED"),
    # a question after the package, which nothing imports
    ("import torch\nfrom importlib.util import find_spec\nassert find_spec('cupy'), 'cupy'\n", "ALWAYS"),
    ("import torch\nfrom importlib.util import find_spec\nif find_spec('cupy') is None:\n    exit(1)\n", "ALWAYS"),
    ("import torch\nfrom importlib.util import find_spec\nassert find_spec('numpy'), 'numpy'\n", "NEVER"),
    ("import torch\nfrom importlib.util import find_spec\nif find_spec('cupy'):\n    raise SystemExit\n", "NEVER"),
    ("import torch\nfrom importlib.util import find_spec\nif not find_spec('cupy'):\n    print('slow')\n", "NEVER"),
    ("import torch\nfrom lightning_utilities.core.imports import module_available\nif not module_available('cupy'):\n"
     "    raise SystemExit('cupy')\n", "ALWAYS"),
    ("import torch\nfrom importlib.util import find_spec\nassert find_spec('mylib') or find_spec('cupy')\n", "CHOSEN"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ENDING)
def test_a_check_for_what_is_lacking_may_end_the_program(tmp_path: Path, text: str, expected: str) -> None:
    assert need({"main.py": text}, tmp_path) == expected


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("from compat import HAVE\nassert HAVE\n", "ALWAYS"),
        ("from compat import cupy\nif cupy is None:\n    raise ImportError\n", "ALWAYS"),
        ("import compat\nif not compat.HAVE:\n    raise ImportError\n", "ALWAYS"),
        ("from lib import HAVE\nif not HAVE:\n    raise ImportError\n", "ALWAYS"),
        ("from compat import has_gpu\nif not has_gpu():\n    raise ImportError\n", "ALWAYS"),
        ("from compat import HAVE\nprint(HAVE)\n", "GUARDED"),
        ("from compat import HAVE, yaml\nif not (HAVE or yaml):\n    raise ImportError\n", "GUARDED"),
        ("import compat\nif not (compat.HAVE or compat.yaml):\n    raise ImportError\n", "GUARDED"),
        ("from compat import HAVE, has_yaml\nif not (HAVE or has_yaml()):\n    raise ImportError\n", "GUARDED"),
        ("from compat import load\nif load(1) is None:\n    raise ValueError\n", "GUARDED"),
        ("from compat import HAVE\nif not HAVE:\n    print('slow')\n", "GUARDED"),
    ],
)
def test_the_check_may_stand_in_another_file(tmp_path: Path, main: str, expected: str) -> None:
    compat = TRY + OTHER + LOAD + "def has_yaml():\n    try:\n        import yaml\n        return True\n"
    compat += "    except ImportError:\n        return False\n"
    compat += "def has_gpu():\n    try:\n        import cupy\n        return True\n    except ImportError:\n"
    files = {
        "main.py": f"import torch\n{main}if __name__ == '__main__':\n    print(torch.ones(1))\n",
        "compat.py": compat + "        return False\n",
    }
    assert need({**files, "lib/__init__.py": "from compat import HAVE\n"}, tmp_path) == expected


def test_a_function_that_ends_the_program_may_stand_in_another_file(tmp_path: Path) -> None:
    files = {"main.py": TRIED.format("die('cupy')").replace("import sys", "from compat import die")}
    ending = "import sys\ndef die(text):\n    print(text)\n    sys.exit(1)\n"
    assert need({**files, "compat.py": ending}, tmp_path / "ending") == "ALWAYS"
    assert need({**files, "compat.py": "def die(text):\n    print(text)\n"}, tmp_path / "telling") == "GUARDED"


def test_a_question_after_attention_kernels_may_end_the_program(tmp_path: Path) -> None:
    asked = "import torch\nfrom transformers.utils import is_flash_attn_2_available\n"
    ending = asked + "if not is_flash_attn_2_available():\n    raise ImportError('flash-attn')\n"
    assert need({"main.py": ending}, tmp_path / "ending", "flash-attn") == "ALWAYS"
    telling = asked + "if not is_flash_attn_2_available():\n    print('slow')\n"
    assert need({"main.py": telling}, tmp_path / "telling", "flash-attn") == "NEVER"
