"""What a written call is handed on as: a test that needs torch alone, and the text of an issue.

The pytest file has the bodies of the modules that torchferry itself reads, builds and judges with, as they are.
"""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.core.json_text import json_text
from torchferry.core.messages import Message
from torchferry.core.secrets import masked
from torchferry.numerics.callfile import environment
from torchferry.numerics.callfile.judging import FAIL, ReplayVerdict
from torchferry.numerics.callfile.reading import Call


def issue(
    call: Call,
    folder: Path,
    judgements: list[ReplayVerdict],
    here: dict[str, Any],
    device: str,
    standard: str,
    failure: str = "",
) -> str:
    """Return Markdown. It is English, as the trackers are.

    Args:
        call: The call.
        folder: Its directory, which is to be attached.
        judgements: What was judged of it.
        here: The environment in which it was replayed.
        device: Where it was replayed.
        standard: What it was judged by; empty where only NaN and Inf were looked for.
        failure: What the operator raised, where it did.
    """
    document = call.document
    name = _name(call)
    wrong = [judgement for judgement in judgements if judgement.status == FAIL]
    state = f"raises on {device}" if failure else f"wrong on {device}" if wrong else f"replayed on {device}"
    lines = [f"# `{name}`: {state}", ""]
    if failure:
        lines += ["```text", failure.strip(), "```", ""]
    if judgements:
        lines += ["| result | verdict | found |", "|---|---|---|"]
        lines += [
            f"| {_cell(judgement.what)} | {judgement.status} | {_cell(judgement.why)} |" for judgement in judgements
        ]
        lines.append("")
    lines += ["## The call", "", "```text", f"{document.get('schema', name)}", "", *arguments(call), "```", ""]
    where = document.get("where") or {}
    if where.get("module") or where.get("phase"):
        step = "" if where.get("step") is None else f", step {where['step']}"
        source = f" of `{where['source']}`" if where.get("source") else ""
        lines += [f"Found in `{where.get('module') or 'no module'}` ({where.get('phase')}{source}{step}).", ""]
    lines += ["## Environment", "", *_table(here, document.get("environment") or {}), ""]
    lines += ["## Reproduce", ""]
    lines += [f"Attach the folder `{folder.name}`; the test in it needs torch and pytest, nothing else:", "", "```bash"]
    test = next(iter(sorted(path.name for path in folder.glob("test_*.py"))), "test_*.py")
    libraries = f"IMPORT={','.join(document['libraries'])} " if document.get("libraries") else ""
    lines += [f"{libraries}DEVICE={device} pytest -s {folder.name}/{test}", "```", ""]
    lines.append(
        f"Judged by the standard `{standard}`: the truth is the CPU's result in higher precision."
        if standard
        else "Judged by whether the results have NaN or Inf that no argument has."
    )
    if document.get("observed"):
        lines += ["", "<details><summary>Found when the call was saved</summary>", "", "```json"]
        lines += [json_text(document["observed"]).rstrip(), "```", "", "</details>"]
    return masked("\n".join(lines)) + "\n"


def _name(call: Call) -> str:
    return f"{call.name}.{call.overload}".rstrip(".").replace("::", ".")


def arguments(call: Call) -> list[str]:
    """Return the arguments, one a line: `0: float32[64, 128], stride [128, 1], npu:0`."""
    document = call.document
    lines = [f"{index}: {_shown(call, node)}" for index, node in enumerate(document["args"])]
    return lines + [f"{key}: {_shown(call, node)}" for key, node in document["kwargs"].items()]


def _shown(call: Call, node: Any) -> str:
    if isinstance(node, list):
        shown = [_shown(call, part) for part in node[:8]]
        more = [f"... {len(node)} in all"] if len(node) > 8 else []
        return "[" + ", ".join(shown + more) + "]"
    if isinstance(node, dict) and len(node) == 1:
        ((tag, content),) = node.items()
        tensors = call.document["tensors"]
        if tag == "tensor" and type(content) is int and 0 <= content < len(tensors):
            row = tensors[content]
            is_made = "made" in call.document["storages"][row["storage"]]
            return f"{row['dtype']}{row['shape']}, stride {row['stride']}, offset {row['offset']}, {row['device']}" + (
                " (random values with the statistics of the real ones)" if is_made else ""
            )
        return str(content)
    return repr(node)


def _table(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    keys = dict.fromkeys([*there, *here])
    rows = [f"| {_cell(key)} | {_cell(there.get(key, ''))} | {_cell(here.get(key, ''))} |" for key in keys]
    return ["| | where it was found | where it was replayed |", "|---|---|---|", *rows]


def _cell(value: Any) -> str:
    text = value.render("en") if isinstance(value, Message) else str(value)
    return " ".join(text.replace("|", "\\|").split())


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
    """Return text that may be in a docstring, whatever a module is called."""
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
