"""The files in an archive, in memory: what is in it goes where the archive goes."""

from __future__ import annotations

import importlib
import io
import zlib
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex

_ZIP_END = b"PK\x05\x06"
_LONGEST_END = 66_000
"""Bytes within which the end of a zip file is: its comment has 65,535 at most."""

_STREAMS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "lzma", b"]\x00\x00": "lzma"}
_UNKNOWN = lazy_regex(
    rb"(?s)7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|[\x50-\x5f]\x2a\x4d\x18|\x28\xb5\x2f\xfd"  # 7z, rar, zstd
    rb"|\x04\x22\x4d\x18|\x02\x21\x4c\x18|\xff\x06\0\0sNaPpY|LZIP[\0\x01]|\x89LZO\0|\x1f[\x9d\xa0]"  # lz4, snappy, ...
    rb"|MSCF\0\0\0\0|MSWIM\0\0\0|\xed\xab\xee\xdb|!<arch>\ndebian-binary|hsqs..[\0-\x0f]\0|xar!\0"  # cab, wim, ...
    rb"|# v\d git bundle\n|PACK\0\0\0[\x02\x03]"  # git
)
"""How packed files begin that the standard library cannot unpack."""

_UNKNOWN_SUFFIXES = (".br", ".dmg")
_HEAD = 4096


def is_packed(path: str, data: bytes) -> bool:
    """Whether a file is packed, so that its text cannot be read as it lies."""
    return (
        _UNKNOWN.match(data) is not None
        or path.lower().endswith(_UNKNOWN_SUFFIXES)
        or data.startswith(tuple(_STREAMS))
        or _is_tar(data)
        or _is_zip(data)
        or _is_zlib(data)
    )


def unpacked(data: bytes, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive, with their names, and what precedes, behind and between them.

    Args:
        data: The archive.
        most: Bytes that they may have together.

    Raises:
        ValueError: they have more, or the form is unknown. The unpackers raise what they like on damaged files.
    """
    left = most
    for name, part in _parts(data, most):
        left -= len(part)
        if left < 0:
            raise ValueError("too large")
        yield name, part


def _parts(data: bytes, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of an archive, each with one byte more than may be, at most."""
    if _is_tar(data):
        import tarfile  # imported late, as the others: few projects hold archives

        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as files:
            for entry in files:
                content = files.extractfile(entry) if entry.isreg() else None
                yield entry.name, b"" if content is None else content.read(most + 1)
            yield "", data[files.offset :].lstrip(b"\0")
    elif _is_zip(data):
        import zipfile

        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            first = min((member.header_offset for member in members), default=data.rfind(_ZIP_END))
            yield "", data[:first]  # a program that unpacks itself
            yield "", archive.comment
            for member in members:
                with archive.open(member) as opened:
                    yield member.filename, opened.read(most + 1)
    elif _is_zlib(data):
        stream = zlib.decompressobj()
        yield "", stream.decompress(data, most + 1)
        if not stream.eof:
            raise ValueError("too large, or cut")
        yield "", stream.unused_data
    else:
        module = next((name for mark, name in _STREAMS.items() if data.startswith(mark)), "")
        if not module:
            raise ValueError("unknown")
        with importlib.import_module(module).open(io.BytesIO(data)) as opened:
            yield "", opened.read(most + 1)


def _is_tar(data: bytes) -> bool:
    return data[257:262] == b"ustar"


def _is_zip(data: bytes) -> bool:
    """Whether a file is a zip file, also behind a program that starts it."""
    return data.startswith(b"PK\x03\x04") or _ZIP_END in data[-_LONGEST_END:]


def _is_zlib(data: bytes) -> bool:
    """Whether a file is one stream of zlib; two bytes alone would fit a text that begins with `x^`."""
    if len(data) < 8 or data[0] != 0x78 or data[1] & 0x20 or int.from_bytes(data[:2], "big") % 31:
        return False
    stream = zlib.decompressobj()
    try:
        stream.decompress(data[:_HEAD], 1 << 20)
    except zlib.error:
        return False
    return stream.eof or len(data) > _HEAD or bool(stream.unconsumed_tail)
