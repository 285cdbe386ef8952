"""What is recorded of a hand-over beside the zoo's folders: which file is whose, and that it was written here.

The record is signed as the journal of a migration is: a folder that was not written here by this user is never
replaced, whatever it says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.core.errors import TorchferryError
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple

NAME = "handover.json"
KIND = "torchferry handover"
SCHEMA = 1


class FileOrigin(str, Enum):
    """Whose a file is."""

    GENERATED = "generated"
    """Written by the hand-over."""

    OWN = "own"
    """Of the one who hands over."""

    CHANGED = "changed"
    """Of others, and changed."""

    UNCHANGED = "unchanged"
    """As it was found."""


class RecordedFile(NamedTuple):
    """A file of the hand-over: its path below the folder, whose it is, and its SHA-256."""

    path: str
    origin: FileOrigin
    sha256: str


class InsistedFile(NamedTuple):
    """A file that is handed over because the user insists, although it would be left out.

    Attributes:
        path: Its path below the folder.
        line: The line that tells, from 1; 0 where none does.
        reason: Why it would be left out, in English; never the secret.
        is_secret: Whether the reason is a secret.
    """

    path: str
    line: int
    reason: str
    is_secret: bool


class HandoverRecord(NamedTuple):
    """What is recorded.

    Attributes:
        form: Name of the form.
        model: What the model's folder is called.
        domain: Its domain; empty where the form has none.
        folder: The model's folder below the hand-over.
        program: The program that is started, below the model's folder.
        verdict: What the evidence says: `accepted`, `rejected`, `incomplete`; `rehearsal`; empty without evidence.
        files: The files.
        left_out: Files of the project that were not handed over.
        reasons: Why, by the places.
        insisted: Files that were handed over because the user insisted.
    """

    form: str
    model: str
    domain: str
    folder: str
    program: str
    verdict: str
    files: tuple[RecordedFile, ...]
    left_out: tuple[str, ...]
    reasons: Mapping[str, str] = {}
    insisted: tuple[InsistedFile, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the record as JSON holds it, without its signatures."""
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "torchferry": __version__,
            "form": self.form,
            "model": self.model,
            "domain": self.domain,
            "folder": self.folder,
            "program": self.program,
            "verdict": self.verdict,
            "files": [{"path": file.path, "origin": file.origin.value, "sha256": file.sha256} for file in self.files],
            "left_out": list(self.left_out),
            "reasons": dict(self.reasons),
            "included": [
                {"path": each.path, "line": each.line, "reason": each.reason, "secret": each.is_secret}
                for each in self.insisted
            ],
        }


def read_record(folder: Path) -> tuple[HandoverRecord, dict[str, Any]] | None:
    """Return the record in a folder, and its document with the signatures; None where there is none.

    Raises:
        TorchferryError: it is damaged.
    """
    path = folder / NAME
    if path.is_symlink() or not path.is_file():
        return None
    try:
        document = parsed_json(read_text(path, LARGEST_SETTINGS))
        if document["kind"] != KIND or document["schema"] != SCHEMA:
            raise ValueError("it is of another kind")
        return _record(document), document
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error.strerror or error)) from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise TorchferryError(say("{path} is damaged: {error}", path=path, error=str(error)[:200])) from None


def _record(document: Mapping[str, Any]) -> HandoverRecord:
    form, model, domain, folder, program, verdict = texts = [
        document[key] for key in ("form", "model", "domain", "folder", "program", "verdict")
    ]
    files = tuple(
        RecordedFile(entry["path"], FileOrigin(entry["origin"]), entry["sha256"]) for entry in document["files"]
    )
    left_out = tuple(document["left_out"])
    reasons = document.get("reasons", {})  # absent in records of earlier versions
    insisted = tuple(
        InsistedFile(entry["path"], entry["line"], entry["reason"], entry["secret"])
        for entry in document.get("included", ())
    )
    if not all(
        isinstance(each.path, str)
        and type(each.line) is int
        and isinstance(each.reason, str)
        and type(each.is_secret) is bool
        for each in insisted
    ) or not all(isinstance(text, str) for text in (*reasons.keys(), *reasons.values())):
        raise TypeError("a reason is something else")
    named = [document["folder"], *(file.path for file in files)]
    if not all(isinstance(text, str) for text in (*texts, *left_out, *named, *(file.sha256 for file in files))):
        raise TypeError("a text is something else")
    if any(part in ("", "..") for path in named for part in path.split("/")):
        raise ValueError("a path leads elsewhere")
    return HandoverRecord(form, model, domain, folder, program, verdict, files, left_out, dict(reasons), insisted)
