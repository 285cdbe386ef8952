"""The plugin of a target as an environment has it: its version, and names that its Python sources surely lack.

Nothing of it is run. A name is lacking only where the module that represents `torch.cuda` is read to its end, with what
it imports by a star, and where no other file of the plugin adds to it by a name that is not written out.
"""

from __future__ import annotations

import ast
import re
import warnings

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import InstalledPlugin, Target
from torchferry.core.files import read_regular
from torchferry.installed.distributions import Distribution, Index
from torchferry.installed.environment import Environment
from torchferry.source.exports import module_exports

_LARGEST = 1 << 21
"""Bytes of a file of the plugin that is read."""

_GIVEN = re.compile(r"\.(\w+)[ \t]*=(?!=)|[\"'](?:\w+\.)*(\w+)[\"']")
"""Names that a module gives to another one: written out, or in a text that a function may take for one."""

_ADDS_ANY = re.compile(r"\bexec\(|\bsys\.modules\[[ \t]*__name__|\bsetattr\([ \t]*(?!self\b|cls\b|[\w.]*\b_C\b)")
"""What may bind names of the module that are not written out."""


def installed_plugin(environment: Environment, target: Target) -> InstalledPlugin | None:
    """Return the target's plugin in an environment; None where it is not there, or nobody says which version it is."""
    located = Index(environment).locate(target.backend.PLUGIN)
    if located is None or not located.distribution.version:
        return None
    distribution = located.distribution
    named = environment.named.as_posix()
    return InstalledPlugin(distribution.version, named, _lacking(distribution, target))


def _lacking(distribution: Distribution, target: Target) -> frozenset[str]:
    """Return the names below the plugin's namespace that the target's table has, and the plugin surely has not."""
    namespace = target.backend.NAMESPACE
    bound = _bound(distribution, target.backend.IMPORT_NAMESPACE, set()) if namespace else None
    if bound is None:
        return frozenset()
    uses = {
        row.use or row.name.replace(cuda.NAMESPACE, namespace, 1)
        for row in target.backend.table("api")
        if row.status in REWRITTEN
    }
    asked = {use[len(namespace) + 1 :].partition(".")[0] for use in uses if use.startswith(f"{namespace}.")}
    lacking = asked - bound
    if lacking:
        lacking -= _given(distribution)
    return frozenset(lacking)


def _bound(distribution: Distribution, module: str, seen: set[str]) -> set[str] | None:
    """Return the names that a module of the plugin has once it is imported; None where that cannot be read."""
    path = distribution.modules.get(module, "")
    text = _text(distribution, path) if path.endswith(".py") and module not in seen else None
    if text is None or _ADDS_ANY.search(text):
        return set() if module in seen else None
    seen.add(module)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exports = module_exports(ast.parse(text), path)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if exports.is_open:
        return None
    names = {*exports.origins}
    inside = f"{module}."
    names |= {other[len(inside) :].partition(".")[0] for other in distribution.modules if other.startswith(inside)}
    for star in exports.stars:
        below = _bound(distribution, star.lstrip("."), seen)
        if below is None:
            return None
        names |= below
    return names


def _given(distribution: Distribution) -> set[str]:
    """Return the names that files of the plugin give to whatever objects."""
    names: set[str] = set()
    for path in distribution.modules.values():
        text = _text(distribution, path) if path.endswith(".py") else None
        names.update(match[1] or match[2] for match in _GIVEN.finditer(text or ""))
    return names


def _text(distribution: Distribution, path: str) -> str | None:
    try:
        return read_regular(distribution.folder / path, _LARGEST).decode("utf-8", "replace")
    except OSError:
        return None
