"""Rules about names of torch that mean CUDA: one pass over the references, one way to rewrite them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import ClassVar

from torchferry.backends import cuda
from torchferry.backends.counterpart import Decision, decide, guess, lacking
from torchferry.backends.tables import Row
from torchferry.core.finding import LINK, Edit, Effect, Finding, Grade
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.expressions import quoted_for
from torchferry.rules.exemptions import exemption_for
from torchferry.source.names import Reference
from torchferry.source.portable_uses import WHOLE

CUDA_NAMES = (".cuda", "import cuda", ", cuda", "cuda,")
"""Words of which one is in every file that names something of `torch.cuda`, however it imports it."""


class ReferenceRule(Rule):
    """Finds uses of the names of some groups of `cuda/api.toml` and rewrites them by the target's table."""

    BINDS = True

    GROUPS: ClassVar[tuple[str, ...]]
    """Groups of names that the rule covers."""

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use; imports are another rule's."""
        for group in self.GROUPS:
            for reference in context.references.get(group, ()):
                if not reference.is_import and isinstance(reference.node.ctx, ast.Load):  # type: ignore[union-attr]
                    yield from self.check_reference(context, reference)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield what there is to say about one use."""
        try:
            span = context.file.span(reference.node)
        except ValueError:
            span = context.file.span(context.file.statement(reference.node))
            message = say("`{found}` cannot be rewritten here; change it by hand", found=reference.name)
            yield self.finding(context, span, message, Grade.MANUAL)
            return
        exemption = exemption_for(context, reference.node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=reference.name, reason=exemption.reason)
            yield self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
            return
        row = row_here(context, reference.name)
        rewritten = rewrite(context, reference, row)
        if rewritten is None:
            idle = decide(context.target, row).decision is Decision.STAY
            message = no_op_without_cuda(context, reference.name) if idle else missing(context, reference.name, row)
            if idle:
                yield self.finding(context, span, message, Grade.NOTE, effect=Effect.NOTHING)
            else:
                yield self.finding(context, span, message, Grade.MANUAL)
            return
        refused = lacking(row, *_arguments(context, reference))
        if refused is not None:
            yield self.finding(context, span, refused, Grade.MANUAL)
            return
        edits, imports = rewritten
        message = replaced(context, reference.name, row)
        if not edits and row.status == "unknown" and "._" in reference.name:  # what binds it is renamed
            yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
            return
        if not edits and (not row.note or row.use == row.extra.get("called")):
            message = LINK  # the import that binds the name is rewritten, and with it this use
        grade = Grade.NOTE if not edits else Grade.UNSAFE if row.status == "unknown" else Grade.SAFE
        # What names its module in full does not depend on the import that bound the old name.
        in_full = any((edit.start, edit.end) == span for edit in edits)
        needs = () if in_full else binding_groups(context, reference)
        # What has no edit is changed with the import that binds it.
        effect = self.EFFECT if edits else Effect.NOTHING
        yield self.finding(context, span, message, grade, edits, effect=effect, imports=imports, needs=needs)


def binding_groups(context: PythonContext, reference: Reference) -> tuple[str, ...]:
    """Return the groups of the imports that bind the identifier a use begins with, when these are CUDA's own."""
    root = reference.base
    if not isinstance(root, ast.Name) or not concerned(context, reference.bound):
        return ()
    return tuple(
        import_group(node)
        for binding in context.names.bindings(root)
        if isinstance(binding, ast.alias)
        for node in (binding, context.file.parents[binding])
    )


def import_group(node: ast.AST) -> str:
    """Return the group of an import statement, or of one name in it: uses change only if both do."""
    return f"{type(node).__name__}:{node.lineno}:{node.col_offset}"  # type: ignore[attr-defined]


def replaced(context: PythonContext, name: str, row: Row) -> Message:
    """Say what a name becomes, and how sure that is."""
    target = context.target
    if row.status == "unknown":
        return unknown(context, name, decide(target, row).use)
    if row.use == name:
        return noted(say("`{found}` has the same name on {target}", found=name, target=target.title), row.remark)
    return noted(say("`{found}` is `{use}` on {target}", found=name, use=row.use, target=target.title), row.remark)


