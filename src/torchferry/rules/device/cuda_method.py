"""A call of `.cuda()` on a tensor, a module or a storage.

`x.cuda()` raises on a torch without CUDA. The target's plugin adds a method of its own name, or the call becomes
`.to(<device>)` where it adds none, where it refuses a device as argument that `.cuda()` takes, in code that TorchScript
compiles, and beside lazy modules (`nn.LazyLinear`): both know no method of a plugin's. Arguments stay: an index counts
the target's devices.

The method as a value is one too: `map(torch.Tensor.cuda, xs)`, `getattr(x, "cuda")()`, `methodcaller("cuda")`. Where
the target adds no method, a person writes what moves to its device.

A storage that `.to(device=...)` moves is one for a person where torch has no storages on the target.

Not touched: `.cuda` of another package (`numba.cuda`), an attribute that is not called (`args.cuda`), and a method
`cuda` that the project defines itself, when the object is known to be of such a class. Where the project has such
a class and the object is not known, `DEV109` gives the class the new name as well.

Why: The call raises on a torch without CUDA.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.rules.base import Options, PythonContext, Rule, calls_of, keyword_of
from torchferry.rules.device.expressions import device_expression, indexed_device, portable_imports, quoted_for
from torchferry.rules.device.load_onto_device import ON_CPU, grade_of_function, refused
from torchferry.rules.device.method_values import MethodValue, method_values
from torchferry.rules.device.own_methods import class_defines, is_library_name, receiver_owns
from torchferry.rules.device.receivers import (
    is_index,
    is_packed_sequence,
    is_storage,
    is_surely_device,
    makes_lazy_modules,
    names_card,
)
from torchferry.rules.device.strings import is_load_location, word_edits
from torchferry.rules.device.torchscript import is_scripted
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import attribute_span
from torchferry.source.flow.syntax import last_name


class CudaMethod(Rule):
    """Finds calls of `.cuda()`."""

    CODE = "DEV103"
    EFFECT = Effect.RAISES
    BINDS = True
    WORDS = (".cuda", '"cuda', "'cuda")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Storages as well, where torch has none of the target's device."""
        return (*self.WORDS, "storage") if target.backend.LOADS_TO_DEVICE is False else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call."""
        calls = list(calls_of(context, "cuda"))
        lazy = bool(calls) and makes_lazy_modules(context)
        for call in calls:
            assert isinstance(call.func, ast.Attribute)
            receiver = call.func.value
            if is_library_name(context, call.func) or receiver_owns(context, receiver, "cuda"):
                continue
            yield self._report(context, call, call.func, lazy)
        for value in method_values(context):
            yield self._taken(context, value)
        if context.target.backend.LOADS_TO_DEVICE is False:
            yield from self._storages(context)

    def _storages(self, context: PythonContext) -> Iterator[Finding]:
        """Yield the storages that `.to()` would move to a device for which torch has none."""
        for call in calls_of(context, "to"):
            keyword = keyword_of(call, "device")
            if not isinstance(call.func, ast.Attribute) or not is_storage(context, call.func.value):
                continue
            if keyword is not None and names_card(context, keyword.value) and exemption_for(context, call) is None:
                message = say("torch has no storages on {target}: move the tensor instead", target=context.target.title)
                yield self.finding(context, context.file.span(call), message, Grade.MANUAL)

    def _taken(self, context: PythonContext, value: MethodValue) -> Finding:
        """Report the method where it is taken as a value; it is renamed where the target has one of its own."""
        node = value.node
        span = context.file.span(node)
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`.cuda()` is left as it is: {reason}", reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        mover = context.target.backend.MOVER
        title = context.target.title
        if not isinstance(mover, str) or context.target.module:
            message = say(
                "the method `cuda` is used as a value; on {target} use a function that calls `.to(device)`",
                target=title,
            )
            return self.finding(context, span, message, Grade.MANUAL)
        message = say("the method `cuda` is `{mover}` on {target}", mover=mover, target=title)
        try:
            if isinstance(node, ast.Attribute):
                edits = [Edit(*attribute_span(context, node), mover)]
            else:
                edits = word_edits(context, node, "cuda", mover)
        except ValueError:
            edits = []
        grade = Grade.MANUAL if not edits else Grade.SAFE if value.is_sure else Grade.UNSAFE
        return self.finding(context, span, message, grade, edits)

    def _report(self, context: PythonContext, call: ast.Call, func: ast.Attribute, lazy: bool) -> Finding:
        try:
            start, end = attribute_span(context, func)
        except ValueError:
            message = say("`.cuda()` cannot be rewritten here; change it by hand")
            return self.finding(context, context.file.span(context.file.statement(call)), message, Grade.MANUAL)
        _, last = context.file.span(call)
        exemption = exemption_for(context, call)
        if exemption is not None:
            message = say("`.cuda()` is left as it is: {reason}", reason=exemption.reason)
            return self.finding(context, (start, last), message, Grade.NOTE, stays=exemption.kind)
        mover = context.target.backend.MOVER
        scripted = not call.args and not call.keywords and is_scripted(context, call)
        if isinstance(mover, str) and not scripted and not self._needs_to(context, call, lazy):
            message = say("`.cuda()` is `.{mover}()` on {target}", mover=mover, target=context.target.title)
            grade = Grade.SAFE
            chosen = _chosen_device(call)
            refuses = context.target.backend.MOVER_TAKES_DEVICE is False
            is_device = refuses and chosen is not None and is_surely_device(context, chosen)
            if is_device and _may_be_own(context, func.value):
                grade = Grade.UNSAFE
                message = say(
                    "{message}: an object of the class with its own `cuda` can be given a device there, a "
                    "module of torch cannot",
                    message=message,
                )
            elif refuses and not is_device and not _is_taken(context, call, func.value):
                grade = Grade.UNSAFE
                message = say(
                    "{message}: a module can be given an index there, but no device; where it is given a "
                    "device, write `.to()` instead",
                    message=message,
                )
            return self.finding(context, (start, last), message, grade, [Edit(start, end, mover)])
        return self._to_device(context, call, (start, end))

    def _needs_to(self, context: PythonContext, call: ast.Call, lazy: bool) -> bool:
        """Whether the target's method refuses a call where a module is moved, unlike `.to()`.

        Args:
            context: The file.
            call: The call.
            lazy: Whether there are modules of which it refuses to move any.
        """
        refuses = context.target.backend.MOVER_TAKES_DEVICE is False
        if not (refuses or lazy):
            return False
        assert isinstance(call.func, ast.Attribute)
        if len(call.args) > 1 and is_packed_sequence(context, call.func.value):
            return refuses  # it hands its arguments on to `.to()`, beside the device
        if _may_be_own(context, call.func.value):
            return False  # an object may be of that class, whose own method moves more than `.to()` does
        if lazy and is_storage(context, call.func.value):
            return False
        chosen = _chosen_device(call)
        if lazy and (chosen is None or isinstance(chosen, ast.Constant)):
            return True
        if chosen is None or is_surely_device(context, chosen):
            return chosen is not None
        return isinstance(chosen, (ast.Name, ast.Attribute)) and context.devices.values.holds(chosen)

    def _to_device(self, context: PythonContext, call: ast.Call, name: tuple[int, int]) -> Finding:
        """Rewrite `.cuda(...)` as `.to(device, ...)` for a plugin without a method of its own."""
        start, end = name
        _, last = context.file.span(call)
        device, imports = device_expression(context)
        written = quoted_for(context, call, device)
        message = say("`.cuda()` is `.to({device})` on {target}", device=device, target=context.target.title)
        chosen = _chosen_device(call)
        grade = Grade.SAFE
        if written is None:
            return self.finding(context, (start, last), message, Grade.MANUAL)
        loader = _loading_lambda(context, call)
        if loader is not None and not call.keywords and len(call.args) < 2:
            return self._loading(context, call, loader, message)
        if isinstance(call.func, ast.Attribute) and is_storage(context, call.func.value):
            message = say("a storage has `.cuda()` but not `.to(device)` in every torch; move its tensor instead")
            return self.finding(context, (start, last), message, Grade.MANUAL)
        if chosen is None:
            behind = context.text.index("(", end) + 1
            text = f"{written}, " if call.keywords else written
            return self.finding(
                context,
                (start, last),
                message,
                grade,
                [Edit(start, end, "to"), Edit(behind, behind, text)],
                imports=imports,
            )
        edits = [Edit(start, end, "to")]
        place = context.file.span(chosen)
        if isinstance(chosen, ast.Constant) and chosen.value is None:
            edits.append(Edit(*place, written))
        elif is_surely_device(context, chosen):
            imports = ()
        elif context.target.module or not context.devices.values.holds(chosen):
            indexed = indexed_device(context, chosen)  # in portable code it takes devices and None as well
            indexed = quoted_for(context, call, indexed) if indexed is not None else None
            if indexed is None:
                return self.finding(context, (start, last), message, Grade.MANUAL)
            imports = portable_imports(context)
            sure = isinstance(chosen, ast.Constant) or context.target.module
            grade = Grade.SAFE if sure else Grade.UNSAFE
            edits.append(Edit(*place, indexed))
        else:  # `.cuda(None)` is the current card, and `.to(None)` moves nothing
            text = context.file.text(chosen)
            either = quoted_for(context, call, f"{device} if {text} is None else {text}")
            if either is None or not isinstance(chosen, (ast.Name, ast.Attribute)):
                return self.finding(context, (start, last), message, Grade.MANUAL)
            edits.append(Edit(*place, either))
        if len(call.args) > 1:  # .cuda(device, non_blocking)
            second, _ = context.file.span(call.args[1])
            edits.append(Edit(second, second, "non_blocking="))
        return self.finding(context, (start, last), message, grade, edits, imports=imports)

    def _loading(self, context: PythonContext, call: ast.Call, loader: ast.Lambda, message: Message) -> Finding:
        """Write the device in place of a function that moves a storage to it: a storage has no `.to(device)`."""
        span = context.file.span(call)
        on_cpu = grade_of_function(context, loader)
        if on_cpu is not None:
            edits = [Edit(*context.file.span(loader), ON_CPU)]
            return self.finding(context, span, refused(context, loader), on_cpu, edits)
        chosen = call.args[0] if call.args else None
        device, imports = device_expression(context)
        if context.target.module:
            text = context.file.text(chosen) if chosen is not None else ""
            device, imports = f"{context.target.module}.load_location({text})", portable_imports(context)
        elif chosen is not None and context.devices.values.holds(chosen):
            device, imports = context.file.text(chosen), ()
        elif chosen is not None:
            indexed = indexed_device(context, chosen)
            if indexed is None:
                return self.finding(context, span, message, Grade.MANUAL)
            device = indexed
        return self.finding(
            context, span, message, Grade.SAFE, [Edit(*context.file.span(loader), device)], imports=imports
        )


def _may_be_own(context: PythonContext, receiver: ast.expr) -> bool:
    """Whether an object may be of a class of the file that has a `cuda` of its own."""
    made_by = context.names.qualified(receiver.func) if isinstance(receiver, ast.Call) else None
    is_super = isinstance(receiver, ast.Call) and last_name(receiver.func) == "super"
    is_of_torch = made_by is not None and made_by.startswith("torch.")
    return not (is_super or is_of_torch) and any(class_defines(owner, "cuda") for owner in context.file.classes)


def _is_taken(context: PythonContext, call: ast.Call, receiver: ast.expr) -> bool:
    """Whether a method that takes no device for a module takes what a call gives it: nothing, or an index.

    Tensors take both, and so does what torch's functions return.
    """
    made_by = context.names.qualified(receiver.func) if isinstance(receiver, ast.Call) else None
    if made_by is not None and made_by.startswith("torch.") and made_by.rpartition(".")[2].islower():
        return True
    chosen = _chosen_device(call)
    if chosen is None:
        return all(keyword.arg for keyword in call.keywords)
    around = context.file.enclosing_function(call)
    is_own = isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) and around.name == "cuda"
    if is_own and isinstance(chosen, ast.Name):
        return any(isinstance(binding, ast.arg) for binding in context.names.bindings(chosen))  # handed on
    return is_index(context, chosen) or (isinstance(chosen, ast.Constant) and chosen.value is None)


def _chosen_device(call: ast.Call) -> ast.expr | None:
    """Return the device or the index that a call is given."""
    keyword = keyword_of(call, "device")
    return call.args[0] if call.args else keyword.value if keyword is not None else None


def _loading_lambda(context: PythonContext, call: ast.Call) -> ast.Lambda | None:
    """Return the lambda given as `map_location` that does nothing but move its storage by this call."""
    function = context.file.parents.get(call)
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(function, ast.Lambda) or function.body is not call or not isinstance(receiver, ast.Name):
        return None
    first = function.args.args[:1]
    moves = bool(first) and first[0].arg == receiver.id
    return function if moves and is_load_location(context, function) else None
