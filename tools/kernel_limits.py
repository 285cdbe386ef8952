"""Write what each operator of torch takes on each card, by the operator library that the plugin calls.

python tools/kernel_limits.py npu OPS_MATH OPS_NN OPS_CV OPS_TRANSFORMER OP_PLUGIN  write vendors/npu/kernel_limits.toml

The arguments are checkouts, or git directories without a work tree, of github.com/hicann/ops-math, ops-nn, ops-cv and
ops-transformer, and of github.com/Ascend/op-plugin. `plugin_calls.py` reads which function an operator ends in,
`aclnn_lists.py` what the function takes. What cannot be read is left out: of what is not in the table nobody knows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import torchgen
from aclnn_lists import CARDS, Library, Page, Parameter, limits_of, read_page, slow_dtypes
from plugin_calls import Handed, Kernels, Schema, Ways, all_ways, functions, read_functions, without_comments
from torchgen.gen import parse_native_yaml

from torchferry.backends.datafile import VENDORS
from torchferry.backends.kernel_limits import CODES
from torchferry.core import toml

_HAND = Path(__file__).with_name("kernel_limits.toml")
"""Operators whose C++ is not plain, as somebody read it, each with its place."""

_T = TypeVar("_T")
_HEAD = """\
# What the operator library of CANN takes, as tools/kernel_limits.py read it from the public sources below; `make`
# nothing of it by hand. The letters of dtypes are those of NumPy where it has one; see backends/kernel_limits.py.
"""


@dataclass(frozen=True)
class Checkout:
    """A checkout of a repository, or a git directory.

    Attributes:
        path: Where it is.
    """

    path: Path

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(
            ["git", f"--git-dir={self._git_directory()}", *arguments], check=True, capture_output=True
        ).stdout

    def _git_directory(self) -> Path:
        own = self.path / ".git"
        return own if own.exists() else self.path

    @property
    def commit(self) -> str:
        """What is checked out."""
        return self._git("rev-parse", "HEAD").decode().strip()

    def texts(self, wanted: str) -> dict[str, str]:
        """Return the files whose paths match a regular expression, by path."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", "HEAD").decode().split("\0")
        paths = [path for path in listed if re.search(wanted, path)]
        asked = "".join(f"HEAD:{path}\n" for path in paths).encode()
        answer = subprocess.run(
            ["git", f"--git-dir={self._git_directory()}", "cat-file", "--batch"],
            input=asked, check=True, capture_output=True,
        ).stdout  # fmt: skip
        texts, at = {}, 0
        for path in paths:
            end = answer.index(b"\n", at)
            head = answer[at:end].split()
            if head[-1] == b"missing":
                at = end + 1
                continue
            size = int(head[2])
            texts[path] = answer[end + 1 : end + 1 + size].decode("utf-8", errors="replace")
            at = end + 1 + size + 1
        return texts


def library(checkout: Checkout, name: str) -> Library:
    """Return what is read of one repository of operators."""
    return Library(
        name,
        checkout.commit,
        checkout.texts(r"(?<!experimental)/docs/aclnn[^/]*\.md$"),
        checkout.texts(r"/op_api/[^/]*\.(?:cpp|h)$"),
    )


@dataclass(frozen=True)
class Function:
    """A function of the operator library.

    Attributes:
        name: Such as `aclnnIndex`.
        page: Key of the source, and the path of the page.
        order: Its parameters.
        tensors: Those of them that are tensors.
        takes: By card, what its parameters take.
        varies: The cards on which it does not compute the same each time, by default.
        slow: By card, the dtypes that it computes on its host processor.
    """

    name: str
    page: str
    order: tuple[str, ...]
    tensors: frozenset[str]
    takes: Mapping[str, Mapping[str, Parameter]]
    varies: tuple[str, ...]
    slow: Mapping[str, frozenset[str]]


