"""The folder of a vendor's front end in the user's cache: made once, whole or not at all, of wheels with known hashes.

It is no environment of Python: what is in the wheels is unpacked, and a Python of the machine that they are for runs it
without any package of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import json
import os
import platform
import shutil
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from torchferry.backends.triton_front_end import FrontEnd, FrontEndWheel
from torchferry.core import env
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import open_regular
from torchferry.core.folders import remove_tree
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.progress import Work, doing
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import print_own_notice
from torchferry.rehearsal.environments.made_once import make_once
from torchferry.rehearsal.environments.package_installer import NoAnswerError, NotOfferedError, PackageInstaller
from torchferry.rehearsal.environments.request import find_interpreter, interpreters

_LAYOUT = 2
"""Part of a folder's name: another one where what is made of the wheels has changed."""

_MARKER = "torchferry-front-end.json"
_SITE = "packages"
_PROGRAMS = "programs"
_ROOM = 1.1
"""So much more than the files take has to be free on the disk."""

_PART = 1 << 20
_LARGEST_MEMBER = 1 << 31
_MOST_MEMBERS = 100_000
_CALM = "TORCHFERRY_CALM_COMPILER"


class FrontEndFolder(NamedTuple):
    """A front end that can be asked.

    Attributes:
        folder: Where it is.
        python: The interpreter that it is run with.
        version: The first two numbers of that interpreter's version.
        key: What tells it from another: its wheels.
    """

    folder: Path
    python: str
    version: str
    key: str

    @property
    def site(self) -> Path:
        """The folder of its packages."""
        return self.folder / _SITE

    @property
    def programs(self) -> Path:
        """The folder of the programs that it starts."""
        return self.folder / _PROGRAMS


def front_ends_folder() -> Path:
    """Return where the front ends are."""
    return env.cache_folder() / "front-ends"


def front_end_python(front_end: FrontEnd, wanted: str = "") -> tuple[str, str]:
    """Return the interpreter that a front end is run with, and the first two numbers of its version.

    Args:
        front_end: It.
        wanted: An interpreter's path or version; empty for the newest one that fits.

    Raises:
        UsageError: there is none that the wheels are for.
    """
    machine = platform.machine()
    fitting = [python for python in front_end.pythons if front_end.wheels_for(python, machine)]
    if not fitting:
        raise UsageError(
            say("{front_end} has no wheels for {machine}", front_end=front_end.title, machine=machine),
            say(
                "run this on one of: {machines}",
                machines=", ".join(sorted({each.machine for each in front_end.wheels})),
            ),
        )
    advice = say(
        "install one beside yours, such as by `uv python install {python}`; your project keeps its own, and `--python` "
        "takes a path",
        python=fitting[0],
    )
    numbers = fitting[-1].split(".")
    oldest = int(numbers[0]), int(numbers[1])
    if wanted:
        path, version = find_interpreter(wanted, oldest)
        if version not in fitting:
            raise UsageError(
                say(
                    "{front_end} has wheels for Python {pythons}, and none for {version}",
                    front_end=front_end.title,
                    pythons=", ".join(fitting),
                    version=version,
                ),
                advice,
            )
        return path, version
    present = {version: str(path) for version, path in interpreters(oldest)}
    with contextlib.suppress(UsageError):
        path, version = find_interpreter()
        present[version] = path
    for version in fitting:
        if version in present:
            return present[version], version
    raise UsageError(
        say(
            "{front_end} has wheels for Python {pythons}; this machine has {present}",
            front_end=front_end.title,
            pythons=", ".join(fitting),
            present=", ".join(sorted(present)) or "-",
        ),
        advice,
    )


class KeptFrontEnd(NamedTuple):
    """A front end that is there.

    Attributes:
        name: Its name.
        folder: Where it is.
        title: What it holds.
        used: When it was made, in seconds since the epoch.
    """

    name: str
    folder: Path
    title: str
    used: float


def kept_front_ends() -> list[KeptFrontEnd]:
    """Return the front ends that are there and whole, by name."""
    found = []
    with contextlib.suppress(OSError):
        for folder in sorted(front_ends_folder().iterdir()):
            marker = _marker_of(folder)
            if marker is not None:
                made = (folder / _MARKER).stat().st_mtime
                found.append(KeptFrontEnd(folder.name, folder, str(marker.get("front_end", "")), made))
    return found


def remove_front_end(name: str) -> bool:
    """Remove a front end; returns whether there was one of this name.

    Raises:
        UsageError: a program uses it.
    """
    kept = next((each for each in kept_front_ends() if each.name == name), None)
    if kept is None:
        return False
    with _opened_lock(kept.folder) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                say("environment {name} is in use", name=name), say("wait until its program has ended")
            ) from None
        remove_tree(kept.folder)  # its lock stays: somebody may wait for it
    return True


