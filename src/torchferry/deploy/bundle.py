"""What is carried to hosts without a network: files with a manifest of their hashes.

A bundle is a folder: `manifest.json`, `files/` with one file for each name, and `controller/` with the wheels of the
machine that installs, where they were requested. A folder of packages or of a model is
one archive in it, packed the same way each time, so that one hash represents it and an interrupted copy can go on.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tarfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import LARGEST_SETTINGS, open_regular, read_text
from torchferry.core.folders import files_below
from torchferry.core.json_text import json_text, parsed_json
from torchferry.core.messages import say
from torchferry.core.progress import doing, reading
from torchferry.core.record import NamedTuple

SCHEMA = 1
MANIFEST = "manifest.json"
CONTROLLER_FOLDER = "controller"
CLONE = ".git"

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FILE = re.compile(r"files/[A-Za-z0-9][A-Za-z0-9._+-]*")
_WHEEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")
_HASH = re.compile(r"[0-9a-f]{64}")
_PART = 1 << 20


class BundledFile(NamedTuple):
    """A file of a bundle.

    Attributes:
        name: Its name in the target's `deploy.toml`.
        path: Where it lies.
        original: The name that it had.
        sha256: Its hash, in hexadecimal digits.
        size: Bytes.
        packed: Whether it is an archive of a folder, which is unpacked on arrival.
    """

    name: str
    path: Path
    original: str
    sha256: str
    size: int
    packed: bool


class Bundle(NamedTuple):
    """A bundle: its target, its files by name, the settings that it brings, the hashes of the controller's wheels."""

    folder: Path
    target: str
    files: Mapping[str, BundledFile]
    values: Mapping[str, str]
    controller: Mapping[str, str] = {}


def clones_of(sources: Mapping[str, Path]) -> list[str]:
    """Return the names of those files of a bundle that are clones of git, whose `.git` is not packed."""
    return [name for name, source in sources.items() if source.is_dir() and (source / CLONE).exists()]


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle's manifest, without looking at the content of its files.

    Raises:
        UsageError: there is no manifest, it is malformed, or a file is missing or has another size.
    """
    path = folder / MANIFEST
    try:
        document = parsed_json(read_text(path, LARGEST_SETTINGS))
    except OSError:
        raise UsageError(
            say("{folder} is no bundle: it has no {name}", folder=folder, name=MANIFEST),
            say("`torchferry deploy bundle` makes one"),
        ) from None
    except (ValueError, RecursionError) as error:
        raise _malformed(path, str(error)) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _malformed(path, f"schema is not {SCHEMA}")
    files, values = document.get("files"), document.get("values", {})
    wheels = document.get("controller", {})
    if not _texts(wheels) or not all(_WHEEL.fullmatch(name) and _HASH.fullmatch(wheels[name]) for name in wheels):
        raise _malformed(path, "`controller` has names of wheels and their hashes")
    if not isinstance(files, dict) or not isinstance(document.get("target"), str) or not _texts(values):
        raise _malformed(path, "`target`, `files` and `values` are needed")
    return Bundle(
        folder, document["target"], {name: _read_file(path, name, row) for name, row in files.items()}, values, wheels
    )


def _read_file(manifest: Path, name: str, row: Any) -> BundledFile:
    fits = (
        isinstance(row, dict)
        and _NAME.fullmatch(name)
        and isinstance(row.get("path"), str)
        and _FILE.fullmatch(row["path"])
        and isinstance(row.get("sha256"), str)
        and _HASH.fullmatch(row["sha256"])
        and type(row.get("bytes")) is int
        and isinstance(row.get("original"), str)
        and isinstance(row.get("packed"), bool)
    )
    if not fits:
        raise _malformed(manifest, f"the entry of the file {name[:80]} is wrong")
    path = manifest.parent / row["path"]
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():  # a link can lead out of the bundle
        raise UsageError(say("{path} is missing in the bundle, or is a link", path=path), say("make the bundle again"))
    if path.stat().st_size != row["bytes"]:
        raise UsageError(
            say(
                "{path} has the size {size}, but the manifest says {expected}",
                path=path,
                size=path.stat().st_size,
                expected=row["bytes"],
            ),
            say("the bundle was damaged, probably while it was copied: copy it again"),
        )
    return BundledFile(name, path, row["original"], row["sha256"], row["bytes"], row["packed"])


def damaged(bundle: Bundle) -> list[str]:
    """Return the names of the files whose content is not what the manifest says; reads all of them."""
    bad = [file.name for file in bundle.files.values() if sha256_of(file.path) != file.sha256]
    folder = bundle.folder / CONTROLLER_FOLDER
    for name, expected in bundle.controller.items():
        path = folder / name
        if folder.is_symlink() or path.is_symlink() or not path.is_file() or sha256_of(path) != expected:
            bad.append(f"{CONTROLLER_FOLDER}/{name}")
    return bad


def sha256_of(path: Path) -> str:
    """Return the hash of a file's content."""
    digest = hashlib.sha256()
    with reading(path) as work, open_regular(path) as file:
        while part := file.read(_PART):
            digest.update(part)
            work.add(len(part))
    return digest.hexdigest()


