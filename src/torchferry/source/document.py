"""A file as it is read, as rules see it, and as it is written back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from torchferry.core.finding import Edit, Location
from torchferry.source.kinds import Kind
from torchferry.source.native import NATIVE_KINDS
from torchferry.source.notebook import Notebook
from torchferry.source.text import SourceText, apply_edits, decode_python, decode_text


class Document:
    """One version of a file's text.

    Attributes:
        path: Path relative to the root.
        kind: What the file is.
    """

    def __init__(self, path: str, kind: Kind, raw: SourceText) -> None:
        self.path = path
        self.kind = kind
        self._raw = raw

    @cached_property
    def notebook(self) -> Notebook | None:
        """The notebook that `source` is a view of, or None."""
        return Notebook(self._raw.text) if self.kind is Kind.NOTEBOOK else None

    @cached_property
    def source(self) -> SourceText:
        """The text as rules see it; positions and edits are in it. For a notebook, its code cells."""
        return self.notebook.python if self.notebook is not None else self._raw

    @classmethod
    def read(cls, path: str, kind: Kind, data: bytes) -> Document:
        """Decode a file.

        Raises:
            UndecodableError: the bytes are no text.
            NotJsonError: a notebook is not JSON.
        """
        if kind in NATIVE_KINDS:
            return cls(path, kind, SourceText(data.decode("utf-8", "replace")))  # counted, never written
        document = cls(path, kind, decode_python(data) if kind is Kind.PYTHON else decode_text(data))
        assert document.source is not None  # what is no JSON is found now
        return document

    def edited(self, edits: Iterable[Edit]) -> Document:
        """Return the document with edits of `source` applied; everything else keeps every byte.

        Raises:
            ValueError: edits overlap, or reach over the end of a notebook's cell.
        """
        changes = list(edits) if self.notebook is None else self.notebook.edits(edits)
        text = apply_edits(self._raw.text, changes)
        return Document(self.path, self.kind, SourceText(text, self._raw.encoding, self._raw.bom))

    def data(self) -> bytes:
        """Return the file's bytes.

        Raises:
            UnicodeEncodeError: the text holds a character that the file's encoding lacks.
        """
        return self._raw.encode(self._raw.text)

    def placed(self, location: Location) -> Location:
        """Return a location in `source` as users count it: in a notebook by cell."""
        if self.notebook is None:
            return location
        return self.notebook.location(self.path, *self.source.span(location))
