"""Launches that a rehearsal recorded, read from the summary that `rehearse --summary-file` wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.shape import checked
from torchferry.triton.model import DTYPE, SCALAR, TENSOR, VALUE, KernelArgument, ProjectKernel, Signature
from torchferry.triton.signatures import DTYPE_OF_TORCH, DTYPES, SCALARS

_LARGEST = 1 << 27
_ARGUMENT = {"name": str, "kind": str, "type?": str, "aligned?": bool, "value?": object}
_LAUNCH = {
    "kernel": str, "file": str, "line": int, "place_file": str, "place_line": int, "times": int,
    "arguments": [_ARGUMENT],
}  # fmt: skip
_SUMMARY = {"triton_launches": [_LAUNCH], "triton_launches_left_out?": int}


class RecordedLaunches(NamedTuple):
    """What a rehearsal recorded.

    Attributes:
        launches: The launches, as the summary has them.
        left_out: How many kinds of launches it did not record.
    """

    launches: tuple[dict[str, Any], ...]
    left_out: int


def read_launches(path: Path) -> RecordedLaunches:
    """Read the launches of a summary.

    Raises:
        TorchferryError: it cannot be read, or has none.
    """
    try:
        document = checked(parsed_json(read_regular(path, _LARGEST)), _SUMMARY)
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error.strerror or error)) from None
    except ValueError as error:
        raise TorchferryError(
            say("{path} holds no launches of Triton kernels: {error}", path=path, error=error),
            say("write it with `torchferry rehearse -t NAME --summary-file FILE -- COMMAND`"),
        ) from None
    return RecordedLaunches(tuple(document["triton_launches"]), document.get("triton_launches_left_out", 0))


def recorded_signatures(
    launches: Iterable[dict[str, Any]], kernels: Iterable[ProjectKernel], root: Path
) -> tuple[dict[tuple[str, str], list[Signature]], list[str]]:
    """Return the signatures of launches by kernel, and the names of kernels that these files do not have.

    Args:
        launches: As `read_launches` returns them.
        kernels: The kernels of the project.
        root: The folder that their paths are relative to.
    """
    by_place: dict[tuple[str, str], ProjectKernel] = {}
    by_name: dict[str, list[ProjectKernel]] = {}
    for each in kernels:
        by_place[os.path.realpath(root / each.path), each.name] = each
        by_name.setdefault(each.name, []).append(each)
    found: dict[tuple[str, str], list[Signature]] = {}
    others: dict[str, None] = {}
    for launch in launches:
        kernel: ProjectKernel | None = by_place.get((os.path.realpath(launch["file"]), launch["kernel"]))
        if kernel is None and len(by_name.get(launch["kernel"], ())) == 1:
            kernel = by_name[launch["kernel"]][0]  # the rehearsal ran another copy of the project
        if kernel is None:
            others[launch["kernel"]] = None
        else:
            found.setdefault(kernel.key, []).append(_signature(launch, kernel, root))
    return found, list(others)


def _signature(launch: dict[str, Any], kernel: ProjectKernel, root: Path) -> Signature:
    place = os.path.realpath(launch["place_file"]) if launch["place_file"] else "?"
    if place.startswith(os.path.realpath(root) + os.sep):
        place = os.path.relpath(place, os.path.realpath(root))
    given = {each["name"]: each for each in launch["arguments"]}
    arguments: list[KernelArgument] = []
    unknown: list[str] = []
    for parameter in kernel.parameters:
        if parameter.name not in given:
            if parameter.default is None and parameter.name not in kernel.tuned:
                unknown.append(parameter.name)
            continue
        if parameter.name in kernel.tuned:
            continue
        argument = _argument(given[parameter.name])
        if argument is None:
            unknown.append(parameter.name)
        else:
            arguments.append(argument)
    origin = say("a recorded launch in {path}:{line}", path=place, line=launch["place_line"])
    return Signature(tuple(arguments), (), origin, tuple(unknown))


def _argument(given: dict[str, Any]) -> KernelArgument | None:
    name, kind, kind_type = given["name"], given["kind"], given.get("type", "")
    if kind == TENSOR:
        dtype = DTYPE_OF_TORCH.get(kind_type, kind_type)
        return KernelArgument(name, TENSOR, dtype, is_aligned=given.get("aligned", True)) if dtype in DTYPES else None
    value = given.get("value")
    if kind == SCALAR and kind_type in SCALARS:
        if value == 1:
            return KernelArgument(name, VALUE, value=1)  # Triton makes a constant of it
        return KernelArgument(name, SCALAR, kind_type, value if type(value) is int else None)
    if kind == DTYPE and kind_type.isidentifier():
        return KernelArgument(name, DTYPE, kind_type)
    is_plain = isinstance(value, (bool, int, float, str, type(None)))
    return KernelArgument(name, VALUE, value=value) if kind == VALUE and is_plain else None