def unknown(context: PythonContext, name: str, use: str) -> Message:
    """Say that nobody knows whether the target has what a name comes to."""
    return say(
        "`{found}`: whether {target} has `{use}` is UNKNOWN; try it on the card",
        found=name,
        target=context.target.title,
        use=use,
    )


def missing(context: PythonContext, name: str, row: Row) -> Message:
    """Say that a name has no counterpart, and what to do."""
    advice: object = row.remark or say("remove the call or guard it")
    if row.status == "unknown":
        advice = say("whether there is a counterpart is UNKNOWN; try it on the card")
    of_vendor = decide(context.target, context.target.of_vendor(name)).decision
    if context.target.module and of_vendor in (Decision.WRITE, Decision.TRY):
        return say("portable code has no counterpart of `{found}`: {advice}", found=name, advice=advice)
    return say(
        "`{found}` has no counterpart in {plugin}: {advice}",
        found=name,
        plugin=context.target.backend.PLUGIN,
        advice=advice,
    )


def no_op_without_cuda(context: PythonContext, name: str) -> Message:
    """Say that a name has no counterpart and that the call can stay."""
    return say(
        "`{found}` has no counterpart in {plugin}; the call can stay, since it does nothing without CUDA",
        found=name,
        plugin=context.target.backend.PLUGIN,
    )


def rewrite(context: PythonContext, reference: Reference, row: Row) -> tuple[list[Edit], tuple[str, ...]] | None:
    """Return the edits that turn a use into what the target has, and the modules these need imported.

    Returns None when there is nothing to write instead. No edits means that the use is right once the
    import (or alias) that binds its first identifier is rewritten.
    """
    use = decide(context.target, row).use
    if not use:
        return None
    written = written_parts(reference)
    bound = counterpart(context, reference.bound)
    if use != bound and not use.startswith(bound + "."):
        bound = reference.bound
    edits: list[Edit]
    if use == bound or use.startswith(bound + "."):
        wanted = use[len(bound) + 1 :].split(".") if use != bound else []
        edits = part_edits(context, reference, written, wanted)
        imports: tuple[str, ...] = ()
    else:
        start, end = context.file.span(reference.node)
        package = use.partition(".")[0]
        imports = (row.extra.get("import", package),)
        edits = [Edit(start, end, use)]
    arguments = _argument_edits(context, reference, row)
    if row.default_argument and any(edit.text == f"{row.default_argument}()" for edit in arguments):
        imports = tuple(dict.fromkeys((*imports, "torch")))  # the argument names it, however the call does
    return edits + keyword_edits(context, reference, row) + arguments, imports


def import_path(context: PythonContext, qualified: str) -> str | None:
    """Return the dotted path by which the counterpart of a CUDA name is imported, or None without one."""
    backend = context.target.backend
    if qualified == cuda.NAMESPACE:
        return backend.IMPORT_NAMESPACE or None
    row = row_here(context, qualified)
    module = context.target.module
    if module and row.use.startswith(f"{module}.amp."):  # which is no module to import from; its names stand above too
        return f"{backend.IMPORT_NAMESPACE}.{row.use.rpartition('.')[2]}"
    if module and row.use.startswith(f"{module}.") and row.use.count(".") > module.count(".") + 1:
        return None
    if row.extra.get("as_call"):  # only a call of it can be written otherwise
        return None
    use = decide(context.target, row).use
    if not use:
        return None
    owner = qualified.rpartition(".")[0]
    module = context.target.api(owner).extra.get("module", "")
    if module and use.startswith(f"{context.target.api(owner).use}."):
        return str(module) + use[len(context.target.api(owner).use) :]
    if backend.NAMESPACE and use.startswith(backend.NAMESPACE + "."):
        return backend.IMPORT_NAMESPACE + use[len(backend.NAMESPACE) :]
    return use


def module_path(context: PythonContext, qualified: str) -> str | None:
    """Return the path by which the counterpart of a CUDA module is imported as a module, or None without one."""
    return context.target.api(qualified).extra.get("module") or import_path(context, qualified)


