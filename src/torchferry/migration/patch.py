"""A migration as a patch that `git apply` and `patch -p1` take."""

from __future__ import annotations

import os
from collections.abc import Iterable

from torchferry.migration.transaction import Write


def unified_diff(write: Write, context: int = 3) -> bytes:
    """Return the patch for one file, byte for byte: line endings and encoding are those of the file."""
    import difflib  # imported late: most runs write no patch

    old, new = _name("a/", write.path), _name("b/", write.path)
    source = b"/dev/null" if write.before is None else old
    pieces = [b"diff --git %s %s\n" % (old, new)]
    if write.before is None:
        pieces.append(b"new file mode 100644\n")
    before, after = _lines(write.before or b""), _lines(write.after)
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, source, new, n=context, lineterm=b"\n"):
        pieces.append(line)
        if not line.endswith(b"\n"):
            pieces.append(b"\n\\ No newline at end of file\n")
    return b"".join(pieces)


def patch(writes: Iterable[Write]) -> bytes:
    """Return one patch for all files."""
    return b"".join(unified_diff(write) for write in writes)


def _lines(data: bytes) -> list[bytes]:
    """Split at LF alone, as patches do."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _name(prefix: str, path: str) -> bytes:
    """Return a path as git writes it: in C quotes when it holds a control character, a quote or a backslash."""
    raw = os.fsencode(prefix + path)
    if not any(byte < 32 or byte == 127 or byte in b'"\\' for byte in raw):
        return raw
    escaped = b"".join(
        b"\\%03o" % byte if byte < 32 or byte >= 127 else b"\\" + bytes([byte]) if byte in b'"\\' else bytes([byte])
        for byte in raw
    )
    return b'"' + escaped + b'"'
