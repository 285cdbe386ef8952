"""An import of `torch.cuda`, of something in it, or of a torch name that the plugin has elsewhere.

`from torch.cuda.amp import autocast`, `from torch.cuda import amp`, `import torch.cuda.amp as amp`, `from torch import
cuda`. The import names the plugin's own module, and the names it binds stay, so the rest of the file need not
change. Names that the plugin lacks stay where they are and are reported.

Why: The import raises, or it binds CUDA's functions, which do not work on the target.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.family import Portability
from torchferry.rules.references import (
    alias_star,
    api_means_cuda,
    concerned,
    import_group,
    import_path,
    missing,
    module_path,
)
from torchferry.source.insertion import behind_path_changes

_FROM = lazy_regex(r"from[ \t]+(?P<module>[\w.]+)[ \t]+import\b")


class _Counterpart(NamedTuple):
    """Where an imported name comes from on the target; an empty module means that it is a module itself."""

    alias: ast.alias
    module: str
    name: str
    sure: bool


class CudaImport(Rule):
    """Finds imports of `torch.cuda`."""

    CODE = "IMP102"
    EFFECT = Effect.RAISES
    PORTABILITY = Portability.IN_PYTHON
    RUNS_ON_DEVICE = False
    WORDS = ("torch.cuda", "import cuda", ", cuda", "cuda,")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The modules whose names the target has elsewhere, beside CUDA's own."""
        return (*self.WORDS, *target.replaced_modules, *target.replaced_names)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each import statement, and one for each name that has no counterpart."""
        for statement in context.file.imports:
            if isinstance(statement, ast.Import):
                yield from self._import(context, statement)
            elif not statement.level:
                yield from self._from_import(context, statement)

    def _import(self, context: PythonContext, statement: ast.Import) -> Iterable[Finding]:
        for alias in statement.names:
            if not concerned(context, alias.name) or (alias.asname is None and not api_means_cuda(alias.name)):
                continue
            span = context.file.span(alias)
            name = (span[0], span[0] + len(alias.name))
            if context.text[slice(*name)] != alias.name:
                yield self.finding(
                    context,
                    span,
                    say("`{found}` cannot be rewritten here; change it by hand", found=alias.name),
                    Grade.MANUAL,
                )
                continue
            exemption = exemption_for(context, alias)
            if exemption is not None:
                message = say("`{found}` is left as it is: {reason}", found=alias.name, reason=exemption.reason)
                yield self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
            elif alias.asname is None:
                message = say("`import {found}` binds `torch`; `import torch` does too", found=alias.name)
                yield self.finding(context, span, message, Grade.SAFE, [Edit(*name, "torch")])
            else:
                module = module_path(context, alias.name)
                if module is None:
                    row = context.target.api(alias.name)
                    yield self.finding(context, span, missing(context, alias.name, row), Grade.MANUAL)
                    continue
                message = say(
                    "`{found}` is `{use}` on {target}", found=alias.name, use=module, target=context.target.title
                )
                edits = [Edit(*name, module)]
                if (
                    module not in ("", context.target.backend.IMPORT_NAMESPACE) and context.target.module
                ):  # no module, but a name in one
                    owner, _, member = module.rpartition(".")
                    whole = context.file.span(statement)
                    edits = [Edit(*whole, f"from {owner} import {_written(member, alias.asname)}")]
                    if len(statement.names) > 1:
                        yield self.finding(context, span, message, Grade.MANUAL, group=import_group(alias))
                        continue
                yield self.finding(context, span, message, Grade.SAFE, edits, group=import_group(alias))

    def _from_import(self, context: PythonContext, statement: ast.ImportFrom) -> Iterable[Finding]:
        module = statement.module or ""
        names = [alias for alias in statement.names if concerned(context, f"{module}.{alias.name}")]
        if alias_star(statement) and api_means_cuda(module):
            yield self._star(context, statement, module)
            return
        if not names:
            return
        exemption = exemption_for(context, statement)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=module, reason=exemption.reason)
            yield self.finding(context, context.file.span(statement), message, Grade.NOTE, stays=exemption.kind)
            return
        moved: list[_Counterpart] = []
        for alias in names:
            qualified = f"{module}.{alias.name}"
            path = import_path(context, qualified)
            row = context.target.api(qualified)
            if path is None:
                message = missing(context, qualified, row)
                span = context.file.span(alias)
                yield self.finding(context, span, message, Grade.MANUAL, group=import_group(alias))
            else:
                owner, _, name = path.rpartition(".")
                sure = row.status in REWRITTEN or qualified == cuda.NAMESPACE
                moved.append(_Counterpart(alias, owner, name, sure))
        if moved:
            yield from self._moved(context, statement, moved)

    def _star(self, context: PythonContext, statement: ast.ImportFrom, module: str) -> Finding:
        span = context.file.span(statement)
        place = _module_span(context, statement)
        use = module_path(context, module)
        if place is None or use is None or context.target.module:  # its names are bound one by one
            message = missing(context, module, context.target.api(module))
            return self.finding(context, span, message, Grade.MANUAL)
        message = say("`{found}` is `{use}` on {target}", found=module, use=use, target=context.target.title)
        return self.finding(context, span, message, Grade.UNSAFE, [Edit(*place, use)])

    def _moved(self, context: PythonContext, statement: ast.ImportFrom, moved: list[_Counterpart]) -> Iterable[Finding]:
        """Yield the finding that rewrites the statement for the names that have a counterpart."""
        span = context.file.span(statement)
        edits = _later(context, statement, moved) or _statement_edits(context, statement, moved)
        uses = ", ".join(f"{counterpart.module}.{counterpart.name}".lstrip(".") for counterpart in moved)
        message = say(
            "import from `{found}`; on {target} it is `{use}`",
            found=statement.module,
            target=context.target.title,
            use=uses,
        )
        if edits is None:
            message = say("{message}; it cannot be rewritten here, change it by hand", message=message)
            yield self.finding(context, span, message, Grade.MANUAL, group=import_group(statement))
        else:
            grade = Grade.SAFE if all(counterpart.sure for counterpart in moved) else Grade.UNSAFE
            yield self.finding(context, span, message, grade, edits, group=import_group(statement))


def _later(context: PythonContext, statement: ast.ImportFrom, moved: list[_Counterpart]) -> list[Edit] | None:
    """Return the edits that import from the project's own module where it is found: behind changes of `sys.path`."""
    behind = behind_path_changes(context.text) if context.target.needs_path(context.path) else 0
    start, end = context.file.span(statement)
    line = context.source.starts[statement.lineno - 1]
    rest = context.text[end:].partition("\n")[0].strip()
    if behind <= end or line != start or rest or "#" in context.text[start:end]:
        return None
    newline = context.source.newline
    going = {counterpart.alias for counterpart in moved}
    staying = [_written(alias.name, alias.asname) for alias in statement.names if alias not in going]
    lines = ""
    for module in dict.fromkeys(counterpart.module for counterpart in moved):
        names = [
            _written(counterpart.name, counterpart.alias.asname or counterpart.alias.name)
            for counterpart in moved
            if counterpart.module == module
        ]
        lines += (
            f"from {module} import {', '.join(names)}{newline}" if module else f"import {', '.join(names)}{newline}"
        )
    remaining = f"from {statement.module} import {', '.join(staying)}" if staying else ""
    last = end if remaining else context.text.find("\n", end) + 1
    return [Edit(start, last, remaining), Edit(behind, behind, lines)]


