"""A machine's state as JSON, and two of them compared."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torchferry.core.errors import UsageError
from torchferry.core.files import read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.secrets import masked_variables
from torchferry.doctor.engine import Diagnosis
from torchferry.doctor.report import SCHEMA, document

KIND = "torchferry doctor snapshot"

_LARGEST = 8 << 20
"""Bytes of a snapshot that is read: a real one has less than 100,000."""

_DEEPEST = 12
"""Levels of a snapshot that is read: a real one has 4."""

_TELLING = ("VISIBLE_DEVICES", "LD_LIBRARY_PATH", "PYTHONPATH", "proxy", "PROXY", "AUTOLOAD", "ALLOC_CONF", "_HOME")
"""Parts of the names of variables that are kept."""

_TRANSIENT = ("taken_at", "host", "cards.*.used", "cards.*.temperature", "disk.", "counts.", "results.")
"""What differs between any two moments; it is compared last and not counted."""


def snapshot(diagnosis: Diagnosis, lang: str) -> dict[str, Any]:
    """Return the state of the machine that a diagnosis was made of."""
    context, host = diagnosis.context, diagnosis.context.host
    prefix = context.target.backend.COLLECTIVE.upper()
    variables = {
        name: value
        for name, value in host.environment.items()
        if any(part in name for part in (*_TELLING, f"{prefix}_")) or name in context.requirements.sdk.variables
    }
    places = {path: host.space(path) for path in (host.cwd, "/tmp", "/dev/shm")}  # noqa: S108 - asked about only
    return {
        **document(diagnosis, lang),
        "schema": SCHEMA,
        "kind": KIND,
        "taken_at": datetime.datetime.fromtimestamp(host.now(), datetime.timezone.utc).isoformat(),
        "host": host.hostname,
        "system": {"architecture": host.architecture, "kernel": host.kernel},
        "driver": context.driver_version[0],
        "tool": {"name": str(context.tool_name), "version": context.smi.reading.version},
        "sdk": {"name": context.requirements.sdk.name, "version": context.sdk_version[0]},
        "cards": {
            card.index: {
                "name": card.name,
                "health": card.health,
                "total": card.total,
                "used": card.used,
                "temperature": card.temperature,
            }
            for card in context.cards
        },
        "libraries": {
            name: [f"{file.path} ({file.size} bytes)" for file in files if file.on_path]
            for name, files in context.library_files.items()
        },
        "python": {
            "version": context.python.version,
            "torch": dict(context.python.torch or {}),
            "distributions": dict(sorted((context.python.distributions or {}).items())),
        },
        "environment": dict(sorted(masked_variables(variables).items())),
        "limits": {name: list(pair) for name, pair in host.limits().items()},
        "disk": {path: space.free >> 30 for path, space in places.items() if space is not None},
        "status": {result.code: result.status.value for result in diagnosis.results},
    }


def load(path: Path) -> dict[str, Any]:
    """Return a snapshot.

    Raises:
        UsageError: the file is no snapshot, or not one of this version; it says why.
    """
    try:
        text = read_text(path, _LARGEST)
    except OSError as error:
        raise _refused(path, say("{error}", error=error.strerror)) from None
    except UnicodeDecodeError:
        raise _refused(path, say("it is not UTF-8")) from None
    try:
        state = parsed_json(text, parse_constant=_no_number, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _refused(path, say("it is not JSON: {error}", error=str(error)[:200])) from None
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise _refused(path, say("it was not written by `torchferry doctor snapshot`"))
    if type(state.get("schema")) is not int or state["schema"] != SCHEMA:
        raise _refused(
            path,
            say(
                "its schema is {schema}, but this torchferry reads {known}",
                schema=repr(state.get("schema"))[:40],
                known=SCHEMA,
            ),
        )
    _checked(path, state, 0)
    return state


class SnapshotDifference(NamedTuple):
    """One value that differs. `first` and `second` are empty where it is absent; `passing` where it always differs."""

    name: str
    first: str
    second: str
    passing: bool


def compare(first: dict[str, Any], second: dict[str, Any]) -> list[SnapshotDifference]:
    """Return what differs, what stays put first."""
    before, after = dict(_flat(first)), dict(_flat(second))
    differences = [
        SnapshotDifference(name, before.get(name, ""), after.get(name, ""), _passing(name))
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]
    return sorted(differences, key=lambda item: item.passing)


def _passing(name: str) -> bool:
    for pattern in _TRANSIENT:
        head, star, tail = pattern.partition("*")
        if name.startswith(head) and (not star or name.endswith(tail)):
            return True
    return False


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if not name and key == "results":
                continue  # `status` has what matters of them, and their texts may be in two languages
            yield from _flat(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value))
    else:
        yield name, "-" if value is None else str(value)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key occurs twice")
    return values


def _checked(path: Path, value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise _refused(
            path,
            say_plural("it is nested more than {count} level", "it is nested more than {count} levels", count=_DEEPEST),
        )
    if isinstance(value, dict):
        for item in value.values():
            _checked(path, item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _checked(path, item, depth + 1)


def _refused(path: Path, why: Message) -> UsageError:
    return UsageError(
        say("{path} is not a snapshot that can be compared: {why}", path=path, why=why),
        say("write one on each machine: torchferry doctor snapshot > NAME.json"),
    )
