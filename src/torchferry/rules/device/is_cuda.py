"""A test of `.is_cuda` on a tensor, a parameter or a storage.

`x.is_cuda` is False for a tensor on the target, so the branch meant for the card is silently skipped. It becomes
the plugin's own property, or a comparison of `x.device.type` where the plugin has none and in code that TorchScript
compiles, which knows no property of a plugin's.

The property as a value is one too: `getattr(x, "is_cuda")`, `attrgetter("is_cuda")`, `torch.Tensor.is_cuda`. Where the
plugin has none, a person writes what asks for the device. What is called, `platform.is_cuda()`, is no tensor's: it
stays where the project defines it, and is one for a person elsewhere.

A test that chooses a compiled CUDA kernel stays as it is: on the target that kernel does not exist, and the branch
without it is the one to run. Such places are listed, because a ported kernel would make them fast again.

Why: The test is False on the card, so the code for the card is silently skipped.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.expressions import device_type, portable_imports, quoted_for
from torchferry.rules.device.method_values import TENSORS_AND_MODULES
from torchferry.rules.device.own_methods import is_library_name, receiver_owns
from torchferry.rules.device.receivers import SETTINGS, may_be_packed_sequence
from torchferry.rules.device.strings import word_edits
from torchferry.rules.device.torchscript import is_scripted
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import attribute_span
from torchferry.source.flow.syntax import last_name

_PROPERTY = "is_cuda"
_BY_NAME = frozenset({"getattr", "attrgetter"})
_NEEDS_NO_PARENTHESES = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Assign, ast.Return, ast.Assert, ast.keyword)


class IsCuda(Rule):
    """Finds reads of `.is_cuda`."""

    CODE = "DEV104"
    EFFECT = Effect.WRONG
    RUNS_ON_DEVICE = False
    BINDS = True
    WORDS = ("is_cuda",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each read."""
        for node in context.file.attributes.get("is_cuda", ()):
            qualified = context.names.qualified(node)
            foreign = qualified is not None and not qualified.startswith("torch.") and is_library_name(context, node)
            if not isinstance(node.ctx, ast.Load) or foreign or receiver_owns(context, node.value, "is_cuda"):
                continue
            is_own = context.project is not None and context.project.defines(_PROPERTY)
            call = context.file.parents.get(node)
            if isinstance(call, ast.Call) and call.func is node:
                if not is_own:
                    yield self._called(context, node)
            elif not is_own or not isinstance(node.value, ast.Name) or not SETTINGS.search(node.value.id):
                yield self._report(context, node)
            elif node.value.id in ("self", "cls"):
                finding = self._report(context, node)
                if finding.grade is Grade.SAFE:
                    message = say(
                        "{message}; objects of the project have an `is_cuda` of their own, and this may be one",
                        message=finding.message,
                    )
                    finding = finding._replace(grade=Grade.UNSAFE, message=message)
                yield finding
        for name in context.file.strings:
            taker = context.file.parents.get(name)
            if name.value == _PROPERTY and isinstance(taker, ast.Call) and name in taker.args[:2]:
                taken = last_name(taker.func) in _BY_NAME
                if taken and not receiver_owns(context, taker.args[0], _PROPERTY):
                    yield from self._taken(context, name)

    def _called(self, context: PythonContext, node: ast.Attribute) -> Finding:
        message = say(
            "`.is_cuda()` is called, so it is not the property of a tensor: check what it returns on {target}",
            target=context.target.title,
        )
        return self.finding(context, context.file.span(node), message, Grade.MANUAL)

    def _taken(self, context: PythonContext, name: ast.Constant) -> Iterator[Finding]:
        """Yield the property where it is taken by its name; it is renamed where the target has one of its own."""
        span = context.file.span(name)
        if exemption_for(context, name) is not None:
            return
        predicate = context.target.backend.PREDICATE
        if isinstance(predicate, str):
            message = say("`.is_cuda` is `.{predicate}` on {target}", predicate=predicate, target=context.target.title)
            try:
                edits = word_edits(context, name, _PROPERTY, predicate)
            except ValueError:
                edits = []
            yield self.finding(context, span, message, Grade.SAFE if edits else Grade.MANUAL, edits)
        else:
            yield self.finding(context, span, self._without_property(context), Grade.MANUAL)

    @staticmethod
    def _without_property(context: PythonContext) -> Message:
        return say(
            "the property `is_cuda` is used as a value; on {target} use a function that asks `.device.type`",
            target=context.target.title,
        )

    def _report(self, context: PythonContext, node: ast.Attribute) -> Finding:
        try:
            start, end = attribute_span(context, node)
            whole = context.file.span(node)
        except ValueError:
            message = say("`.is_cuda` cannot be rewritten here; change it by hand")
            return self.finding(context, context.file.span(context.file.statement(node)), message, Grade.MANUAL)
        exemption = exemption_for(context, node)
        if exemption is not None:
            return self.finding(
                context,
                whole,
                say("`.is_cuda` is left as it is: {reason}", reason=exemption.reason),
                Grade.NOTE,
                stays=exemption.kind,
            )
        predicate = context.target.backend.PREDICATE
        scripted = is_scripted(context, node)
        if isinstance(predicate, str) and not scripted:
            message = say("`.is_cuda` is `.{predicate}` on {target}", predicate=predicate, target=context.target.title)
            return self.finding(context, whole, message, Grade.SAFE, [Edit(start, end, predicate)])
        if context.names.qualified(node.value) in TENSORS_AND_MODULES:
            return self.finding(context, whole, self._without_property(context), Grade.MANUAL)
        comparison = f"device.type == {device_type(context)}"
        if may_be_packed_sequence(context, node.value):
            comparison = f"data.{comparison}"
        message = say("`.is_cuda` is `.{comparison}` on {target}", comparison=comparison, target=context.target.title)
        written = quoted_for(context, node, comparison)
        if written is None:
            return self.finding(context, whole, message, Grade.MANUAL)
        edits = [Edit(start, end, written)]
        if not isinstance(context.file.parents.get(node), _NEEDS_NO_PARENTHESES):
            edits = [Edit(whole[0], whole[0], "("), Edit(start, end, written + ")")]
        return self.finding(context, whole, message, Grade.SAFE, edits, imports=portable_imports(context))
