"""Environments, distributions and compiled libraries that tests make: no package is installed, nothing is run."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path


def site_of(folder: Path, version: str = "3.11") -> Path:
    """Make a virtual environment's folders; return its folder of packages."""
    site = folder / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text("#!/bin/false\n")
    (folder / "pyvenv.cfg").write_text(f"home = /nowhere/bin\nversion = {version}.7\n")
    return site


def install(
    site: Path,
    name: str,
    files: Mapping[str, str | bytes],
    version: str = "1.0",
    record: bool = True,
    metadata: str = "",
) -> None:
    """Lay the files of a distribution out, with its metadata and its list of files."""
    for path, content in files.items():
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n")
    if record:
        (info / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in files) + f"{info.name}/RECORD,,\n")


def library(
    needed: Sequence[str] = (),
    sections: Sequence[str] = (),
    symbols: Sequence[str] = (),
    *,
    machine: int = 62,
    wide: bool = True,
    order: str = "<",
    stripped: bool = False,
) -> bytes:
    """Return a small ELF library: a dynamic table, its strings, and the sections that are named."""
    strings = b"\0"
    offsets = []
    for text in needed:
        offsets.append(len(strings))
        strings += text.encode() + b"\0"
    for text in symbols:
        strings += text.encode() + b"\0"
    names, name_offsets = b"\0", {}
    for text in ("", ".dynamic", ".dynstr", ".shstrtab", *sections):
        name_offsets[text] = len(names) if text else 0
        names += (text.encode() + b"\0") if text else b""
    head = 64 if wide else 52
    program, count = (56, 2) if wide else (32, 2)
    dynstr_at = head + program * count
    base = 0x1000
    entry = order + ("qQ" if wide else "iI")
    table = [(1, offset) for offset in offsets] + [(5, base + dynstr_at), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(entry, *row) for row in table)
    dynamic_at = dynstr_at + len(strings)
    names_at = dynamic_at + len(dynamic)
    sections_at = names_at + len(names)
    rows = [
        (0, 0, 0, 0, 0),
        (name_offsets[".dynamic"], 6, dynamic_at, len(dynamic), 2),
        (name_offsets[".dynstr"], 3, dynstr_at, len(strings), 0),
        (name_offsets[".shstrtab"], 3, names_at, len(names), 0),
        *((name_offsets[text], 1, names_at, 1, 0) for text in sections),
    ]
    form = order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII")
    table_bytes = b"".join(struct.pack(form, n, k, 0, 0, o, s, link, 0, 1, 0) for n, k, o, s, link in rows)
    total = sections_at + len(table_bytes)
    if wide:
        load = struct.pack(order + "IIQQQQQQ", 1, 5, 0, base, base, total, total, 1)
        dyn = struct.pack(order + "IIQQQQQQ", 2, 6, dynamic_at, base + dynamic_at, 0, len(dynamic), len(dynamic), 1)
    else:
        load = struct.pack(order + "IIIIIIII", 1, 0, base, base, total, total, 5, 1)
        dyn = struct.pack(order + "IIIIIIII", 2, dynamic_at, base + dynamic_at, 0, len(dynamic), len(dynamic), 6, 1)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    header = ident + struct.pack(
        order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
        3,
        machine,
        1,
        0,
        head,
        0 if stripped else sections_at,
        0,
        head,
        program,
        count,
        0 if stripped else (64 if wide else 40),
        0 if stripped else len(rows),
        0 if stripped else 3,
    )
    return header + load + dyn + strings + dynamic + names + table_bytes
