"""bitsandbytes chosen by a setting: `BitsAndBytesConfig(load_in_4bit=True)`, `optim="paged_adamw_32bit"`.

Nothing is imported, yet the weights are held, or the steps are made, by the CUDA kernels of bitsandbytes. What there is
of it for the target is in its table; without it, load the weights in bfloat16 or float16, and let `adamw_torch` make
the steps: both take more memory.

Why: Loading the model or the first optimizer step fails, although the project never imports bitsandbytes.

References:
- table packages
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, PythonContext, Rule
from torchferry.rules.commands import COMMAND_KINDS, commands_of
from torchferry.rules.config.declared import declared_settings
from torchferry.rules.config.device_setting import CONFIG_KINDS, settings_of_program
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.library.transformers_arguments import OPTIMIZERS
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name
from torchferry.source.kinds import Kind

_QUANTISED = {"load_in_4bit": "bitsandbytes.4bit", "load_in_8bit": "bitsandbytes.8bit"}
"""Settings that quantise weights, and the part of bitsandbytes that does it."""

_OPTIMIZER = lazy_regex(
    r"(?:paged_(?:adamw|lion|ademamix)(?:_(?:8|32)bit)?|(?:adamw|lion|ademamix|rmsprop)_(?:bnb_)?8bit|adamw_bnb_8bit"
    r"|rmsprop_(?:bnb(?:_32bit)?))\Z"
)
"""The optimizers of transformers that bitsandbytes makes."""

_ADAM = {"use_8bit_adam": "adamw_bnb_8bit"}
"""Switches that choose an optimizer of bitsandbytes, with its name in the tables."""

_BITS = ("quantization_bit",)
"""Settings that give the bits of weights which bitsandbytes quantises unless another method is named."""

_OTHER_METHOD = lazy_regex(r"quantization_method\W+(?!bitsandbytes|bnb)\w")

_OFF = frozenset({"false", "no", "off", "0", "null", "none", "~", ""})


class BitsandbytesSettings(Rule):
    """Finds settings that choose bitsandbytes."""

    CODE = "LIB107"
    EFFECT = Effect.RAISES
    ANSWERS = (say("choose another optimizer or dtype"),)
    WORDS = (*_QUANTISED, *_ADAM, *_BITS, "use-8bit-adam", "BitsAndBytesConfig", "paged_", "_8bit", "rmsprop_bnb")
    KINDS = (Kind.PYTHON, *CONFIG_KINDS, *COMMAND_KINDS)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call that quantises, and for each name of an optimizer."""
        calls: dict[ast.AST, list[ast.keyword]] = {}
        for name in _QUANTISED:
            for keyword in context.file.keywords.get(name, ()):
                call = context.file.parents.get(keyword)
                if isinstance(call, ast.Call) and _may_be_on(keyword.value):
                    calls.setdefault(call, []).append(keyword)
        for call, keywords in calls.items():
            if not any(parent in calls for parent in _around(context, call)):
                for keyword in keywords:
                    when = "" if isinstance(keyword.value, ast.Constant) else "true"
                    yield self._weights(context, context.file.span(keyword), str(keyword.arg), when)
        for declared in declared_settings(context, (*_QUANTISED, *_ADAM)):
            if not declared.in_call and isinstance(declared.value, ast.Constant) and declared.value.value is True:
                span = context.file.span(declared.value)
                yield self._declared(context, span, declared.name)._replace(lacks="")  # a default, which a call takes
        for node in context.file.strings:
            if not isinstance(node.value, str) or not _OPTIMIZER.match(node.value) or is_text(context, node):
                continue
            parent = context.file.parents.get(node)
            call = context.file.parents.get(parent) if isinstance(parent, ast.keyword) else None
            if isinstance(call, ast.Call) and last_name(call.func).endswith("TrainingArguments"):
                continue  # LIB104 speaks of it
            row = context.target.row("frameworks", OPTIMIZERS + node.value)
            edits = []
            if row.status in REWRITTEN and row.use and not isinstance(parent, (ast.Compare, ast.List, ast.Tuple)):
                try:
                    edits = word_edits(context, node, node.value, row.use)
                except ValueError:
                    edits = []
            yield self._optimizer(context, literal_span(context, node), node.value, edits)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting of a configuration file, and each argument of a command."""
        if context.kind in CONFIG_KINDS:
            names_other = _OTHER_METHOD.search(context.text) is not None
            for setting in settings_of_program(context):
                span = (setting.start, setting.end)
                if setting.key in (*_QUANTISED, *_ADAM) and setting.value.lower() not in _OFF:
                    yield self._declared(context, span, setting.key)
                elif setting.key in _BITS and setting.value in ("4", "8") and not names_other:
                    yield self._weights(context, span, f"load_in_{setting.value}bit")
                elif _OPTIMIZER.match(setting.value):
                    yield self._optimizer(context, span, setting.value, [])
            return
        for command in commands_of(context):
            for word in command.words:
                option, _, value = word.value.partition("=")
                if _OPTIMIZER.match(value or option):
                    yield self._optimizer(context, (word.start, word.end), value or option, [])
                elif (
                    option.lstrip("-").replace("-", "_") in (*_QUANTISED, *_ADAM)
                    and option.startswith("--")
                    and value.lower() not in _OFF - {""}
                ):
                    yield self._declared(context, (word.start, word.end), option.lstrip("-").replace("-", "_"))

    def _declared(self, context: Context, span: tuple[int, int], name: str) -> Finding:
        return self._optimizer(context, span, _ADAM[name], []) if name in _ADAM else self._weights(context, span, name)

    def _weights(self, context: Context, span: tuple[int, int], setting: str, when: str = "") -> Finding:
        row = context.target.row("parts", _QUANTISED[setting])
        message = say(
            "loads weights that bitsandbytes quantises with CUDA kernels; check what exists for {target}",
            target=context.target.title,
        )
        lacks = "bitsandbytes" if row.status == "missing" else ""
        return self.finding(context, span, noted(message, row.remark), Grade.MANUAL, lacks=lacks, when=when)

    def _optimizer(self, context: Context, span: tuple[int, int], name: str, edits: list[Edit]) -> Finding:
        row = context.target.row("frameworks", OPTIMIZERS + name)
        if row.status in REWRITTEN and row.use:
            message = say(
                "optimizer `{found}` is `{use}` on {target}", found=name, use=row.use, target=context.target.title
            )
        else:
            message = say(
                "optimizer `{found}` uses CUDA kernels of bitsandbytes; {target} does not have it",
                found=name,
                target=context.target.title,
            )
        grade = Grade.UNSAFE if edits else Grade.MANUAL
        return self.finding(context, span, noted(message, row.remark), grade, edits)


def _around(context: PythonContext, node: ast.AST) -> Iterator[ast.AST]:
    parent = context.file.parents.get(node)
    while parent is not None:
        yield parent
        parent = context.file.parents.get(parent)


def _may_be_on(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and not value.value)