def renamed_references(context: PythonContext, names: Iterable[str]) -> list[Reference]:
    """Return uses of names of torch as the target spells them, each once under its name in torch, in source order.

    That is each spelling that a fix writes: by the namespace, by an import, by the whole portable module; and what
    modules of the project pass on of it. Of several names that are spelt alike, the first by the alphabet is taken.
    """
    name_of: dict[str, str] = {}
    for name in sorted(names):
        for spelling in _spellings(context, name):
            name_of.setdefault(spelling, name)
    uses: dict[ast.AST, Reference] = {}
    for package in sorted({spelling.partition(".")[0] for spelling in name_of}):
        for reference in context.names.references(package):
            if reference.name in name_of and not reference.is_import:
                uses.setdefault(reference.node, reference._replace(name=name_of[reference.name]))
    for statement in context.file.imports:
        if isinstance(statement, ast.ImportFrom) and alias_star(statement):
            for use, spelling in _bound_by_star(context, context.names.imported_module(statement), name_of):
                uses.setdefault(use, Reference(name_of[spelling], use, use, spelling))
    return sorted(uses.values(), key=lambda reference: (reference.node.lineno, reference.node.col_offset))


def _spellings(context: PythonContext, name: str) -> set[str]:
    """Return how the replacement of a name may be written, by full names as `Names` takes them."""
    target = context.target
    row = target.api(name)
    written = {decide(target, row).use, row.extra.get("called", ""), import_path(context, name)}
    spellings = {use for use in written if use and use != name}
    for use in [use for use in spellings if target.module and use.startswith(f"{target.module}.")]:
        below = use[len(target.module) + 1 :]
        spellings |= {f"{module}.{each}" for module in target.written_modules for each in (below, f"{WHOLE}.{below}")}
    return spellings


def _bound_by_star(context: PythonContext, module: str, spellings: Iterable[str]) -> Iterator[tuple[ast.Name, str]]:
    """Yield the uses of names that a star import of a module of the target binds, with the full name of each."""
    for spelling in spellings:
        owner, _, member = spelling.rpartition(".")
        if owner == module:
            for use in context.file.names.get(member, ()):
                if isinstance(use.ctx, ast.Load) and not context.names.bindings(use):
                    yield use, spelling


def alias_star(statement: ast.ImportFrom) -> bool:
    """Whether a statement imports everything."""
    return any(alias.name == "*" for alias in statement.names)


def counterpart(context: PythonContext, bound: str) -> str:
    """Return what an imported name represents once its import is rewritten; the name itself if it is not."""
    if bound == cuda.NAMESPACE:
        return context.target.backend.NAMESPACE or bound
    if not concerned(context, bound):
        return bound
    return decide(context.target, row_here(context, bound)).use or guess(context.target, bound) or bound


def row_here(context: PythonContext, name: str) -> Row:
    """Return what a name becomes in a file: what represents its calls where the file does nothing but call it."""
    row = context.target.api(name)
    called = row.extra.get("called", "")
    return row._replace(use=called) if called and _is_only_called(context, name) else row


def _is_only_called(context: PythonContext, name: str) -> bool:
    """Whether a file imports a name from torch, and calls it or names its class, and does nothing else with it."""
    uses = [use for use in context.names.references("torch") if use.name == name and not use.is_import]
    if not uses or not all(_comes_from_torch(context, use) and _is_call_or_type(context, use) for use in uses):
        return False
    imported = {use.node.id for use in uses if isinstance(use.node, ast.Name)}  # other files may import it from here
    return context.project is None or not any(
        any(context.project.importers(context.path, identifier)) for identifier in imported
    )


