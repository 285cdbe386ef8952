"""Secrets in a hand-over that is checked."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from torchferry.backends.handover_forms import ZooRule
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.folders import walk
from torchferry.core.messages import Bilingual, say
from torchferry.core.progress import counted
from torchferry.core.secrets import LARGEST_EXAMINED, secrets_of_file, shown_path
from torchferry.handover.checks import BrokenRule
from torchferry.handover.handed_over import PULL_REQUEST, HandedOver
from torchferry.handover.record import HandoverRecord
from torchferry.migration.journal import digest
from torchferry.source.tree import ignored_by_git, is_control_name

RULE = ZooRule(
    "secrets",
    "secrets",
    "required",
    Bilingual("no file holds a secret", "没有文件含有密钥或密码"),
    Bilingual(
        "take it out of the file, and revoke it if others could see it; or hand the file over with --include",
        "请从文件中删除；若他人可能已看到，请吊销；确需移交时使用 --include",
    ),
    "torchferry",
    {},
)
"""What holds for every form."""

INSISTED = ZooRule(
    "secrets-included",
    "secrets",
    "person",
    Bilingual("files that look like secrets and that --include hands over", "看似含有密钥、由 --include 移交的文件"),
    Bilingual("look at each: it becomes public", "请逐个查看：它们将被公开"),
    "torchferry",
    {},
)
"""What is named where the record says that the user insisted."""


def secrets_in_folder(handed: HandedOver) -> tuple[list[BrokenRule], list[BrokenRule]]:
    """Return the secrets of a folder that is checked, and those of them that its record names as included.

    A folder with a record is looked at whole, its record too; of a clone, the model's folder and the text of the pull
    request, without what git ignores. A control folder below the top is named: its files are not examined.

    Raises:
        TorchferryError: a file cannot be read: what was not examined is not passed.
    """
    record = handed.record
    # of a folder that was handed over nothing stays behind, whatever the repository around it ignores
    ignored = ignored_by_git(handed.root) or frozenset() if record is None else frozenset()
    top = handed.root if record is not None else handed.root / handed.folder
    unexamined: list[str] = []
    places = list(_every_file(top, unexamined))
    if record is None and handed.folder and (handed.root / PULL_REQUEST).is_file():
        places.append(handed.root / PULL_REQUEST)
    control = say("a folder of version control or of torchferry, whose files are not examined: remove it")
    broken = [BrokenRule(control, Path(folder).relative_to(handed.root).as_posix(), 0) for folder in unexamined]
    recorded: list[BrokenRule] = []
    for place in counted(say("reading files"), places):
        path = place.relative_to(handed.root).as_posix()
        if any(path == one or path.startswith(f"{one}/") for one in ignored):
            continue
        try:
            data = read_regular(place, LARGEST_EXAMINED + 1) if place.lstat().st_size <= LARGEST_EXAMINED else b""
        except OSError as error:
            raise TorchferryError(
                say("cannot read {path}: {error}", path=place, error=error.strerror or error)
            ) from None
        if not data and place.lstat().st_size:
            data = bytes(LARGEST_EXAMINED + 1)
        is_recorded = record is not None and _is_recorded(record, path, data)
        for secret in secrets_of_file(path, data):
            (recorded if is_recorded else broken).append(BrokenRule(secret.reason, shown_path(path), secret.line))
    return broken, recorded


def _is_recorded(record: HandoverRecord, path: str, data: bytes) -> bool:
    """Whether a file is one that the user insisted on, and is still the same."""
    if not any(each.path == path and each.is_secret for each in record.insisted):
        return False
    return any(file.path == path and file.sha256 == digest(data) for file in record.files)


def _every_file(top: Path, unexamined: list[str]) -> Iterator[Path]:
    """Yield the files of a folder; control folders below it, other than its own, go to `unexamined`."""
    for folder, folders, names in walk(top):
        if folder != os.fspath(top):
            unexamined += [os.path.join(folder, name) for name in folders if is_control_name(name)]
        folders[:] = sorted(name for name in folders if not is_control_name(name))
        for name in sorted(names):
            path = Path(folder, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path
