"""A process group over `gloo` that is given tensors on the card.

On CUDA gloo takes tensors on the card too, and copies them through the host. Of other devices it knows nothing: torch
ends with "No backend type associated with device type ...", in the first collective or when
`DistributedDataParallel` wraps the model. Name the target's own backend; where tensors on the CPU are sent as well,
name one for each device type, as `cpu:gloo,cuda:nccl` does for CUDA. A group that is only for the CPU stays as it is.
Some plugins make none over gloo once `init_process_group(device_id=...)` has bound the default group to a card, and
some with their own `torch.distributed` make none at all.

Why: The first collective, or the wrapper of the model, raises.

References:
- page rehearsing
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.distributed.own_calls import calls_of_groups
from torchferry.rules.distributed.tensors import CARD, moved_to_card, place_of, values
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name
from torchferry.source.lexicon import lexicon

_GLOO = "gloo"

_COLLECTIVES = frozenset(
    {"all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter",
     "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv"}
)  # fmt: skip
"""Functions of `torch.distributed` whose first arguments are tensors, or lists of them."""

_TELLS = lazy_regex(r"cuda|cpu|gpu|device|gloo|nccl|backend|accelerator", re.IGNORECASE)
"""Words of a condition that chooses between backends."""


class GlooOnCard(Rule):
    """Finds groups over gloo whose tensors are evidently on the card."""

    CODE = "DST109"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use the target's collective backend"),)
    WORDS = (_GLOO, _GLOO.upper())

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target with its own copy of `torch.distributed` of which nobody knows what it makes."""
        backend = target.backend
        return self.WORDS if backend.DISTRIBUTED == Backend.DISTRIBUTED or backend.GLOO_GROUPS is False else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each group over gloo."""
        calls = list(_calls_of_torch(context))
        if context.target.backend.GLOO_GROUPS is False:
            yield from self._no_group(context)
            return
        yield from self._default_group(context, calls)
        yield from self._beside_bound_group(context, calls)
        for name, call in calls:
            if name in _COLLECTIVES and _over_gloo(context, call) and _sends_from_card(context, call):
                yield self._report(context, call, _where(context, call), Grade.MANUAL)

    def _no_group(self, context: PythonContext) -> Iterator[Finding]:
        """Yield a finding for each group that is evidently over gloo, where the target makes none."""
        making = cuda.group_makers_of(Backend.DISTRIBUTED)
        for name, call in calls_of_groups(context):
            if name not in making or exemption_reason(context, call) is not None or _is_chosen(context, call):
                continue
            if _backends(context, call, making[name]) == [(_GLOO, True)]:
                message = say(
                    "{target} has no process groups over `gloo`; use only `{use}`",
                    target=context.target.title,
                    use=context.target.backend.COLLECTIVE,
                )
                yield self.finding(context, context.file.span(call), message, Grade.MANUAL)

    def _default_group(self, context: PythonContext, calls: list[tuple[str, ast.Call]]) -> Iterator[Finding]:
        """Yield a finding for each start of the default group; none in a file that starts it over another one too."""
        starts = [(call, _backends(context, call)) for name, call in calls if name == "init_process_group"]
        if not starts or any(backend != _GLOO for _, backends in starts for backend, _ in backends):
            return
        used = next((call for name, call in calls if _uses_default_group(context, name, call)), None)
        for start, backends in starts:
            if exemption_reason(context, start) is not None or _is_chosen(context, start):
                continue
            if all(written for _, written in backends):
                if used is not None:
                    yield self._report(context, start, _where(context, used), Grade.MANUAL)
                elif "cuda" in context.text:
                    yield self._report(context, start, None, Grade.NOTE)
            elif used is not None:  # as the program is started when nothing is said
                yield self._report(context, start, _where(context, used), Grade.MANUAL)

    def _beside_bound_group(self, context: PythonContext, calls: list[tuple[str, ast.Call]]) -> Iterator[Finding]:
        """Yield a finding for each group over gloo in a file that binds the default group to a card."""
        if context.target.backend.GLOO_BESIDE_BOUND_GROUP is not False:
            return
        starts = [call for name, call in calls if name == "init_process_group"]
        bound = [keyword for call in starts if (keyword := keyword_of(call, "device_id")) is not None]
        if not bound or any(isinstance(each.value, ast.Constant) and each.value.value is None for each in bound):
            return
        for name, call in calls:
            given = keyword_of(call, "backend") if name == "new_group" else None
            if given is None or exemption_reason(context, call) is not None:
                continue
            if any(backend == _GLOO for backend, _ in _backends(context, call)):
                message = say(
                    "a group over `gloo` raises on {target} after `init_process_group(device_id=...)` (line {line}): "
                    "omit `device_id`",
                    target=context.target.title,
                    line=bound[0].value.lineno,
                )
                yield self.finding(context, context.file.span(call), message, Grade.MANUAL)

    def _report(self, context: PythonContext, call: ast.Call, used: Message | None, grade: Grade) -> Finding:
        target, module = context.target, context.target.module
        own = f"{module}.collective_backend()" if module else target.backend.COLLECTIVE
        message = say(
            "a process group over `gloo` accepts no tensors on {target}, unlike on CUDA ({used}); use `{own}`",
            target=target.title,
            used=used if used is not None else say("if one is passed"),
            own=own,
        )
        if target.backend.COMPOSITE_COLLECTIVE is True:
            both = f"cpu:gloo,{target.backend.DEVICE_TYPE}:{target.backend.COLLECTIVE}"
            message = say(
                "{message}, or `{both}` where tensors on the CPU are sent too",
                message=message,
                both=f"{module}.composite_backend()" if module else both,
            )
        effect = Effect.UNKNOWN if used is None else self.EFFECT
        return self.finding(context, context.file.span(call), message, grade, effect=effect)


def _calls_of_torch(context: PythonContext) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of functions of `torch.distributed`, and of DistributedDataParallel, with what is called."""
    for full_name, call in calls_to(context):
        owner, _, name = full_name.rpartition(".")
        if owner == "torch.distributed" or name == "DistributedDataParallel":
            yield name, call


