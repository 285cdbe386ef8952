"""Whether a name is declared at a place of C++, as far as the parts around it tell.

    cudaStream_t mine_cuda(int n);         // declares `mine_cuda`
    x = a * mine_cuda(n);                  // uses it, as does `CHECK mine_cuda(n);`

What is read are parts, without types: where they do not tell, the name is not declared, so that nothing that is
unknown passes for the project's own.
"""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex

_BACK = 600
"""Characters in front of a name that are read."""

_TOKEN = lazy_regex(r"\w+|::|->|[<>=!]=|&&|[^\s\w]")
_WORD = lazy_regex(r"[A-Za-z_]\w*\Z")
_DIRECTIVE = lazy_regex(r"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\)*", 8)
_BRACKET = lazy_regex(r"[()]")
_HEAD = lazy_regex(r"\s*\w+(\([^()]*\)?)?")
_SPLICE = lazy_regex(r"\\\r?\n")
_ENUM = lazy_regex(r"\benum\b[^;{}()]*\Z")

_EXPRESSION = frozenset(
    {
        *(
            "return",
            "else",
            "new",
            "delete",
            "throw",
            "case",
            "goto",
            "do",
            "and",
            "or",
            "not",
            "if",
            "while",
            "sizeof",
        ),
        *("co_return", "co_await", "co_yield", "switch", "for", "operator"),
    }
)
"""Words behind which a name is used."""

_TAGS = frozenset({"class", "struct", "union", "enum", "namespace", "concept"})
_QUALIFIERS = frozenset({"const", "volatile", "static", "inline", "extern", "constexpr", "register", "mutable"})
_BUILT_IN = frozenset(
    {
        *("void", "int", "float", "double", "bool", "char", "short", "long", "unsigned", "signed", "auto", "T"),
        *("size_t", "dim3", "half", "__half", "scalar_t", "typename", "std"),
    }
)
_OPENING = frozenset("(<[")
_CLOSING = frozenset(")>]")

_ATTRIBUTES = frozenset(
    {"__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__attribute__", "alignas", "__align__", "__declspec"}
)
"""What takes arguments and stands among the words of a declaration."""

_NEAR = 40
"""Characters in front of a name among which the one is looked for that tells a use."""

_AHEAD_OF_A_USE = frozenset("([<=+-/%|^!?~.;")
"""Characters behind which a name is used, blanks aside."""

_BEHIND_AN_ENUMERATOR = frozenset(",=}") | {""}
_BEHIND_ANY = frozenset(";,={}:f<)[>.(") | {""}
_BEHIND_A_DECLARATION = {",": _BEHIND_AN_ENUMERATOR, "{": _BEHIND_AN_ENUMERATOR, "}": frozenset(";")}
"""What follows a name that is declared, by the character in front of it; for others `_BEHIND_ANY`."""

_AFTER_PARAMETERS = frozenset("{;:=-") | {"const", "noexcept", "override", "final", "try", "->", "__attribute__"}


def is_declared(code: str, start: int, end: int) -> bool:
    """Whether a name is declared at a place outside of the lines of the preprocessor.

    Args:
        code: The text with blanks for what is no code, as `SourceTokens.code`.
        start: Where the name begins.
        end: Where it ends.
    """
    behind = code[end : end + 200].lstrip()[:1]
    ahead = code[max(0, start - _NEAR) : start].rstrip()[-1:]
    if ahead in _AHEAD_OF_A_USE or behind not in _BEHIND_A_DECLARATION.get(ahead, _BEHIND_ANY):
        return False  # what follows would say so, too, and most names are used
    window = code[max(0, start - _BACK) : start]
    if "#" in window:
        window = _DIRECTIVE.sub(" ; ", window)
    cut = max(window.rfind(";"), window.rfind("{"), window.rfind("}"))
    before, opened = _statement(window[max(cut, 0) :])
    if not before or before[-1] == ",":
        if not before and opened == "}" and behind == ";":
            return True  # behind the braces of a structure
        return opened == "{" and behind in _BEHIND_AN_ENUMERATOR and _is_in_enumeration(code, start)
    last = before[-1]
    if last in _TAGS:
        return behind in (("{", "=") if last == "namespace" else ("{", ";", ":", "f", "=", "<"))
    if before[0] == "using":
        return len(before) == 1 and behind == "="
    if _EXPRESSION.intersection(before):
        return False
    if opened in ("(", "<", ","):
        return behind in (",", ")", "=", "[", ">", ".") and _is_parameter(before, template=opened == "<")
    if behind not in ("(", "{", "=", ";", "[", ",", ":"):
        return False
    before = _last_declarator(before)
    while len(before) > 2 and before[-1] == "::" and _WORD.match(before[-2]):
        before = before[:-2]  # a member that is defined outside of its class
    if not _is_type(before):
        return False
    if behind == "(":
        is_macro = len(before) == 1 and len(last) > 2 and last.isupper()
        return not is_macro and _is_function(code, end)
    return True


