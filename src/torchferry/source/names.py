"""What a name means: scopes, bindings, import forms and aliases, down to a canonical dotted name.

`th.cuda.amp.autocast` after `import torch as th`, `amp.autocast` after `from torch.cuda import amp`,
`a` after `from torch.cuda.amp import autocast as a`, and `cuda.amp.autocast` after `cuda = torch.cuda` all
are `torch.cuda.amp.autocast`; a local variable, parameter or class of the same name is not.

A name from the project's own modules that are at a known path below the root begins with a dot:
`.utils.compat.amp`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Set
from typing import Protocol

from torchferry.core.budget import KeptWork, spend
from torchferry.core.record import NamedTuple
from torchferry.source import import_calls
from torchferry.source.exports import absolute_module
from torchferry.source.import_calls import ImportCall
from torchferry.source.python import PythonFile
from torchferry.source.star_imports import StarImport, unread_module, uses_of_unread


class Reference(NamedTuple):
    """One place where a name of a package is imported or used.

    Attributes:
        name: The canonical dotted name.
        node: The whole dotted expression, or the alias in an import statement.
        base: The beginning of the expression that an import binds: its first identifier, or `helpers.torch` where the
            module `helpers` does; None for an import.
        bound: The canonical name that this represents.
    """

    name: str
    node: ast.expr | ast.alias
    base: ast.expr | None
    bound: str

    @property
    def is_import(self) -> bool:
        """Whether this is the import itself rather than a use."""
        return isinstance(self.node, ast.alias)


class Resolved(NamedTuple):
    """What the beginning of a dotted name represents.

    Attributes:
        name: The canonical name that its first parts represent.
        parts: How many parts these are.
    """

    name: str
    parts: int

    def whole(self, dotted: str) -> str:
        """Return the canonical name of a dotted name that begins so."""
        return ".".join((self.name, *dotted.split(".")[self.parts :]))


class ReExports(Protocol):
    """Knows what a name imported from the project's own modules really is."""

    def resolve(self, name: str, importer: str) -> Resolved | None:
        """Return what `name` begins with as the file `importer` says it; None where modules pass nothing on by it."""

    def star(self, module: str, importer: str) -> StarImport:
        """Return what `from module import *` binds in the file `importer`."""


_MOST_ALIASES = 100
"""Aliases of aliases, `a = torch; b = a`, that are followed."""

_MOST_BINDINGS = 60
"""Bindings of a variable for which it is told which of them each use may have; of more, each use may have all."""


