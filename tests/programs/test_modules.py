"""Which file imports which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.small import Files, small
from torchferry.device.small_file import small_file
from torchferry.programs.imports.module_graph import Modules

NET = "class Net:\n    pass\n"


def closure(root: Path, files: Files, start: str) -> tuple[set[str], Modules]:
    modules = small(root, files).modules()
    return set(modules.closure(start)), modules


@pytest.mark.parametrize(
    ("files", "reached"),
    [
        ({"train.py": "import net\n", "net.py": NET}, "net.py"),
        ({"train.py": "import net as n, other\n", "net.py": NET, "other.py": NET}, "net.py other.py"),
        ({"train.py": "def f():\n    import net\n", "net.py": NET}, "net.py"),
        ({"train.py": "if True: import net\n", "net.py": NET}, "net.py"),
        ({"train.py": "import os; import net\n", "net.py": NET}, "net.py"),
        ({"train.py": "try: import net\nexcept ImportError: net = None\n", "net.py": NET}, "net.py"),
        ({"train.py": "from net import (\n    Net,  # the net\n    Other)\n", "net.py": NET}, "net.py"),
        ({"train.py": "from net import Net, \\\n    Other\n", "net.py": NET}, "net.py"),
        ({"train.py": "from models import \\\n    net\n", "models/__init__.py": "", "models/net.py": NET},
         "models/__init__.py models/net.py"),
        ({"train.py": "from models import (net,\n  other)\n", "models/net.py": NET, "models/other.py": NET},
         "models/net.py models/other.py"),
        ({"train.py": "import models.net\n", "models/__init__.py": "", "models/net.py": NET},
         "models/__init__.py models/net.py"),
        ({"train.py": "import a.b.c\n", "a/__init__.py": "", "a/b/__init__.py": "import helper\n", "a/b/c.py": NET,
          "helper.py": ""}, "a/__init__.py a/b/__init__.py a/b/c.py helper.py"),
        ({"train.py": "import a.b.c\n", "a/__init__.py": "import helper\n", "a/b/c.py": NET, "helper.py": ""},
         "a/__init__.py a/b/c.py helper.py"),  # a folder without `__init__.py` in a package
        # a file that is no package has no modules below it, whatever its name is
        ({"tools/eval.py": "from model.test import Net\n", "lib/model.py": NET, "train.py": "import tools.eval\n"},
         "tools/eval.py"),
        ({"train.py": "import sys, os\nsys.path.insert(0, os.path.join('tools', 'lib'))\nfrom model.test import Net\n",
          "tools/lib/__init__.py": "", "tools/lib/model/test.py": NET, "src2/model.py": NET},
         "tools/lib/model/test.py"),
        ({"train.py": "from models import Net\n", "models/__init__.py": "from .net import Net\n", "models/net.py": NET},
         "models/__init__.py models/net.py"),
        ({"train.py": "from models import *\n", "models/__init__.py": "from .net import *\n", "models/net.py": NET},
         "models/__init__.py models/net.py"),
        ({"train.py": "import a.b.c\n", "a/b/__init__.py": "from . import d\nfrom ..e import f\n", "a/b/c.py": "",
          "a/b/d.py": "", "a/e.py": ""}, "a/b/__init__.py a/b/c.py a/b/d.py a/e.py"),
        ({"train.py": "import a\n", "a.py": "import b\n", "b.py": "import a, train\n"}, "a.py b.py"),
        ({"train.py": "from pkg import sub\n", "pkg/sub/net.py": NET}, ""),
        ({"train.py": "from pkg.sub import net\n", "pkg/sub/net.py": NET}, "pkg/sub/net.py"),
        ({"train.py": "import pkg.sub.net as n\n", "src/pkg/sub/net.py": NET}, "src/pkg/sub/net.py"),
        ({"train.py": "import sys\nsys.path.append('submodules/ops')\nfrom ops_lib.nms import nms\n",
          "submodules/ops/ops_lib/__init__.py": "", "submodules/ops/ops_lib/nms.py": NET},
         "submodules/ops/ops_lib/__init__.py submodules/ops/ops_lib/nms.py"),
        ({"tools/train.py": "import _paths\nfrom model.net import Net\n", "tools/_paths.py": "",
          "lib/model/net.py": NET, "train.py": "import tools.train\n"},
         "tools/train.py tools/_paths.py lib/model/net.py"),
        ({"train.py": "from helper import x\n", "one/helper.py": "", "two/helper.py": ""}, ""),
        ({"train.py": "import yaml\n", "other/pkg/__init__.py": "", "other/pkg/yaml.py": ""}, ""),
        ({"train.py": "import json\nimport logging\n", "helpers/json.py": "", "lib/logging/__init__.py": ""}, ""),
        ({"train.py": "import logging\n", "logging/__init__.py": "import net\n", "net.py": NET},
         "logging/__init__.py net.py"),
        ({"train.py": "import importlib\nm = importlib.import_module('models.net')\n", "models/net.py": NET},
         "models/net.py"),
        ({"train.py": "from importlib import import_module\nm = import_module('models.net')\n", "models/net.py": NET},
         "models/net.py"),
        ({"train.py": "m = __import__('net')\n", "net.py": NET}, "net.py"),
        ({"train.py": "import importlib\nNAME = 'models.net'\nm = importlib.import_module(NAME)\n",
          "models/net.py": NET}, "models/net.py"),
        ({"train.py": "import importlib\nm = importlib.import_module('.net', 'models')\n", "models/net.py": NET},
         "models/net.py"),
        ({"models/__init__.py": "import importlib\nm = importlib.import_module('.net', __name__)\n",
          "models/net.py": NET, "train.py": "import models\n"}, "models/__init__.py models/net.py"),
        ({"models/__init__.py": "import importlib\nm = importlib.import_module('.net', package=__package__)\n",
          "models/net.py": NET, "train.py": "import models\n"}, "models/__init__.py models/net.py"),
        ({"train.py": "import importlib\ndef load(n):\n    return importlib.import_module(f'models.{n}')\n",
          "models/net.py": NET, "models/other.py": NET, "models/deep/x.py": NET}, "models/net.py models/other.py"),
        ({"train.py": "import importlib\ndef load(n):\n    return importlib.import_module('models.' + n)\n",
          "models/net.py": NET}, "models/net.py"),
        ({"train.py": "import importlib\ndef load(n):\n    return importlib.import_module('models.%s' % n)\n",
          "models/net.py": NET}, "models/net.py"),
        ({"train.py": "import importlib\ndef load(n):\n    return importlib.import_module('models.{}'.format(n))\n",
          "models/net.py": NET}, "models/net.py"),
        ({"train.py": "import importlib\ndef load(n):\n    return importlib.import_module('models.' + n + '_model')\n",
          "models/net_model.py": NET, "models/base.py": NET}, "models/net_model.py"),
        ({"train.py": "import importlib\ndef load(n):\n    name = 'models.' + n\n"
          "    return importlib.import_module(name)\n",
          "models/net.py": NET}, "models/net.py"),
        ({"train.py": "import importlib\ndef load(n):\n    m = importlib.import_module(f'models.{n}.net')\n",
          "models/a/net.py": NET, "models/b/net.py": NET, "models/b/no.py": NET}, "models/a/net.py models/b/net.py"),
        ({"models/__init__.py": "import importlib\nfor n in names:\n    importlib.import_module(f'.{n}', __name__)\n",
          "models/net.py": NET, "train.py": "import models\n"}, "models/__init__.py models/net.py"),
        ({"models/__init__.py": "import importlib\nfor n in names:\n    importlib.import_module(__name__ + '.' + n)\n",
          "models/net.py": NET, "train.py": "import models\n"}, "models/__init__.py models/net.py"),
        ({"models/__init__.py": "import importlib\nfor n in names:\n    importlib.import_module(f'{__name__}.{n}')\n",
          "models/net.py": NET, "train.py": "import models\n"}, "models/__init__.py models/net.py"),
        ({"train.py": "import importlib\nfor n in ('models.a', 'models.b'):\n    importlib.import_module(n)\n",
          "models/a.py": NET, "models/b.py": NET, "models/c.py": NET}, "models/a.py models/b.py"),
        ({"train.py": "import importlib\nNETS = {'a': 'models.a', 'b': 'models.b'}\ndef f(n):\n"
          "    return importlib.import_module(NETS[n])\n", "models/a.py": NET, "models/b.py": NET},
         "models/a.py models/b.py"),
        ({"train.py": "import importlib\ndef load(n):\n    return importlib.import_module(n)\nload('models.net')\n",
          "models/net.py": NET}, "models/net.py"),
        ({"train.py": "from util import load\nload('models.net')\n", "util.py": "import importlib\ndef load(name):\n"
          "    return importlib.import_module(name)\n", "models/net.py": NET}, "util.py models/net.py"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(next(iter(value.values())))[:60],
)  # fmt: skip
def test_what_a_program_reaches(files: Files, reached: str, tmp_path: Path) -> None:
    assert closure(tmp_path, files, "train.py")[0] == {"train.py", *reached.split()}


@pytest.mark.parametrize(
    "text",
    [
        "import importlib, sys\nimportlib.import_module(sys.argv[1])\n",
        "import importlib\ndef f(name):\n    return importlib.import_module(name)\n",
        "import importlib\ndef f(name):\n    return importlib.import_module(f'{name}.net')\n",
        "def f(name):\n    return __import__(name)\n",
    ],
)
def test_what_cannot_be_followed_is_said(text: str, tmp_path: Path) -> None:
    _, modules = closure(tmp_path, {"train.py": text, "net.py": NET}, "train.py")
    (said,) = modules.unfollowed["train.py"]
    assert said.path == "train.py"
    assert "import" in said.text
    assert text.split("\n")[said.line - 1].count("import") > 0


def test_the_device_module_asks_for_plugins_alone_until_somebody_edits_it(tmp_path: Path) -> None:
    """A migrated program is not said to be unresolved for what torchferry wrote."""
    written = small_file(["device_string", "is_available"])
    for text, is_open in ((written, False), (written + "\nimportlib.import_module(input())\n", True)):
        files = {"train.py": "import device_utils\n", "device_utils.py": text}
        _, modules = closure(tmp_path, files, "train.py")
        assert ("device_utils.py" in modules.unfollowed) is is_open


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import cupy.cuda\n", ("cupy.cuda", 1, False, ())),
        ("\nfrom flash_attn import flash_attn_func as f, other\n",
         ("flash_attn", 2, False, ("flash_attn_func", "other"))),
        ("try:\n    import apex\nexcept ImportError:\n    pass\n", ("apex", 2, True, ())),
        ("from .ops import _C\n", (".ops", 1, False, ("_C",))),
        ("import importlib\nimportlib.import_module('cupy')\n", ("cupy", 2, False, ())),
        ("import importlib\nif x:\n    importlib.import_module('cupy')\n", ("cupy", 3, True, ())),
        ("import importlib\ndef f(name):\n    return importlib.import_module('nowhere.' + name)\n",
         ("nowhere", 3, True, ())),
        ("import importlib\ndef f(x):\n    return importlib.import_module(f'third.games.{x}')\n",
         ("third.games", 3, True, ())),
    ],
)  # fmt: skip
def test_what_is_not_the_projects(text: str, expected: tuple[object, ...], tmp_path: Path) -> None:
    _, modules = closure(tmp_path, {"train.py": text}, "train.py")
    assert modules.externals["train.py"][-1][1:5] == expected
    assert [each for each in modules.externals["train.py"] if each[1:5] == expected]


def test_where_the_imports_stand(tmp_path: Path) -> None:
    files = {
        "train.py": "import os\nfrom a import b\nif os:\n    import c\n",
        "a/__init__.py": "",
        "a/b.py": "",
        "c.py": "",
    }
    _, modules = closure(tmp_path, files, "train.py")
    places = [(edge.path, edge.line, edge.indented, edge.chosen) for edge in modules.edges["train.py"]]
    assert places == [("a/__init__.py", 2, False, False), ("a/b.py", 2, False, False), ("c.py", 4, True, False)]


def test_one_of_several_is_a_choice(tmp_path: Path) -> None:
    text = "import importlib\ndef load(n):\n    return importlib.import_module('models.' + n)\n"
    _, modules = closure(tmp_path, {"train.py": text, "models/a.py": "", "models/b.py": ""}, "train.py")
    assert [(edge.path, edge.line, edge.chosen) for edge in modules.edges["train.py"]] == [
        ("models/a.py", 3, True),
        ("models/b.py", 3, True),
    ]


@pytest.mark.parametrize(
    ("files", "reached"),
    [
        ({"old/v1.0/train.py": "from .net import Net\n", "old/v1.0/net.py": NET}, "old/v1.0/net.py"),
        ({"lab-0.1/a/train.py": "from ..b import net\n", "lab-0.1/b/__init__.py": "", "lab-0.1/b/net.py": NET},
         "lab-0.1/b/__init__.py lab-0.1/b/net.py"),
        ({"v1.0/train.py": "from .stars import *\n", "v1.0/stars.py": "from .net import *\n", "v1.0/net.py": NET},
         "v1.0/stars.py v1.0/net.py"),
        # in a package, a name of Python's own library is not the package around the file
        ({"lab/logging/train.py": "from logging import Logger\n", "lab/__init__.py": "", "lab/logging/__init__.py": ""},
         ""),
        ({"lab/logging/train.py": "from .. import logging\n", "lab/__init__.py": "", "lab/logging/__init__.py": ""},
         "lab/__init__.py lab/logging/__init__.py"),
    ],
)  # fmt: skip
def test_imports_in_folders(files: Files, reached: str, tmp_path: Path) -> None:
    start = next(iter(files))
    assert closure(tmp_path, files, start)[0] == {start, *reached.split()}
