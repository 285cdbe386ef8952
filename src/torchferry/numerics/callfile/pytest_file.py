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
from torchferry.numerics.callfile import environment
from torchferry.numerics.callfile.issue import arguments
from torchferry.numerics.callfile.reading import Call

_MODULES = ("reading", "building", "judging")

_START = '''\
"""{title}

Made by torchferry {version} from a call in {place}:

    {arguments}

It needs torch and pytest, and the two files beside it. What it does is in `test_{test}`, at the end:

    DEVICE={device} pytest -s test_{test}.py

or DEVICE=cpu, or any other device of a torch. IMPORT={library} imports the library of an operator first.
"""

from __future__ import annotations

{imports}

PLUGINS = {plugins}
"""Modules that make torch know a type of device, where it does not load them by itself."""


def say(template, **values):
    return template.format(**values)


def say_in(context, template, **values):
    return say(template, **values)


def say_plural(singular, plural, *, count, **values):
    return say(singular if str(count) == "1" else plural, count=count, **values)


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
    call = read_call(Path(__file__).parent)
    if call.described:
        pytest.skip("; ".join(call.described))
    told = judged(call, device())
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
        test=test,
        arguments="\n    ".join(_quoted(line) for line in arguments(Call(document))),
        library=_quoted(",".join(document["libraries"])) or "NAME",
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
    return re.sub(r"[^\w .,:;()\[\]#-]", "_", text)


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
            heads |= _single(node)
    return heads, "\n".join(lines[last:]).strip() + "\n"


def _single(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return an import as one line for each name, so that those of several modules can be put together."""
    start = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
    return {f"{start}import {alias.name}" for alias in node.names}


def _ordered(imports: set[str]) -> str:
    """Return imports in the order of the standard library, then the others; one line for each module."""
    parts: dict[tuple[bool, str], list[str]] = {}
    for line in sorted(imports):
        head, _, name = line.rpartition("import ")
        module = head.removeprefix("from ").strip() or name
        parts.setdefault((bool(head), module), []).append(name)

    def lines(others: bool) -> list[str]:
        return [
            f"from {module} import {', '.join(names)}" if is_from else f"import {module}"
            for (is_from, module), names in sorted(parts.items())
            if (module.partition(".")[0] in {"torch", "pytest"}) is others
        ]

    return "\n".join([*lines(False), "", *lines(True)])
