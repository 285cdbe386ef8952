"""Which dtype: bfloat16, float16 or float32, by what the card computes itself, with the reason."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, NamedTuple

from torchferry.core.messages import Message, say
from torchferry.device.failures import DeviceError, plain
from torchferry.device.names import DescribedDevice, current, find
from torchferry.device.torch_import import torch

ORDER = ("bfloat16", "float16", "float32")
"""The dtypes to choose from, best first."""

NATIVE, EMULATED, LIMITED, MISSING = "native", "emulated", "limited", "missing"


class DtypeVerdict(NamedTuple):
    """What a device does with a dtype.

    Attributes:
        dtype: The dtype.
        state: `native`, `limited` (native, with an exception that `reason` names), `emulated` or `missing`.
        reason: How that is known.
    """

    dtype: torch.dtype
    state: str
    reason: Message


def best(place: DescribedDevice) -> tuple[DtypeVerdict, ...]:
    """Return the verdicts up to the first dtype that the device computes itself, which is the last of them.

    On the CPU it is float32: the others are there, and slower on most processors.
    """
    if not place.facts.namespace and not place.facts.plugin:
        return (
            DtypeVerdict(torch.float32, NATIVE, say("the CPU computes float32 fastest; ask for another by dtype=")),
        )
    verdicts = []
    for name in ORDER:
        verdicts.append(judge(place, getattr(torch, name)))
        if verdicts[-1].state in (NATIVE, LIMITED):
            break
    return tuple(verdicts)


def asked_for(place: DescribedDevice, dtype: torch.dtype | str) -> DtypeVerdict:
    """Return the verdict on the dtype that the user names.

    Raises:
        DeviceError: it is no dtype, or the device does not have it.
    """
    torch_dtype = getattr(torch, dtype.replace("torch.", ""), None) if isinstance(dtype, str) else dtype
    if not isinstance(torch_dtype, torch.dtype):
        raise DeviceError(say("`{value}` is not a dtype of torch", value=dtype))
    verdict = judge(place, torch_dtype)
    if verdict.state == MISSING:
        raise DeviceError(say("{device} has no {dtype}: {reason}", device=place.device, dtype=_name(torch_dtype),
                              reason=verdict.reason))  # fmt: skip
    return verdict._replace(reason=say("it was requested; {reason}", reason=verdict.reason))


def judge(place: DescribedDevice, dtype: torch.dtype) -> DtypeVerdict:
    """Return what the device does with a dtype: by the known facts about it, by the plugin's answer, else by a try."""
    fact = place.facts.dtypes.get(_name(dtype))
    if fact is not None and fact.state in (MISSING, EMULATED):
        return DtypeVerdict(dtype, fact.state, plain(fact.note) if fact.note.en else say("known of {title}: {state}",
                            title=place.facts.title, state=fact.state))  # fmt: skip
    if dtype is torch.bfloat16:
        answer = _plugin_says(place)
        if answer is not None:
            return answer
    verdict = _tried(place, dtype)
    if fact is not None and verdict.state == NATIVE and fact.note.en:
        return verdict._replace(state=LIMITED, reason=plain(fact.note))
    return verdict


def _plugin_says(place: DescribedDevice) -> DtypeVerdict | None:
    """Return what `is_bf16_supported` answers; None where there is no such function."""
    ask = find(place.facts, "is_bf16_supported")
    if ask is None:
        return None
    path = place.facts.name_of("is_bf16_supported").path
    options: dict[str, Any] = {}
    with contextlib.suppress(TypeError, ValueError):  # a function of C may have no signature
        if "including_emulation" in inspect.signature(ask).parameters:
            options = {"including_emulation": False}
    with current(place):
        supported = bool(ask(**options))
    state = NATIVE if supported else MISSING
    return DtypeVerdict(torch.bfloat16, state, say("{path}() is {answer}", path=path, answer=supported))


def _tried(place: DescribedDevice, dtype: torch.dtype) -> DtypeVerdict:
    """Compute a product of small whole numbers, which is exact in every dtype here, and compare it."""
    exact = torch.arange(64, dtype=torch.float32).reshape(8, 8).remainder(5) - 2
    try:
        card = exact.to(dtype).to(place.device)
        product = card.matmul(card)
        right = product.dtype == dtype and torch.equal(product.to("cpu").float(), exact.matmul(exact))
    except Exception as error:  # whatever the plugin raises is the reason
        first = str(error).strip().partition("\n")[0]
        reason = say("a product on the card fails: {error}", error=f"{type(error).__name__}: {first}")
        return DtypeVerdict(dtype, MISSING, reason)
    if not right:
        return DtypeVerdict(dtype, MISSING, say("a product on the card differs from the CPU's"))
    return DtypeVerdict(dtype, NATIVE, say("a product on the card equals the CPU's"))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).replace("torch.", "")