class Names:
    """Name resolution for one file."""

    def __init__(self, file: PythonFile, reexports: ReExports | None = None) -> None:
        self.file = file
        self._reexports = reexports
        self._binding: dict[str, dict[ast.AST, list[ast.AST]]] = {}
        self._origins: dict[ast.AST, str | None] = {}
        self._aliases = 0
        self._references: dict[str, tuple[list[Reference], KeptWork]] = {}
        self._imported: dict[str, list[tuple[ast.alias, str, str]]] | None = None
        self._uses: dict[tuple[str, ast.AST], list[ast.Name]] = {}
        self._bindings: dict[ast.Name, list[ast.AST]] = {}
        self._reached: dict[tuple[str, ast.AST], dict[ast.AST, list[ast.Name]]] = {}
        self._stars: list[tuple[ast.ImportFrom, StarImport]] | None = None
        self._through_modules: tuple[list[Reference], int] | None = None
        self._import_calls: list[ImportCall] | None = None
        self._binding_scopes: dict[str, dict[ast.AST, ast.AST]] = {}

    # --- bindings ---

    def bindings(self, name: ast.Name) -> list[ast.AST]:
        """Return the nodes that bind the variable which `name` uses, in no order; empty for a builtin."""
        bindings = self._bindings.get(name)
        if bindings is None:
            scope = self.variable_scope(name.id, self.file.scope(name))
            bindings = self._bindings[name] = [] if scope is None else self._scopes(name.id)[scope]
        return bindings

    def reaching_bindings(self, name: ast.Name) -> list[ast.AST]:
        """Return the bindings whose value `name` may have where it stands; all of them if it is unknown.

        In `t = first(); use(t); t = second()` it is the first one. An assignment that always runs before the use ends
        those before it; those behind the use come back only through a loop that does not run it again.
        """
        bindings = self.bindings(name)
        scope = self.file.scope(name)
        if len(bindings) < 2 or any(self.file.scope(binding) is not scope for binding in bindings):
            return bindings  # a use in an inner function, and what `global` binds, may run at any time
        spend(len(bindings))
        use = self.file.statement(name)
        blocks = self._blocks(use)
        ending = [
            statement
            for statement in map(self.file.statement, bindings)
            if isinstance(statement, (ast.Assign, ast.AnnAssign))
            and (statement.value is not None and _place(statement) < _place(use))
            and self._block(statement) in blocks
        ]
        if not ending:
            around = self._loops(use)
            before = [
                binding
                for binding in bindings
                if _place(statement := self.file.statement(binding)) < _place(use)
                or (statement is use and isinstance(self.file.parents[binding], (ast.NamedExpr, ast.arguments)))
                or self._loops(statement) & around
            ]
            return before or bindings
        latest = max(ending, key=_place)
        again = self._loops(use) - self._loops(latest)
        return [
            binding
            for binding in bindings
            if _place(latest) <= _place(self.file.statement(binding)) < _place(use)
            or (self.file.statement(binding) is use and isinstance(self.file.parents[binding], ast.NamedExpr))
            or self._loops(self.file.statement(binding)) & again
        ]

    def reached_uses(self, binding: ast.Name) -> list[ast.Name]:
        """Return the loads of a variable that may have the value which one of its bindings gives it.

        A name that binds nothing represents all of them.
        """
        scope = self.variable_scope(binding.id, self.file.scope(binding))
        if scope is None:
            return []
        bindings = self._scopes(binding.id)[scope]
        uses = self.uses(binding.id, scope)
        if len(bindings) < 2 or isinstance(binding.ctx, ast.Load):
            return uses
        reached = self._reached.get((binding.id, scope))
        if reached is None:
            reached = self._reached[binding.id, scope] = {}
            for use in uses:
                if len(bindings) <= _MOST_BINDINGS:
                    origins = self.reaching_bindings(use)
                else:
                    spend(len(bindings))
                    origins = bindings
                for origin in origins:
                    reached.setdefault(origin, []).append(use)
        return reached.get(binding, [])

    def _block(self, statement: ast.stmt) -> tuple[ast.AST, str]:
        """Return the node that holds a statement, and the name of its list of statements that does."""
        parent = self.file.parents[statement]
        lists = ((field, value) for field, value in ast.iter_fields(parent) if isinstance(value, list))
        return parent, next(field for field, value in lists if any(child is statement for child in value))

    def _blocks(self, statement: ast.stmt) -> set[tuple[ast.AST, str]]:
        """Return the blocks around a statement in its own function, class or module."""
        blocks = set()
        while True:
            blocks.add(self._block(statement))
            parent = self.file.parents[statement]
            if isinstance(parent, (*DEFINITIONS, ast.Module)):
                return blocks
            statement = self.file.statement(parent)

    def _loops(self, statement: ast.stmt) -> set[ast.AST]:
        """Return the loops around a statement in its own function, class or module, itself included."""
        loops: set[ast.AST] = set()
        node: ast.AST | None = statement
        while node is not None and (node is statement or not isinstance(node, DEFINITIONS)):
            if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
                loops.add(node)
            node = self.file.parents.get(node)
        return loops

    def module_bindings(self, identifier: str) -> list[ast.AST]:
        """Return the nodes that bind `identifier` in the module's own scope."""
        return self.bound_in(identifier, self.file.tree)

    def bound_in(self, identifier: str, scope: ast.AST) -> list[ast.AST]:
        """Return the nodes that bind `identifier` in a scope, and not in one around it."""
        return self._scopes(identifier).get(scope, [])

    def variable_scope(self, identifier: str, scope: ast.AST) -> ast.AST | None:
        """Return the scope that binds `identifier` as seen from `scope`, or None."""
        scopes = self._scopes(identifier)
        if not scopes:
            return None
        first = True
        while True:
            if scope in scopes and (first or not isinstance(scope, ast.ClassDef)):
                return scope
            around = self.file.scope(scope)
            if around is scope:  # the module, or a node that is no part of this tree
                return None
            scope = around
            first = False

    def uses(self, identifier: str, scope: ast.AST) -> list[ast.Name]:
        """Return the loads of the variable `identifier` that `scope` binds."""
        uses = self._uses.get((identifier, scope))
        if uses is None:
            uses = [name for name in self.file.names.get(identifier, ()) if isinstance(name.ctx, ast.Load)]
            scopes = self._scopes(identifier)
            if scope is not self.file.tree or len(scopes) > 1:  # else every use is of this one
                for inner in scopes:
                    self._uses[identifier, inner] = []
                for name in uses:
                    owner = self.variable_scope(identifier, self.file.scope(name))
                    if owner is not None:
                        self._uses[identifier, owner].append(name)
                return self._uses.setdefault((identifier, scope), [])
            self._uses[identifier, scope] = uses
        return uses

    def uses_of(self, name: ast.Name) -> list[ast.Name]:
        """Return the loads of the variable that a name is, wherever the name stands; none where nothing binds it."""
        scope = self.variable_scope(name.id, self.file.scope(name))
        return [] if scope is None else self.uses(name.id, scope)

    def _scopes(self, identifier: str) -> dict[ast.AST, list[ast.AST]]:
        """Return the nodes that bind `identifier`, by the scope that they bind it in."""
        scopes = self._binding.get(identifier)
        if scopes is not None:
            return scopes
        file = self.file
        outer: dict[ast.AST, ast.AST] = {}  # scope with a global or nonlocal statement -> that statement
        binders: list[ast.AST] = [name for name in file.names.get(identifier, ()) if not isinstance(name.ctx, ast.Load)]
        binders += file.arguments.get(identifier, ())
        for node in file.binders.get(identifier, ()):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                outer[file.scope(node)] = node
            else:
                binders.append(node)
        scopes = self._binding[identifier] = {}
        for node in binders:
            scope = file.scope(node)
            if isinstance(file.parents.get(node), ast.NamedExpr):
                while isinstance(scope, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                    scope = file.scope(scope)
            declaration = outer.get(scope)
            if isinstance(declaration, ast.Global):
                scope = file.tree
            elif isinstance(declaration, ast.Nonlocal):
                scope = file.scope(scope)
            scopes.setdefault(scope, []).append(node)
        alias = self._alias_by_star(identifier, scopes.get(file.tree, ()))
        if alias is not None:
            scopes.setdefault(file.tree, []).insert(0, alias)
        return scopes

    # --- star imports ---

    def stars(self) -> list[tuple[ast.ImportFrom, StarImport]]:
        """Return the statements `from module import *` in their order, with what each binds."""
        if self._stars is None:
            reexports, path = self._reexports, self.file.path
            statements = [
                statement
                for statement in (self.file.imports if reexports is not None else ())
                if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
            ]
            self._stars = [
                (statement, reexports.star(self.imported_module(statement), path))
                for statement in sorted(statements, key=_place)
                if reexports is not None
            ]
        return self._stars

    def unread_stars(self, name: ast.Name) -> tuple[str, ...]:
        """Return the modules of which one may bind a name by a star import; empty for a name that is bound."""
        if hasattr(builtins, name.id) or self.bindings(name):
            return ()
        return tuple(dict.fromkeys(module for _, star in self.stars() for module in star.unread))

    def star_alias(self, statement: ast.ImportFrom, identifier: str) -> ast.alias | None:
        """Return the alias by which a star import binds a name; None where another statement does, or none."""
        for binding in self.module_bindings(identifier):
            if isinstance(binding, ast.alias) and self.file.parents[binding] is statement:
                return binding
        return None

    def _alias_by_star(self, identifier: str, own: Iterable[ast.AST]) -> ast.alias | None:
        """Return an alias that binds a name as if the star import which does so spelt it out.

        Where the module binds the name otherwise too, the later statement counts.
        """
        for statement, star in reversed(self.stars()):
            origin = star.names.get(identifier)
            if origin is None:
                continue
            if any(_place(self.file.statement(binding)) > _place(statement) for binding in own):
                return None
            written = statement.names[0]
            alias = ast.alias(name=identifier, asname=None)
            ast.copy_location(alias, written)
            self.file.parents[alias] = statement
            self._origins[alias] = origin
            return alias
        return None

    # --- canonical names ---

    def qualified(self, node: ast.AST) -> str | None:
        """Return the canonical name of a dotted expression, or None when its root is not an import or alias."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        origin = self.origin(node) if isinstance(node, ast.Name) else self.named_module(node)
        if origin is None:
            return None
        return self._canonical(".".join((origin, *reversed(attributes)))) if attributes else origin

    def origin(self, name: ast.Name) -> str | None:
        """Return the canonical name that a variable represents, when an import or an alias binds it."""
        for binding in self.bindings(name):
            origin = self.binding_origin(binding)
            if origin is not None:
                return origin
        return None

    def binding_origin(self, binding: ast.AST) -> str | None:
        """Return the canonical name that one binding gives its name, or None."""
        if binding in self._origins:
            return self._origins[binding]
        self._origins[binding] = None  # ends recursion through `a = b; b = a`
        if self._aliases < _MOST_ALIASES:
            self._aliases += 1
            self._origins[binding] = self._origin(binding)
            self._aliases -= 1
        return self._origins[binding]

    def _origin(self, binding: ast.AST) -> str | None:
        if isinstance(binding, ast.alias):
            return self._import_origin(binding)
        value = assigned_value(self.file, binding)
        if value is None:
            return self._canonical(name) if (name := import_calls.module_in_pair(self, binding)) else None
        return self.qualified(value) if isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else None

    def named_module(self, node: ast.AST) -> str | None:
        """Return the module that is asked for by a name which is written down: `import_module("nets")`."""
        return self._canonical(name) if (name := import_calls.module_named_by(self, node)) else None

    def import_calls(self) -> list[ImportCall]:
        """Return the calls of the file that import what a text names."""
        if self._import_calls is None:
            self._import_calls = [*import_calls.all_import_calls(self)]
        return self._import_calls

    def _import_origin(self, alias: ast.alias) -> str | None:
        statement = self.file.parents[alias]
        if isinstance(statement, ast.Import):
            return alias.name if alias.asname else alias.name.partition(".")[0]
        assert isinstance(statement, ast.ImportFrom)
        if alias.name == "*":
            return None
        return self._canonical(f"{self.imported_module(statement)}.{alias.name}")

    def _canonical(self, name: str) -> str:
        """Return what a name is that may be one of the project's modules."""
        resolved = self._reexports.resolve(name, self.file.path) if self._reexports is not None else None
        return name if resolved is None else resolved.whole(name)

    def imported_module(self, statement: ast.ImportFrom) -> str:
        """Return the module that a `from` import names; relative ones as `.package.module` from the root."""
        if not statement.level:
            return statement.module or ""
        return absolute_module("." * statement.level + (statement.module or ""), self.file.path)

    # --- references ---

    def references(self, package: str) -> list[Reference]:
        """Return all imports and uses of `package` and what is below it, in source order.

        Args:
            package: A top-level package, such as `torch`.
        """
        held = self._references.get(package)
        if held is None:
            work = KeptWork()
            held = self._references[package] = self._find_references(package, work), work
        references, work = held
        work.ask()
        return references

    def imported_packages(self) -> Set[str]:
        """Return the top-level packages that the file imports from; `""` represents the project's own."""
        return self._imports_by_package().keys()

    def _imports_by_package(self) -> dict[str, list[tuple[ast.alias, str, str]]]:
        """Return the import aliases by the package that they come from, with the name imported and what it binds."""
        if self._imported is None:
            self._imported = {}
            for statement in self.file.imports:
                for alias in statement.names:
                    is_star = alias.name == "*"
                    origin = unread_module(statement, self.stars()) if is_star else self.binding_origin(alias)
                    if origin is not None:
                        name = alias.name if isinstance(statement, ast.Import) else origin
                        self._imported.setdefault(origin.partition(".")[0], []).append((alias, name, origin))
        return self._imported

    def _find_references(self, package: str, work: KeptWork) -> list[Reference]:
        references: list[Reference] = []
        bound: list[ast.AST] = []  # bindings of names that stand for something of the package
        for alias, name, origin in self._imports_by_package().get(package, ()):
            references.append(Reference(name, alias, None, origin))
            if alias.name != "*":
                bound.append(alias)
        for use, module in uses_of_unread(self, package):
            chain = self._dotted(use)
            name = ".".join((module, use.id, *(part.attr for part in chain[1:])))  # type: ignore[attr-defined]
            references.append(Reference(name, chain[-1], use, f"{module}.{use.id}"))
        bound += self.bound_by_stars(package)
        by_modules, steps = self.by_modules()
        work.spend(steps)  # by whoever asks, whether they are known by now or not
        for reference in by_modules:
            if reference.bound.partition(".")[0] == package and isinstance(reference.node, ast.expr):
                references.append(reference)
                bound += self._aliases_of(reference.node)
        named: list[ast.expr] = [each.call for each in self.import_calls() if each.module == package]
        if package != "sys" and import_calls.may_take_from_loaded(self.file):
            named += import_calls.taken_from_loaded(self, self._find_references("sys", work))
        for node in named:
            if self.named_module(node) == package:  # what is below it is named by the text of the call alone
                chain = self._dotted(node)
                name = ".".join((package, *(part.attr for part in chain[1:])))  # type: ignore[attr-defined]
                references.append(Reference(name, chain[-1], node, package))
                bound += self._aliases_of(chain[-1])
        scopes_of: dict[str, dict[ast.AST, ast.AST]] = {}  # for each identifier, which scope has which binding
        seen: set[ast.AST] = set()
        while bound:
            binding = bound.pop()
            if binding in seen:
                continue
            seen.add(binding)
            identifier = bound_name(binding)
            if identifier not in scopes_of:
                scopes_of[identifier] = {
                    binder: scope for scope, binders in self._scopes(identifier).items() for binder in binders
                }
            stands_for = self.binding_origin(binding)
            assert stands_for is not None
            uses = self.uses(identifier, scopes_of[identifier][binding])
            work.spend(len(uses))
            for use in uses:
                chain = self._dotted(use)
                name = ".".join((stands_for, *(part.attr for part in chain[1:])))  # type: ignore[attr-defined]
                references.append(Reference(name, chain[-1], use, stands_for))
                bound += self._aliases_of(chain[-1])
        unique = {reference.node: reference for reference in references}
        return sorted(unique.values(), key=_position)

    def bound_by_stars(self, package: str) -> list[ast.alias]:
        """Return the aliases by which star imports bind names of a package that the file uses."""
        bound: list[ast.alias] = []
        for statement, star in self.stars():
            for identifier, origin in star.names.items():
                if origin.partition(".")[0] == package and identifier in self.file.names:
                    alias = self.star_alias(statement, identifier)
                    bound += () if alias is None else (alias,)
        return bound

    def by_modules(self) -> tuple[list[Reference], int]:
        """Return what is said through modules of the project that import a package, and the steps of the search.

        Such is `helpers.torch.cuda`; a step is a use of a name that an import binds.
        """
        if self._through_modules is None:
            references: list[Reference] = []
            steps = 0
            for alias in (alias for statement in self.file.imports for alias in statement.names):
                uses = self.uses_of_import(alias)
                references += self._through(alias, uses)
                steps += len(uses)
            self._through_modules = references, steps
        return self._through_modules

    def uses_of_import(self, alias: ast.alias) -> list[ast.Name]:
        """Return the loads of the name that an import binds."""
        identifier = bound_name(alias)
        return self.uses(identifier, self._scope_bound(alias)) if identifier in self.file.names else []

    def _through(self, alias: ast.alias, uses: Iterable[ast.Name]) -> Iterator[Reference]:
        """Yield what is said through what an import binds, where that is a module of the project."""
        origin = self.binding_origin(alias)
        if origin is None or self._reexports is None:
            return
        for use in uses:
            chain = self._dotted(use)
            name = ".".join((origin, *(part.attr for part in chain[1:])))  # type: ignore[attr-defined]
            resolved = self._reexports.resolve(name, self.file.path) if len(chain) > 1 else None
            if resolved is not None:
                base = chain[resolved.parts - origin.count(".") - 1]
                yield Reference(resolved.whole(name), chain[-1], base, resolved.name)

    def _scope_bound(self, binding: ast.AST) -> ast.AST:
        """Return the scope in which a binding binds its name."""
        identifier = bound_name(binding)
        if identifier not in self._binding_scopes:
            scopes = self._scopes(identifier)
            self._binding_scopes[identifier] = {each: scope for scope, binders in scopes.items() for each in binders}
        return self._binding_scopes[identifier].get(binding, self.file.tree)

    def _dotted(self, use: ast.expr) -> list[ast.expr]:
        """Return a name and the attributes around it, outwards: of `a.b.c` these are `a`, `a.b` and `a.b.c`."""
        chain: list[ast.expr] = [use]
        while isinstance(parent := self.file.parents.get(chain[-1]), ast.Attribute):
            chain.append(parent)
        return chain

    def _aliases_of(self, value: ast.expr) -> list[ast.AST]:
        """Return the names that an assignment gives `value` to: `a = torch`, `a = b = torch`, `a, b = torch, 1`."""
        parent = self.file.parents.get(value)
        targets: list[ast.expr] = []
        if isinstance(parent, ast.Assign):
            targets = parent.targets
        elif isinstance(parent, (ast.AnnAssign, ast.NamedExpr)) and parent.value is value:
            targets = [parent.target]
        elif isinstance(parent, (ast.Tuple, ast.List)) and isinstance(parent.ctx, ast.Load):
            statement = self.file.parents.get(parent)
            if isinstance(statement, ast.Assign) and statement.value is parent:
                targets = [part for target in statement.targets for part in getattr(target, "elts", ())]
        names = (target for target in targets if isinstance(target, ast.Name))
        return [name for name in names if assigned_value(self.file, name) is value and self.binding_origin(name)]


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""Statements with a body that is its own scope."""


def _place(statement: ast.stmt) -> tuple[int, int]:
    return statement.lineno, statement.col_offset


def _position(reference: Reference) -> tuple[int, int]:
    return reference.node.lineno, reference.node.col_offset


def bound_name(binding: ast.AST) -> str:
    """Return the identifier that a binding node binds."""
    if isinstance(binding, ast.Name):
        return binding.id
    if isinstance(binding, ast.alias):
        return binding.asname or binding.name.partition(".")[0]
    if isinstance(binding, ast.arg):
        return binding.arg
    name = getattr(binding, "name", None) or getattr(binding, "rest", None)
    assert isinstance(name, str)
    return name


def assigned_value(file: PythonFile, binding: ast.AST) -> ast.expr | None:
    """Return the expression that an assignment gives to the name or attribute `binding`, or None.

    Knows `x = v`, `x: T = v`, `(x := v)`, chained targets, and `x, y = v, w` element by element.
    """
    parent = file.parents.get(binding)
    if isinstance(parent, ast.Assign):
        return parent.value
    if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)) and parent.target is binding:
        return parent.value
    if isinstance(parent, (ast.Tuple, ast.List)) and isinstance(statement := file.parents[parent], ast.Assign):
        value = statement.value
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parent.elts):
            return value.elts[parent.elts.index(binding)]  # type: ignore[arg-type]
    return None