def read_library(lib: Library, key: str, others: Iterable[Library] = ()) -> dict[str, Function]:
    """Return the functions of a repository, by name; the C++ of some lies in another one."""
    found: dict[str, Function] = {}
    for path, text in sorted(lib.pages.items()):
        if "/experimental/" in f"/{path}":
            continue
        by_card = {card: read_page(text, card) for card in CARDS}
        for name in {name for pages in by_card.values() for name in pages}:
            of_card: dict[str, Page] = {card: pages[name] for card, pages in by_card.items() if name in pages}
            owner = next((each for each in (lib, *others) if each.source_of(name, path) is not None), lib)
            source = owner.source_of(name, path)
            takes = {
                card: limits_of(page, source[1] if source else None, name, card)
                for card, page in of_card.items()
                if page.is_there is not False
            }
            orders = {page.names for page in of_card.values()}
            varies = tuple(card for card, page in of_card.items() if page.deterministic is False)
            if len(orders) == 1 and name not in found:
                slow = {
                    card: slow_dtypes(owner, path, _first(parameters, orders), card, source[0])
                    for card, parameters in takes.items()
                    if source is not None
                }
                tensors = frozenset().union(*(page.tensors for page in of_card.values()))
                found[name] = Function(name, f"{key} {path}", orders.pop(), tensors, takes, varies, slow)
    return found


def _first(parameters: Mapping[str, Parameter], orders: set[tuple[str, ...]]) -> frozenset[str]:
    """Return what the first parameter takes, which is a tensor."""
    name = next(iter(orders))[0]
    return (parameters[name].dtypes if name in parameters else None) or frozenset()


def codes(parameter: Parameter) -> str:
    """Return a parameter as the table has it: letters of what is named, of what may pass beside it, and the rank."""
    named = "".join(sorted(CODES[name] for name in parameter.named or ()))
    more = "*"
    if parameter.dtypes is not None:
        more = "".join(sorted(CODES[name] for name in parameter.dtypes - (parameter.named or frozenset())))
    rank = f"/{parameter.rank}" if parameter.rank else ""
    plus = "+" if more and (named or more != "*") else ""
    return f"{named}{plus}{more}{rank}"


def rendered_function(function: Function, needed: Iterable[str]) -> list[str]:
    """Return the lines of a function, for the parameters that operators need."""
    lines = []
    for name in needed:
        by_codes: dict[str, list[str]] = {}
        for card in CARDS:
            parameter = function.takes.get(card, {}).get(name)
            if parameter is not None:
                by_codes.setdefault(codes(parameter), []).append(card)
        if by_codes:
            rows = [
                f"{' '.join(cards)}: {text}" for text, cards in sorted(by_codes.items(), key=lambda row: -len(row[1]))
            ]
            lines.append(f"{name} = [{', '.join(f'{chr(34)}{row}{chr(34)}' for row in rows)}]")
    if not lines and not function.varies:
        return []
    by_slow: dict[str, list[str]] = {}
    for card, dtypes in function.slow.items():
        if dtypes:
            by_slow.setdefault("".join(sorted(CODES[name] for name in dtypes)), []).append(card)
    slow = ", ".join(f'"{" ".join(cards)}: {text}"' for text, cards in by_slow.items())
    lines += [f"slow = [{slow}]"] if slow else []
    varies = [f'varies = "{" ".join(function.varies)}"'] if function.varies else []
    return [f"[functions.{function.name}]", f'page = "{function.page}"', *varies, *lines, ""]


Met = Mapping[str, Mapping[str, tuple[int, ...]]]
"""For each argument of an operator, the functions that it may come to in some form, with its places among theirs."""


def by_hand(text: str) -> tuple[dict[str, dict[str, Ways]], dict[str, Met]]:
    """Return the operators of the file that was written by hand: as `all_ways` has them, and as `Kernels.met` does."""
    document = toml.loads(text)
    found: dict[str, dict[str, Ways]] = {}
    met: dict[str, Met] = {}
    for row in document["operator"]:
        for name in row["names"]:
            found[name] = {
                argument: frozenset(frozenset(_handed(part) for part in way.split(" & ")) for way in ways)
                for argument, ways in row.get("takes", {}).items()
            }
            met[name] = {
                argument: {each.function: (each.position,) for each in map(_handed, functions)}
                for argument, functions in row.get("comes_to", {}).items()
            }
    return {name: ways for name, ways in found.items() if ways}, {name: each for name, each in met.items() if each}


def _handed(text: str) -> Handed:
    function, _, position = text.partition(" ")
    return Handed(function, int(position))


