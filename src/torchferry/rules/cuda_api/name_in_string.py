"""A name of `torch.cuda` in a string that something looks up.

`mock.patch("torch.cuda.is_available")`, `monkeypatch.setattr("torch.cuda.device_count", ...)`,
`importlib.import_module("torch.cuda.amp")`, `pydoc.locate("torch.cuda.Stream")`,
`operator.attrgetter("cuda.is_available")(torch)`, `sys.modules["torch.cuda"]`, and in a configuration file
`_target_: torch.cuda.amp.GradScaler`, or an expression that is evaluated, `transform: "lambda t: t.cuda()"`.
Where it is known what looks the name up, the plugin's name is written. What another function does with such a string is
for a person to read.

Not touched: a string that is printed, logged or raised.

Why: The name is looked up in CUDA's module: a mock replaces what the migrated program no longer calls, and what is
loaded by its name raises on the target, or silently takes the CPU.

References:
- table api
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.backends.counterpart import decide
from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.base import Context, PythonContext, Rule, keyword_of
from torchferry.rules.config.device_setting import CONFIG_KINDS, settings_of_program
from torchferry.rules.device.strings import word_edits
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import missing, module_path, replaced
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import CUTTING_METHODS, last_name, string_value
from torchferry.source.kinds import Kind

_NAME = lazy_regex(r"\Atorch\.cuda(?:\.[A-Za-z_]\w*)*\Z")
_WITH_COLON = lazy_regex(r"\Atorch(?:\.cuda(?:\.\w+)*:[A-Za-z_][\w.]*|:cuda(?:\.[A-Za-z_][\w.]*)?)\Z")
"""A module and what it has, as entry points name it: `torch.cuda:synchronize`."""

_BELOW_TORCH = lazy_regex(r"\Acuda(?:\.[A-Za-z_]\w*)+\Z")

_BY_ATTRIBUTES = frozenset(
    {
        "patch", "multiple", "setattr", "delattr", "locate", "resolve_name", "get_class", "get_method", "get_object",
        "import_string",
    }
)  # fmt: skip
"""What imports as much of a name as there are modules, and takes attributes from there."""

_AS_MODULES = frozenset({"import_module", "find_spec", "importorskip"})
_OF_TORCH = "attrgetter"
_BY_OUTERMOST = "__import__"
"""What returns `torch`, of which names are then taken."""

_LEFT_OUT = 3
"""Arguments of `__import__` ahead of the list of names, with which it returns the inner module."""

_MODULES = "modules"
"""The table `sys.modules`."""

_KNOWN = _BY_ATTRIBUTES | _AS_MODULES | {_OF_TORCH, _BY_OUTERMOST, _MODULES}
_TARGET = "_target_"
"""The key by which hydra names what it calls."""

_OF_OTHER_RULES = frozenset({"namespace", "unlisted", "tensor"})
"""Groups of names that mean something else in a string, such as the type of a tensor, or nothing for certain."""


class NameInString(Rule):
    """Finds names of `torch.cuda` in strings."""

    CODE = "CUD112"
    EFFECT = Effect.WRONG
    WORDS = ("torch.cuda", "torch:cuda", ".cuda(", '"cuda.', "'cuda.", '".cuda', "'.cuda")
    KINDS = (Kind.PYTHON, *CONFIG_KINDS)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting that names what is called."""
        for setting in settings_of_program(context):
            if setting.key != _TARGET or not _NAME.match(setting.value):
                if ".cuda" in setting.value and is_code(setting.value):
                    yield self._unknown(context, (setting.start, setting.end), setting.value)
                continue
            row = context.target.api(setting.value)
            span = (setting.start, setting.end)
            if row.status in REWRITTEN and not context.target.module:
                message = say(
                    "`{found}` is `{use}` on {target}", found=setting.value, use=row.use, target=context.target.title
                )
                yield self.finding(context, span, message, Grade.SAFE, [Edit(*span, row.use)], effect=Effect.RAISES)
            else:
                yield self._unknown(context, span, setting.value)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string that something looks up."""
        for node in context.file.strings:
            value = node.value
            if not isinstance(value, str) or "cuda" not in value:
                continue
            taker = _taker(context, node)
            below = _BELOW_TORCH.match(value) is not None
            name = f"torch.{value}" if below and (taker == _OF_TORCH or _is_cut_up(context, node)) else value
            if taker == _BY_OUTERMOST and _is_read_on(context, node):
                continue  # the rules of what is read there see the whole
            if taker == "import_module" and value.startswith(".cuda") and _is_below_torch(context, node):
                yield self._unknown(context, context.file.span(node), value)
                continue
            if _WITH_COLON.match(value) and not is_text(context, node) and exemption_for(context, node) is None:
                yield self._unknown(context, context.file.span(node), value)
                continue
            is_part = isinstance(context.file.parents.get(node), (ast.JoinedStr, ast.BinOp))
            if is_part and taker in _KNOWN and name.startswith(f"{cuda.NAMESPACE}."):
                yield self._unknown(context, context.file.span(node), value)
            elif not is_part and _NAME.match(name) and (taker in _KNOWN or _may_be_looked_up(context, node, name)):
                yield self._report(context, node, name, taker)

    def _report(self, context: PythonContext, node: ast.Constant, name: str, taker: str) -> Finding:
        span = context.file.span(node)
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=name, reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        if taker not in _KNOWN:
            return self._unknown(context, span, name)
        effect = self.EFFECT if taker in _BY_ATTRIBUTES else Effect.RAISES
        row = context.target.api(name)
        use = _written(context, name, taker)
        if not use:
            message = missing(context, name, row) if row.status == "missing" else _by_hand(context, name)
            return self.finding(context, span, message, Grade.MANUAL, effect=effect)
        try:
            edits = word_edits(context, node, str(node.value), use)
        except ValueError:
            edits = []
        is_namespace = name == cuda.NAMESPACE
        sure = is_namespace or (row.status in REWRITTEN and not context.target.module)
        grade = Grade.MANUAL if not edits else Grade.SAFE if sure else Grade.UNSAFE
        row = row._replace(status="renamed" if is_namespace else row.status, use=use)
        return self.finding(context, span, replaced(context, name, row), grade, edits, effect=effect)

    def _unknown(self, context: Context, span: tuple[int, int], name: str) -> Finding:
        return self.finding(context, span, _by_hand(context, name), Grade.MANUAL, effect=Effect.UNKNOWN)


def _is_read_on(context: PythonContext, node: ast.Constant) -> bool:
    """Whether names of torch are read from what imports a module by a name: `__import__("torch.cuda").cuda.f()`."""
    read = context.file.parents.get(node)
    while isinstance(parent := context.file.parents.get(read) if read is not None else None, ast.Attribute):
        read = parent
    return isinstance(read, ast.Attribute) and (context.names.qualified(read) or "").startswith(f"{cuda.NAMESPACE}.")


def is_code(text: str) -> bool:
    """Whether a setting is an expression in Python that asks for CUDA: `lambda t: t.cuda()`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the setting's own escapes
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(part, ast.Attribute) and part.attr == "cuda" for func in calls for part in ast.walk(func))


