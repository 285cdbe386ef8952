"""Write a rank's record, so that it can be read at any moment, and never stop the program for it."""

from __future__ import annotations

import contextlib
import errno
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.core.terminal import print_notice
from torchferry.numerics.runlog import layout as names

DTYPES = {
    "float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
"""Names of dtypes in safetensors."""


def container(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str]) -> bytes:
    """Return a safetensors file: for each name dtype, shape and bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    place = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": DTYPES[dtype], "shape": shape, "data_offsets": [place, place + len(data)]}
        place += len(data)
    text = names.compact(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(data for _, _, data in tensors.values())])


class RecordStore:
    """The files of one rank.

    Attributes:
        written: Bytes so far.
        checksums: Of the files so far, by name.
        ended: Why nothing is written any more, or None.
        failed: Whether that is a fault, and not the limit that was asked for.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.written = 0
        self.checksums: dict[str, str] = {}
        self.ended: Message | None = None
        self.failed = False
        self._limit = limit

    def begin(self) -> bool:
        """Make the folder; returns whether it could be made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.end(say("cannot write {path}: {error}", path=self.folder, error=error.strerror))
        return self.ended is None

    def file(self, name: str, data: bytes, noted: bool = False) -> bool:
        """Write a file, whole or not at all; returns whether it is there.

        Args:
            name: Of the file.
            data: Its content.
            noted: Whether nobody looks for the file before a line is written that names it. It is then written in its
                place: what a process that is killed leaves of it is named nowhere.
        """
        if not self._may(len(data)):
            return False
        path = self.folder / name
        part = path if noted else path.with_name(f".{name}.part")
        try:
            if noted:
                _written(path, data)
            else:
                part.write_bytes(data)
                part.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            self.end(say("cannot write {path}: {error}", path=path, error=error.strerror))
            return False
        self.written += len(data)
        self.checksums[name] = names.checksum(data)
        return True

    def last(self, name: str, document: dict[str, Any]) -> None:
        """Write how the recording ended: also beyond the limit, and where it ended early, as far as that can be."""
        path = self.folder / name
        part = path.with_name(f".{name}.part")
        try:
            part.write_bytes(names.sealed(document))
            part.replace(path)
        except OSError:  # a record without an end says itself that it is cut short
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def line(self, name: str, document: dict[str, Any]) -> bool:
        """Add a line of JSON to a file, whole or not at all."""
        data = names.sealed(document) + b"\n"
        if not self._may(len(data)):
            return False
        path = self.folder / name
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                before = os.fstat(handle).st_size
                if os.write(handle, data) != len(data):  # the disk is full
                    os.ftruncate(handle, before)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)
        except OSError as error:
            self.end(say("cannot write {path}: {error}", path=path, error=error.strerror))
            return False
        self.written += len(data)
        return True

    def _may(self, more: int) -> bool:
        if self.ended is None and self.written + more > self._limit:
            limit = say("the limit of {limit} MiB is reached (--limit)", limit=f"{self._limit / 2**20:.4g}")
            self.end(limit, failed=False)
        return self.ended is None

    def end(self, why: Message, failed: bool = True) -> None:
        """Write nothing any more, and say why."""
        if self.ended is not None:
            return
        self.ended, self.failed = why, failed
        text = say("the recording ends here; the program continues: {why}", why=why).render()
        print_notice(f"torchferry: {text}")


def _written(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        if os.write(handle, data) != len(data):  # the disk is full, or the file is too large for one call
            os.lseek(handle, 0, os.SEEK_SET)
            with open(handle, "wb", closefd=False) as file:
                file.write(data)
    finally:
        os.close(handle)


# Whole tensors of chosen modules.


class ModuleTensors:
    """The results of a step that are kept whole, by their rows."""

    def __init__(self, patterns: tuple[str, ...], limit: int) -> None:
        self._patterns = patterns
        self._limit = limit
        self._wanted: dict[str, bool] = {}
        self._bytes = 0
        self._left_out = 0
        self._tensors: dict[int, Tensor] = {}

    def clear(self) -> None:
        """Begin a step."""
        self._tensors = {}
        self._bytes = 0
        self._left_out = 0

    def add(self, module: str, row: int, tensor: Tensor) -> None:
        """Keep a tensor where its module is wanted; beyond the limit it is counted and left out."""
        wanted = self._wanted.get(module)
        if wanted is None:
            wanted = self._wanted[module] = any(fnmatchcase(module, pattern) for pattern in self._patterns)
        if not wanted or str(tensor.dtype).removeprefix("torch.") not in DTYPES:
            return
        self._bytes += tensor.numel() * tensor.element_size()
        if self._bytes > self._limit:
            self._left_out += 1
            return
        self._tensors[row] = tensor.to("cpu", copy=True)

    def file(self) -> bytes | None:
        """Return the kept tensors as a safetensors file, or None where there are none."""
        if not self._tensors:
            return None
        parts = {
            str(row): (str(tensor.dtype).removeprefix("torch."), list(tensor.shape), _bytes(tensor))
            for row, tensor in self._tensors.items()
        }
        return container(parts, {"left_out": str(self._left_out)})


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