def _backends(context: PythonContext, call: ast.Call, place: int = 0) -> list[tuple[str, bool]]:
    """Return the backends that a group may be made with, and whether each is written there; empty for another one.

    A default of a function or of an option of the command line is not: another one may be given.
    """
    keyword = keyword_of(call, "backend")
    given = keyword.value if keyword is not None else call.args[place] if len(call.args) > place else None
    if given is None:
        return [("", True)]
    return [
        backend
        for value in values(context, given)
        for branch in ((value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,))
        for backend in _backends_of_value(context, branch)
    ]


def _backends_of_value(context: PythonContext, value: ast.expr) -> list[tuple[str, bool]]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return [(value.value.lower(), True)]
    modules = (Backend.DISTRIBUTED, context.target.backend.DISTRIBUTED)
    if context.names.qualified(value) in [f"{module}.Backend.GLOO" for module in modules]:
        return [(_GLOO, True)]
    if isinstance(value, (ast.Name, ast.Attribute)) and lexicon("collective").names(last_name(value)):
        defaults = [
            (default.value.lower(), False)
            for default in _defaults(context, last_name(value))
            if isinstance(default, ast.Constant) and isinstance(default.value, str)
        ]
        return defaults or [("", False)]
    return [("", False)]


def _defaults(context: PythonContext, name: str) -> Iterator[ast.expr]:
    """Yield the defaults of options, parameters and fields of a name in this file."""
    for keyword in context.file.keywords.get("default", ()):
        call = context.file.parents.get(keyword)
        texts = [node.value for node in getattr(call, "args", ()) if isinstance(node, ast.Constant)]
        if any(str(text).lstrip("-").replace("-", "_") == name for text in texts):
            yield keyword.value
    for argument in context.file.arguments.get(name, ()):
        arguments = context.file.parents.get(argument)
        if isinstance(arguments, ast.arguments):
            ordered = [*arguments.posonlyargs, *arguments.args]
            pairs = [*zip(reversed(ordered), reversed(arguments.defaults), strict=False)]
            pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)  # type: ignore[arg-type]
            yield from (default for parameter, default in pairs if parameter is argument and default is not None)
    for owner in context.file.classes:
        for field in owner.body:
            if isinstance(field, ast.AnnAssign) and last_name(field.target) == name and field.value is not None:
                yield field.value


def _over_gloo(context: PythonContext, call: ast.Call) -> bool:
    """Whether the group that a collective is given is evidently one over gloo."""
    group = keyword_of(call, "group")
    groups = [] if group is None else values(context, group.value)
    return bool(groups) and all(
        isinstance(value, ast.Call)
        and context.names.qualified(value.func) == "torch.distributed.new_group"
        and keyword_of(value, "backend") is not None
        and _backends(context, value) == [(_GLOO, True)]
        for value in groups
    )


def _uses_default_group(context: PythonContext, name: str, call: ast.Call) -> bool:
    """Whether a call evidently gives the default group something on the card."""
    if name in _COLLECTIVES:
        return keyword_of(call, "group") is None and _sends_from_card(context, call)
    if name != "DistributedDataParallel" or keyword_of(call, "process_group") is not None:
        return False
    cards = keyword_of(call, "device_ids")
    listed = cards.value if cards is not None else call.args[1] if len(call.args) > 1 else None
    if isinstance(listed, ast.List) and listed.elts:
        return True  # torch takes no list of devices for a module on the CPU
    module = call.args[0] if call.args else getattr(keyword_of(call, "module"), "value", None)
    return module is not None and moved_to_card(context, module)


def _sends_from_card(context: PythonContext, call: ast.Call) -> bool:
    tensors = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg not in ("group", "op"))]
    return any(place_of(context, tensor) == CARD for tensor in tensors)


def _is_chosen(context: PythonContext, call: ast.Call) -> bool:
    """Whether a condition around a call may keep the program with a card from it."""
    child: ast.AST = call
    parent = context.file.parents.get(child)
    while parent is not None:
        if isinstance(parent, (ast.If, ast.IfExp, ast.ExceptHandler)) and child is not getattr(parent, "test", None):
            test = getattr(parent, "test", None)
            if test is None or _TELLS.search(ast.unparse(test)):
                return True
        child, parent = parent, context.file.parents.get(parent)
    return False


def _where(context: PythonContext, call: ast.Call) -> Message:
    return say("line {line} passes one", line=context.source.position(context.file.span(call)[0])[0])
