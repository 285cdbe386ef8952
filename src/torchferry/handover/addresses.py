"""Public addresses in code: those of the web, of mail and of machines, outside of licences and documents."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.handover.licences import C, language_of_comments

_URL = re.compile(r"(?:https?|ftp)://[^\s\"'<>()\[\]{}|\\`,;]+")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-zA-Z]{2,}\b")
_MACHINE = re.compile(r"(?<![\w.=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_LICENCE = re.compile(r"licen[cs]e|copyright|opensource\.org|apache\.org/licenses|creativecommons", re.IGNORECASE)

SOURCES = (".py", ".sh", ".bash", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".c", ".cc", ".cpp", ".h", ".hpp",
            ".cu", ".cuh", ".js", ".ipynb")  # fmt: skip
"""Files that are no documents."""

_MOST = 2000
_LONGEST = 300


class PublicAddress(NamedTuple):
    """An address, the file and line it stands in, and whether that is a comment."""

    path: str
    line: int
    address: str
    in_comment: bool


def public_addresses(path: str, text: str) -> Iterator[PublicAddress]:
    """Yield the public addresses of a file; none for a document."""
    if not path.endswith(SOURCES):
        return
    for number, line in enumerate(text.split("\n")[:_MOST], 1):
        if len(line) > 10_000 or not ("://" in line or "@" in line or line.count(".") >= 3):
            continue
        before, sign, _ = line.partition("//" if language_of_comments(path) == C else "#")
        for match in (*_URL.finditer(line), *_MAIL.finditer(line), *_MACHINE.finditer(line)):
            address = match.group().rstrip(".:*_")[:_LONGEST]
            in_comment = bool(sign) and match.start() > len(before)
            if not _is_own(address) and not (in_comment and _LICENCE.search(line)):
                yield PublicAddress(path, number, address, in_comment)


def _is_own(address: str) -> bool:
    """Whether an address is of this machine or of a network of one's own, or no address at all."""
    host = address.partition("://")[2] or address
    host = re.split(r"[/:?#]", host, maxsplit=1)[0]
    if host in ("localhost", "") or "." not in host or host.endswith((".local", ".internal")):
        return "@" not in address
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return bool(re.fullmatch(r"[\d.]+", host))
