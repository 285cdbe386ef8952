"""A part of a package that needs CUDA, where the rest of the package does not.

`torch_scatter.scatter_max`, `torch_cluster.knn_graph`, `bnb.nn.Linear4bit`, `mmcv.ops`, `detectron2.engine.launch`,
`ti.cuda` and the like: the package can be imported, and what is plain torch in it runs. What is to be done about each
such part on this target is in its table; where only another build of the package is needed, the code stays as it is.

Why: The program imports the package without an error and fails when it uses this part.

References:
- table packages
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from torchferry.backends.parts import CudaPart, parts_by_top, row_of
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade, Stays
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say, say_in
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Context, Options, PythonContext, Rule, keyword_of
from torchferry.rules.config.device_setting import CONFIG_KINDS
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.guarded import Guard, guard_of
from torchferry.rules.library.named_in_settings import WORDS as NAMING_WORDS
from torchferry.rules.library.named_in_settings import findings_in_settings
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.kinds import Kind
from torchferry.source.names import Reference, assigned_value

_ON_THE_HOST = lazy_regex(r"(?:Dataset|Transform|DataModule|DataLoader|Sampler|Collater|Collator)\Z")
"""Classes that prepare data, which they do on the CPU."""

_TORCH = "torch"
_QUESTIONS = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "type"})


class _Use(NamedTuple):
    """Where a part is needed: the name as it is written, the place, and what must hold for the place."""

    part: CudaPart
    name: str
    node: ast.AST
    when: str = ""


class PackagePart(Rule):
    """Finds the parts of packages that need CUDA."""

    CODE = "LIB114"
    EFFECT = Effect.RAISES
    KINDS = (Kind.PYTHON, *CONFIG_KINDS)

    def modules(self, target: Target) -> tuple[str, ...]:
        """The modules of the packages with parts that do not simply work on the target."""
        return tuple(
            top
            for top, parts in parts_by_top().items()
            if top != _TORCH and any(row_of(part, target).status != "same" for part in parts)
        )

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """What names classes in settings, and parts that are operators of torch, which nearly every file imports."""
        return (*NAMING_WORDS, *self._operators(target))

    @staticmethod
    def _operators(target: Target) -> tuple[str, ...]:
        """Return the names of parts that are registered as operators of torch."""
        return tuple(
            name.removeprefix(f"{_TORCH}.")
            for part in parts_by_top().get(_TORCH, ())
            if row_of(part, target).status != "same"
            for name in part.names
            if name.startswith(f"{_TORCH}.")
        )

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield the same for each class that a settings file names."""
        return findings_in_settings(context, self.check_python)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield one finding for each use of such a part, and for each import that needs one."""
        by_top = parts_by_top()
        for top in sorted(context.imported_packages & by_top.keys()):
            if context.project is not None and context.project.module_path(top, context.path) is not None:
                continue  # a module of the project that has the same name
            if top == _TORCH and not any(word in context.text for word in self._operators(context.target)):
                continue
            seen: set[tuple[str, ast.AST]] = set()
            for use in self._uses(context, top, by_top[top]):
                row = row_of(use.part, context.target)
                key = (use.part.name, use.node)
                branch = exemption_for(context, use.node)
                if row.status != "same" and key not in seen and (branch is None or branch.kind is Stays.CUDA_MODULE):
                    seen.add(key)
                    yield self._report(context, use, row)

    def _uses(self, context: PythonContext, top: str, parts: tuple[CudaPart, ...]) -> Iterator[_Use]:
        for reference in context.names.references(top):
            node = reference.node
            if isinstance(node, ast.alias):
                statement = context.file.parents[node]
                for part in parts:
                    name = _named(part, reference.name) if part.imported else None
                    if name is not None:
                        yield _Use(part, name, statement)
                continue
            if _asks(context, node) or _prepares_data(context, node) or _is_one_of_several(context, node):
                continue
            for part in parts:
                if not part.imported:
                    yield from self._used(context, part, reference)
        for module, call in context.named_imports:
            for part in parts if module.partition(".")[0] == top else ():
                name = _named(part, module) if part.imported else None
                if name is not None:
                    yield _Use(part, name, call)

    def _used(self, context: PythonContext, part: CudaPart, reference: Reference) -> Iterator[_Use]:
        """Yield the use of a part that a reference is, if it is one."""
        node = reference.node
        call = context.file.parents.get(node)
        name = _named(part, reference.name) or _looked_up(part, reference.name, call, node)
        if name is None:
            return
        if not part.argument:
            yield _Use(part, name, _decorated(context, node) or node)
            return
        if not isinstance(call, ast.Call) or call.func is not node:
            return
        keyword = keyword_of(call, part.argument)
        given = keyword.value if keyword is not None else None
        if given is None and 0 <= part.position < len(call.args):
            given = call.args[part.position]
        if given is not None and (not isinstance(given, ast.Constant) or holds(given.value, part.holds)):
            yield _Use(part, name, given, "" if isinstance(given, ast.Constant) else part.holds)

    def _report(self, context: PythonContext, use: _Use, row: Row) -> Finding:
        guard = guard_of(context.file, use.node)
        same_name = row.status == "renamed" or (row.status == "partial" and bool(row.use))
        manual = guard is not Guard.COPES and not same_name
        missing = row.status == "missing"
        effect = Effect.NOTHING if guard is Guard.COPES else Effect.UNKNOWN if row.status == "unknown" else self.EFFECT
        return self.finding(
            context,
            context.file.span(use.node),
            part_message(context.target, use.name, use.part, row),
            Grade.MANUAL if manual else Grade.NOTE,
            effect=effect,
            blocker=missing and guard is Guard.NONE and not use.when,
            lacks=lacking(use.part) if missing else "",
            installs=row.use if same_name and guard is not Guard.COPES else "",
            when=use.when,
        )


def lacking(part: CudaPart) -> str:
    """Return the package that a target is said to lack: the one whose compiled parts are needed."""
    return part.needs[0].partition(".")[0] if part.needs else part.package


def part_message(target: Target, name: str, part: CudaPart, row: Row) -> Message:
    """Say what is to be done about a part on a target."""
    if part.needs and part.needs[0].partition(".")[0] != part.package:
        name = f"{name} ({', '.join(part.needs)})"
    if row.status == "unknown":
        message = say("whether `{name}` works on {target} is UNKNOWN", name=name, target=target.title)
    elif row.use:
        message = say("`{name}` on {target}: use `{use}`", name=name, target=target.title, use=row.use)
    else:
        return say(
            "`{name}` on {target}: {note}",
            name=name,
            target=target.title,
            note=row.remark or say_in("state of a package", "works"),
        )
    return noted(message, row.remark)


def _named(part: CudaPart, name: str) -> str | None:
    """Return the name of a part that a dotted name is or is below, or None."""
    return next((own for own in part.names if name == own or name.startswith(f"{own}.")), None)


def _looked_up(part: CudaPart, module: str, call: ast.AST | None, node: ast.AST) -> str | None:
    """Return the name of a part that `getattr(module, ...)` may give, or None."""
    if not isinstance(call, ast.Call) or last_name(call.func) != "getattr" or len(call.args) < 2:
        return None
    if call.args[0] is not node:
        return None
    pattern = re.compile(rf"{re.escape(module)}\.{_pattern(call.args[1])}")
    return next((own for own in part.names if pattern.fullmatch(own)), None)


def _pattern(name: ast.expr) -> str:
    """Return a regular expression for what a computed name can be."""
    text = string_value(name)
    if isinstance(name, ast.Constant) and text is not None:
        return re.escape(text)
    if isinstance(name, ast.JoinedStr):
        return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w*" for p in name.values)
    if isinstance(name, ast.Call) and isinstance(name.func, ast.Attribute) and name.func.attr == "format":
        form = string_value(name.func.value)
        if form is not None:
            return r"\w*".join(map(re.escape, re.split(r"\{[^{}]*\}", form)))
    if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add):
        return _pattern(name.left) + _pattern(name.right)
    return r"\w*"


def holds(value: object, comparison: str) -> bool:
    """Whether a value is as the right side of a comparison says: `in ('max', 'min')`, `> 1`."""
    operator, _, right = comparison.partition(" ")
    wanted = ast.literal_eval(right)
    if operator == "in":
        return value in wanted
    return operator == ">" and isinstance(value, (int, float)) and value > wanted


def _decorated(context: PythonContext, node: ast.AST) -> ast.stmt | None:
    """Return the first statement of the function that a name decorates, which runs when the function is called."""
    child, parent = node, context.file.parents.get(node)
    while isinstance(parent, (ast.Attribute, ast.Call)):
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child in parent.decorator_list:
        return parent.body[0]
    return None


def _is_one_of_several(context: PythonContext, node: ast.AST) -> bool:
    """Whether a variable may hold something else as well: the place that gives it the part is the use then."""
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    bindings = [each for each in context.names.reaching_bindings(node) if not _is_none(context, each)]
    return len({context.names.binding_origin(binding) for binding in bindings}) > 1


def _is_none(context: PythonContext, binding: ast.AST) -> bool:
    """Whether a binding only says that a package is not there: `bnb = None`."""
    value = assigned_value(context.file, binding)
    return isinstance(value, ast.Constant) and value.value is None


def _asks(context: PythonContext, node: ast.AST) -> bool:
    """Whether a name is only asked about, or spoken of in an annotation."""
    if last_name(node) in ("is_available", "is_initialized", "getCudaEnabledDeviceCount"):
        return True
    child, parent = node, context.file.parents.get(node)
    while parent is not None and not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.arg):
            return True
        if isinstance(parent, ast.Call) and child is not parent.func and last_name(parent.func) in _QUESTIONS:
            return last_name(parent.func) != "getattr" or child is not parent.args[0]
        child, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.AnnAssign):
        return child is parent.annotation
    return isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) and child is parent.returns


def _prepares_data(context: PythonContext, node: ast.AST) -> bool:
    """Whether a place works on the CPU: in a class that prepares data, or on a tensor that was taken there."""
    call = context.file.parents.get(node)
    if isinstance(call, ast.Call) and call.func is node and call.args:
        first = call.args[0]
        if isinstance(first, ast.Call) and last_name(first.func) in ("cpu", "from_numpy"):
            return True
    owner = context.file.enclosing_class(node)
    return owner is not None and any(_ON_THE_HOST.search(last_name(base)) for base in owner.bases)
