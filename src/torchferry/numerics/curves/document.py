"""Values in one JSON document: a trainer's `trainer_state.json`, a list of records, or columns of equal length."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.numerics.curves.lines import beginning
from torchferry.numerics.curves.record import samples_of
from torchferry.numerics.curves.sample import Sample, Trouble

_LARGEST = 1 << 29
"""Bytes of a document that is read as a whole; a log of JSON lines has no limit."""


class DocumentReader:
    """Reads one JSON document."""

    def samples(self, path: Path) -> Iterator[Sample | Trouble]:
        """Yield the numbers of the document's records, in their order.

        Raises:
            TorchferryError: the file cannot be read, is too large, is no JSON, or holds no records.
        """
        data = beginning(path, _LARGEST + 1)
        if len(data) > _LARGEST:
            raise TorchferryError(
                say("{path} is one JSON document of more than {limit} MiB", path=path, limit=_LARGEST >> 20),
                say("write it as JSON lines, one record a line"),
            )
        try:
            document = json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError) as error:
            raise TorchferryError(
                say("{path} begins as a JSON document and is none: {error}", path=path, error=error),
                say("was it cut short while it was written or copied?"),
            ) from None
        records = _records(document)
        if records is None:
            raise TorchferryError(
                say("{path} holds no records of a training", path=path),
                say("a `log_history`, a list of objects, or lists of equal length under names are read"),
            )
        for record in records:
            yield from samples_of(record)


def _records(document: Any) -> list[dict[str, Any]] | None:
    if isinstance(document, dict):
        history = document.get("log_history")
        if isinstance(history, list):
            return [record for record in history if isinstance(record, dict)]
        columns = {name: column for name, column in document.items() if isinstance(column, list) and column}
        if columns and len({len(column) for column in columns.values()}) == 1:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return None
    if isinstance(document, list) and document and all(isinstance(record, dict) for record in document):
        return document
    return None