def is_declared_by_macro(code: str, body: int, start: int, end: int) -> bool:
    """Whether a name is what a `#define` defines, a parameter of it, or declared in what it represents.

    Args:
        code: As of `is_declared`.
        body: Behind the word `define`.
        start: Where the name begins.
        end: Where it ends.
    """
    before = code[body:start]
    if not before.strip():
        return True
    head = _HEAD.match(before)
    if head is None:
        return False
    if head[1] and ")" not in head[1]:
        return True
    stands_for = ";" + " " * (head.end() - 1) + before[head.end() :] + code[start : end + 4000]
    return is_declared(_SPLICE.sub(lambda match: " " * len(match.group()), stands_for), start - body, end - body)


def _statement(window: str) -> tuple[list[str], str]:
    """Return the parts of the statement, or of the argument, that a text ends in, and what opens it."""
    parts = _TOKEN.findall(window)
    found: list[str] = []
    depth = angles = 0
    for part in reversed(parts):
        if part in (")", "]"):
            depth += 1
        elif part in ("(", "["):
            if not depth:
                return found[::-1], "("
            depth -= 1
        elif not depth and part == ">":
            angles += 1
        elif not depth and part == "<":
            if not angles:
                return found[::-1], "<"
            angles -= 1
        elif not depth and part in (";", "{", "}"):
            return found[::-1], part
        elif not depth and not angles and part == ":" and found:
            return found[::-1], ";"
        found.append(part)
    return found[::-1], ";"


def _last_declarator(before: list[str]) -> list[str]:
    """Return the parts of a statement as if its last name were its only one: of `int a, *b` those of `int *b`."""
    if "," not in before:
        return before
    depth = 0
    commas = []
    for index, part in enumerate(before):
        depth += (part in "(<[") - (part in ")>]")
        if part == "," and not depth:
            commas.append(index)
    if not commas:
        return before
    first, rest = before[: commas[0]], before[commas[-1] + 1 :]
    if "=" in first:
        first = first[: first.index("=")]
    words = [part for part in first if _WORD.match(part)]
    return [*first[:-1], *rest] if len(words) > 1 and first and _WORD.match(first[-1]) else []


def _without_template(before: list[str]) -> list[str]:
    while before and before[0] == "template" and "<" in before:
        depth = 0
        for index, part in enumerate(before):
            depth += (part == "<") - (part == ">")
            if index and not depth:
                break
        before = before[index + 1 :]
    return before


def _without_attributes(before: list[str]) -> list[str]:
    """Return some parts without `__launch_bounds__(...)` and what else takes arguments and is no part of a type."""
    if _ATTRIBUTES.isdisjoint(before):
        return before
    kept: list[str] = []
    depth = 0
    for index, part in enumerate(before):
        if depth or (part == "(" and index and before[index - 1] in _ATTRIBUTES):
            depth += (part == "(") - (part == ")")
        elif part not in _ATTRIBUTES:
            kept.append(part)
    return kept


def _is_type(before: list[str]) -> bool:
    """Whether some parts are a type, with what may be in front of one."""
    before = _without_template(_without_attributes(before))
    depth = 0
    words = 0
    for part in before:
        if part in _OPENING:
            depth += 1
        elif part in _CLOSING:
            depth -= 1
        elif depth or part in ("::", "*", "&", "&&"):
            continue
        elif _WORD.match(part):
            words += 1
        else:
            return False
    last = before[-1] if before else ""
    return words > 0 and depth == 0 and (bool(_WORD.match(last)) or last in ("*", "&", "&&", ">", "]"))


def _is_parameter(before: list[str], *, template: bool) -> bool:
    """Whether some parts between commas, or parentheses, are the type of a parameter."""
    depth = 0
    for index, part in enumerate(before):
        depth += (part in "(<[") - (part in ")>]")
        if part == "," and not depth:
            return _is_parameter(before[index + 1 :], template=template)
    if not _is_type(before):
        return False
    words = [part for part in before if _WORD.match(part)]
    if template:
        return words[0] in _BUILT_IN or words[-1] in ("typename", "class")
    if before[-1] in ("*", "&", "&&"):
        first = next((word for word in words if word not in _QUALIFIERS), "")
        is_name_of_type = first in _BUILT_IN or first.endswith("_t") or first[:1].isupper() or "<" in before
        return is_name_of_type or len(words) > 1 or "::" in before
    return True


def _is_function(code: str, opening: int) -> bool:
    """Whether what follows a name are parameters of a function, or of the constructor of a variable."""
    depth = 0
    closing = code.find(")", opening, opening + 4000)
    if code.count("(", opening, closing) == 1:  # as most have it
        match = _TOKEN.search(code, closing + 1)
        return match is None or match.group() in _AFTER_PARAMETERS or match.group().isupper()
    for bracket in _BRACKET.finditer(code, opening, opening + 4000):
        depth += 1 if bracket.group() == "(" else -1
        if not depth:
            match = _TOKEN.search(code, bracket.end())
            return match is None or match.group() in _AFTER_PARAMETERS or match.group().isupper()
    return False


def _is_in_enumeration(code: str, start: int) -> bool:
    """Whether a place is in the braces of an enumeration."""
    opening = code.rfind("{", max(0, start - 20 * _BACK), start)
    return (
        opening >= 0
        and "}" not in code[opening:start]
        and _ENUM.search(code[max(0, opening - 200) : opening]) is not None
    )
