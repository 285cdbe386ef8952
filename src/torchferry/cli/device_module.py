"""The module with the portable names that `migrate --style portable` writes: chosen, placed, and written with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchferry.backends.accelerator import AcceleratorTarget
from torchferry.backends.portable import INSTALLED, PortableTarget
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_regular, read_text
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.vendored import FIRST, NAMES, SMALL, untouched
from torchferry.migration.plan import Plan
from torchferry.migration.transaction import Write
from torchferry.rules.mentions import STEMS
from torchferry.source.copied import Placement, place_module
from torchferry.source.kinds import Kind
from torchferry.source.portable_uses import EVERY, names_used
from torchferry.source.requirements import in_lines
from torchferry.source.tree import Listing

DEVICE_MODULES = ("file", "package", "torch")
"""A file in the project with the names that it uses; the installed torchferry; or torch's own `torch.accelerator`."""

NAME = "device_utils.py"
"""What the file is called."""

_PINNED = lazy_regex(r"[=~<]=?=?[ \t]*(\d+)\.(\d+)")

_WORDS = tuple(stem.encode() for stem in (*STEMS, "accelerator", "mixed", "autocast"))


def portable_target(target: Target, root: Path, listing: Listing, choice: str) -> tuple[PortableTarget, Placement]:
    """Return the target that writes portable names, and where each file of the project finds them.

    Args:
        target: The vendor whose limits are listed.
        root: The project's folder.
        listing: Its files.
        choice: One of `DEVICE_MODULES`.

    Raises:
        UsageError: torch alone does not find the target's device.
    """
    if choice == "torch":
        alone = AcceleratorTarget(target.backend, target.version)
        reason = alone.refusal() or _older_torch(root, listing)
        if reason is not None:
            raise UsageError(reason, say("use `--device-module file`, which serves every target"))
        return alone, Placement({}, ())
    if choice == "package":
        return PortableTarget(target.backend, target.version, INSTALLED), Placement({}, ())
    placement = place_module(root, listing, _WORDS, NAME)
    modules = {path: place.module for path, place in placement.of_file.items()}
    nearby = {path for path, place in placement.of_file.items() if place.folder == path.rpartition("/")[0]}
    module = next(
        iter(sorted(set(modules.values()), key=list(modules.values()).count, reverse=True)), NAME[: -len(".py")]
    )
    return PortableTarget(target.backend, target.version, module, modules, frozenset(nearby)), placement


def _older_torch(root: Path, listing: Listing) -> Message | None:
    """Return a message where the project's requirements ask for a torch without `torch.accelerator`."""
    for entry in listing.entries:
        if entry.kind is not Kind.REQUIREMENTS:
            continue
        try:
            text = read_text(root / entry.path)
        except (OSError, UnicodeDecodeError):
            continue
        for requirement in in_lines(text):
            match = _PINNED.match(requirement.specifier) if requirement.name == "torch" else None
            if match is not None and (int(match[1]), int(match[2])) < (2, 6):
                return say(
                    "`{path}` requires torch {version}, and `torch.accelerator` is new in 2.6",
                    path=entry.path,
                    version=f"{match[1]}.{match[2]}",
                )
    return None


def with_module_files(root: Path, placement: Placement, planned: Plan) -> Plan:
    """Add the files with the portable names to a plan: those that are new, and those that lack a name.

    Raises:
        TorchferryError: a file stands there that torchferry did not write, or one that lacks a name was edited.
    """
    written = {write.path: write.after for write in planned.writes}
    used: dict[str, set[str]] = {}  # one file may be imported under two names: beside it, and as a part of its package
    for path, place in placement.of_file.items():
        used.setdefault(place.path, set()).update(names_used(_text(root, path, written), place.module))
    added = [write for path in sorted(used) for write in _module_file(root, path, used[path])]
    if not added:
        return planned
    maintained = (*planned.maintained, *(write.path for write in added))
    writes = sorted([*planned.writes, *added], key=lambda write: write.path)
    return planned._replace(writes=writes, maintained=maintained)


def _text(root: Path, path: str, written: dict[str, bytes]) -> str:
    data = written.get(path)
    if data is None:
        try:
            data = read_regular(root / path)
        except OSError:
            return ""
    return data.decode("utf-8", "replace")


def _module_file(root: Path, place: str, used: set[str]) -> Iterator[Write]:
    """Yield the write of one file, if it is new or lacks a name."""
    from torchferry.device.small_file import offered, small_file

    used = set(offered()) if EVERY in used else used & offered()
    path = root / place
    if not used:
        return
    if not path.exists() and not path.is_symlink():
        yield Write(place, None, small_file(used).encode())
        return
    if path.is_symlink() or not path.is_file():
        raise TorchferryError(say("{path} is not a file", path=path))
    data = path.read_bytes()
    text = data.decode("utf-8", "replace")
    first = text.partition("\n")[0]
    if not first.startswith(FIRST):
        raise TorchferryError(
            say("{path} exists, and torchferry did not write it", path=path),
            say("rename it, or write the file elsewhere before the migration: `torchferry device vendor DIR`"),
        )
    if SMALL not in first:  # the whole manager has every name
        return
    there = _listed(text)
    if used <= there:
        return
    if not untouched(text):
        raise TorchferryError(
            say(
                "{path} was edited since torchferry wrote it, and lacks {names}",
                path=path,
                names=", ".join(sorted(used - there)),
            ),
            say("keep your changes in another file, remove this one and migrate again"),
        )
    yield Write(place, data, small_file(used | there & offered()).encode())


def _listed(text: str) -> set[str]:
    """Return the names that a file says it has."""
    return {name for line in text.splitlines() if line.startswith(NAMES) for name in line[len(NAMES) :].split()}


def placement_remarks(placement: Placement) -> Iterator[Message]:
    """Yield what there is to know about programs that cannot find the file as they are started."""
    for path in placement.unreachable:
        yield say(
            "`{path}` imports `{module}`, starts as a program, and it or its package is imported from "
            "another folder: start it with `python -m`, or put that folder on Python's path.",
            path=path,
            module=placement.of_file[path].module,
        )
