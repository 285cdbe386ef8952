"""Write the pytest file that replays a directory anywhere: without torchferry, by torch alone.

The bodies of the modules that torchferry itself reads, builds and judges with are taken as they are.
"""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.numerics.replay import environment

_MODULES = ("reading", "building", "judging")

_START = '''\
"""{title}

Made by torchferry {version} from a call in {place}. It needs torch and pytest, and the two files beside it:

    DEVICE={device} pytest -s {file}          # or DEVICE=cpu, or any other device of a torch

IMPORT=my_ext imports a library first that brings operators. Nothing here knows torchferry.
"""

from __future__ import annotations

{imports}

PLUGINS = {plugins}
"""Modules that make torch know a type of device, where it does not load them by itself."""


def say(template, **values):
    return template.format(**values)

'''

_END = """

def device():
    for name in filter(None, os.environ.get("IMPORT", "").split(",")):
        torch.ops.load_library(name) if name.endswith(".so") else importlib.import_module(name)
    wanted = os.environ.get("DEVICE", "cpu")
    kind = wanted.partition(":")[0]
    if kind in PLUGINS and not hasattr(torch, kind):
        importlib.import_module(PLUGINS[kind])
    return torch.device(wanted)


def test_{test}():
    place = device()
    try:
        told = judged(read_call(Path(__file__).parent), place)
    except Refused as refused:
        pytest.skip(str(refused))
    for one in told:
        print(f"{{one.status}}: {{one.what}}: {{one.why}}")
    wrong = [f"{{one.what}}: {{one.why}}" for one in told if one.status == FAIL]
    assert not wrong, "; ".join(wrong)
    if all(one.status == UNTESTED for one in told):
        pytest.skip("; ".join(f"{{one.what}}: {{one.why}}" for one in told))
"""


def text(document: dict[str, Any], test: str) -> str:
    """Return the file for a call.

    Args:
        document: What `call.json` says.
        test: Name of the test, without `test_`.
    """
    where = document["where"]
    kind = document["device"].partition(":")[0]
    name = f"{document['operator']}.{document['overload']}".rstrip(".").replace("::", ".")
    place = f"{where['module'] or 'no module'} ({where['phase'] or 'phase unknown'})"
    imports, bodies = _parts()
    start = _START.format(
        title=_quoted(f"Replay {name}."),
        version=__version__,
        place=_quoted(place),
        device=kind,
        file=f"test_{test}.py",
        imports=imports,
        plugins=json.dumps(environment.plugins(), indent=4),
    )
    return start + bodies + _END.format(test=test)


@lru_cache(maxsize=1)
def _parts() -> tuple[str, str]:
    """Return the imports of the modules, and their bodies."""
    imports, bodies = {"import importlib", "import pytest"}, []
    for module in _MODULES:
        heads, body = _split(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
        imports |= heads
        bodies.append(body)
    return _ordered(imports), "\n\n".join(bodies)


def _quoted(text: str) -> str:
    """Return text that may stand in a docstring, whatever a module is called."""
    return re.sub(r"[^\w .,()#-]", "_", text)


def _split(source: str) -> tuple[set[str], str]:
    """Return the imports of a module that are not torchferry's, and what follows its imports."""
    tree = ast.parse(source)
    lines = source.splitlines()
    heads, last = set(), 0
    for node in tree.body[1:]:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        last = node.end_lineno or 0
        if isinstance(node, ast.Import) or not (node.module or "").startswith(("torchferry", "__future__")):
            heads.add(ast.unparse(node))
    return heads, "\n".join(lines[last:]).strip() + "\n"


def _ordered(imports: set[str]) -> str:
    """Return imports in the order of the standard library, then the others."""
    others = {line for line in imports if line.split()[1].partition(".")[0] in {"torch", "pytest"}}

    def key(line: str) -> tuple[bool, str]:
        return line.startswith("from"), line.split()[1]

    return "\n".join([*sorted(imports - others, key=key), "", *sorted(others, key=key)])