@contextlib.contextmanager
def front_end_folder(
    front_end: FrontEnd, target: str, python: str = "", wheels: Path | None = None
) -> Iterator[FrontEndFolder]:
    """Give a front end to a `with` block, made where it is not there yet; nobody removes it meanwhile.

    Args:
        front_end: What it is.
        target: The name of the target.
        python: An interpreter's path or version; empty for one that fits.
        wheels: A folder that holds the wheels; None to fetch them with pip.

    Raises:
        TorchferryError: no interpreter fits, the wheels cannot be had or are not those that are known, there is no
            room, or the cache cannot be written.
    """
    interpreter, version = _known_python(front_end, target, python) or front_end_python(front_end, python)
    needed = front_end.wheels_for(version, platform.machine())
    key = _key(front_end, needed)
    folder = _folder(target, version, key)
    ready = FrontEndFolder(folder, interpreter, version, key)
    with _opened_lock(folder) as descriptor:
        make_once(
            descriptor,
            is_made=lambda: _is_whole(folder, key),
            make=lambda: _make(ready, front_end, needed, wheels),
            on_wait=lambda: print_own_notice(
                say("another process is making the front end {name}; waiting for it", name=folder.name)
            ),
        )
        yield ready


def _key(front_end: FrontEnd, needed: tuple[FrontEndWheel, ...]) -> str:
    """Return what tells a front end from another: its wheels, and what is made of them."""
    parts = [str(_LAYOUT), *_script_parts(front_end), *(each.sha256 for each in needed)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _folder(target: str, version: str, key: str) -> Path:
    return front_ends_folder() / f"{target}-{version}-{key[:12]}"


def _known_python(front_end: FrontEnd, target: str, wanted: str) -> tuple[str, str] | None:
    """Return the interpreter of a front end that is there: looking for one starts every Python of the machine."""
    if wanted:
        return None
    for version in front_end.pythons:
        needed = front_end.wheels_for(version, platform.machine())
        key = _key(front_end, needed)
        marker = _marker_of(_folder(target, version, key)) if needed else None
        interpreter = "" if marker is None or marker.get("key") != key else marker.get("python")
        if isinstance(interpreter, str) and os.path.isabs(interpreter) and os.access(interpreter, os.X_OK):
            return interpreter, version
    return None


def _marker_of(folder: Path) -> dict[str, object] | None:
    """Return what a whole front end says of itself, where it is this user's and nobody else may write into it."""
    try:
        status = os.lstat(folder)
        document = parsed_json((folder / _MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return document if is_own and isinstance(document, dict) else None


def _is_whole(folder: Path, key: str) -> bool:
    marker = _marker_of(folder)
    return marker is not None and marker.get("key") == key


@contextlib.contextmanager
def _opened_lock(folder: Path) -> Iterator[int]:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = folder.with_name(f"{folder.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(folder.parent, error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make(ready: FrontEndFolder, front_end: FrontEnd, needed: tuple[FrontEndWheel, ...], wheels: Path | None) -> None:
    """Make a front end beside its place, and move it there."""
    folder = ready.folder
    fetched, unpacked = sum(each.bytes for each in needed), sum(each.unpacked for each in needed)
    print_own_notice(
        say(
            "making the front end {front_end} for Python {python} in {folder}: {fetched} MB of wheels, {unpacked} MB "
            "on the disk; once",
            front_end=front_end.title,
            python=ready.version,
            folder=folder,
            fetched=f"{fetched / 1e6:.0f}",
            unpacked=f"{unpacked / 1e6:.0f}",
        )
    )
    begun = time.monotonic()
    partial = folder.with_name(f"{folder.name}.partial")
    remove_tree(partial)  # of one that was killed
    try:
        _check_room(folder.parent, unpacked + (0 if wheels is not None else fetched))
        partial.mkdir(mode=0o700)
        for wheel in needed:
            path = _given(wheel, wheels) if wheels is not None else _fetched(wheel, partial, ready.python)
            _check_hash(path, wheel)
            _unpack(path, partial / _SITE, wheel, front_end)
            if wheels is None:
                path.unlink()
        _write_programs(partial / _PROGRAMS, folder, front_end)
        (partial / _MARKER).write_text(
            json.dumps({"key": ready.key, "front_end": front_end.title, "python": ready.python}), encoding="utf-8"
        )
        remove_tree(folder)  # one that is not whole
        os.rename(partial, folder)
    except OSError as error:
        remove_tree(partial)
        raise _unwritable(folder.parent, error) from None
    except BaseException:  # Ctrl-C too
        remove_tree(partial)
        raise
    print_own_notice(say("made in {seconds} s", seconds=f"{time.monotonic() - begun:.0f}"))


def _check_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size * _ROOM:
        raise TorchferryError(
            say(
                "the front end needs {needed} MB in {folder}, where {free} MB are free",
                needed=f"{size * _ROOM / 1e6:.0f}",
                folder=folder,
                free=f"{free / 1e6:.0f}",
            ),
            say("make room, or set TORCHFERRY_CACHE to another folder"),
        )


def _given(wheel: FrontEndWheel, wheels: Path) -> Path:
    path = wheels / wheel.file
    if not path.is_file():
        raise UsageError(
            say("{folder} has no {file}", folder=wheels, file=wheel.file),
            say(
                "fetch it on a machine with a network: `pip download --no-deps --only-binary=:all: --python-version "
                "{python} {requirement}`",
                python=wheel.pythons[0],
                requirement=wheel.requirement,
            ),
        )
    return path


def _fetched(wheel: FrontEndWheel, folder: Path, python: str) -> Path:
    """Return a wheel that pip brought into a folder."""
    same_version = python == find_interpreter()[0]
    try:
        installer = PackageInstaller(Path(python), same_version=same_version)
        return installer.download_wheel(wheel.file, wheel.requirement, wheel.sha256, folder)
    except (NoAnswerError, NotOfferedError) as error:
        raise TorchferryError(
            error.message,
            say(
                "without a network, `--wheels FOLDER` takes {file} from a folder; PIP_INDEX_URL names a mirror",
                file=wheel.file,
            ),
        ) from None


def _check_hash(path: Path, wheel: FrontEndWheel) -> None:
    """Refuse a wheel that is another one than the known.

    Raises:
        TorchferryError: it is.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file, doing(say("checking {path}", path=path.name), wheel.bytes, in_bytes=True) as work:
        while part := file.read(_PART):
            digest.update(part)
            work.add(len(part))
    if digest.hexdigest() != wheel.sha256:
        raise TorchferryError(
            say(
                "{path} is not the wheel that is known: its SHA-256 is {found}, not {wanted}",
                path=path,
                found=digest.hexdigest(),
                wanted=wheel.sha256,
            ),
            say("fetch {requirement} again; nothing of this file was unpacked", requirement=wheel.requirement),
        )


def _unpack(path: Path, site: Path, wheel: FrontEndWheel, front_end: FrontEnd) -> None:
    """Unpack what is needed of a wheel; its files are new ones, and none lies outside of the folder."""
    with (
        zipfile.ZipFile(path) as archive,
        doing(say("unpacking {path}", path=path.name), wheel.unpacked, in_bytes=True) as work,
    ):
        members = [each for each in archive.infolist() if not each.is_dir()]
        if len(members) > _MOST_MEMBERS:
            raise TorchferryError(say("{path} holds too many files", path=path))
        for member in members:
            name = member.filename
            parts = PurePosixPath(name).parts
            is_link = stat.S_ISLNK(member.external_attr >> 16)
            if (
                not parts
                or PurePosixPath(name).is_absolute()
                or ".." in parts
                or is_link
                or member.file_size > _LARGEST_MEMBER
            ):
                raise TorchferryError(say("{path} holds `{name}`, which no wheel may hold", path=path, name=name))
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in front_end.left_out):
                continue
            place = site.joinpath(*parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, place.open("xb") as copy:
                _copy(source, copy, work)
            place.chmod(0o755 if name in front_end.programs else 0o644)


def _copy(source: object, copy: object, work: Work) -> None:
    while part := source.read(_PART):  # type: ignore[attr-defined]
        copy.write(part)  # type: ignore[attr-defined]
        work.add(len(part))


def _script_parts(front_end: FrontEnd) -> tuple[str, ...]:
    """Return what the scripts in front of the compiler are made of."""
    return (front_end.compiler, *front_end.options, *front_end.calm_options, *front_end.probes, front_end.closed_stage,
            front_end.closed_version, *front_end.left_out, *front_end.programs)  # fmt: skip


def _write_programs(programs: Path, folder: Path, front_end: FrontEnd) -> None:
    """Write what is found on PATH: a script in front of the compiler, and what represents the closed stage.

    Args:
        programs: The folder that they are written into.
        folder: Where the front end will be.
        front_end: It.
    """
    programs.mkdir()
    if front_end.compiler:
        compiler = _quoted(str(folder / _SITE / front_end.compiler))
        probes = "|".join(map(_quoted, front_end.probes)) or "''"
        options, calm = " ".join(map(_quoted, front_end.options)), " ".join(map(_quoted, front_end.calm_options))
        script = (
            "#!/bin/sh\n"
            f'case "$1" in {probes}) exec {compiler} "$@";; esac\n'
            f'[ -z "${_CALM}" ] && exec {compiler} {options} "$@"\n'
            f'exec {compiler} {calm} {options} "$@"\n'
        )
        _write_script(programs / PurePosixPath(front_end.compiler).name, script)
    if front_end.closed_stage:
        script = (
            "#!/bin/sh\n"
            "# Stands for a program that is not public: it hands on what it is given.\n"
            f'[ "$1" = --version ] && {{ echo {_quoted(front_end.closed_version)}; exit 0; }}\n'
            'first=$1; out=; before=\nfor word in "$@"; do [ "$before" = -o ] && out=$word; before=$word; done\n'
            '[ -n "$out" ] && cp -- "$first" "$out" && cp -- "$first" "$out.o"\nexit 0\n'
        )
        _write_script(programs / front_end.closed_stage, script)


def _write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _quoted(word: str) -> str:
    """Return a word as a shell takes it as it is."""
    import shlex  # imported late: only the making of a front end writes scripts

    return shlex.quote(word)


def _unwritable(folder: Path, error: OSError) -> TorchferryError:
    return TorchferryError(
        say("cannot write in the cache {folder}: {error}", folder=folder, error=error.strerror or error),
        say("set TORCHFERRY_CACHE to a folder that can be written and has 1 GB free"),
    )
