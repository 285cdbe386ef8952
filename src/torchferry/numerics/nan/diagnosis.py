"""A step that is known to be bad is gone through from its beginning: the first place where something turned bad.

In order: parameters that were bad before, inputs, each model forward (run again, call by call), the loss, the loss
backward, each model backward (run again), the text between backward and the optimizer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.numerics.framework.attribution import FORWARD, OPTIMIZER, Attribution, Where, unwrapped
from torchferry.numerics.framework.dispatch import is_higher_order
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import OperatorFilter, tensors
from torchferry.numerics.framework.statistics import FINITE, KINDS, NAN, described, worst
from torchferry.numerics.nan.mode import Inspector, OperatorCall, OperatorWatch, Origin, origins
from torchferry.numerics.nan.rerun import (
    Omitted,
    RandomState,
    RootCall,
    TapedCall,
    again,
    buffers_as,
    devices_of,
    leaves,
    taking_part,
    version,
)
from torchferry.numerics.nan.wider import range_of_dtype


@dataclass
class StepDiagnosis:
    """What was found.

    Attributes:
        origins: Calls where something turned bad, first first.
        made: The calls themselves, with their arguments, where they are at hand.
        notes: What could not be looked at, and why.
        ran: Whether something ran again.
    """

    origins: list[Origin] = field(default_factory=list)
    made: list[OperatorCall] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)
    ran: bool = False


class Examiner:
    """Goes through bad steps."""

    def __init__(self, attribution: Attribution, selection: OperatorFilter, omitted: Omitted) -> None:
        self._attribution = attribution
        self._selection = selection
        self._omitted = omitted

    def examine(
        self,
        roots: Sequence[RootCall],
        tape: Sequence[TapedCall],
        losses: Sequence[tuple[list[Tensor], list[Tensor | None]]],
        optimizer: Optimizer | None,
        unwatched: int | None = None,
    ) -> StepDiagnosis:
        """Return where a step turned bad.

        Args:
            roots: The calls of outermost modules, in order.
            tape: What was computed outside of them.
            losses: What backward was called on, and with which gradients.
            optimizer: The optimizer that is about to step, or None.
            unwatched: The number of the step, where nobody looked at the step before it: 0 for the first of all, that
                with which a span of steps begins; else None.
        """
        diagnosis = StepDiagnosis()
        for look in (
            lambda: self._parameters(roots, optimizer, diagnosis, unwatched),
            lambda: self._forwards(roots, diagnosis),
            lambda: self._loss(tape, losses, diagnosis),
            lambda: self._loss_backward(roots, tape, losses, diagnosis),
            lambda: self._backwards(roots, diagnosis),
        ):
            try:
                look()
            except Exception as error:  # the other places are looked at all the same
                diagnosis.notes.append(
                    say("a part of the step could not be examined: {error}", error=f"{type(error).__name__}: {error}")
                )
            if diagnosis.origins:
                self._wider(diagnosis)
                return diagnosis
        if diagnosis.notes or not diagnosis.ran:
            return diagnosis
        diagnosis.notes.append(
            say(
                "every call was finite when the step ran again: check what happens between backward "
                "and the optimizer (accumulated gradients, their exchange between ranks, clipping, "
                "hooks)"
            )
        )
        return diagnosis

    def _wider(self, diagnosis: StepDiagnosis) -> None:
        """Say whether the first call is finite in float32, as only then a wider dtype mends it."""
        if diagnosis.made:
            with self._attribution.aside():
                said = range_of_dtype(diagnosis.made[0], diagnosis.origins[0].where.module)
            diagnosis.notes += [] if said is None else [said]

    def examine_overflow(self, roots: Sequence[RootCall], scale: float) -> StepDiagnosis:
        """Return where backward turns bad also without the scale: what a gradient scaler cannot mend.

        A scale that was too large makes infinities, and of these NaN. With the gradients that the models were given
        divided by it, no result is larger than it would be in a program that does not scale, so that what is still not
        finite has another cause.

        Args:
            roots: The calls of outermost modules, in order.
            scale: By which the loss was multiplied.
        """
        diagnosis = StepDiagnosis()
        if any(worst(gradient) != FINITE for root in roots for gradient in root.gradients.values()):
            return diagnosis  # the scale, or the loss: nothing is left to divide
        divided = ({number: gradient / scale for number, gradient in root.gradients.items()} for root in roots)
        self._backwards([replace(root, gradients=own) for root, own in zip(roots, divided, strict=True)], diagnosis)
        return diagnosis

    def _parameters(
        self, roots: Sequence[RootCall], optimizer: Optimizer | None, diagnosis: StepDiagnosis, unwatched: int | None
    ) -> None:
        """Parameters that are bad before the step were made so by the step before, or the program began with them."""
        groups: Sequence[dict[str, Any]] = (
            [{"params": list(root.module.parameters())} for root in roots if unwatched == 0 and _unchanged(root)]
            if optimizer is None
            else optimizer.param_groups
        )
        for group in groups:
            for parameter in group["params"]:
                kind = worst(parameter)
                if kind == FINITE:
                    continue
                name = self._attribution.modules.parameter(parameter)
                module, _, leaf = name.rpartition(".")
                if optimizer is None or unwatched is not None:
                    diagnosis.origins.append(
                        Origin(
                            f"parameter {leaf}", Where(FORWARD, module, ""), KINDS[kind], (), (described(parameter),)
                        )
                    )
                    diagnosis.notes.append(_before(name or leaf, KINDS[kind], unwatched or 0))
                    return
                state = optimizer.state.get(parameter, {})
                settings = {key: value for key, value in group.items() if isinstance(value, (int, float, tuple))}
                diagnosis.origins.append(
                    Origin(
                        f"{type(optimizer).__name__}.step",
                        Where(OPTIMIZER, module, leaf),
                        KINDS[kind],
                        tuple(described(value) for value in state.values() if isinstance(value, Tensor)),
                        (described(parameter),),
                        tuple(f"{key}={value}" for key, value in settings.items()),
                    )
                )
                return

    def _forwards(self, roots: Sequence[RootCall], diagnosis: StepDiagnosis) -> None:
        for root in taking_part(roots):
            path = self._attribution.modules.of(root.module)
            bad = max(root.inputs, key=worst, default=None)
            given = FINITE if bad is None else worst(bad)
            if bad is not None and given == NAN:
                diagnosis.origins.append(_input(bad, path))
                return
            if any(worst(output) != FINITE for output in root.outputs):
                again = self._again(root, diagnosis, backward=False)
                if diagnosis.origins:
                    if given != FINITE:
                        diagnosis.notes.append(say("an input of {module} was infinite already", module=path))
                    return
                if bad is not None and given != FINITE:
                    diagnosis.origins.append(_input(bad, path))
                    return
                if again == FINITE:
                    diagnosis.notes.append(
                        say(
                            "{module} gave a result that is not finite, but a finite one when it ran again", module=path
                        )
                    )
                elif again is not None:
                    diagnosis.notes.append(
                        say(
                            "{module} gave a result that is not finite; the call that caused it was not found",
                            module=path,
                        )
                    )

    def _loss(
        self,
        tape: Sequence[TapedCall],
        losses: Sequence[tuple[list[Tensor], list[Tensor | None]]],
        diagnosis: StepDiagnosis,
    ) -> None:
        for call in tape:
            kind = max(map(worst, call.operator.results(call.args, call.kwargs, call.out)), default=FINITE)
            if kind == FINITE or call.operator.kind in {OpKind.VIEW, OpKind.CONSTANT, OpKind.ALLOCATE}:
                continue
            values = [*call.args, *call.kwargs.values()]
            if kind > max(map(worst, tensors(values)), default=FINITE):
                place = call.place
                diagnosis.origins.append(
                    Origin(
                        call.operator.name,
                        Where(FORWARD, "", ""),
                        KINDS[kind],
                        tuple(map(described, tensors(values))),
                        tuple(map(described, call.operator.results(call.args, call.kwargs, call.out))),
                        tuple(
                            repr(value)
                            for value in values
                            if value is not None and not any(True for _ in tensors(value))
                        ),
                        f"{place.file}:{place.line}" if place.line else "",
                    )
                )
                diagnosis.made.append(OperatorCall(call.operator.overload, call.args, call.kwargs))
                return
        if not diagnosis.notes and any(worst(loss) != FINITE for ones, _ in losses for loss in ones):
            diagnosis.notes.append(say("the loss is not finite; the call that caused it was not found"))

    def _loss_backward(
        self,
        roots: Sequence[RootCall],
        tape: Sequence[TapedCall],
        losses: Sequence[tuple[list[Tensor], list[Tensor | None]]],
        diagnosis: StepDiagnosis,
    ) -> None:
        given = [gradient for root in taking_part(roots) for gradient in root.gradients.values()]
        if all(worst(value) == FINITE for value in given):
            return
        begun = {
            id(output): output.detach().requires_grad_()
            for root in roots
            for output in root.outputs
            if output.requires_grad
        }
        diagnosis.ran = True
        try:
            with torch.enable_grad(), self._looking(diagnosis) as inspector:
                standing = again(tape, begun, inspector.stand_at)
                pairs = [
                    (standing[id(tensor)], gradient)
                    for ones, gradients in losses
                    for tensor, gradient in zip(ones, gradients, strict=True)
                    if id(tensor) in standing and standing[id(tensor)].requires_grad
                ]
                if not pairs:
                    raise LookupError("backward began at a tensor that was not seen")
                torch.autograd.grad(
                    [pair for pair, _ in pairs], list(begun.values()), [pair for _, pair in pairs], allow_unused=True
                )
        except (RuntimeError, LookupError, NotImplementedError) as error:
            diagnosis.notes.append(say("the loss could not be computed again: {error}", error=error))
        if not diagnosis.origins:
            diagnosis.notes.append(say("the gradient of the loss was already not finite when it reached the model"))

    def _backwards(self, roots: Sequence[RootCall], diagnosis: StepDiagnosis) -> None:
        for root in roots:
            if root.gradients:
                self._again(root, diagnosis, backward=True)
                if diagnosis.origins:
                    return

    def _again(self, root: RootCall, diagnosis: StepDiagnosis, backward: bool) -> int | None:
        """Run a model's call again with its random numbers and buffers; forward, or forward and backward.

        Returns:
            FINITE, INFINITE or NAN: the worst value of its results; None where it did not run to its end.
        """
        module, path = unwrapped(root.module), self._attribution.modules.of(root.module)
        refusal = _why_not(root)
        if refusal is not None:
            diagnosis.notes.append(say("{module} is not run again: {reason}", module=path, reason=refusal))
            return None
        if root.written:
            diagnosis.notes.append(
                say(
                    "the inputs of {module} were changed after the call: it runs again on the changed values",
                    module=path,
                )
            )
        now = RandomState(devices_of(module, root.inputs))
        root.random.restore()
        diagnosis.ran = True
        try:
            with buffers_as(root.buffers, self._omitted), root.autocast.again(), torch.set_grad_enabled(backward):
                if not backward:
                    with self._looking(diagnosis):
                        result = module(*root.args, **(root.kwargs or {}))
                else:
                    result = self._forward_and_backward(root, module, diagnosis)
                return max(map(worst, leaves(result)), default=FINITE)
        except Exception as error:  # whatever a program may raise
            diagnosis.notes.append(say("{module} could not be run again: {error}", module=path, error=error))
            return None
        finally:
            now.restore()

    def _forward_and_backward(self, root: RootCall, module: Any, diagnosis: StepDiagnosis) -> Any:
        with self._looking(diagnosis):
            result = module(*root.args, **(root.kwargs or {}))
            outputs = list(leaves(result))
            pairs = [
                (outputs[number], gradient)
                for number, gradient in root.gradients.items()
                if number < len(outputs) and outputs[number].requires_grad
            ]
            wanted = [tensor for tensor in (*module.parameters(), *root.inputs) if tensor.requires_grad]
            if pairs and wanted:
                # grad, not backward: what accumulates gradients, and exchanges them between ranks, stays out of it
                torch.autograd.grad([pair for pair, _ in pairs], wanted, [pair for _, pair in pairs], allow_unused=True)
            return result

    @contextlib.contextmanager
    def _looking(self, diagnosis: StepDiagnosis) -> Iterator[Inspector]:
        """Look at every call within the context; keep the origins that matter."""
        watch = OperatorWatch(self._attribution, self._selection)
        inspector = Inspector(self._attribution, self._selection)
        try:
            with self._attribution.aside(), watch, inspector:
                yield inspector
        finally:
            results, kinds = watch.taken()
            matter = {(results[number].operator.name, results[number].where) for number in origins(results, kinds)}
            for origin, call in zip(inspector.origins, inspector.made, strict=True):
                if (origin.operator, origin.where) in matter:
                    diagnosis.origins.append(origin)
                    diagnosis.made.append(call)


def _before(name: str, kind: str, step: int) -> Message:
    """Say that a parameter was bad before the first step that was looked at."""
    if not step:
        return say(
            "the parameter {name} was {kind} before the first step: check how it is created or loaded",
            name=name,
            kind=kind,
        )
    return say(
        "the parameter {name} was {kind} before step {step}, the first that was looked at: look at the steps before it",
        name=name,
        kind=kind,
        step=step,
    )


def _unchanged(root: RootCall) -> bool:
    """Whether a module still has the parameters that it was called with, as far as its first one shows it."""
    return root.parameter is None or root.version == version(root.parameter)


def _input(tensor: Tensor, path: str) -> Origin:
    """Return what a program gave to a model, as an origin."""
    return Origin("input", Where(FORWARD, path, ""), KINDS[worst(tensor)], (), (described(tensor),))


def _why_not(root: RootCall) -> Message | None:
    """Why a call cannot be run again by this rank alone, or None."""
    if root.kwargs is None:
        return say("its keyword arguments are not known")
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    if several and torch.distributed.get_world_size() > 1:
        for module in root.module.modules():
            if isinstance(module, torch.nn.SyncBatchNorm):
                return say("it exchanges statistics between ranks (SyncBatchNorm)")
            if "FullyShardedDataParallel" in type(module).__name__ or "FSDP" in type(module).__name__:
                return say("its parameters are sharded over ranks ({kind})", kind=type(module).__name__)
    return None


# Writes the call that made the first NaN or infinity into a directory, for `torchferry replay`.


def dump_first_call(folder: Path, diagnosis: StepDiagnosis, step: int) -> Path:
    """Write the first call of a diagnosis, cut down to what is still not finite, and return its directory.

    Raises:
        TorchferryError: there is none that can run by itself.
        OSError: the folder cannot be written.
    """
    from torchferry.numerics.callfile.writing import LIMIT, write

    if not diagnosis.made:
        raise TorchferryError(say("no call was found that can run by itself"))
    origin, call = diagnosis.origins[0], diagnosis.made[0]
    if is_higher_order(call.overload):
        raise TorchferryError(say("{name} calls other operators, which were not seen", name=origin.operator))
    return write(
        folder,
        call.overload,
        call.args,
        call.kwargs,
        origin.where,
        {"kind": origin.kind, "tool": "nan"},
        step=step,
        fails=_makes_worse(call),
        limit=LIMIT,
    )


def _makes_worse(call: OperatorCall) -> Callable[[list[Any], dict[str, Any]], bool]:
    """Return what runs a call on other arguments and says whether it still makes NaN or infinities of its own."""
    from torchferry.numerics.callfile.capture import capture
    from torchferry.numerics.callfile.judging import FAIL
    from torchferry.numerics.replay import finiteness

    def fails(args: list[Any], kwargs: dict[str, Any]) -> bool:
        copied = capture(call.overload, args, kwargs)
        return any(judgement.status == FAIL for judgement in finiteness(copied, torch.device(copied.device)))

    return fails