def rendered(
    sources: Mapping[str, str],
    known: Mapping[str, Function],
    operators: Mapping[str, Mapping[str, Ways]],
    met: Mapping[str, Met],
    delegates: Mapping[str, tuple[str, frozenset[str]]],
    newest: set[str],
) -> str:
    """Return the text of the table.

    Args:
        sources: Its sources, by key.
        known: The functions that were read.
        operators: For each operator, what its arguments are handed to.
        met: For others, or other arguments, what they may come to.
        delegates: Operators that torch makes of another one on each device, with it and their own arguments.
        newest: Operators of which nothing is said for the newest card.
    """
    needed: dict[str, set[str]] = {}
    rows: list[str] = []
    of_operator: dict[str, dict[str, str]] = {}
    for operator in sorted({*operators, *met}):
        texts = of_operator[operator] = {}
        for argument, ways in operators.get(operator, {}).items():
            if text := _ways(ways, known, needed):
                texts[argument] = text
        for argument, places in met.get(operator, {}).items():
            if argument not in texts and (text := _met(places, known, needed)):
                texts[argument] = f"? {text}"
    for operator, (other, arguments) in delegates.items():
        if not of_operator.get(operator) and of_operator.get(other):
            inherited = of_operator[other].items()
            of_operator[operator] = {argument: text for argument, text in inherited if argument in arguments}
            newest = newest | {operator} if other in newest else newest
    for operator, texts in sorted(of_operator.items()):
        texts = {argument: text for argument, text in texts.items() if not _MADE_BEFORE.match(f"{operator} {argument}")}
        if texts:
            not_on = " - 950" if operator in newest else ""
            inner = ", ".join(f'"{argument} {text}{not_on}"' for argument, text in sorted(texts.items()))
            rows.append(f'"{operator}" = [{inner}]')
    cards = [f"{word} = [{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}]" for word, names in _CARDS.items()]
    lines = [_HEAD, 'library = "CANN"', "", "[sources]", *(f'{key} = "{text}"' for key, text in sources.items()), ""]
    lines += ["[cards]", *cards, ""]
    for name in sorted(needed):
        lines += rendered_function(known[name], sorted(needed[name]))
    return "\n".join([*lines, "[operators]", *rows, ""])


_MADE_BEFORE = re.compile(r"(?:native_dropout_backward|\w*max_pool\d?d?\w*_backward)(?:\.\w+)? (?:mask|indices)$")
"""Arguments that the plugin's own forward made, in a dtype of its own choice."""


def _ways(ways: Ways, known: Mapping[str, Function], needed: dict[str, set[str]]) -> str:
    """Return the ways of an argument as text; empty where one of them leads to nothing that is known."""
    texts = []
    usual = [way for way in ways if not any(handed.function.lower().endswith("weightnz") for handed in way)]
    for way in usual or ways:  # the others are for a storage format that a program asks the plugin for by name
        parts = []
        for handed in sorted(way):
            function = known.get(handed.function)
            if function is None or handed.position >= len(function.order):
                continue
            name = function.order[handed.position]
            if any(name in parameters for parameters in function.takes.values()):
                parts.append((handed.function, name))
        if not parts:
            return ""
        texts.append(parts)
    for parts in texts:
        for name, parameter in parts:
            needed.setdefault(name, set()).add(parameter)
    return " | ".join(sorted({" & ".join(f"{name}.{parameter}" for name, parameter in parts) for parts in texts}))


def _met(functions: Mapping[str, tuple[int, ...]], known: Mapping[str, Function], needed: dict[str, set[str]]) -> str:
    """Return what an argument may come to as text; empty where one of the functions is not known."""
    texts = []
    usual = [name for name in functions if not name.lower().endswith("weightnz")]
    for name in sorted(usual or functions):
        function = known.get(name)
        if function is None:
            return ""
        names = [function.order[place] for place in functions[name] if place < len(function.order)]
        named = [each for each in names if each in function.tensors and _is_named(function, each)]
        if not named:
            return ""
        texts.append((name, named[0]))
    for name, parameter in texts:
        needed.setdefault(name, set()).add(parameter)
    return " | ".join(f"{name}.{parameter}" for name, parameter in texts)


