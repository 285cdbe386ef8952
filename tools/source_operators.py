"""Write what each version of a plugin registers, read from its sources: for a plugin of which no wheel is public.

python tools/source_operators.py TARGET VERSION TORCH TREE [VERSION TORCH TREE ...]

TREE is a checkout of that version, TORCH the torch that it is for. The lists come from the files for the plugin's
generator of registrations (`*functions.yaml`, in the form of torch's `native_functions.yaml`) and from the
registrations in its C++ sources. What the file has of other versions stays.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))

from surface_tables import Operators, known_operators

from torchferry.backends import registry
from torchferry.backends.datafile import data_directory
from torchferry.core import toml

LISTS = {
    "PrivateUse1": "registered",
    "AutogradPrivateUse1": "autograd",
    "SparsePrivateUse1": "sparse",
    "SparseCsrPrivateUse1": "sparse_compressed",
    "NestedTensorPrivateUse1": "nested",
}
"""The list for each dispatch key."""

_SOURCES = frozenset({".c", ".cc", ".cpp", ".cu", ".h", ".mu"})
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_MACRO = re.compile(r'\b\w*REGISTER\w*\s*\(\s*aten\s*,\s*(\w+)\s*,\s*"([^"]+)"')
"""A macro of the plugin that registers one function: library, key, operator."""
_BLOCK = re.compile(r"\bTORCH_LIBRARY_IMPL\s*\(\s*aten\s*,\s*(\w+)\s*,\s*(\w+)\s*\)\s*\{")


def operators_of(tree: Path) -> dict[str, frozenset[str]]:
    """Return the lists of operators that the sources of a plugin register."""
    lists: dict[str, set[str]] = {name: set() for name in LISTS.values()}

    def note(key: str, operator: str) -> None:
        if key in LISTS:
            lists[LISTS[key]].add(operator.strip().removeprefix("aten::"))

    for path in sorted(tree.rglob("*functions.yaml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
            keys = ",".join(entry.get("dispatch") or {"PrivateUse1": ""})  # without a key it is the device's
            for key in keys.replace(" ", "").split(","):
                note(key, entry["func"])
    for path in sorted(tree.rglob("*")):
        if path.suffix in _SOURCES:
            text = _COMMENT.sub(lambda match: match.group(1) or " ", path.read_text(encoding="utf-8", errors="replace"))
            for key, operator in _MACRO.findall(text):
                note(key, operator)
            for block in _BLOCK.finditer(text):
                for operator in re.findall(rf'\b{block.group(2)}\.impl\(\s*"([^"]+)"', _body(text, block.end())):
                    note(block.group(1), operator)
    return {name: frozenset(names) for name, names in lists.items()}


def _body(text: str, begin: int) -> str:
    """Return the text from an opening brace, which ends before `begin`, to the one that closes it."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return text[begin : begin + brace.start()]
    return text[begin:]


def main() -> int:
    """Put the versions into the file of a target."""
    backend = registry.choose(sys.argv[1]).backend
    path = data_directory(backend) / "registrations.toml"
    operators: Operators = known_operators(backend)
    for version, torch, tree in zip(sys.argv[2::3], sys.argv[3::3], sys.argv[4::3], strict=True):
        operators.torch[version] = torch
        operators.lists[version] = operators_of(Path(tree))
        print(version, {name: len(names) for name, names in operators.lists[version].items()})
    sources = toml.load(path)["sources"] if path.is_file() else {"REG": f"sources of {backend.PLUGIN}, these versions"}
    path.write_text(operators.rendered(backend.PLUGIN, sources, "sources"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
