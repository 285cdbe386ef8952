"""Write which dtypes the operators of torch_musa refuse, by the checks in its own C++.

python tools/musa_checks.py TORCH_MUSA      write vendors/musa/kernel_limits.toml

The argument is a checkout of github.com/MooreThreads/torch_musa, or a git directory. `musa_functions.yaml` has the C++
function of each operator. Of the function only checks are read that every call comes to: those that stand before any
condition, and that compare the dtype of a parameter with dtypes (`TORCH_CHECK(input.scalar_type() == ... || ...)`), or
that refuse every call (`TORCH_CHECK(false, ...)`). torch is needed for the declarations of the operators.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from kernel_limits import Checkout
from plugin_calls import Function, closing, functions, split_arguments, without_comments

from torchferry.backends.datafile import VENDORS
from torchferry.backends.kernel_limits import CODES

_CARDS = ("MTT S4000", "MTT S80", "MTT S5000")
_FOLDER = "torch_musa/csrc/aten/ops/"
_DTYPES = {
    "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Double": "float64", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "ComplexHalf": "complex32",
}  # fmt: skip
_BY_MACRO = frozenset({"float64", "float32", "float16", "bfloat16", "int32", "int64"})
"""What `MUSA_TENSOR_TYPE_CHECK` lets pass (torch_musa/csrc/aten/utils/Utils.h:56)."""

_NAMED = re.compile(r"^- func: (?P<name>\S+)$|^    PrivateUse1: (?P<function>\w+)$", re.MULTILINE)
_COMPARED = re.compile(
    r"^(?P<name>\w+)(?:\.|->)(?:scalar_type\(\)|dtype\(\)) == (?:at::|c10::)?(?:ScalarType::|k)(?P<dtype>\w+)$"
)
_LINES = 3
"""Lines behind the first of a check that may hold its text."""

_END_OF_TEXT = re.compile(r'"\s*\)')
_DTYPE_OF = re.compile(r"\b(?P<name>\w+)\s*=\s*(?P<parameter>\w+)(?:\.|->)(?:scalar_type|dtype)\(\)")
"""A variable for the dtype of a parameter."""

_TEXT = re.compile(r'"([^"]*)"')
_ABSENT = re.compile(r"^!\s*\w+(?:\.|->)(?:has_value|defined)\(\)$")


@dataclass(frozen=True)
class Check:
    """A check that every call of a function comes to.

    Attributes:
        parameter: Number of the parameter.
        dtypes: torch's dtypes that it lets pass.
        place: File and line.
    """

    parameter: int
    dtypes: frozenset[str]
    place: str


@dataclass(frozen=True)
class _Source:
    function: Function
    path: str
    line: int


def operators(text: str) -> dict[str, str]:
    """Return the C++ function of each operator in `musa_functions.yaml`."""
    found: dict[str, str] = {}
    name = ""
    for row in _NAMED.finditer(text):
        if row["name"]:
            name = row["name"]
        elif name:
            found[name] = row["function"]
    return found


def allowed(condition: str, variables: Mapping[str, str] = MappingProxyType({})) -> tuple[str, frozenset[str]] | None:
    """Return whose dtype a condition compares, and with which; None for a condition of another kind.

    Args:
        condition: The condition in C++.
        variables: Variables that have the dtype of a parameter, each with that parameter.
    """
    names, dtypes = set(), set()
    for part in re.split(r"\|\|", condition):
        text = " ".join(part.split()).strip("()" if part.strip().startswith("((") else " ")
        name, _, other = text.partition(" == ")
        compared = _COMPARED.match(f"{variables[name]}.dtype() == {other}" if name in variables else text)
        if compared and compared["dtype"] in _DTYPES:
            names.add(compared["name"])
            dtypes.add(_DTYPES[compared["dtype"]])
        elif not _ABSENT.match(text):
            return None
    return (names.pop(), frozenset(dtypes)) if len(names) == 1 else None


class Sources:
    """The C++ of torch_musa's operators.

    Args:
        texts: The files, by path.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines = {path: text.split("\n") for path, text in texts.items()}
        self._by_name: dict[str, list[_Source]] = {}
        for path, text in texts.items():
            plain = _same_lines(text)
            at = 0
            for each in functions(plain):
                begin = plain.index(each.body, at)
                at = begin + len(each.body)
                line = plain.count("\n", 0, begin) + 1
                self._by_name.setdefault(each.name, []).append(_Source(each, path, line))

    def checks(self, name: str, count: int, depth: int = 0, types: Sequence[str] = ()) -> list[Check]:
        """Return the checks of a function with so many parameters, and of those that it hands them to.

        Args:
            name: The function.
            count: The number of its parameters.
            depth: How many functions hand their parameters on to it.
            types: The types of its parameters in torch's declaration, which tell overloads apart; empty if unknown.
        """
        having = [each for each in self._by_name.get(name, ()) if len(each.function.parameters) == count]
        if len(having) > 1 and types:
            having = [each for each in having if _fits(each.function.parameters, types)]
        if len(having) != 1 or depth > 2:
            return []
        source = having[0]
        places = {parameter: at for at, (parameter, _) in enumerate(source.function.parameters)}
        variables = {match["name"]: match["parameter"] for match in _DTYPE_OF.finditer(source.function.body)}
        found = []
        for called, given, at in _calls_before_conditions(source.function.body):
            if called == "TORCH_CHECK" and (compared := allowed(given[0], variables)) and compared[0] in places:
                line = source.line + source.function.body.count("\n", 0, at)
                found.append(Check(places[compared[0]], compared[1], f"{source.path}:{line}"))
            elif called == "TORCH_CHECK" and given[0].strip() == "false":
                line = source.line + source.function.body.count("\n", 0, at)
                written = " ".join(self._lines[source.path][line - 1 : line + _LINES])
                said = "".join(_TEXT.findall(_END_OF_TEXT.split(written)[0] + '"'))
                return [Check(0, frozenset(), f"{source.path}:{line}: {said}".rstrip(": "))]
            elif called == "MUSA_TENSOR_TYPE_CHECK" and given[0] in places:
                line = source.line + source.function.body.count("\n", 0, at)
                found.append(Check(places[given[0]], _BY_MACRO, f"{source.path}:{line}"))
            elif called in self._by_name and called != name:
                found += [
                    Check(places[given[check.parameter]], check.dtypes, check.place)
                    for check in self.checks(called, len(given), depth + 1)
                    if given[check.parameter] in places
                ]
        return found