def _module_span(context: PythonContext, statement: ast.ImportFrom) -> tuple[int, int] | None:
    start, _ = context.file.span(statement)
    match = _FROM.match(context.text, start)
    if match is None or match["module"] != statement.module:
        return None
    return match.span("module")


def _statement_edits(context: PythonContext, statement: ast.ImportFrom, moved: list[_Counterpart]) -> list[Edit] | None:
    """Return the edits of an import statement, or None when it is written in a way that is not understood."""
    place = _module_span(context, statement)
    if place is None:
        return None
    modules = list(dict.fromkeys(counterpart.module for counterpart in moved))
    if modules != [""] and len(modules) == 1 and len(moved) == len(statement.names):
        return [Edit(*place, modules[0])] + [
            edit for counterpart in moved for edit in _name_edits(context, counterpart)
        ]
    return _split(context, statement, moved, modules)


def _name_edits(context: PythonContext, counterpart: _Counterpart) -> list[Edit]:
    if counterpart.name == counterpart.alias.name:
        return []
    start, _ = context.file.span(counterpart.alias)
    keep = "" if counterpart.alias.asname else f" as {counterpart.alias.name}"
    return [Edit(start, start + len(counterpart.alias.name), counterpart.name + keep)]


def _split(
    context: PythonContext, statement: ast.ImportFrom, moved: list[_Counterpart], modules: list[str]
) -> list[Edit] | None:
    """Write one statement a module, names that stay where they are first."""
    start, end = context.file.span(statement)
    text = context.text[start:end]
    line = context.source.starts[statement.lineno - 1]
    indent = context.text[line:start]
    if "#" in text or indent.strip():
        return None
    going = {counterpart.alias for counterpart in moved}
    staying = [alias for alias in statement.names if alias not in going]
    lines = []
    if staying:
        lines.append(f"from {statement.module} import {', '.join(_written(a.name, a.asname) for a in staying)}")
    for module in modules:
        names = [
            _written(counterpart.name, counterpart.alias.asname or counterpart.alias.name)
            for counterpart in moved
            if counterpart.module == module
        ]
        lines.append(f"from {module} import {', '.join(names)}" if module else f"import {', '.join(names)}")
    return [Edit(start, end, f"{context.source.newline}{indent}".join(lines))]


def _written(name: str, asname: str | None) -> str:
    return name if asname is None or asname == name else f"{name} as {asname}"
