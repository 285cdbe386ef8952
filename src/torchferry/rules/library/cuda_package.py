"""An import of a package that needs CUDA.

apex, bitsandbytes, pynvml, cupy, numba.cuda, DALI, TensorRT and the like: what is to be done about each on this target
is in its table. An import inside `try`/`except ImportError`, or behind a test whether the package is there, is only
noted. The requirements are looked at by `DEP101`.

Why: The import stops the program, because the package does not run on the target.

References:
- table packages
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache

from torchferry.backends import cuda
from torchferry.backends.cuda import Package
from torchferry.backends.parts import divided
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade, Stays
from torchferry.core.messages import Bilingual, Message, noted, say, say_in
from torchferry.rules.base import Context, OncePerBlock, PythonContext, Rule
from torchferry.rules.config.device_setting import CONFIG_KINDS
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.guarded import MISSING, Guard, guard_of_import
from torchferry.rules.library.named_in_settings import WORDS as NAMING_WORDS
from torchferry.rules.library.named_in_settings import findings_in_settings
from torchferry.source.kinds import Kind
from torchferry.source.names import Reference

_OTHER_RULES = frozenset({"flash-attn", "flash-attn-3", "flashinfer-python", "sageattention", "triton", "xformers"})
"""Packages that a rule of their own speaks of."""


@lru_cache(maxsize=1)
def _packages_by_top() -> dict[str, list[Package]]:
    """Return the packages that a finding may speak of, by the top-level module that is imported."""
    by_top: dict[str, list[Package]] = {}
    for package in cuda.packages().values():
        if package.kind in cuda.QUIET_KINDS or package.names == () or package.name in _OTHER_RULES:
            continue
        for top in dict.fromkeys(module.partition(".")[0] for module in package.modules):
            by_top.setdefault(top, []).append(package)
    return by_top


class CudaPackage(Rule):
    """Finds imports of packages that need CUDA."""

    CODE = "LIB101"
    EFFECT = Effect.RAISES
    WORDS = NAMING_WORDS
    KINDS = (Kind.PYTHON, *CONFIG_KINDS)

    def modules(self, target: Target) -> tuple[str, ...]:
        """The modules of the packages that do not simply work on the target."""
        return tuple(
            top
            for top, packages in _packages_by_top().items()
            if any(target.row("packages", package.name).status != "same" for package in packages)
        )

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield the same for each class that a settings file names."""
        return findings_in_settings(context, self.check_python)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each package in each block that imports it: a program may come to any of them."""
        by_top = _packages_by_top()
        once = OncePerBlock(context.file)
        for top in sorted(context.imported_packages & by_top.keys()):
            if context.project is not None and context.project.has_other_module(top, context.path):
                continue  # a module of the project that has the same name
            for package in by_top[top]:
                row = context.target.row("packages", package.name)
                if row.status != "same":
                    places = (p for p in self._places(context, package, top) if self._is_reported(context, p))
                    for place in places:
                        yield from once.first(place, self._report(context, place, package, row))

    def _is_reported(self, context: PythonContext, place: ast.AST) -> bool:
        """Whether a place is reported: not where another branch is the target's, nor in a build script.

        A branch that runs on the package itself is one that the target does not have: the import in it is reported.
        """
        exemption = exemption_for(context, place)
        return exemption is None or exemption.kind is Stays.CUDA_MODULE

    def _places(self, context: PythonContext, package: Package, top: str) -> Iterator[ast.AST]:
        """Yield where a package is imported, or where the names that need CUDA are used."""
        references = context.names.references(top)
        if package.called:
            yield from (each.node for each in references if _is_called(each, package.called))
            yield from (call for name, call in context.named_imports if name.startswith(package.called))
        elif package.names is not None:
            of_names = [each for each in references if each.name.startswith(package.names)]
            imported = {each.name for each in of_names if each.is_import}  # the program ends there
            yield from (each.node for each in of_names if each.is_import or each.bound not in imported)
        else:
            yield from self._imports(context, package, references)

    @staticmethod
    def _imports(context: PythonContext, package: Package, references: Iterable[Reference]) -> Iterator[ast.AST]:
        seen: set[ast.AST] = set()
        for reference in references:
            if isinstance(reference.node, ast.alias) and cuda.package_of_module(reference.name) is package:
                statement = context.file.parents[reference.node]
                if statement not in seen:
                    seen.add(statement)
                    yield statement
        for module, call in context.named_imports:
            if cuda.package_of_module(module) is package:
                yield call

    def _report(self, context: PythonContext, place: ast.AST, package: Package, row: Row) -> Finding:
        error = package.error or (MISSING if package.names is None else "")
        guard = guard_of_import(context, place, error)
        by_parts = package.name in divided()
        serves = by_parts or _serves(package, row)
        takes_cpu = bool(row.extra.get("takes_cpu"))  # also where the program asks it for the card
        grade = Grade.NOTE if guard is Guard.COPES or (serves and not takes_cpu) else Grade.MANUAL
        lacking = row.status == "missing" or bool(row.extra.get("rewrite"))
        needed = lacking and package.kind in cuda.NEEDING_KINDS and not by_parts
        builds = serves and not by_parts and guard is not Guard.COPES and package.kind in cuda.NEEDING_KINDS
        installs = row.use if builds else ""
        blocker = grade is Grade.MANUAL and guard is Guard.NONE and needed
        message = advice(context.target.title, package.name, row)
        lacks = package.name if needed else ""
        effect = self.EFFECT
        if guard is Guard.COPES or by_parts:  # the parts have findings of their own
            effect = Effect.NOTHING
        elif takes_cpu:
            effect = Effect.WRONG
        elif row.status == "unknown" or (serves and not builds):
            effect = Effect.UNKNOWN
        reported = self.finding(
            context,
            context.file.span(place),
            message,
            grade,
            effect=effect,
            blocker=blocker,
            lacks=lacks,
            installs=installs,
        )
        return reported._replace(package=package.name)


def _is_called(reference: Reference, names: tuple[str, ...]) -> bool:
    """Whether a name is used that raises where it is called, or all are imported by a star, to be called anywhere."""
    if isinstance(reference.node, ast.alias):
        return reference.node.name == "*"
    return reference.name.startswith(names)


def notes_framework(finding: Finding) -> bool:
    """Whether a finding is the note that a framework is imported, which says the same in every file."""
    if finding.code != CudaPackage.CODE or finding.grade is not Grade.NOTE:
        return False
    package = cuda.packages().get(finding.package)
    return package is not None and package.kind == "framework"


def _serves(package: Package, row: Row) -> bool:
    """Whether the same import serves the program on the target, so that nothing has to change in it.

    A plugin or a build of the same name does, which must be installed (`Finding.installs`); a replacement of another
    name, and what is not known to run, does not.
    """
    if package.kind in ("framework", "tool"):
        return row.status != "missing"
    return row.status == "renamed" or (row.status == "partial" and bool(row.use))


def advice(target: Bilingual, name: str, row: Row) -> Message:
    """Say what is to be done about a package on a target."""
    if row.status == "unknown":
        return noted(
            say(
                "whether `{name}` works on {target} is UNKNOWN",
                name=name,
                target=target,
            ),
            row.remark,
        )
    if row.use:
        return noted(
            say(
                "`{name}` on {target}: use `{use}`",
                name=name,
                target=target,
                use=row.use,
            ),
            row.remark,
        )
    return say(
        "`{name}` on {target}: {note}",
        name=name,
        target=target,
        note=row.remark or say_in("state of a package", "works"),
    )
