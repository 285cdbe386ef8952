"""Names of C++ as people read them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.tool_environment import find_tool, tool_environment

_NESTED = lazy_regex(r"_Z(?:T[VTISC])?N[rVK]*[RO]?(?:St)?")
_PLAIN = lazy_regex(r"_Z(?:St)?(?=\d)")
_LENGTH = lazy_regex(r"\d+")
_WELL_FORMED = re.compile(r"[A-Za-z0-9_.$@]+")
_TIMEOUT = 20.0


def qualified_name(symbol: str) -> str:
    """Return the name of a symbol with its namespaces, without arguments: `at::musa::add`; the symbol where it is C.

    Only names that are spelled out are read; `qualified_name("_ZN3c105ErrorC1E") == "c10::Error"`.
    """
    nested = _NESTED.match(symbol)
    begin = nested or _PLAIN.match(symbol)
    if begin is None:
        return symbol
    parts, at = [], begin.end()
    while match := _LENGTH.match(symbol, at):
        end = match.end() + int(match.group()[:6])
        if end > len(symbol):
            break
        parts.append(symbol[match.end() : end])
        at = end
        if symbol[at : at + 1] == "B" and (tag := _LENGTH.match(symbol, at + 1)):  # an ABI tag, such as B5cxx11
            at = tag.end() + int(tag.group()[:6])
        if nested is None:
            break
    return "::".join(parts) or symbol


def readable_names(symbols: Sequence[str]) -> dict[str, str]:
    """Return each symbol as `c++filt` spells it; as `qualified_name` does where there is none."""
    names = {symbol: qualified_name(symbol) for symbol in symbols}
    tool = find_tool("c++filt") or find_tool("llvm-cxxfilt")
    asked = [symbol for symbol in symbols if symbol.startswith("_Z") and _WELL_FORMED.fullmatch(symbol)]
    if tool and asked:
        try:
            done = subprocess.run(
                [tool],
                input="\n".join(asked) + "\n",
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
                env=tool_environment(),
            )
        except (OSError, subprocess.TimeoutExpired):
            return names
        lines = done.stdout.splitlines()
        if len(lines) == len(asked):
            names.update(zip(asked, lines, strict=True))
    return names
