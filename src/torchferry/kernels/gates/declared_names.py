"""The names that a C++ header declares, each with its namespace, as far as its tokens tell.

namespace at { namespace cuda { int warp_size(); } }       // ("at::cuda", "warp_size")
"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex

_WORD = lazy_regex(r"[A-Za-z_]\w*")
_SCOPE = lazy_regex(r"[\w: ]*\Z")
_NAMED = lazy_regex(
    r"(?:\w+ ){0,3}(?:class|struct|enum(?: class| struct)?|union) (?:[A-Z][A-Z0-9_]* |alignas ?\([^()]*\) ?){0,3}(\w+)"
)
_USING = lazy_regex(r"using (?:(\w+) ?=|(?:\w+::){0,9}(\w+)\Z)")
_DIRECTIVE = lazy_regex(r"^[ \t]*#(?:[^\n\\]|\\\n|\\)*$", 8)
_BEHIND_NAME = lazy_regex(r"[(=;{]")
_BRACE = lazy_regex(r"[{};]")
_ANGLE = lazy_regex(r"[<>]")
_EXTERN = lazy_regex(r"\bextern\Z")


def declared_names(code: str) -> Iterator[tuple[str, str]]:
    """Yield the namespace and the name of what a header declares; `code` has blanks for comments and strings."""
    code = _DIRECTIVE.sub("", code)
    yield from _in_scope(code, 0, len(code), "")


def _in_scope(code: str, at: int, end: int, scope: str) -> Iterator[tuple[str, str]]:
    begin = at
    while (match := _BRACE.search(code, at, end)) is not None:
        at = match.end()
        if match.group() == ";":
            yield from _statement(code[begin : match.start()], scope)
        elif match.group() == "{":
            closing = _closing(code, match.start(), end)
            head = " ".join(code[begin : match.start()].split())
            named = _namespace(head[-300:])
            if named is not None or _EXTERN.search(head[-300:]):
                inner = (each.strip() for each in (scope, *(named or "").split("::")))
                yield from _in_scope(code, at, closing, "::".join(each for each in inner if each))
            else:
                yield from _statement(head, scope)
                if "enum" in head.split() and "class" not in head.split():
                    for each in code[at:closing].split(","):
                        member = _WORD.search(each)
                        if member:
                            yield scope, member[0]
            at = closing + 1
        begin = at


def _namespace(head: str) -> str | None:
    """Return the name of the namespace that a text begins, empty for one without; None for what is none."""
    before, word, name = head.rpartition("namespace")
    return name if word and before[-1:] in ("", " ") and _SCOPE.match(name) else None


def _closing(code: str, at: int, end: int) -> int:
    depth = 0
    for brace in _BRACE.finditer(code, at, end):
        depth += (brace.group() == "{") - (brace.group() == "}")
        if not depth:
            return brace.start()
    return end


def _statement(text: str, scope: str) -> Iterator[tuple[str, str]]:
    text = _without_template(" ".join(text.split()))
    if not text or text.startswith(("static_assert", "friend", "}")):
        return
    using = _USING.match(text)
    if using:
        yield scope, using[1] or using[2]
        return
    named = _NAMED.match(text)
    if named and "(" not in text.partition(named[1])[0]:
        yield scope, named[1]
        return
    words = _WORD.findall(_BEHIND_NAME.split(text)[0])
    if len(words) > 1:
        yield scope, words[-1]
    if text.startswith("typedef"):
        yield scope, _WORD.findall(text)[-1]


def _without_template(text: str) -> str:
    while text.startswith("template"):
        depth = 0
        for angle in _ANGLE.finditer(text):
            depth += 1 if angle.group() == "<" else -1
            if not depth:
                text = text[angle.end() :].strip()
                break
        else:
            return ""
    return text
