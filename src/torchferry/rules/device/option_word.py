"""An option of a device whose old word, `--device cuda`, would silently take the other branch.

`parser.add_argument("--device")` and `@click.option("--device")` take any word. Where the program compares it with the
device, that comparison names the target's device after the migration, and a person or a script that still says
`--device cuda` gets the branch of the CPU without an error. The fix gives the option a `type` that reads the old word
as the new one; it adds code, so it waits for `--unsafe-fixes`. An option with `choices` refuses the old word by itself.

Why: Who still says `--device cuda` silently gets the CPU.

References:
- page migrating
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, Rule, calls_of, keyword_of
from torchferry.rules.device.expressions import portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.lexicon import DEVICE_SPELLING, lexicon

_ASKS = frozenset({"startswith", "find", "count"})


_TAKES_OTHERS = ("choices", "nargs", "parser", "click_type")


class _Option(NamedTuple):
    """An option, what it is read by, and where it is read.

    Attributes:
        call: The call that declares it.
        name: The attribute or parameter that it is read by.
        uses: Where that is used.
        keyword: The argument of the call that says how a word is read.
    """

    call: ast.Call
    name: str
    uses: tuple[ast.AST, ...]
    keyword: str = "type"


class OptionWord(Rule):
    """Finds options of devices that are compared with CUDA's."""

    CODE = "DEV115"
    EFFECT = Effect.WRONG
    WORDS = ('"cuda', "'cuda")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each option that takes any word."""
        for option in _options(context):
            call, name = option.call, option.name
            takes = keyword_of(call, "type")
            is_text = takes is None or (isinstance(takes.value, ast.Name) and takes.value.id == "str")
            if not name or not is_text or any(keyword_of(call, refused) is not None for refused in _TAKES_OTHERS):
                continue
            asking = list(_compared(context, option.uses)) if lexicon("device").names(name) else []
            if asking and all(exemption_reason(context, node) is None for node in (call, *asking)):
                yield self._report(context, option, takes)

    def _report(self, context: PythonContext, option: _Option, takes: ast.keyword | None) -> Finding:
        call, name = option.call, option.name
        own = context.target.backend.DEVICE_TYPE
        module = context.target.module
        use = f"{module}.device_named" if module else f'lambda word: word.replace("{cuda.DEVICE_TYPE}", "{own}")'
        message = say(
            "option `{name}` takes any word and is compared with the device: on {target}, `{word}` "
            "would silently choose the other branch; the fix reads it as the device there",
            name=name,
            word=cuda.DEVICE_TYPE,
            target=context.target.title,
        )
        span = context.file.span(call.args[0] if call.args else call)
        if takes is not None:
            edit = Edit(*context.file.span(takes.value), use)
        else:
            behind = [context.file.span(argument)[1] for argument in (*call.args, *call.keywords)]
            end = max(behind, default=context.file.span(call)[1] - 1)
            edit = Edit(end, end, f", {option.keyword}={use}" if behind else f"{option.keyword}={use}")
        return self.finding(context, span, message, Grade.UNSAFE, [edit], imports=portable_imports(context))


def _name(call: ast.Call) -> str:
    """Return the attribute that an option is read by; empty for a positional argument."""
    dest = keyword_of(call, "dest")
    flags = [flag for flag in map(string_value, call.args) if flag is not None and flag.startswith("-")]
    if not flags or any(isinstance(argument, ast.Starred) for argument in call.args):
        return ""
    if dest is not None:
        return string_value(dest.value) or ""
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    return long.lstrip("-").replace("-", "_")


def _options(context: PythonContext) -> Iterator[_Option]:
    """Yield the options of argparse, of click, and of typer."""
    for call in calls_of(context, "add_argument"):
        name = _name(call)
        yield _Option(call, name, tuple(context.file.attributes.get(name, ())))
    for function in context.file.functions:
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and last_name(decorator) == "option":
                given = [value for value in map(string_value, decorator.args) if value and value.isidentifier()]
                name = given[0] if given else _name(decorator)
                yield _Option(decorator, name, tuple(context.names.uses(name, function)))
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = (
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        )
        for parameter, default in pairs:
            if isinstance(default, ast.Call) and last_name(default) == "Option":
                uses = tuple(context.names.uses(parameter.arg, function))
                yield _Option(default, parameter.arg, uses, "parser")


def _compared(context: PythonContext, uses: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield where the option is held against a device of CUDA's."""
    for use in uses:
        parent = context.file.parents.get(use)
        if isinstance(parent, ast.Compare):
            sides = [parent.left, *parent.comparators]
        elif isinstance(parent, ast.Attribute) and parent.attr in _ASKS:
            asked = context.file.parents.get(parent)
            sides = [*asked.args] if isinstance(asked, ast.Call) else []
        else:
            continue
        if any(DEVICE_SPELLING.match(string_value(side) or "") for side in sides):
            yield parent
