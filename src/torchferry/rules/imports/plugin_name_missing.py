"""A name of the target's own plugin that this version of it does not have.

`torch.npu.no_such_function()`, `from torch_npu.contrib.module import MultiHeadAttention`: the name is misspelt, belongs
to another version, or was renamed from CUDA's although the plugin has none. torchferry knows the modules and public
names of the plugins whose packages can be read; of the others nothing is reported. Private names and what code asks
for before it uses it (`hasattr`, `try`) are left alone.

Why: The import raises ImportError, the use AttributeError, when the program reaches the line.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from difflib import get_close_matches

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.contents import Contents, Presence, contents, home_of
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.guarded import Guard, guard_of, is_attempted
from torchferry.source.names import Reference

_LIKENESS = 0.75


class PluginNameMissing(Rule):
    """Finds names of the plugin that it does not have."""

    CODE = "IMP106"
    EFFECT = Effect.RAISES
    RUNS_ON_DEVICE = False

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The plugin, and its namespace in torch; nothing where nobody has read its names."""
        backend = target.backend
        if target.module or contents(backend) is None:
            return ()
        return tuple(word for word in (backend.PLUGIN, backend.NAMESPACE.rpartition(".")[2]) if word)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, and for each import."""
        backend = context.target.backend
        listed = contents(backend)
        if listed is None or context.target.module:
            return
        version = context.target.version or backend.DEFAULT_VERSION
        beginnings = tuple(f"{each}." for each in (backend.PLUGIN, backend.NAMESPACE) if each)
        references = [
            reference
            for package in ("torch", backend.PLUGIN)
            for reference in context.names.references(package)
            if reference.name.startswith(beginnings)
        ]
        bound = {reference.name for reference in references if _binds(reference)}
        for reference in dict.fromkeys(references):
            name = _absent(context.target, listed, reference.name, version)
            if not name or name in bound or not _runs_into(context, reference):
                continue
            message = say("{plugin} {version} has no `{name}`", plugin=backend.PLUGIN, version=version, name=name)
            having = listed.versions_with(home_of(backend, name))
            near = "" if having else _alike(backend, listed, name)
            if having:
                message = say("{message}; version {version} has it", message=message, version=having[-1])
            elif near:
                message = say("{message}; it has `{similar}`", message=message, similar=near)
            effect = Effect.UNKNOWN if having else self.EFFECT  # a list of one version may be shorter than the plugin
            yield self.finding(context, context.file.span(reference.node), message, Grade.MANUAL, effect=effect)


def _binds(reference: Reference) -> bool:
    """Whether the program gives the plugin a name of its own."""
    return isinstance(reference.node, ast.Attribute) and not isinstance(reference.node.ctx, ast.Load)


def _runs_into(context: PythonContext, reference: Reference) -> bool:
    node = reference.node
    if isinstance(node, ast.alias):
        statement = context.file.parents[node]
        return guard_of(context.file, statement, "ImportError") is not Guard.COPES
    asked = any(reference.name.endswith(f".{each.value!s}") for each in context.file.strings)
    return not asked and not is_attempted(context, node) and guard_of(context.file, node) is not Guard.COPES


def _absent(target: Target, listed: Contents, name: str, version: str) -> str:
    """Return the part of a name, from its beginning, that the plugin does not have; empty where it may have it all."""
    backend = target.backend
    parts = name.split(".")
    for count in range(2, len(parts) + 1):
        path = ".".join(parts[:count])
        if parts[count - 1].startswith("_") or path in (backend.PLUGIN, backend.NAMESPACE):
            if path in (backend.PLUGIN, backend.NAMESPACE):
                continue
            return ""
        there = listed.presence(home_of(backend, path), version)
        if there is Presence.MODULE:
            continue
        is_missing = there is Presence.ABSENT and not _is_object(listed, backend, path) and not _is_said(target, path)
        return path if is_missing else ""
    return ""


def _is_object(listed: Contents, backend: type[Backend], path: str) -> bool:
    """Whether a class that the module above a name defines stands in the module's place: `torch.npu.mstx.mark`."""
    owner = home_of(backend, path).rpartition(".")[0]
    last = owner.rpartition(".")[2].lower()
    return any(
        kind is Presence.CALLABLE and name.lower() in (f"{owner}.{last}".lower(), f"{owner}.{last}module".lower())
        for name, (kind, _) in listed.by_path.items()
    )


def _is_said(target: Target, path: str) -> bool:
    """Whether a table has the name, or CUDA's of the same place: these are as sure as the lists."""
    backend = target.backend
    if any(f"{row.use}.".startswith(f"{path}.") for row in backend.table("api") if row.use):
        return True
    for beginning in (backend.NAMESPACE, backend.IMPORT_NAMESPACE):
        if beginning and path.startswith(f"{beginning}."):
            row = target.api(f"{cuda.NAMESPACE}{path[len(beginning) :]}")
            return row.status in REWRITTEN
    return False


def _alike(backend: type[Backend], listed: Contents, name: str) -> str:
    """Return the nearest name that the same module has, in small or capital letters; empty for none."""
    owner, _, last = name.rpartition(".")
    home = home_of(backend, name).rpartition(".")[0]
    below = {path.rpartition(".")[2] for path in listed.by_path if path.rpartition(".")[0] == home}
    spelled = {each.lower(): each for each in sorted(below)}
    near = get_close_matches(last.lower(), list(spelled), n=1, cutoff=_LIKENESS)
    return f"{owner}.{spelled[near[0]]}" if near else ""
