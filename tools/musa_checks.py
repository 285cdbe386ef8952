"""Write which dtypes the operators of torch_musa refuse, by the checks in its own C++.

python tools/musa_checks.py TORCH_MUSA      write vendors/musa/kernel_limits.toml

The argument is a checkout of github.com/MooreThreads/torch_musa, or a git directory. `musa_functions.yaml` has the C++
function of each operator. Of the function only checks are read that every call comes to: those that stand before any
condition, and that compare the dtype of a parameter with dtypes (`TORCH_CHECK(input.scalar_type() == ... || ...)`).
torch is needed for the declarations of the operators.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def allowed(condition: str) -> tuple[str, frozenset[str]] | None:
    """Return whose dtype a condition compares, and with which; None for a condition of another kind."""
    names, dtypes = set(), set()
    for part in re.split(r"\|\|", condition):
        text = " ".join(part.split()).strip("()" if part.strip().startswith("((") else " ")
        compared = _COMPARED.match(text)
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
        self._by_name: dict[str, list[_Source]] = {}
        for path, text in texts.items():
            plain = _same_lines(text)
            at = 0
            for each in functions(plain):
                begin = plain.index(each.body, at)
                at = begin + len(each.body)
                line = plain.count("\n", 0, begin) + 1
                self._by_name.setdefault(each.name, []).append(_Source(each, path, line))

    def checks(self, name: str, count: int, depth: int = 0) -> list[Check]:
        """Return the checks of a function with so many parameters, and of those that it hands them to."""
        having = [each for each in self._by_name.get(name, ()) if len(each.function.parameters) == count]
        if len(having) != 1 or depth > 2:
            return []
        source = having[0]
        places = {parameter: at for at, (parameter, _) in enumerate(source.function.parameters)}
        found = []
        for called, given, at in _calls_before_conditions(source.function.body):
            if called == "TORCH_CHECK" and (compared := allowed(given[0])) and compared[0] in places:
                line = source.line + source.function.body.count("\n", 0, at)
                found.append(Check(places[compared[0]], compared[1], f"{source.path}:{line}"))
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


def argument_names(operator: str) -> list[str]:
    """Return the names of an operator's arguments in torch's declaration; none for what torch has not."""
    import torch

    base, _, overload = operator.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    if packet is None or (overload or "default") not in packet.overloads():
        return []
    return [each.name for each in getattr(packet, overload or "default")._schema.arguments]


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
        lines_of += [f"[functions.{function}]", f'page = "MUSA {place}"']
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
        checks = sources.checks(function, len(argument_names(name)))
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
