"""Whether a call that does not name a function may give a parameter something, for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torchferry.programs.imports.sources import Sources
from torchferry.programs.references.calls import CallPlaces, FunctionPlace
from torchferry.programs.references.escapes import GIVE_BACK, calls_of_holder, unnamed_calls
from torchferry.programs.syntax.dynamic_lookups import WORDS as LOOK_UPS

_Ordered = Callable[[Iterable[str]], tuple[str, ...]]


def may_be_given(
    sources: Sources,
    calls: CallPlaces,
    ordered: _Ordered,
    of: FunctionPlace,
    name: str,
    index: int,
    has_mandatory: bool,
    is_mandatory: bool,
) -> bool:
    """Return whether an unnamed call of a function may give a parameter something.

    Args:
        sources: The project's files.
        calls: Where functions are called, and spoken of.
        ordered: Returns those of some files that the program reaches, in its order.
        of: The function.
        name: The parameter.
        index: Its position; -1 for none.
        has_mandatory: Whether every call must give the function something.
        is_mandatory: Whether it is a function, and every call must give this parameter something.
    """
    words = sources.words
    for path in ordered(words.holding(of[1])):
        for escape in calls.escapes(path, of):
            holding = ordered(words.holding(escape.holder)) if escape.holder else ()
            if escape.is_partial:
                holding = ()
            elif escape.is_argument and (escape.holder in GIVE_BACK or not escape.holder):
                return True
            elif escape.is_argument and not _is_defined(sources, escape.holder, holding):
                if escape.extra or is_mandatory or (index == 0 and not has_mandatory):
                    return True
                continue  # a package gives what must be given
            at = index - escape.given if escape.is_partial else index
            loaded = [sources.file(each) for each in dict.fromkeys((path, *holding))]
            if any(unnamed_calls(*each).may_give(name, at) for each in loaded if each is not None):
                return True
            holder = "" if escape.is_argument else escape.holder
            held = (calls_of_holder(*each, holder) for each in loaded if each is not None)
            if any(each.may_give(name, at) for each in held):
                return True
    for path in ordered(words.holding_any(LOOK_UPS)):
        loaded_one = sources.file(path) if _may_look_up(sources, calls, path, of[0]) else None
        if loaded_one is not None and unnamed_calls(*loaded_one).may_give(name, index):
            return True
    return False


def may_be_looked_up(sources: Sources, calls: CallPlaces, ordered: _Ordered, defined_in: str) -> bool:
    """Return whether a file of a program may look up, by a text, what a file defines."""
    return any(_may_look_up(sources, calls, path, defined_in) for path in ordered(sources.words.holding_any(LOOK_UPS)))


def _may_look_up(sources: Sources, calls: CallPlaces, path: str, defined_in: str) -> bool:
    """Whether a file may look up, by a text, what another one defines: in that file, or in a package around it."""
    find = sources.project.module_path
    for module in calls.modules_asked(path):
        module_path = find(module, path) if module else path
        if module_path == defined_in:
            return True
        package = module_path.removesuffix("__init__.py") if module_path is not None else ""
        if package.endswith("/") and defined_in.startswith(package):
            return True
    return False


def _is_defined(sources: Sources, name: str, paths: Iterable[str]) -> bool:
    """Whether one of some files defines a function or class of a name, judged by its text."""
    texts = map(sources.text, paths) if name else ()
    return any(f"def {name}(" in text or f"class {name}" in text for text in texts)
