"""What was found in a package, as sentences."""

from __future__ import annotations

from torchferry.core.messages import Message, say
from torchferry.installed.model import Evidence, Inspected, PlaceNeed, State


def state_message(state: State) -> Message:
    """Return a state in a few words."""
    match state:
        case State.HOST:
            return say("needs no card")
        case State.FOLLOWS:
            return say("uses the device that it is given")
        case State.CHOOSES:
            return say("chooses CUDA itself")
        case State.KERNELS:
            return say("has CUDA kernels")
        case State.KNOWS:
            return say("supports the target")
        case State.UNREAD:
            return say("could not be read")


def evidence_message(evidence: Evidence) -> Message:
    """Return what is at a place and what it means, the place first."""
    place = f"{evidence.path}:{evidence.line}" if evidence.line else evidence.path
    subject, where = evidence.what, evidence.where
    match evidence.need:
        case PlaceNeed.COMPILED:
            return say("{place} is compiled for CUDA ({what})", place=place, what=subject)
        case PlaceNeed.SOURCE:
            return say("{place} is CUDA code that is compiled when it is used ({what})", place=place, what=subject)
        case PlaceNeed.TRITON:
            return say("{place}: `{what}` is a Triton kernel", place=place, what=subject)
        case PlaceNeed.IMPORT:
            return say("{place}: {what} runs when the module is imported", place=place, what=subject)
        case PlaceNeed.DEFAULT if evidence.parameter:
            return say(
                "{place}: {what} is the default; give `{parameter}`", place=place, what=subject, parameter=where or "?"
            )
        case PlaceNeed.DEFAULT:
            return say("{place}: {what} is the default", place=place, what=subject)
        case PlaceNeed.CALL:
            return say("{place}: `{where}` uses {what} whatever it is given", place=place, where=where, what=subject)
        case PlaceNeed.QUESTION:
            return say(
                "{place}: `{where}` refuses tensors that are not on CUDA ({what})",
                place=place,
                where=where,
                what=subject,
            )
        case PlaceNeed.COLLECTIVE:
            return say("{place}: the collective backend is {what} by name", place=place, what=subject)
        case PlaceNeed.CHOICE:
            return say("{place}: CUDA where it is available, else the CPU, and no other card", place=place)
        case PlaceNeed.GENERATORS:
            return say(
                "{place}: `{where}` keeps the states of random generators of {devices}, not of the card: a resumed "
                "run draws other numbers",
                place=place,
                where=where,
                devices=subject,
            )
        case PlaceNeed.TARGET:
            return say("{place} names the target ({what})", place=place, what=subject)


def package_message(inspected: Inspected) -> Message:
    """Return the first reason for a package's state."""
    if inspected.state is State.UNREAD or (inspected.problem is not None and not inspected.evidence):
        if inspected.problem is not None:
            return inspected.problem
        path, why = next(iter(inspected.unread), ("", say("its files could not be read")))
        return say("{path}: {reason}", path=path, reason=why)
    if inspected.import_fails is not None:
        return say("its import fails without CUDA: {reason}", reason=evidence_message(inspected.import_fails))
    if not inspected.evidence:
        return state_message(inspected.state)
    return evidence_message(inspected.evidence[0])
