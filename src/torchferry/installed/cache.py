"""What was found in packages, kept in the user's cache: plain JSON, checked when it is read.

A file is found by a hash of all that its content depends on: the distribution and its list of files, the target, and
this room's own source. What is no such document, or is not this user's, is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.backends.target import Target
from torchferry.core import env
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message
from torchferry.core.result_cache import ResultCache
from torchferry.installed.distributions import Distribution
from torchferry.installed.facts import DistributionFacts, ModuleImport
from torchferry.installed.model import Evidence, PlaceNeed

_LONGEST = 4096


class Cache:
    """A folder of results.

    Args:
        folder: Where it lies; None for `installed` in the user's cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._results = ResultCache(folder or env.cache_folder() / "installed")

    def load(self, distribution: Distribution, package: str, target: Target) -> DistributionFacts | None:
        """Return what was found in a package before, or None."""
        data = self._results.read(_key(distribution, package, target))
        try:
            return None if data is None else _facts(parsed_json(data))
        except (ValueError, RecursionError):
            return None

    def store(self, distribution: Distribution, package: str, target: Target, facts: DistributionFacts) -> None:
        """Keep what was found; a folder that cannot be written is no error, since the next run only takes longer."""
        data = json.dumps(_document(facts), separators=(",", ":")).encode()
        self._results.write(_key(distribution, package, target), data)


def _key(distribution: Distribution, package: str, target: Target) -> str:
    """Return the hash of all that what is found in a package depends on."""
    parts = (
        __version__,
        _own_source(),
        distribution.name,
        distribution.version,
        distribution.digest,
        package,
        str(target),
        *target.words,
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


@lru_cache(maxsize=1)
def _own_source() -> str:
    """Return a hash of the modules that look into packages: what they say changes with them."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        with suppress(OSError):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _document(facts: DistributionFacts) -> dict[str, Any]:
    return {
        "evidence": [
            [item.need.value, item.path, item.line, item.where, item.what, item.parameter, item.optional]
            for item in facts.evidence
        ],
        "counts": {need.value: count for need, count in facts.counts.items()},
        "python": facts.python,
        "torch": facts.torch,
        "unread": [
            [path, why.template, [list(value) for value in why.values], why.singular] for path, why in facts.unread
        ],
        "unread_count": facts.unread_count,
        "imports": {
            module: [[item.module, item.line] for item in imports] for module, imports in facts.imports.items()
        },
    }


def _facts(document: Any) -> DistributionFacts:
    """Return what a document says.

    Raises:
        ValueError: it is not one that `_document` makes.
    """
    table = _of(document, dict)
    return DistributionFacts(
        [_evidence(row) for row in _of(table.get("evidence"), list)],
        {PlaceNeed(key): _number(count) for key, count in _of(table.get("counts"), dict).items()},
        _number(table.get("python")),
        [_text(module) for module in _of(table.get("torch"), list)],
        [_reason(row) for row in _of(table.get("unread"), list)],
        _number(table.get("unread_count")),
        {
            _text(module): [_import(row) for row in _of(entries, list)]
            for module, entries in _of(table.get("imports"), dict).items()
        },
    )


def _evidence(row: Any) -> Evidence:
    need, path, line, where, subject, parameter, optional = _row(row, 7)
    if not isinstance(optional, bool):
        raise ValueError("no truth")
    return Evidence(
        PlaceNeed(_text(need)), _text(path), _number(line), _text(where), _text(subject), _text(parameter), optional
    )


def _reason(row: Any) -> tuple[str, Message]:
    path, template, values, singular = _row(row, 4)
    pairs = [_row(value, 2) for value in _of(values, list)]
    message = Message(_text(template), tuple((_text(name), _text(value)) for name, value in pairs), _text(singular))
    try:
        message.render("en")
    except (KeyError, IndexError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return _text(path), message


def _import(row: Any) -> ModuleImport:
    module, line = _row(row, 2)
    if type(module) is str and type(line) is int and len(module) <= _LONGEST and 0 <= line < 1 << 53:
        return ModuleImport(module, line)  # most of a document are these
    raise ValueError("no import")


def _row(value: Any, length: int) -> list[Any]:
    row: list[Any] = _of(value, list)
    if len(row) != length:
        raise ValueError("a row of another length")
    return row


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"no {kind.__name__}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError("no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError("no number")
    return value
