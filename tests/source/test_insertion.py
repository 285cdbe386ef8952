"""Which imports a text has already, whatever their form, and where the import of torch is."""

from __future__ import annotations

import pytest

from torchferry.backends import registry
from torchferry.source.insertion import binds_module, has_torch_import, import_edit, imports_module
from torchferry.source.text import apply_edits

PLUGINS = sorted({registry.load(name).PLUGIN for name in registry.built_in()})

IMPORTS = [
    # (text, whether it imports the plugin, whether the name of the plugin means it)
    ("import PLUGIN\n", True, True),
    ("import os, torch, PLUGIN\n", True, True),
    ("import numpy as np, PLUGIN, torch\n", True, True),
    ("import os; import PLUGIN\n", True, True),
    ("import os, \\\n    PLUGIN\n", True, True),
    ("import PLUGIN as plugin\n", True, False),
    ("import torch, PLUGIN as plugin, os\n", True, False),
    ("from PLUGIN import contrib\n", True, False),
    ("import PLUGIN.contrib\n", True, True),
    ("try:\n    import PLUGIN\nexcept ImportError:\n    PLUGIN = None\n", True, True),
    ("try:\n    import os, PLUGIN as plugin\nexcept ImportError:\n    pass\n", True, False),
    ("with suppress(ImportError):\n    import PLUGIN\n", True, True),
    ("if find_spec('PLUGIN'):\n    import PLUGIN\n", True, True),
    ("importlib.import_module('PLUGIN')\n", True, False),
    ("plugin = __import__('PLUGIN')\n", True, False),
    ("def f():\n    import PLUGIN\n", False, False),
    ("if args.old:\n    import PLUGIN\n", False, False),
    ("try:\n    import other\nexcept ImportError:\n    import PLUGIN\n", False, False),
    ("import other_PLUGIN, PLUGINs\n", False, False),
    ("from . import PLUGIN\n", False, False),
    ("# import PLUGIN\nprint('import PLUGIN')\n", False, False),
    ("import PLUGIN (\n", True, False),
]


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(("text", "imported", "bound"), IMPORTS)
def test_imports_of_a_plugin(text: str, imported: bool, bound: bool, plugin: str) -> None:
    text = text.replace("PLUGIN", plugin)
    assert imports_module(text, plugin) is imported
    assert binds_module(text, plugin) is bound


TORCH = [
    ("import torch\nx\n", "import torch\nimport p\nx\n"),
    ("import os, torch\nx\n", "import os, torch\nimport p\nx\n"),
    ("import numpy as np, torch.nn as nn\nx\n", "import numpy as np, torch.nn as nn\nimport p\nx\n"),
    ("import os; import torch\nx\n", "import os; import torch\nimport p\nx\n"),
    ("import torchvision, torch_other\nx\n", None),
    ("import mytorch.torch\nx\n", None),
    ("x = 'import torch'; import torch\n", None),
]


@pytest.mark.parametrize(("text", "after"), TORCH)
def test_the_import_of_torch(text: str, after: str | None) -> None:
    assert has_torch_import(text) is (after is not None)
    edit = import_edit(text, ["p"], "\n")
    assert after is None or (edit is not None and apply_edits(text, [edit]) == after)
