"""Write the setup test of a project: the module `standalone` with what the project needs in its tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.backends.target import Target
from torchferry.core.messages import catalogue
from torchferry.device.one_file import _literal_text, sealed
from torchferry.device.provider import vendors
from torchferry.kit.needs import Needs
from torchferry.kit.stack import pairs

_HERE = Path(__file__).parent
_NOTES = re.compile(r"  # noqa: [^\n]*")

_HEADER = """\
# Setup test, written by torchferry {version}: `torchferry setup-test` writes it anew. Edited, it is not overwritten.
# Copyright The torchferry authors. SPDX-License-Identifier: Apache-2.0 (http://www.apache.org/licenses/LICENSE-2.0)
# torchferry: ignore-file it asks for the device of one target
"""

_LEAVE_THE_FOLDER = """
import sys

if __name__ == "__main__" and not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]  # the folder of this file: its modules are not tested, and may have the names of Python's

"""

_ASKED = ("is_available", "device_count", "get_device_name")
"""The names of `torch.cuda` that the test asks for."""

_SAY = '''
def say(template: str, **values: object) -> str:
    """Return a text with its values."""
    return TEXTS.get(template, template).format(**values)

'''

_TAIL = """

if __name__ == "__main__":
    sys.exit(main())
"""


def setup_file(
    project: str,
    target: Target,
    needs: Needs,
    required: tuple[tuple[str, str], ...],
    lang: str,
    *,
    has_list: bool = True,
) -> str:
    """Return the text of the test; the same project gives the same text.

    Args:
        project: Its name.
        target: The target.
        needs: What its code needs.
        required: What is to be installed, as pip reads it, each with its place.
        lang: Language of the answers, `en` or `zh`.
        has_list: Whether the files that `required` names are for the target; the project's own are for CUDA.
    """
    source = (_HERE / "standalone.py").read_text(encoding="utf-8")
    _, _, rest = source.partition('"""\n\nimport ')
    imports, _, rest = rest.partition("from torchferry.core.messages import say\n\n# --- tables ---\n")
    _, _, body = rest.partition("# --- the test ---\n")
    facts = next(facts for facts in vendors() if facts.name == target.name)
    tables = {
        "PROJECT": project,
        "TITLE": target.title.render(lang),
        "PLUGIN": facts.plugin,
        "BEFORE_TORCH": facts.plugin_before_torch,
        "NAMESPACE": facts.namespace,
        "DEVICE": facts.device_type,
        "FACTORY": facts.device_factory,
        "INSTALL": target.install.render(lang),
        "NAMES": {name: facts.names[name].path for name in _ASKED if name in facts.names},
        "PAIRS": tuple(pairs(target)),
        "REQUIREMENTS": required,
        "MODULES": tuple((item.module, item.distribution, item.needed, item.place) for item in needs.modules),
        "DTYPES": tuple(_dtypes(facts.dtypes, needs, lang)),
        "MANAGER": needs.manager,
        "MODELS": tuple(tuple(model) for model in needs.models),
        "LIST_COMMAND": "" if has_list else f"torchferry migrate . --target {target} --kit",
        "TEXTS": _texts(body) if lang == "zh" else {},
    }  # fmt: skip
    text = (
        _HEADER.format(version=__version__)
        + _documentation(project, target)
        + _LEAVE_THE_FOLDER
        + "import "
        + imports.rstrip("\n")
        + "\n\n# --- what this project needs ---\n\n"
        + "\n".join(f"{name} = {_literal(value)}" for name, value in tables.items())
        + "\n\n# --- the test ---\n"
        + _SAY
        + _NOTES.sub("", body).rstrip("\n")
        + "\n"
        + _TAIL
    )
    ast.parse(text, feature_version=(3, 8))
    return sealed(text)


def _documentation(project: str, target: Target) -> str:
    return f'''"""Is this machine ready to run {_plain(project)} on {_plain(target.title.en)}?

    python FILE [--no-network]

It asks six questions, says what to do about each no, and ends with 1 where there is one. It needs Python 3.8, and
nothing that the project does not need.
"""
'''


def _plain(text: str) -> str:
    """Return a name as it may be in a docstring."""
    return re.sub(r'[\\"\n\r]', "_", text)


def _dtypes(known: Any, needs: Needs, lang: str) -> Iterator[tuple[str, bool, str, str]]:
    for name in ("float32", "float16", "bfloat16"):
        fact = known.get(name)
        yield (
            name,
            name == "float32" or name in needs.dtypes,
            fact.note.render(lang) if fact is not None else "",
            needs.dtypes.get(name, ""),
        )


def _texts(source: str) -> dict[str, str]:
    """Return the Chinese of what the test says."""
    chinese = catalogue("torchferry")
    said = {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "say"
        and isinstance(node.args[0], ast.Constant)
    }
    return {text: chinese.gettext(text) for text in sorted(said)}


def _literal(value: object) -> str:
    """Return a value as source, a line for each part of what holds others."""
    if isinstance(value, dict) and value:
        return "{\n" + "".join(f"    {_literal(key)}: {_literal(part)},\n" for key, part in value.items()) + "}"
    if isinstance(value, tuple) and value:
        if not any(isinstance(part, tuple) for part in value):
            return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
        return "(\n" + "".join(f"    {_literal(part)},\n" for part in value) + ")"
    return _literal_text(value) if isinstance(value, str) else repr(value)
