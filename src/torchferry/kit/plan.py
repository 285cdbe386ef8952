"""Which files a kit has, what is in them, and which of them are to be written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from torchferry.backends.portable import INSTALLED
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.finding import Finding
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.vendored import untouched
from torchferry.device.one_file import one_file
from torchferry.kit.documents import ChangedFile, Migrated, guide, readme
from torchferry.kit.lists import lists_of
from torchferry.kit.needs import Needs, needs_of
from torchferry.kit.setup_file import setup_file
from torchferry.kit.target_list import TargetLists, target_lists
from torchferry.migration.journal import known_journals
from torchferry.migration.transaction import Write
from torchferry.source.requirements import requirement
from torchferry.source.tree import Listing, list_files

DEVICE_FILE = "device_utils.py"


class Kit(NamedTuple):
    """What a kit is made from.

    Attributes:
        root: The project's folder.
        project: Its name.
        target: The target.
        style: `native`, `portable` or `shim`.
        lang: Language of the files.
        needs: What the code needs.
        targeted: The lists of requirements for the target.
        made: The files that earlier migrations made, with the SHA-256 of what they wrote.
    """

    root: Path
    project: str
    target: Target
    style: str
    lang: str
    needs: Needs
    targeted: TargetLists
    made: Mapping[str, str]

    @property
    def readme(self) -> str:
        """The name of the read-me."""
        return f"README_{self.target.name.upper()}.md"

    @property
    def guide(self) -> str:
        """The name of the guide."""
        return f"{self.target.name.upper()}_MIGRATION_GUIDE.md"

    @property
    def setup_test(self) -> str:
        """The name of the setup test."""
        return f"test_{self.target.name}_setup.py"


class CodeOutcome(NamedTuple):
    """What a migration does to the code, for the documents of the kit.

    Attributes:
        writes: The files of code, new or changed.
        moved: For each original, the file in its place.
        changed: For each changed original its old and its new content, in order of the migrations that changed it.
        programs: What a user starts.
        fixed: The findings whose fixes are applied.
        remaining: What is left.
        way: `beside` the originals, `in place`, in a `copy`, or as a `patch`.
    """

    writes: tuple[Write, ...]
    moved: Mapping[str, str]
    changed: tuple[ChangedFile, ...]
    programs: tuple[str, ...]
    fixed: tuple[Finding, ...]
    remaining: tuple[Finding, ...]
    way: str


def setup_test_text(root: Path, name: str, target: Target, exclude: tuple[str, ...], lang: str) -> str:
    """Return the setup test of the project in a folder; its lists are those of a kit, where one was written."""
    listing = list_files(root, exclude)
    kit = kit_of(root, name, listing, target, f"_{target.name}", "native", lang)
    required = kit.targeted.required
    has_list = (root / kit.targeted.main).is_file()
    if not has_list:
        places = {item.name: item.place for item in lists_of(root, listing, kit.made).listed if item.path}
        required = tuple((text, places.get(_name(text), "")) for text, _ in required)
    return setup_file(name, target, kit.needs, required, lang, has_list=has_list)


def _name(text: str) -> str:
    found = requirement(text, 0, len(text))
    return found.name if found is not None else text


def kit_of(
    root: Path,
    project: str,
    listing: Listing,
    target: Target,
    suffix: str,
    style: str,
    lang: str,
    to_be: Mapping[str, bytes] | None = None,
) -> Kit:
    """Read what a kit is made from.

    Args:
        root: The project's folder.
        project: Its name.
        listing: Its files.
        target: The target.
        suffix: What the names of new lists end with, such as `_npu`.
        style: `native`, `portable` or `shim`.
        lang: Language of the files.
        to_be: The contents of the project's files that are about to be written in place.
    """
    made: dict[str, str] = {}
    for journal in known_journals(root):
        for change in journal.changes:
            if change.before is None or change.path in made:
                made[change.path] = change.after  # a later migration may have written it anew
    needs = needs_of(root, listing, {path for path in made if path.rpartition("/")[2] != DEVICE_FILE}, to_be)
    extra = ("torchferry",) if style == "shim" or target.module == INSTALLED else ()
    targeted = target_lists(lists_of(root, listing, made), needs.modules, target, suffix, lang, extra)
    return Kit(root, project, target, style, lang, needs, targeted, made)


def kit_writes(kit: Kit, outcome: CodeOutcome) -> tuple[list[Write], list[str]]:
    """Return the files of a kit that are not there as they are to be, and which of them stay as somebody edited them.

    Raises:
        TorchferryError: a file of that name is there, and torchferry did not write it.
    """
    needs = kit.needs
    texts = dict(kit.targeted.files)
    if not needs.manager and kit.style != "shim":
        placed = [write.path for write in outcome.writes if write.path.rpartition("/")[2] == DEVICE_FILE]
        place = min(placed, key=lambda path: (path.count("/"), path), default=DEVICE_FILE)
        texts[place] = one_file(DEVICE_FILE)  # in place of the few names that the code uses: it has these as well
        needs = needs._replace(manager=place)
    texts[kit.setup_test] = setup_file(kit.project, kit.target, needs, kit.targeted.required, kit.lang)
    migrated = Migrated(
        kit.project,
        kit.target,
        kit.style,
        outcome.way,
        outcome.moved,
        outcome.changed,
        outcome.programs,
        outcome.fixed,
        outcome.remaining,
        kit.targeted,
        needs,
        kit.setup_test,
        kit.guide,
        tuple(sorted({*texts, kit.guide, *filter(None, [needs.manager])})),
    )
    texts[kit.readme] = readme(migrated, kit.lang)
    texts[kit.guide] = guide(migrated, kit.lang)
    writes: list[Write] = []
    edited: list[str] = []
    for path in sorted(texts):
        data, present = texts[path].encode(), _present(kit, path)
        if present == data:
            continue
        if present is None or _is_as_written(kit, path, present):
            writes.append(Write(path, present, data))
        elif path in kit.made:
            edited.append(path)
        else:
            raise TorchferryError(
                say("`{path}` exists, and is not as torchferry wrote it: the kit does not overwrite it", path=path),
                say("move it away, or migrate without --kit"),
            )
    return writes, edited


def _present(kit: Kit, path: str) -> bytes | None:
    """Return what a file of the kit holds now; None where it is not there.

    Raises:
        TorchferryError: it is no regular file.
    """
    full = kit.root / path
    if not full.exists() and not full.is_symlink():
        return None
    if full.is_symlink() or not full.is_file():
        raise TorchferryError(say("{path} is not a file", path=full))
    return read_regular(full)


def _is_as_written(kit: Kit, path: str, present: bytes) -> bool:
    """Whether nobody has edited a file since torchferry wrote it."""
    is_journalled = kit.made.get(path) == hashlib.sha256(present).hexdigest()
    return is_journalled or bool(untouched(present.decode("utf-8", "replace")))
