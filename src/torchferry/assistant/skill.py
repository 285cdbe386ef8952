"""The skill: what a coding agent is told about torchferry, in the form that agents' tools load, put into their folder.

`DIR/torchferry/SKILL.md` is never written over somebody's own work: its last line has the checksum of the rest.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import LARGEST_SETTINGS, read_text, write_whole
from torchferry.core.messages import say
from torchferry.core.write_fence import require_in_roots

_SKILLS = Path(__file__).parent / "skills"
_MARK = "<!-- torchferry-skill-checksum: "
NAME = "torchferry"
FILE = "SKILL.md"


def skill_text(lang: str) -> str:
    """Return the skill in a language, `en` or `zh`."""
    return (_SKILLS / lang / NAME / FILE).read_text(encoding="utf-8")


def install_skill(folder: Path, lang: str, *, force: bool) -> Path | None:
    """Write the skill into a folder of skills; return its file, or None where it is there already.

    Args:
        folder: The folder that an agent's tool reads, such as `.claude/skills`; it is made where it is missing.
        lang: `en` or `zh`.
        force: Also replace a file that torchferry did not write, or that was edited since.

    Raises:
        UsageError: the folder is a file, or the skill's place is a link.
        TorchferryError: the file is somebody's own, or cannot be written.
    """
    place = folder / NAME / FILE
    require_in_roots(place)
    for path in (place.parent, place):
        if os.path.islink(path):
            raise UsageError(say("{path} is a link, and files outside the folder are never written", path=path))
    text = skill_text(lang)
    content = f"{text}{_checksum(text)}"
    try:
        if os.path.lexists(place):
            present = read_text(place, LARGEST_SETTINGS, "replace")
            if present == content:
                return None
            if not force:
                _refuse_own_work(place, present)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, content.encode())
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=place, error=error.strerror)) from None
    return place


def _checksum(text: str) -> str:
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()} -->\n"


def _refuse_own_work(place: Path, present: str) -> None:
    text, mark, rest = present.rpartition(_MARK)
    if not mark:
        raise TorchferryError(
            say("{path} exists, and torchferry did not write it", path=place),
            say("name another folder, or use --force"),
        )
    if mark + rest != _checksum(text):
        raise TorchferryError(
            say("{path} was edited since torchferry wrote it", path=place),
            say("keep your changes elsewhere, or replace it with --force"),
        )
