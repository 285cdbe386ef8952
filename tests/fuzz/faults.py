"""What a reader does with an input: it reads it, refuses it with an error of ours, or it has a fault."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import NamedTuple

from tests.fuzz.mutations import mutated
from tests.fuzz.table import Reader
from torchferry.core.errors import TorchferryError

SOURCE = str(Path(sys.modules["torchferry"].__file__ or "").parent)


class Fault(NamedTuple):
    """What a reader must not do: the error or effect, where, and the input."""

    reader: str
    what: str
    place: str
    trace: str
    data: bytes


class _Effects:
    """Notes what is written or started outside of a folder."""

    def __init__(self) -> None:
        self.folder = ""
        self.seen: list[str] = []
        self._is_hooked = False

    def begin(self, folder: Path) -> None:
        self.folder, self.seen = os.path.realpath(folder), []
        if not self._is_hooked:
            sys.addaudithook(self._hear)
            self._is_hooked = True

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.folder or event not in _EVENTS:
            return
        if event == "open":
            path, _, flags = (*arguments, 0, 0)[:3]
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        else:
            path = arguments[0] if arguments else ""
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            self.seen.append(f"{event} {path!r}")
        elif isinstance(path, (str, bytes)):
            place = os.fsdecode(path)
            if not os.path.isabs(place) and ".." not in place.split(os.sep):
                return  # relative to an open folder, which the event does not name
            place = os.path.normpath(os.path.join(self.folder, place))
            if not place.startswith((self.folder, "/dev/", "/proc/self/")) and "__pycache__" not in place:
                self.seen.append(f"{event} {place}")


_EVENTS = frozenset(
    {"open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod"}
    | {"shutil.rmtree", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"}
)
_effects = _Effects()


def fault_of(reader: Reader, data: bytes, folder: Path) -> Fault | None:
    """Give an input to a reader in an empty folder; return the fault, None where it was read or refused."""
    here = folder / "input"
    here.mkdir()
    _keep_at_home(folder)
    _effects.begin(folder)
    try:
        with contextlib.redirect_stdout(_stream("strict")), contextlib.redirect_stderr(_stream("backslashreplace")):
            reader.read(here, data)
    except TorchferryError as error:
        return _unspeakable(reader, error, data)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Fault(reader.name, type(error).__name__, _place(error), _shown(error), data)
    finally:
        seen, _effects.folder = _effects.seen, ""
        rmtree(here, ignore_errors=True)
    return Fault(reader.name, "effect", seen[0], "", data) if seen else None


def _keep_at_home(folder: Path) -> None:
    """Let what a reader keeps for its user, such as a key or a cache, lie in the folder too."""
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        os.environ[variable] = str(folder / "home")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "home" / "inductor")  # which the import of torch._dynamo makes


def _unspeakable(reader: Reader, error: TorchferryError, data: bytes) -> Fault | None:
    """Return the fault of an error whose text cannot be said in every language."""
    try:
        for message in filter(None, (error.message, error.advice)):
            for lang in ("en", "zh"):
                message.render(lang)
    except Exception as fault:
        return Fault(reader.name, type(fault).__name__, _place(fault), _shown(fault), data)
    return None


def _stream(errors: str) -> io.TextIOWrapper:
    """Return a stream as Python opens it for a terminal in UTF-8."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors)


def _place(error: BaseException) -> str:
    """Return the innermost line of ours, which is what two faults have in common."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(SOURCE):
            place = f"{frame.filename[len(SOURCE) + 1 :]}:{frame.lineno}"
    return place


def _shown(error: BaseException) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-12)
    return "".join(lines)[-6000:]


def round_of(reader: Reader, count: int, number: int, folder: Path) -> Iterator[Fault]:
    """Yield the faults of the kept inputs, the seeds, and so many inputs that are made of them."""
    random = Random(f"{reader.name} {number}")
    seeds = [*reader.kept(), *reader.seeds()]
    for data in seeds:
        fault = fault_of(reader, data, folder)
        if fault is not None:
            yield fault
    for _ in range(count):
        fault = fault_of(reader, mutated(random.choice(seeds), reader.form, seeds, random), folder)
        if fault is not None:
            yield fault
