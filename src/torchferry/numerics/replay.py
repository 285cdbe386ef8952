"""Replay: a call of an operator as a small directory, from which it can be run again anywhere.

`write` leaves the inputs, the call, what it ran in and what was found, and a pytest file that needs torch alone;
`read` and `run` take it up again. Nothing in such a directory is trusted, and there is no pickle.
A replayed call is judged as `torchferry compare` judges one of a program; a call that fails there is written from here.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.core.errors import TorchferryError, UsageError, unknown_name
from torchferry.core.messages import Message, say, say_in
from torchferry.numerics.callfile.building import Builder, Done, called
from torchferry.numerics.callfile.capture import capture
from torchferry.numerics.callfile.environment import place
from torchferry.numerics.callfile.judging import FAIL, PASS, UNTESTED, ReplayVerdict, judged
from torchferry.numerics.callfile.pickled_dump import SUFFIX, operator_of, read_dump
from torchferry.numerics.callfile.reading import LARGEST, Call, Refused, find, read_call
from torchferry.numerics.callfile.writing import LIMIT, save, write
from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.judge import Judge
from torchferry.numerics.compare.sampling import applies
from torchferry.numerics.compare.snapshot import ComparedCall, DeviceResult, Untestable, fetch, take
from torchferry.numerics.compare.standards import JUDGES, short
from torchferry.numerics.compare.verdict import ErrorMeasures, ResultVerdict, Status
from torchferry.numerics.framework.attribution import OUTSIDE
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import argument, operator, tensors
from torchferry.numerics.framework.statistics import FINITE, KINDS, kind_of, statistics

__all__ = [
    "FAIL",
    "LIMIT",
    "PASS",
    "STANDARDS",
    "UNTESTED",
    "Call",
    "Refused",
    "ReplayVerdict",
    "capture",
    "compare_for_single_op",
    "judge",
    "nan_inf_track_for_single_op",
    "read",
    "run",
    "save",
    "write",
]


def read(folder: Path, device: str = "") -> Call:
    """Read what `write` left, or the pickled inputs of an operator that a vendor's tool left.

    Args:
        folder: The folder, or the file of such a tool, `torch.ops.aten.addmm_inputs.pkl`.
        device: The device that the call is to run on, which such a file does not say.

    Raises:
        TorchferryError: it is not that, or was cut or changed; says where.
    """
    if _is_pickled(folder):
        return _pickled(folder, None, device)
    try:
        return read_call(folder)
    except Refused as refused:
        raise TorchferryError(
            _error(refused, folder).message,
            say("give a complete folder that `torchferry compare --dump` or `torchferry nan --dump` wrote"),
        ) from None


def _is_pickled(path: Path) -> bool:
    return path.suffix == SUFFIX and path.is_file()


def _pickled(path: Path, overload: Any, device: str) -> Call:
    """Return the call of a pickled dump, which is read as data.

    Raises:
        TorchferryError: it is no such dump, or nobody says where it is to run.
    """
    if not device:
        raise TorchferryError(
            say("{path} is not replayed: it does not say on which device the call ran", path=path),
            say("name the device with `--device`, such as the card's, or `--device cpu`"),
        )
    try:
        return read_dump(path, overload, device)
    except Refused as refused:
        raise TorchferryError(
            say("{path} is not replayed: {why}", path=path, why=refused.message),
            say("find the call again with `torchferry compare --dump`, which writes a folder without a pickle"),
        ) from None


def run(call: Call, device: str | torch.device = "cpu") -> list[Tensor]:
    """Run a call on a device and return what it made: arguments that it wrote to, then results of their own.

    Raises:
        TorchferryError: the call cannot be made from what is written.
        Exception: whatever the operator raises.
    """
    try:
        return called(call, torch.device(device)).made
    except Refused as refused:
        raise _error(refused) from None


def judge(call: Call, device: str | torch.device, standard: str = "ours") -> list[ReplayVerdict]:
    """Run a call on a device and judge what it made by the CPU, as `torchferry compare` does.

    Args:
        call: What was read.
        device: Where.
        standard: The standard to judge by: one that `torchferry compare` knows.

    Raises:
        UsageError: there is no such standard.
        TorchferryError: the call cannot be made from what is written.
        Exception: whatever the operator raises on the device.
    """
    if standard not in STANDARDS:
        raise unknown_name("standard", standard, STANDARDS)
    place = torch.device(device)
    try:
        return judge_written_call(call, place, called(call, place), standard)
    except Refused as refused:
        raise _error(refused) from None


def _error(refused: Refused, folder: Path | None = None) -> TorchferryError:
    if folder is None:
        return TorchferryError(say("the call is not replayed: {why}", why=refused.message))
    return TorchferryError(say("{path} is not replayed: {why}", path=folder, why=refused.message))


Answer = tuple[bool, list[Any], dict[str, Any], Any]
"""Whether it was right, the arguments, the keyword arguments, what the operator returned."""


def compare_for_single_op(
    path: str | Path,
    op: Any = None,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    device: str = "",
) -> Answer:
    """Run the operator of a directory on a device and compare it with the CPU.

    Args:
        path: The directory that was written, or the pickled inputs that a vendor's tool left.
        op: Another operator to run on the same arguments, `torch.ops.aten.addmm`; without it, the written one.
        atol: Absolute tolerance; without `atol` and `rtol` the result is judged by what its dtype can hold.
        rtol: Relative tolerance.
        device: Where; without it, the device that the call was written on.

    Raises:
        TorchferryError: the directory cannot be replayed, or its device is not here.
    """
    call, where = _opened(path, op, device)
    try:
        done = called(call, where)
        if atol is None and rtol is None:
            judgements = judge_written_call(call, where, done, "ours")
            return (
                bool(judgements) and all(judgement.status == PASS for judgement in judgements),
                done.args,
                done.kwargs,
                done.out,
            )
        reference = _reference(call)
    except Refused as refused:
        raise TorchferryError(say("{path} is not replayed: {why}", path=path, why=refused.message)) from None
    right = len(done.made) == len(reference) and all(
        _close(result, other, atol or 0.0, rtol or 0.0) for result, other in zip(done.made, reference, strict=True)
    )
    return right, done.args, done.kwargs, done.out


def nan_inf_track_for_single_op(path: str | Path, op: Any = None, *, device: str = "") -> Answer:
    """Run the operator of a directory on a device; it is right where it makes no NaN or Inf of its own.

    What was NaN or Inf in the arguments already may be so in the results.

    Raises:
        TorchferryError: the directory cannot be replayed, or its device is not here.
    """
    call, where = _opened(path, op, device)
    try:
        done = called(call, where)
        before = max(map(kind_of, inputs(call, where)), default=FINITE)
        after = max(map(kind_of, done.made), default=FINITE)
    except Refused as refused:
        raise TorchferryError(say("{path} is not replayed: {why}", path=path, why=refused.message)) from None
    return after <= before, done.args, done.kwargs, done.out


def finiteness(call: Call, device: torch.device) -> list[ReplayVerdict]:
    """Judge each result by whether it has NaN or Inf that no argument had.

    Raises:
        Refused: the call cannot be made from what is written.
        Exception: whatever the operator raises.
    """
    before = max(map(kind_of, inputs(call, device)), default=FINITE)
    judgements = []
    for index, result in enumerate(called(call, device).made):
        held = statistics(result)
        what = say("result {n}, {dtype}{shape}", n=index, dtype=held.dtype, shape=list(held.shape))
        if kind_of(result) > before:
            why = say(
                "{nan} NaN and {inf} Inf that the arguments do not have; the arguments are {kind}",
                nan=held.nan,
                inf=held.inf,
                kind=KINDS[before],
            )
            judgements.append(ReplayVerdict(FAIL, what, why))
        elif before != FINITE:
            judgements.append(
                ReplayVerdict(
                    PASS,
                    what,
                    say("no NaN or Inf that the arguments do not have; the arguments have {kind}", kind=KINDS[before]),
                )
            )
        else:
            judgements.append(ReplayVerdict(PASS, what, say_in("judgement", "finite")))
    return judgements


def inputs(call: Call, device: torch.device) -> list[Tensor]:
    """Return the tensors of a call as they are before it runs."""
    builder = Builder(call, device)
    document = call.document
    return [
        tensor for node in (*document["args"], *document["kwargs"].values()) for tensor in tensors(builder.value(node))
    ]


def _reference(call: Call) -> list[Tensor]:
    """Return what the CPU makes of a call in higher precision, or in the same one where it cannot."""
    cpu = torch.device("cpu")
    try:
        return called(call, cpu, wider=True).made
    except (RuntimeError, TypeError, Refused):
        return called(call, cpu).made


def _opened(path: str | Path, op: Any, device: str) -> tuple[Call, torch.device]:
    folder = Path(path)
    if _is_pickled(folder):
        call = _pickled(folder, None if op is None else _overload(op, operator_of(folder)[1]), device)
        return call, place(call, device)
    try:
        call = read_call(folder if folder.is_dir() else folder.parent)
    except Refused as refused:
        raise TorchferryError(say("{path} is not replayed: {why}", path=path, why=refused.message)) from None
    if op is not None:
        _exchange(call, op)
    return call, place(call, device)


def _exchange(call: Call, op: Any) -> None:
    """Take another operator."""
    schema = _overload(op, call.overload)._schema
    call.document["operator"], call.document["overload"] = schema.name, schema.overload_name


def _overload(op: Any, written: str) -> Any:
    """Return an overload: of a packet, the one that is written, or the default one.

    Raises:
        UsageError: it is no operator of torch.
    """
    if isinstance(op, torch._ops.OpOverloadPacket):
        names = op.overloads()
        op = getattr(op, written if written in names else names[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise UsageError(
            say("{op} is not an operator", op=op), say("give one of torch.ops, such as torch.ops.aten.addmm")
        )
    return op


def _close(result: Tensor, reference: Tensor, atol: float, rtol: float) -> bool:
    """Compare with a reference of higher precision; NaN is equal to NaN, integers and bools must be equal."""
    if result.shape != reference.shape:
        return False
    got = result.cpu()
    if not (got.is_floating_point() or got.is_complex()):
        return torch.equal(got, reference)
    return torch.allclose(got.to(reference.dtype), reference, rtol=rtol, atol=atol, equal_nan=True)


# Judge a replayed call as `torchferry compare` judges one of a program: by the same standards, in the same words.


STANDARDS = tuple(JUDGES)

_AS_THEY_ARE = frozenset({OpKind.VIEW, OpKind.ALLOCATE, OpKind.BOOKKEEP})
"""Kinds of operators that a comparison leaves out, and that make values which can be looked at all the same."""


def judge_written_call(call: Call, device: torch.device, done: Done, standard: str) -> list[ReplayVerdict]:
    """Judge what a device made of a call.

    Args:
        call: What was read.
        device: Where it was run.
        done: What came of it.
        standard: One of `STANDARDS`.
    """
    op = operator(find(call.name, call.overload))
    here = device.type == "cpu" and call.document["draws"] and "cpu" in call.document["random"]
    if op.kind in _AS_THEY_ARE or here:
        return judged(call, device, done.made)
    builder = Builder(call, torch.device("cpu"))
    args = tuple(builder.value(node) for node in call.document["args"])
    kwargs = {str(key): builder.value(node) for key, node in call.document["kwargs"].items()}
    written = sum(1 for place in op.written for _ in tensors(argument(place, args, kwargs, None)))
    lists = tolerances.is_elementwise_list(op) and applies(op, args)
    slots = tuple(slot for slot, _ in op.numbered(done.args, done.kwargs, done.out))
    try:
        comparable = ComparedCall(
            number=0,
            operator=op,
            where=OUTSIDE,
            step=0,
            device=str(device),
            snapshot=take(args, kwargs, 2 * LARGEST),
            results=[_result(result) for result in done.made],
            owners=list(range(len(args[0]))) if lists else None,
            written=written,
            slots=slots if len(slots) == len(done.made) else (),
            shape=tuple(done.made[0].shape) if done.made else (),
            dtype=str(done.made[0].dtype).removeprefix("torch.") if done.made else "",
        )
        judged_results = Judge(standard).verdicts(comparable)
    except Untestable as error:
        return [ReplayVerdict(UNTESTED, say("all results"), error.reason)]
    one_each = len(judged_results) == len(done.made)
    return [_told(verdict, index if one_each else -1) for index, verdict in enumerate(judged_results)]


def _result(tensor: Tensor) -> DeviceResult:
    return DeviceResult(fetch(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _told(verdict: ResultVerdict, index: int) -> ReplayVerdict:
    what = say("all results")
    if index >= 0:
        what = say("result {n}, {dtype}{shape}", n=index, dtype=verdict.dtype, shape=list(verdict.shape))
    figures = None if verdict.measures is None else _figures(verdict.measures)
    why = verdict.reason
    if why is None:
        why = figures or say_in("judgement", "equal")
    elif figures is not None and verdict.status is not Status.UNTESTED:
        why = say("{reason}; {figures}", reason=why, figures=figures)
    ratio = verdict.measures.rmse_ratio if verdict.measures is not None else None
    return ReplayVerdict(verdict.status.value, what, why, math.nan if ratio is None else ratio)


def _figures(measures: ErrorMeasures) -> Message:
    """Return the figures that each of the standards asks for, so that all who read them find theirs."""
    return say(
        "largest error {error}, {ulp} ULP; RMSE {rmse}, MERE {mere}, MARE {mare}, cosine {cosine}",
        error=short(measures.max_abs),
        ulp=short(measures.ulp),
        rmse=short(measures.rmse),
        mere=short(measures.mean_rel),
        mare=short(measures.max_rel),
        cosine=f"{measures.cosine:.6f}",
    )


def dump_call(folder: Path, call: ComparedCall, verdict: ResultVerdict, standard: str) -> Path:
    """Write a call, cut down to what still fails by the standard, and return its directory.

    Raises:
        TorchferryError: it cannot be replayed.
        OSError: the folder cannot be written.
        RuntimeError, MemoryError: the device or the host is in no state for it.
    """
    overload, device = call.operator.overload, torch.device(call.device)

    def fails(args: list[Any], kwargs: dict[str, Any]) -> bool:
        smaller = capture(overload, args, kwargs, device=call.device)
        return any(
            judgement.status == Status.FAIL.value
            for judgement in judge_written_call(smaller, device, called(smaller, device), standard)
        )

    args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
    return write(
        folder,
        overload,
        args,
        kwargs,
        call.where,
        {"status": verdict.status.value, "reason": str(verdict.reason or ""), "step": call.step},
        step=call.step,
        device=call.device,
        fails=None if standard == "given" else fails,
    )