def _comes_from_torch(context: PythonContext, use: Reference) -> bool:
    root: ast.AST = use.node
    while isinstance(root, ast.Attribute):
        root = root.value
    statements = [
        context.file.parents[binding] if isinstance(binding, ast.alias) else None
        for binding in (context.names.bindings(root) if isinstance(root, ast.Name) else ())
    ]
    return all(
        isinstance(statement, ast.Import)
        or (isinstance(statement, ast.ImportFrom) and not statement.level and _top(statement.module) == "torch")
        for statement in statements
    )


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _is_call_or_type(context: PythonContext, use: Reference) -> bool:
    """Whether a use is a call, the class in `isinstance`, or an annotation."""
    child: ast.AST = use.node
    parent = context.file.parents.get(child)
    if isinstance(parent, ast.Call) and parent.func is child:
        return True
    while isinstance(parent, (ast.Subscript, ast.Tuple, ast.BinOp)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id == "isinstance"
    if isinstance(parent, (ast.arg, ast.AnnAssign)):
        return parent.annotation is child
    return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and parent.returns is child


def concerned(context: PythonContext, name: str) -> bool:
    """Whether a torch name means CUDA, or has another name on the target."""
    if api_means_cuda(name):
        return True
    if cuda.api_group(name) == "extension":  # builders change when the kernels are ported, and not before
        return False
    if not context.target.replaces_torch_names or not name.startswith("torch."):
        return False
    decided = decide(context.target, context.target.api(name))
    return decided.decision is Decision.WRITE and decided.use not in ("", name)


def api_means_cuda(name: str) -> bool:
    """Whether a canonical name is `torch.cuda` or is below it."""
    return name == cuda.NAMESPACE or name.startswith(cuda.NAMESPACE + ".")


def written_parts(reference: Reference) -> list[ast.Attribute]:
    """Return the attribute nodes of a use, from the one next to what an import binds outwards."""
    parts: list[ast.Attribute] = []
    node = reference.node
    while isinstance(node, ast.Attribute) and node is not reference.base:
        parts.append(node)
        node = node.value
    return parts[::-1]


def part_edits(
    context: PythonContext, reference: Reference, written: list[ast.Attribute], wanted: list[str]
) -> list[Edit]:
    """Return the smallest edits that make the attributes `written` read `wanted`."""
    names = [part.attr for part in written]
    if len(names) == len(wanted):
        return [
            Edit(*attribute_span(context, part), new)
            for part, new in zip(written, wanted, strict=True)
            if part.attr != new
        ]
    same = 0
    while same < min(len(names), len(wanted)) and names[same] == wanted[same]:
        same += 1
    _, end = context.file.span(reference.node)
    if same:
        start = context.file.span(written[same - 1])[1]
    else:
        start = context.file.span(written[0].value if written else reference.node)[1]
    return [Edit(start, end, "".join(f".{name}" for name in wanted[same:]))]


def attribute_span(context: PythonContext, node: ast.Attribute) -> tuple[int, int]:
    """Return the span of an attribute's own name.

    Raises:
        ValueError: the text there is not that name.
    """
    _, end = context.file.span(node)
    start = end - len(node.attr)
    if context.text[start:end] != node.attr:
        raise ValueError(f"`{node.attr}` is written in another form")
    return start, end


def keyword_edits(context: PythonContext, reference: Reference, row: Row) -> list[Edit]:
    """Return edits that rename keyword arguments which the target's function calls otherwise."""
    renamed: dict[str, str] = row.extra.get("keywords", {})
    call = context.file.parents.get(reference.node)
    if not renamed or not isinstance(call, ast.Call) or call.func is not reference.node:
        return []
    edits = []
    for keyword in call.keywords:
        if keyword.arg in renamed:
            start, _ = context.file.span(keyword)
            edits.append(Edit(start, start + len(keyword.arg), renamed[keyword.arg]))
    return edits


def _arguments(context: PythonContext, reference: Reference) -> tuple[int, list[str]]:
    """Return how many arguments a call gives by position, and the names of the others."""
    call = context.file.parents.get(reference.node)
    if not isinstance(call, ast.Call) or call.func is not reference.node:
        return 0, []
    return len(call.args), [keyword.arg for keyword in call.keywords if keyword.arg is not None]


def _argument_edits(context: PythonContext, reference: Reference, row: Row) -> list[Edit]:
    """Return the edit that gives a call the argument that what replaces it asks for, and CUDA's does not."""
    call = context.file.parents.get(reference.node)
    if not isinstance(call, ast.Call) or call.func is not reference.node:
        return []
    given = bool(call.args or call.keywords)
    argument: str = row.extra.get("first_argument", "") if row.use == row.extra.get("called") else ""
    if not given:
        argument = argument or (f"{row.default_argument}()" if row.default_argument else "")
    if not argument:
        return []
    behind = context.text.index("(", context.file.span(call.func)[1]) + 1
    separator = "" if not given else "," if context.text[behind] in "\r\n" else ", "
    return [Edit(behind, behind, (quoted_for(context, call, argument) or argument) + separator)]
