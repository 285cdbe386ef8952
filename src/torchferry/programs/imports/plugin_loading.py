"""Entry points that programs load by the name of a group: the project's own, and those of other packages."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.packaging_metadata import DeclaredPoints
from torchferry.programs.imports.setup_scripts import ANY_GROUP, SCRIPT_GROUPS, DeclaredPoint
from torchferry.programs.syntax.per_file import once_per_file
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_LOADERS = frozenset({
    "importlib.metadata.entry_points", "importlib_metadata.entry_points", "pkg_resources.iter_entry_points",
})  # fmt: skip
_ASKING = ("entry_points", "iter_entry_points")
_LOADS_AT_ONCE = ("load_entry_point", "load_setuptools_entrypoints")
"""Functions that give no entry points but the objects themselves: of pkg_resources, and of pluggy."""

_DISTRIBUTIONS = ("distribution", "distributions", "get_distribution", "working_set")
"""What gives installed packages, each of which has entry points."""

_MANAGERS = frozenset({
    "DispatchExtensionManager", "DriverManager", "EnabledExtensionManager", "ExtensionManager", "HookManager",
    "NameDispatchExtensionManager", "NamedExtensionManager",
})  # fmt: skip
"""Classes of stevedore that load the entry points of a group, which they call a namespace."""

WORDS = frozenset({*_ASKING, *_LOADS_AT_ONCE, *_MANAGERS})
"""Names of which a file holds one that loads entry points."""

LOADING = frozenset({"importlib", "importlib_metadata", "pkg_resources", "pluggy", "stevedore"})
"""Packages that load entry points."""

_COMPUTES_NOTHING = (
    "babel.", "distutils.", "egg_info.", "fsspec.", "jupyter_", "keyring.", "mkdocs.", "pygments.", "pytest11",
    "setuptools.", "sphinx.", "sqlalchemy.", "torch.backends",
)  # fmt: skip
"""How the groups begin whose objects use no card by themselves: of documents, builds, tests, and files. The last one is
torch's own, by which plugins of devices register."""

_CHOOSES = frozenset({"select", "get"})
_PASSES = frozenset({"sorted", "list", "tuple", "set", "iter", "reversed"})
_COUNTS = frozenset({"len", "bool", "hasattr", "isinstance", "print", "type"})
_TELLS = frozenset({"name", "value", "group", "dist", "extras", "module", "attr", "matches", "module_name", "attrs"})
"""Attributes of an entry point that are read without loading it."""

_TELLS_OF_ALL = frozenset({"names", "groups", "keys"})
_MOST_STEPS = 8
"""Variables that are followed to what is done with entry points."""


class PluginPoint(NamedTuple):
    """An entry point: its group and name, the module and the object in it that it represents, and who declares it."""

    group: str
    name: str
    module: str
    member: str
    path: str


class PluginPoints(NamedTuple):
    """The entry points that the project's own packages declare, none of them a command.

    Attributes:
        points: Those that can be told.
        open_groups: Groups of which there may be more; `ANY_GROUP` where any may have more.
    """

    points: tuple[PluginPoint, ...] = ()
    open_groups: frozenset[str] = frozenset()


class PluginCall(NamedTuple):
    """A call that loads entry points; None for a group or a name that it does not choose."""

    node: ast.expr
    group: ast.expr | None
    name: ast.expr | None


class AskedPlugins(NamedTuple):
    """What a call asks for; None for groups and names that cannot be told."""

    node: ast.expr
    groups: frozenset[str] | None
    names: frozenset[str] | None

    def may_give(self, point: PluginPoint) -> bool:
        """Whether the call may give an entry point."""
        is_asked = self.groups is None or point.group == ANY_GROUP or point.group in self.groups
        return is_asked and (self.names is None or point.name in self.names)

    def is_sure(self, own: PluginPoints) -> bool:
        """Whether it gives one of the project's entry points, and no other of them."""
        return self.groups is not None and not self.is_open(own) and sum(map(self.may_give, own.points)) == 1

    def is_open(self, own: PluginPoints) -> bool:
        """Whether it may give an entry point of the project that cannot be told."""
        asked = {ANY_GROUP} if self.groups is None else {ANY_GROUP, *self.groups}
        return not own.open_groups.isdisjoint(asked) or (self.groups is None and bool(own.open_groups))

    def of_others(self, own: PluginPoints) -> list[str]:
        """Return the groups which the project does not fill itself, so that other packages do; not harmless ones."""
        filled = {point.group for point in own.points} | own.open_groups | set(SCRIPT_GROUPS)
        groups = sorted(self.groups or ()) if ANY_GROUP not in filled else []
        return [group for group in groups if group not in filled and not group.startswith(_COMPUTES_NOTHING)]


def plugin_points(packaging: Iterable[DeclaredPoints]) -> PluginPoints:
    """Return the entry points that packaging files declare; none of them a command."""
    declared = [*packaging]
    points = (_point(point, each.path) for each in declared for point in each.points)
    points = (point for point in points if point.group not in SCRIPT_GROUPS)
    open_groups = frozenset().union(*(each.open_groups for each in declared)) - {*SCRIPT_GROUPS}
    return PluginPoints(tuple(dict.fromkeys(points)), open_groups)


def _point(declared: DeclaredPoint, path: str) -> PluginPoint:
    module, _, member = declared.value.partition("[")[0].strip().partition(":")
    return PluginPoint(declared.group, declared.name, module.strip(), member.strip().partition(".")[0], path)


