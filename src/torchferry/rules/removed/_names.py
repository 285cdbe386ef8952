"""Uses of names that newer versions of a package do not have; shared by the rules of the family."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from torchferry.backends.removed import OF_TORCH, Removed, is_refused, oldest_beside, removed_names, torch_of
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Bilingual, Message, say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.pins import is_older, keeps_below
from torchferry.source.flow.syntax import last_name

_METHODS = "torch.Tensor."
_AS_ITSELF = lazy_regex(r"\b(\w+) as \1\Z")
_SAYS_VERSION = lazy_regex(r"version|hasattr|\bpy[23]|PY[23]", re.IGNORECASE)
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "NameError"})
_TITLES = {"numpy": "NumPy", "scipy": "SciPy", "pillow": "Pillow"}


@lru_cache(maxsize=8)
def _by_last(packages: tuple[str, ...]) -> dict[str, tuple[Removed, ...]]:
    by_last: dict[str, tuple[Removed, ...]] = {}
    for removed in removed_names().values():
        if removed.package in packages:
            by_last[removed.last] = (*by_last.get(removed.last, ()), removed)
    return by_last


class RemovedNamesRule(Rule):
    """Finds uses and imports of the names that some packages do not have any more."""

    PACKAGES: tuple[str, ...] = ()
    """The packages of `removed.toml` that the rule speaks of."""

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target whose torch, and what comes with it, still has all of the names."""
        refused = any(
            removed.package in self.PACKAGES and is_refused(target, removed) for removed in removed_names().values()
        )
        return self.WORDS if refused else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import statement and each use."""
        for statement in context.file.imports:
            yield from self._import(context, statement)
        for last, candidates in _by_last(self.PACKAGES).items():
            for node in context.file.attributes.get(last, ()):
                removed = self._used(context, node, candidates)
                if removed is not None and not is_chosen(context, node):
                    yield self._use(context, node, removed)

    def _used(self, context: PythonContext, node: ast.Attribute, candidates: tuple[Removed, ...]) -> Removed | None:
        """Return what an attribute is of the names that end like it."""
        if not isinstance(node.ctx, ast.Load):
            return None
        name = context.names.qualified(node)
        for removed in candidates:
            if removed.name.startswith(_METHODS):
                call = context.file.parents.get(node)
                if (
                    name is None
                    and isinstance(call, ast.Call)
                    and call.func is node
                    and self._is_current(context, removed)
                ):
                    return removed
            elif name == removed.name and self._is_current(context, removed):
                outer = context.file.parents.get(node)  # `torch._six.inf` is spoken of once
                whole = context.names.qualified(outer) if isinstance(outer, ast.Attribute) else None
                return removed if whole not in removed_names() else None
        return None

    def _is_current(self, context: PythonContext, removed: Removed) -> bool:
        if not is_refused(context.target, removed):
            return False
        root = context.project.root if context.project is not None else None
        if root is None or removed.package in OF_TORCH:
            return True
        pinned = keeps_below(root, removed.package, removed.since)
        oldest = oldest_beside(context.target, removed.package)
        return not pinned or (bool(oldest) and is_older(pinned, oldest))  # what cannot be installed keeps nothing

    # --- uses ---

    def _use(self, context: PythonContext, node: ast.Attribute, removed: Removed) -> Finding:
        span = context.file.span(node)
        if not removed.write or removed.name.startswith(_METHODS):
            return self.finding(context, span, self._message(context, removed, removed.note), Grade.MANUAL)
        root = context.file.text(node.value)
        written = removed.write.format(root=root, last=removed.last)
        parent = context.file.parents.get(node)
        if written.startswith("-") and isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript)):
            written = f"({written})"
        advice = say("write `{use}`", use=written)
        grade = Grade.SAFE
        if removed.dtype and not _is_dtype(context, node):
            grade = Grade.UNSAFE
        shadowed = (
            written.isidentifier() and context.names.variable_scope(written, context.file.scope(node)) is not None
        )
        if shadowed or "\n" in root:
            return self.finding(context, span, self._message(context, removed, advice), Grade.MANUAL)
        return self.finding(context, span, self._message(context, removed, advice), grade, [Edit(*span, written)])

    # --- imports ---

    def _import(self, context: PythonContext, statement: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
        removed_aliases: dict[ast.alias, Removed] = {}
        for alias in statement.names:
            name = alias.name
            if isinstance(statement, ast.ImportFrom):
                if statement.level:
                    return
                name = f"{statement.module}.{alias.name}"
            removed = removed_names().get(name)
            if removed is None and statement.__class__ is ast.ImportFrom:
                removed = removed_names().get(str(getattr(statement, "module", "")))
            if removed is not None and removed.package in self.PACKAGES and self._is_current(context, removed):
                removed_aliases[alias] = removed
        if not removed_aliases or is_chosen(context, statement):
            return
        span = context.file.span(statement)
        written = _statement_without(context, statement, removed_aliases)
        grouped = list(dict.fromkeys(removed_aliases.values()))
        for removed in grouped[:1] if written is not None else grouped:
            if written is not None:
                advice: Message | Bilingual | None = say("write `{use}`", use="; ".join(written))
                indent = " " * statement.col_offset
                edits = [Edit(*span, (context.source.newline + indent).join(written))]
                yield self.finding(context, span, self._message(context, removed, advice), Grade.SAFE, edits)
            else:
                note = removed.note or say(
                    "write `{use}`", use=removed.write.format(root="", last=removed.last).lstrip(".")
                )
                yield self.finding(context, span, self._message(context, removed, note), Grade.MANUAL)

    def _message(self, context: PythonContext, removed: Removed, advice: Message | Bilingual | None) -> Message:
        name = removed.name if not removed.name.startswith(_METHODS) else f".{removed.last}()"
        if removed.package in OF_TORCH:
            return say(
                "`{name}` was removed from torch {torch}, which {target} uses: {advice}",
                name=name,
                torch=torch_of(context.target),
                target=context.target.title,
                advice=advice,
            )
        if removed.package == "python":
            return say(
                "Python {version} and later have no `{name}`: {advice}", version=removed.since, name=name, advice=advice
            )
        return say(
            "`{name}` was removed in {package} {version}, which comes with the torch of {target}: {advice}",
            package=_TITLES[removed.package],
            version=removed.since,
            name=name,
            target=context.target.title,
            advice=advice,
        )


def _statement_without(
    context: PythonContext, statement: ast.Import | ast.ImportFrom, removed: dict[ast.alias, Removed]
) -> list[str] | None:
    """Return the statements in place of an import; None where one must be made by hand."""
    if not isinstance(statement, ast.ImportFrom) or not all(each.statements for each in removed.values()):
        return None
    start, end = context.file.span(statement)
    line = context.text.rfind("\n", 0, start) + 1
    behind = context.text[end : context.text.find("\n", end) if "\n" in context.text[end:] else len(context.text)]
    if context.text[line:start].strip() or behind.split("#")[0].strip() or "#" in context.text[start:end]:
        return None
    remaining = [
        _AS_ITSELF.sub(r"\1", f"{alias.name} as {alias.asname or alias.name}")
        for alias in statement.names
        if alias not in removed
    ]
    written = [f"from {statement.module} import {', '.join(remaining)}"] if remaining else []
    by_module: dict[str, list[str]] = {}
    for alias, each in removed.items():
        for text in each.statements:
            text = _AS_ITSELF.sub(r"\1", text.format(name=alias.asname or alias.name, last=each.last))
            before, _, name = text.partition(" import ")
            if name and before.startswith("from "):
                by_module.setdefault(before, []).append(name)
            else:
                written.append(text)
    return [*written, *(f"{before} import {', '.join(names)}" for before, names in by_module.items())]


def _is_dtype(context: PythonContext, node: ast.AST) -> bool:
    """Whether an expression stands where NumPy takes a dtype."""
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.keyword):
        return parent.arg == "dtype"
    return isinstance(parent, ast.Call) and node in parent.args and last_name(parent.func) != "isinstance"


def is_chosen(context: PythonContext, node: ast.AST) -> bool:
    """Whether the code says itself what happens without it: it asks for the version, or catches the error."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while parent is not None:
        if isinstance(parent, ast.Try) and child not in parent.finalbody:
            types = [handler.type for handler in parent.handlers]
            caught = [kind for each in types for kind in (each.elts if isinstance(each, ast.Tuple) else [each])]
            if any(kind is None or last_name(kind) in _CAUGHT for kind in caught) and child not in parent.orelse:
                return True
        if isinstance(parent, ast.ExceptHandler):
            kinds = parent.type.elts if isinstance(parent.type, ast.Tuple) else [parent.type]
            if any(kind is not None and last_name(kind) in _CAUGHT for kind in kinds):
                return True
        if (
            isinstance(parent, (ast.If, ast.IfExp))
            and child is not parent.test
            and _SAYS_VERSION.search(context.file.text(parent.test))
        ):
            return True
        child, parent = parent, context.file.parents.get(parent)
    return False