def _same_lines(text: str) -> str:
    """Return C++ without comments and preprocessor, each line in its place."""
    lines = text.split("\n")
    kept = without_comments(text)
    return kept if kept.count("\n") == len(lines) - 1 else "\n".join(without_comments(line) for line in lines)


def _calls_before_conditions(body: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield the calls of a body up to its first condition or loop: name, arguments, and where it begins."""
    end = re.search(r"\b(?:if|for|while|switch)\s*\(", body)
    for found in re.finditer(r"\b(?P<name>\w+)\s*\(", body[: end.start() if end else len(body)]):
        closed = closing(body, found.end() - 1)
        if closed > 0:
            yield found["name"], split_arguments(body[found.end() : closed]), found.start()


def _fits(parameters: Sequence[tuple[str, str]], types: Sequence[str]) -> bool:
    """Whether the parameters of a function are tensors and scalars where the declaration has them."""
    kinds = ("tensor" if "Tensor" in each else "scalar" if "number" in each else "other" for each in types)
    return all(kind == wanted for (_, kind), wanted in zip(parameters, kinds, strict=True))


def argument_names(operator: str) -> list[str]:
    """Return the names of an operator's arguments in torch's declaration; none for what torch has not."""
    return [each.name for each in _arguments(operator)]


def argument_types(operator: str) -> list[str]:
    """Return the types of the same, as `Tensor`, `number`, `List[Tensor]`."""
    return [str(each.type) for each in _arguments(operator)]


def _arguments(operator: str) -> list[Any]:
    import torch

    base, _, overload = operator.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    if packet is None or (overload or "default") not in packet.overloads():
        return []
    return list(getattr(packet, overload or "default")._schema.arguments)


def rendered(commit: str, found: Iterable[tuple[str, str, list[Check]]]) -> str:
    """Return the text of the table, of operators with their functions and checks."""
    parameters: dict[str, dict[str, Check]] = {}
    rows = []
    for operator, function, checks in sorted(found, key=lambda row: row[0]):
        names = argument_names(operator)
        own = {names[check.parameter]: check for check in reversed(checks) if check.parameter < len(names)}
        if own:
            parameters[function] = {**own, **parameters.get(function, {})}
            texts = ", ".join(f'"{name} {function}.{name}"' for name in sorted(own))
            rows.append(f'"{operator}" = [{texts}]')
    lines_of: list[str] = []
    for function, own in sorted(parameters.items()):
        place = min((check.place for check in own.values()), key=lambda text: (len(text), text))
        lines_of += [f"[functions.{function}]", f"page = {json.dumps(f'MUSA {place}')}"]
        for name, check in sorted(own.items()):
            lines_of.append(f'{name} = ["all: {"".join(sorted(CODES[dtype] for dtype in check.dtypes))}"]')
        lines_of.append("")
    head = (
        "# Which dtypes the operators of torch_musa refuse in their own C++, as tools/musa_checks.py read it, by\n"
        "# the names of its functions. What muDNN refuses is not public.\n"
    )
    cards = ", ".join(f'"{card}"' for card in _CARDS)
    source = f'MUSA = "github.com/MooreThreads/torch_musa@{commit[:12]}"'
    lines = [head, 'library = "torch_musa"', "", "[sources]", source, "", "[cards]", f"all = [{cards}]", ""]
    return "\n".join([*lines, *lines_of, "[operators]", *rows, ""])


def main(arguments: list[str]) -> int:
    """Write the table; returns the exit code."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    checkout = Checkout(Path(arguments[0]))
    names = operators("\n".join(checkout.texts(rf"^{_FOLDER}musa_functions\.yaml$").values()))
    sources = Sources(checkout.texts(rf"^{_FOLDER}.*\.cpp$"))
    found = []
    for name, function in names.items():
        types = argument_types(name)
        checks = sources.checks(function, len(types), types=types)
        found.append((name, function, checks))
        base, _, overload = name.rpartition(".")
        if overload == "out" and base not in names:  # torch makes the one of the other
            found.append((base, function, checks))
        if name == "convolution_overrideable":  # which is how torch ends a convolution on a device of a plugin
            found.append(("convolution", function, checks))
    text = rendered(checkout.commit, found)
    path = VENDORS / "musa" / "kernel_limits.toml"
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
