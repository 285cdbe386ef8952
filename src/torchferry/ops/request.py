"""What a vendor is asked for: the operators that are missing or wrong, with all that a run shows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import Message, say, translatable
from torchferry.core.record import NamedTuple
from torchferry.core.secrets import masked_command
from torchferry.ops.call_code import call_code
from torchferry.ops.judging import COPIED, JudgedOperator, consequence, judge
from torchferry.ops.listfile import read_document
from torchferry.ops.lists import OperatorList
from torchferry.ops.needs import FORMAT, PREDICT, OperatorNeed, RunNeeds, from_document

LACKING, EXTENDED = "missing", "extended"
"""Kinds of requests: an interface that does not exist, and one whose results or dtypes do not suffice."""

_FORCED = translatable("registered, and computed on the CPU")

_MOST_PLACES = 4


class OperatorTime(NamedTuple):
    """What a trace says of one operator, for one step; a trace that marks no steps is one step.

    Attributes:
        calls: How often it is called.
        time: Nanoseconds that it takes, with all that it calls; None where the times of the trace say nothing.
        step: Nanoseconds of the step.
        of_host: Whether `time` is the host's, which waited for it; else it is that of the device's work.
        shapes: Shapes of its inputs as the trace has them, where none of them is one that the run shows; else empty.
    """

    calls: float
    time: float | None
    step: float
    of_host: bool
    shapes: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """Return the part of the step, from 0 to 1; None where it was not measured."""
        return None if self.time is None else min(self.time / self.step, 1.0)


class RequestItem(NamedTuple):
    """One operator that is asked for.

    Attributes:
        need: What a run needs of it.
        kind: `LACKING` or `EXTENDED`.
        found: What happens with it today.
        places: Lines of the program, `file:line`, where they are known.
        code: A program that makes the call on the device and on the CPU; empty where none can be made.
        folder: A folder of `compare --dump` that holds a call; empty for none.
        time: What a trace says of it; None where no trace was given, or where it has no call of the operator.
    """

    need: OperatorNeed
    kind: str
    found: Message
    places: tuple[str, ...] = ()
    code: str = ""
    folder: str = ""
    time: OperatorTime | None = None


class Requested(NamedTuple):
    """All that is asked for, and the run that shows it.

    Attributes:
        items: The operators.
        command: What ran; empty for a single call.
        torch: The torch that it ran with.
        trace: What the trace is that the times are from, and what a reader must know of it; empty without a trace.
        without_card: Whether no card was used for the run, as far as its file says; False where that is not known.
    """

    items: tuple[RequestItem, ...]
    command: str
    torch: str
    trace: tuple[Message, ...] = ()
    without_card: bool = False


def requested(path: Path, known: OperatorList, plugin: str, device: str, only: Collection[str] = ()) -> Requested:
    """Return what a file or folder shows of operators to ask for.

    Args:
        path: What `ops trace`, `ops predict` or `rehearse --summary-file` wrote, or a folder of `compare --dump`.
        known: What the target's plugin registers.
        plugin: The plugin's package.
        device: Type of the device.
        only: Operators that are asked for, with or without overload; empty for all that are missing or on the CPU.

    Raises:
        TorchferryError: the file is damaged or of another kind.
        UsageError: nothing is missing, or nobody knows what is and `only` is empty.
    """
    if path.is_dir():
        found = _of_folder(path, known)
    else:
        document = read_document(path)
        if isinstance(document, dict) and document.get("rehearsal") is True:
            found = _of_rehearsal(document, path, known)
        elif isinstance(document, dict) and document.get("format") == FORMAT:
            return of_run(from_document(document, str(path)), known, plugin, device, only)
        else:
            raise TorchferryError(
                say("{path} has no list of operators", path=path),
                say(
                    "name a file that `ops trace`, `ops predict` or `rehearse --summary-file` wrote, or a folder of "
                    "`compare --dump`"
                ),
            )
    items = _chosen(found.items, only)
    if not items:
        raise _nothing(known, bool(only))
    return found._replace(items=items)


def made_for(path: Path) -> str:
    """Return the target of a run, with its version where the file has it; empty for a folder and for any other file."""
    document = {} if path.is_dir() else read_document(path)
    target = document.get("target") if isinstance(document, dict) else None
    if not isinstance(target, str):
        return ""  # the file has another fault as well, which `requested` says
    version = document.get("plugin_version", "") if document.get("rehearsal") is True else ""
    return target if "@" in target or not isinstance(version, str) else f"{target}@{version}".rstrip("@")


def of_run(run: RunNeeds, known: OperatorList, plugin: str, device: str, only: Collection[str] = ()) -> Requested:
    """Return what a run shows of operators to ask for; the arguments are those of `requested`."""
    judged = judge(run.operators, known, run.device)
    wanted = [each for each in judged if (_is_named(each.need.name, only) if only else each.support in COPIED)]
    if not wanted:
        raise _nothing(known, bool(only))
    items = tuple(_of_judged(each, known, plugin, device) for each in wanted)
    without_card = run.how == PREDICT or bool(run.target)  # a trace for a target is made on the simulated card
    return Requested(items, " ".join(run.command), run.torch, without_card=without_card)


def _of_judged(judged: JudgedOperator, known: OperatorList, plugin: str, device: str) -> RequestItem:
    if judged.support == "forced":
        kind, found = EXTENDED, say(_FORCED)
    elif judged.support == "missing":
        kind, found = LACKING, consequence(known)
    elif judged.support == "unknown":
        kind, found = LACKING, say("no list says whether the plugin has it")
    else:
        kind, found = EXTENDED, say("the plugin has it")
    return RequestItem(judged.need, kind, found, code=call_code(judged.need, plugin, device))


def _nothing(known: OperatorList, named: bool) -> UsageError:
    if named:
        return UsageError(
            say("the run has none of the operators that --operator names"),
            say("`ops report -v` lists the operators of a run"),
        )
    if known.registered is None:
        return UsageError(
            say("no list says which operators {plugin} lacks", plugin=known.plugin),
            say("name the operators to request: --operator aten::NAME"),
        )
    return UsageError(
        say("no operator of the run is missing or runs on the CPU: there is nothing to request"),
        say("request an operator by its name with --operator aten::NAME"),
    )


def _is_named(name: str, only: Collection[str]) -> bool:
    """Whether an operator is one that a person names: also by torch's own name, of which it is the inner operator.

    `torch.linalg.svd` and `aten::linalg_svd` are `aten::_linalg_svd` in every run.
    """
    full = {_operator_name(each) for each in only}
    space, _, own = name.partition("::")
    public = f"{space}::{own.lstrip('_')}"
    return any(each in full or each.partition(".")[0] in full for each in (name, public))


def _operator_name(given: str) -> str:
    """Return the name of an operator as a run has it: `torch.ops.aten.addmm`, `torch.linalg.svd` and `addmm` too."""
    if "::" in given:
        return given
    if given.startswith("torch.ops."):
        space, _, rest = given.removeprefix("torch.ops.").partition(".")
        return f"{space}::{rest}"
    if given.startswith("torch."):
        own = given.removeprefix("torch.").removeprefix("nn.functional.").removeprefix("special.")
        return f"aten::{own.replace('.', '_')}"
    return f"aten::{given}"


def _chosen(items: Iterable[RequestItem], only: Collection[str]) -> tuple[RequestItem, ...]:
    return tuple(item for item in items if not only or _is_named(item.need.name, only))


_KINDS = {"missing-operator": LACKING, "fallback": LACKING, "missing-dtype": EXTENDED}


def _of_rehearsal(document: dict[str, Any], path: Path, known: OperatorList) -> Requested:
    """Return the operators that a rehearsal's card refused or ran on the CPU."""
    calls: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, str], dict[str, None]] = {}
    details: dict[tuple[str, str], str] = {}
    try:
        if document["target"].partition("@")[0] != known.target:
            raise TorchferryError(
                say("{path} is a rehearsal of {target}, not of {wanted}",
                    path=path, target=document["target"], wanted=known.target),
                say("rehearse the program again with `--target {wanted}`", wanted=known.target),
            )  # fmt: skip
        for event in document["events"]:
            kind = _KINDS.get(event["kind"])
            if kind is None or "::" not in event["subject"]:
                continue
            key = event["subject"], kind
            calls[key] = calls.get(key, 0) + int(event["times"])
            details[key] = str(event["detail"])
            if event["file"]:
                places.setdefault(key, {})[f"{event['file']}:{event['line']}"] = None
        command = " ".join(masked_command([str(word) for word in document["command"]]))
        torch = str(document.get("torch", "")).partition("+")[0]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TorchferryError(
            say("{path} is damaged: {error}", path=path, error=f"{type(error).__name__}: {error}"[:200])
        ) from None
    forced = known.table.forced_on(known.card)
    items = []
    for (name, kind), number in sorted(calls.items(), key=lambda pair: -pair[1]):
        found, asked = consequence(known), kind
        if kind == EXTENDED and details[name, kind]:
            found = say("the card lacks the dtype {dtype}", dtype=details[name, kind])
        elif name.removeprefix("aten::") in forced:
            found, asked = say(_FORCED), EXTENDED
        where = tuple(places.get((name, kind), ()))[:_MOST_PLACES]
        items.append(RequestItem(OperatorNeed(name, number), asked, found, where))
    return Requested(tuple(items), command, torch, without_card=True)


def _of_folder(folder: Path, known: OperatorList) -> Requested:
    """Return the operator of a folder that `compare --dump` or `nan --dump` wrote."""
    document = read_document(folder / "call.json")
    try:
        name = f"{document['operator']}.{document['overload']}".rstrip(".")
        described = [
            f"{row['dtype']}[{','.join(str(int(each)) for each in row['shape'])}]" for row in document["tensors"]
        ]
        where = document.get("where") or {}
        need = OperatorNeed(
            name,
            1,
            modules={str(where["module"]): 1} if where.get("module") else {},
            phases={str(where["phase"]): 1} if where.get("phase") else {},
            dtypes=tuple(sorted({str(row["dtype"]) for row in document["tensors"]})),
            shapes={", ".join(described): 1},
            schema=str(document.get("schema", "")),
        )
        torch = str((document.get("environment") or {}).get("torch", "")).partition("+")[0]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TorchferryError(
            say("{path} is damaged: {error}", path=folder / "call.json", error=f"{type(error).__name__}: {error}"[:200])
        ) from None
    item = RequestItem(need, EXTENDED, say("its result is wrong; the attached folder has the call"), folder=folder.name)
    return Requested((item,), "", torch)