def _by_hand(context: Context, name: str) -> Message:
    return say(
        "`{found}` stands in a string: if code looks it up by this name, write the name that {target} has in its place",
        found=name,
        target=context.target.title,
    )


def _taker(context: PythonContext, node: ast.Constant) -> str:
    """Return the last name of the function that is given a string as what it looks up; empty where it is none."""
    argument: ast.AST = context.file.fstring_of(node) or node
    parent = context.file.parents.get(argument)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Mod)) and parent.left is argument:
        argument, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Subscript):
        return _MODULES if parent.slice is argument and _is_table_of_modules(context, parent.value) else ""
    if isinstance(parent, ast.keyword):
        argument, parent = parent, context.file.parents.get(parent)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.args[:1] == [argument]:
        if _is_table_of_modules(context, parent.func.value):
            return _MODULES
    if not isinstance(parent, ast.Call) or (isinstance(argument, ast.expr) and argument not in parent.args):
        return ""
    taker = last_name(parent.func)
    if taker == _BY_OUTERMOST and (len(parent.args) > _LEFT_OUT or keyword_of(parent, "fromlist") is not None):
        taker = "import_module"  # which returns the module itself
    is_first = parent.args[:1] == [argument] or isinstance(argument, ast.keyword)
    return taker if is_first or taker in _AS_MODULES else ""


def _is_table_of_modules(context: PythonContext, node: ast.expr) -> bool:
    return context.names.qualified(node) == f"sys.{_MODULES}"


def _is_below_torch(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a relative name is looked up below torch: `import_module(".cuda", "torch")`."""
    call = context.file.parents.get(node)
    if not isinstance(call, ast.Call) or call.args[:1] != [node]:
        return False
    packages = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "package")]
    return [string_value(package) for package in packages] == ["torch"]


def _is_cut_up(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a text is cut into its names: `reduce(getattr, "cuda.synchronize".split("."), torch)`."""
    method = context.file.parents.get(node)
    call = context.file.parents.get(method) if isinstance(method, ast.Attribute) else None
    if not isinstance(call, ast.Call) or call.func is not method or last_name(method) not in CUTTING_METHODS:
        return False
    return [string_value(argument) for argument in call.args[:1]] == ["."]


def _may_be_looked_up(context: PythonContext, node: ast.Constant, name: str) -> bool:
    """Whether a string may reach something that looks it up: it is no text, and nothing is asked of it there."""
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.Compare) or (isinstance(parent, ast.Dict) and node in parent.keys):
        return False
    return cuda.api_group(name) not in _OF_OTHER_RULES and not is_text(context, node)


def _written(context: PythonContext, name: str, taker: str) -> str:
    """Return the name that what looks a name up finds on the target; empty where it finds none."""
    if taker in (_BY_OUTERMOST, _MODULES):
        return ""
    if taker in _AS_MODULES:
        return "" if context.target.module else module_path(context, name) or ""
    if name == cuda.NAMESPACE:
        return "" if context.target.module else context.target.backend.NAMESPACE
    row = context.target.api(name)
    use = decide(context.target, row).use
    if taker != _OF_TORCH:
        return use
    return use.removeprefix("torch.") if use.startswith("torch.") else ""