@once_per_file
def plugin_calls(file: PythonFile, names: Names) -> tuple[PluginCall, ...]:
    """Return the calls of a file that load entry points; those of which it only reads the names load none."""
    calls: list[PluginCall] = []
    imported = (alias for statement in file.imports for alias in statement.names)
    renamed = {alias.asname for alias in imported if alias.asname and alias.name in _ASKING}
    for word in sorted({*_ASKING, *renamed}):
        for call in file.calls_by_name(word):
            is_imported = isinstance(call.func, ast.Name) and names.origin(call.func) is not None
            if is_imported or names.qualified(call.func) in _LOADERS:
                given = _given(call, ("group", "name"))
                calls += _Follower(file, names, call).loads(call, given.get("group"), given.get("name"))
    if any(word in file.names or word in file.attributes for word in _DISTRIBUTIONS):
        for listed in file.attributes.get("entry_points", ()):  # those of an installed package
            around = file.parents.get(listed)
            if isinstance(listed.ctx, ast.Load) and not (isinstance(around, ast.Call) and around.func is listed):
                calls += _Follower(file, names, listed).loads(listed, None, None)
    for word in _LOADS_AT_ONCE:
        for call in file.calls_by_name(word):
            of_package = (names.qualified(call.func) or "").startswith("pkg_resources.")
            given = _given(call, ("dist", "group", "name") if of_package else ("group", "name"))
            calls.append(PluginCall(call, given.get("group"), given.get("name")))
    for word in sorted(_MANAGERS):
        for call in file.calls_by_name(word):
            if (names.qualified(call.func) or "").startswith("stevedore."):
                given = _given(call, ("namespace",))
                calls.append(PluginCall(call, given.get("namespace"), given.get("name")))
    return tuple(dict.fromkeys(calls))


def _given(call: ast.Call, parameters: Iterable[str]) -> dict[str, ast.expr]:
    """Return what a call gives its parameters."""
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    return dict(zip(parameters, call.args, strict=False)) | given


class _Follower:
    """Follows what a call gives to where entry points are chosen from it and loaded.

    Args:
        file: The file.
        names: Its names.
        call: The call, or another expression that gives entry points.
    """

    def __init__(self, file: PythonFile, names: Names, call: ast.expr) -> None:
        self._file = file
        self._names = names
        self._call = call

    def loads(
        self, node: ast.expr, group: ast.expr | None, name: ast.expr | None, steps: int = 0
    ) -> Iterator[PluginCall]:
        """Yield how the entry points of an expression may be loaded, each time with the group and name then chosen."""
        parent = self._file.parents.get(node)
        outer = self._file.parents.get(parent) if parent is not None else None
        if steps > _MOST_STEPS:
            yield PluginCall(self._call, group, name)
        elif isinstance(parent, ast.Attribute) and parent.attr in _CHOOSES and isinstance(outer, ast.Call):
            given = _given(outer, ("group",) if parent.attr == "get" else ())
            yield from self.loads(outer, given.get("group", group), given.get("name", name), steps + 1)
        elif isinstance(parent, ast.Attribute) and parent.attr in _TELLS_OF_ALL:
            return
        elif isinstance(parent, ast.Subscript) and parent.value is node and group is None:
            yield from self.loads(parent, parent.slice, name, steps + 1)
        elif isinstance(parent, ast.Subscript) and parent.value is node:
            yield from self._loads_one(parent, group, parent.slice)
        elif isinstance(parent, ast.Call) and node in parent.args and isinstance(parent.func, ast.Name):
            if parent.func.id in _PASSES:
                yield from self.loads(parent, group, name, steps + 1)
            elif parent.func.id == "next":
                yield from self._loads_one(parent, group, name)
            elif parent.func.id not in _COUNTS:
                yield PluginCall(self._call, group, name)
        elif isinstance(parent, (ast.BoolOp, ast.IfExp)) and not self._is_test(node, parent):
            yield from self.loads(parent, group, name, steps + 1)
        elif (targets := self._targets(node, parent)) is not None:
            for use in (use for target in targets for use in self._names.uses_of(target)):
                yield from self.loads(use, group, name, steps + 1)
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and isinstance(parent.target, ast.Name):
            uses = self._names.uses_of(parent.target)
            compared = self._compared(uses)
            for use in uses:
                yield from self._loads_one(use, compared if group is None else group, name)
        elif not (isinstance(parent, (ast.Expr, ast.Compare)) or self._is_test(node, parent)):
            yield PluginCall(self._call, group, name)

    def _compared(self, uses: Iterable[ast.Name]) -> ast.expr | None:
        """Return the group that an entry point is asked for in a loop: `if point.group == "lab.nets"`."""
        groups = []
        for use in uses:
            asked = self._file.parents.get(use)
            test = self._file.parents.get(asked) if isinstance(asked, ast.Attribute) and asked.attr == "group" else None
            if isinstance(test, ast.Compare) and test.left is asked and isinstance(test.ops[0], ast.Eq):
                groups.append(test.comparators[0])
        return groups[0] if len(groups) == 1 else None

    def _loads_one(self, node: ast.expr, group: ast.expr | None, name: ast.expr | None) -> Iterator[PluginCall]:
        """Yield the call where the entry point that an expression gives may be loaded."""
        parent = self._file.parents.get(node)
        if not (isinstance(parent, ast.Attribute) and parent.attr in _TELLS) and not self._is_test(node, parent):
            yield PluginCall(self._call, group, name)

    @staticmethod
    def _is_test(node: ast.expr, parent: ast.AST | None) -> bool:
        """Whether an expression is only asked whether it is true."""
        if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            return parent.test is node
        return isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)

    @staticmethod
    def _targets(node: ast.expr, parent: ast.AST | None) -> list[ast.Name] | None:
        """Return the variables that an expression is assigned to; None where it is not, or to something else too."""
        targets: list[ast.expr] = []
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        variables = [target for target in targets if isinstance(target, ast.Name)]
        return variables if variables and len(variables) == len(targets) else None