def write_bundle(folder: Path, target: str, sources: Mapping[str, Path], values: Mapping[str, str]) -> Bundle:
    """Make a bundle of files and folders by name; the manifest is written last, with wheels that lie in `controller/`.

    Raises:
        UsageError: a folder has a link that leads out of it, or a program of Python does not parse.
        TorchferryError: a file cannot be read or written.
    """
    for source in sources.values():
        _check_program(source)
    rows: dict[str, dict[str, object]] = {}
    try:
        (folder / "files").mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)  # what was there no longer holds
        for name, source in sources.items():
            packed = source.is_dir()
            path = folder / "files" / (f"{name}.tar" if packed else name)
            new = path.with_name(path.name + ".new")
            if packed:
                _pack(source, new)
            else:
                _copy(source, new)
            new.replace(path)
            rows[name] = {
                "path": f"files/{path.name}",
                "original": source.name,
                "sha256": sha256_of(path),
                "bytes": path.stat().st_size,
                "packed": packed,
            }
        document: dict[str, object] = {"schema": SCHEMA, "target": target, "values": dict(values), "files": rows}
        if wheels := sorted((folder / CONTROLLER_FOLDER).glob("*.whl")):
            document["controller"] = {wheel.name: sha256_of(wheel) for wheel in wheels}
        manifest = folder / f"{MANIFEST}.new"
        manifest.write_text(json_text(document, indent=2), encoding="utf-8")
        manifest.replace(folder / MANIFEST)
    except OSError as error:
        raise TorchferryError(
            say("the bundle cannot be written: {problem}", problem=error),
            say("free space, check the permissions, or name another folder with --output"),
        ) from error
    return read_bundle(folder)


def _check_program(source: Path) -> None:
    """Refuse a program that no Python can start: on the hosts it would fail only behind the whole installation.

    Raises:
        UsageError: it does not parse.
    """
    if source.suffix != ".py" or not source.is_file() or source.stat().st_size > LARGEST_SETTINGS:
        return
    try:
        with open_regular(source) as read, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes, which are the program's own
            ast.parse(read.read())
    except OSError:
        return  # copying it says why
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        raise UsageError(
            say(
                "{path} is no program that Python can start: line {line}: {error}",
                path=source,
                line=line,
                error=getattr(error, "msg", error),
            ),
            say("correct it first; `torchferry scan {path}` shows the place", path=source),
        ) from None


def _copy(source: Path, path: Path) -> None:
    size = source.stat().st_size
    with (
        doing(say("copying {path}", path=source.name), size, in_bytes=True) as work,
        open_regular(source) as read,
        path.open("wb") as written,
    ):
        while part := read.read(_PART):
            written.write(part)
            work.add(len(part))


def _pack(source: Path, path: Path) -> None:
    """Pack the regular files of a folder: neither owners, times nor order differ from one time to the next.

    What git keeps of a clone, `.git`, is left out: of a model with large files it is as big as they are.

    Raises:
        UsageError: a link in it leads elsewhere.
    """
    files = sorted(file for file in files_below(source) if file.relative_to(source).parts[0] != CLONE)
    size = sum(file.lstat().st_size for file in files)
    with (
        doing(say("packing {path}", path=source.name), size, in_bytes=True) as work,
        tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            if file.is_symlink() and not (file.is_file() and file.resolve().is_relative_to(source.resolve())):
                # what it leads to would be missing on the hosts, and a link can lead to what nobody meant
                raise UsageError(
                    say("{path} is a link that leads out of {folder}, or to a folder", path=file, folder=source),
                    say(
                        "copy the folder with the files behind its links, and name the copy: cp -rL {folder} COPY",
                        folder=source,
                    ),
                )
            if not (file.is_file() or file.is_dir()):
                continue
            member = tarfile.TarInfo(file.relative_to(source).as_posix())
            member.mode = 0o755 if file.is_dir() or file.stat().st_mode & 0o100 else 0o644
            if file.is_dir():
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
                continue
            member.size = file.stat().st_size
            with open_regular(file.resolve()) as read:
                archive.addfile(member, read)
            work.add(member.size)


def _texts(values: object) -> bool:
    return isinstance(values, dict) and all(
        isinstance(name, str) and isinstance(text, str) for name, text in values.items()
    )


def _malformed(path: Path, problem: str) -> UsageError:
    return UsageError(
        say("{path} is not a valid manifest of a bundle: {problem}", path=path, problem=problem[:200]),
        say("make the bundle again"),
    )