def _is_named(function: Function, parameter: str) -> bool:
    return any(parameters[parameter].named for parameters in function.takes.values() if parameter in parameters)


_CARDS = {
    "910": ["Ascend 910A"],
    "910b": ["Ascend 910B", "Ascend 910B2", "Ascend 910B3", "Ascend 910B4"],
    "A3": ["Ascend 910_93"],
    "310p": ["Ascend 310P"],
    "310b": ["Ascend 310B"],
    "950": ["Ascend 950"],
}
"""Products, as the pages' marks call them, and the cards of `cards.toml`."""


def _of_torch(table: Mapping[str, _T]) -> dict[str, _T]:
    return {name: value for name, value in table.items() if not name.startswith(("npu_", "_npu"))}


def torch_functions() -> list[Any]:
    """Return the operators of the installed torch, as its generator reads them."""
    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed: Any = parse_native_yaml(str(folder / "native_functions.yaml"), str(folder / "tags.yaml"))
    return list(parsed.native_functions)


def delegates(of_torch: Iterable[Any]) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the operators that torch makes of another one on each device, with it and their own arguments."""
    return {
        str(each.func.name): (str(each.structured_delegate), frozenset(arguments_of(each)))
        for each in of_torch
        if each.structured_delegate
    }


def arguments_of(function: Any) -> list[str]:
    """Return the names of an operator's arguments."""
    return [str(argument.name) for argument in function.func.arguments.flat_all]


def named_as_in_torch(table: dict[str, dict[str, _T]], of_plugin: Iterable[Schema], of_torch: Iterable[Any]) -> None:
    """Give arguments that op-plugin's settings name otherwise the names that they have in torch."""
    wanted = {str(each.func.name): arguments_of(each) for each in of_torch}
    for schema in of_plugin:
        own, names = [name for name, _ in schema.arguments], wanted.get(schema.name, [])
        if schema.name in table and len(own) == len(names):
            other = dict(zip(own, names, strict=True))
            table[schema.name] = {other.get(name, name): value for name, value in table[schema.name].items()}


_LIBRARIES = {
    "MATH": "hicann/ops-math",
    "NN": "hicann/ops-nn",
    "CV": "hicann/ops-cv",
    "TRANS": "hicann/ops-transformer",
}
_PLUGIN = "PLUGIN"


def main(arguments: list[str]) -> int:
    """Write the table; returns the exit code."""
    if len(arguments) != 2 + len(_LIBRARIES) or arguments[0] != "npu":
        print(__doc__)
        return 2
    *libraries, plugin = [Checkout(Path(path)) for path in arguments[1:]]
    known: dict[str, Function] = {}
    sources = {}
    read = [library(checkout, name) for name, checkout in zip(_LIBRARIES.values(), libraries, strict=True)]
    for key, lib in zip(_LIBRARIES, read, strict=True):
        sources[key] = f"github.com/{lib.name}@{lib.commit[:12]}"
        known = {**read_library(lib, key, read), **known}
    declared = read_functions("\n".join(plugin.texts(r"^op_plugin/config/op_plugin_functions\.yaml$").values()))
    files = plugin.texts(r"^op_plugin/(?:ops|utils/custom_functions)/opapi/[^/]*\.cpp$")
    kernels = Kernels([each for text in files.values() for each in functions(without_comments(text))])
    sources[_PLUGIN] = f"github.com/Ascend/op-plugin@{plugin.commit[:12]} op_plugin/config, op_plugin/ops/opapi"
    hand, met_by_hand = by_hand(_HAND.read_text(encoding="utf-8"))
    of_torch = torch_functions()
    operators = dict(all_ways(declared, kernels))
    met = {each.schema.name: kernels.met(each.schema) for each in declared if not each.calls}
    schemas = [each.schema for each in declared]
    named_as_in_torch(operators, schemas, of_torch)
    named_as_in_torch(met, schemas, of_torch)
    operators |= hand
    met |= {name: {key: dict(functions) for key, functions in each.items()} for name, each in met_by_hand.items()}
    newest = {each.schema.name for each in declared if kernels.asks_for_newest(each.schema)}
    text = rendered(sources, known, _of_torch(operators), _of_torch(met), delegates(of_torch), newest)
    path = VENDORS / "npu" / "kernel_limits.toml"
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
