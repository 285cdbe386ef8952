"""The CUDA C++ of a project, as a scan reports it: what `torchferry port` would do with it, and what is ported already.

Nothing is written. Only the files are read in which a scan found something, so that a project without C++ pays nothing.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torchferry.backends.build_facts import build_facts, extension_class
from torchferry.backends.target import Target
from torchferry.core.config import project_root
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.kernels.device_code import Kernel
from torchferry.kernels.ported_tree import PortedTree, port_tree
from torchferry.kernels.review import ReviewItem, kinds

_EXAMINING = say("examining CUDA C++")


class SurveyedFile(NamedTuple):
    """One file of CUDA C++, or one that builds it.

    Attributes:
        path: Relative to the root, with `/`.
        kernels: How many it has.
        launches: How many it starts.
        libraries: The libraries of CUDA that it calls.
        kinds: What a person has to look at: kinds of `review.kinds`, with how many places.
        copy: Where its port is; for a file that builds, itself where it builds for the target; empty for none.
        differs: Whether the port is not what `torchferry port` would write now: it was edited, made with rules of the
            user's, or the original has changed since.

    What a person has to look at is that of the port where there is one.
    """

    path: str
    kernels: int
    launches: int
    libraries: tuple[str, ...]
    kinds: tuple[tuple[str, int], ...]
    copy: str
    differs: bool = False

    @property
    def blocking(self) -> int:
        """How many places cannot be right before somebody has acted."""
        explained = kinds()
        return sum(count for kind, count in self.kinds if explained[kind].blocks)


class NativeSurvey(NamedTuple):
    """The CUDA C++ of a project.

    Attributes:
        target: The target.
        files: The files, in order.
        items: What a person has to look at, in order of place.
        kernels: All kernels.
        command: What ports it; empty where nothing is left to port.
    """

    target: Target
    files: tuple[SurveyedFile, ...]
    items: tuple[ReviewItem, ...]
    kernels: tuple[Kernel, ...]
    command: str

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries of CUDA that are called."""
        return tuple(sorted({name for file in self.files for name in file.libraries}))

    @property
    def kinds(self) -> Counter[str]:
        """What a person has to look at, by kind."""
        return Counter(item.kind for item in self.items)

    @property
    def ported(self) -> dict[str, SurveyedFile]:
        """The files that are ported, by their path."""
        return {file.path: file for file in self.files if file.copy}

    def headline(self) -> Message:
        """Return the survey in one sentence."""
        kernels = say_plural("{count} kernel", "{count} kernels", count=len(self.kernels))
        launches = sum(file.launches for file in self.files)
        started = say_plural("{count} launch", "{count} launches", count=launches)
        places = say_plural("{count} place to look at", "{count} places to look at", count=len(self.items))
        return say("{kernels}, {launches}, {places}", kernels=kernels, launches=started, places=places)


def survey(root: Path, paths: Iterable[str], target: Target) -> NativeSurvey:
    """Return what there is to port in some files of a project.

    Args:
        root: The project's folder.
        paths: The files with CUDA C++, and those that build it, relative to the root, with `/`.
        target: The target.
    """
    ordered = sorted(paths)
    ported = port_tree(root, target, only=ordered, build_style="branch", title=_EXAMINING)
    device = target.backend.DEVICE_TYPE
    copies: dict[str, str] = {}
    for file in ported.files:
        if not file.is_source and _builds_for(root, file.path, target):
            copies[file.path] = file.path
        elif copy := _port_of(root, file.path, file.new_path, device):
            copies[file.path] = copy
    items = [item for item in ported.items if item.path not in copies]
    after = {file.path: file.after for file in ported.files}
    differing = set()
    sources = ported.source_paths
    copies_of_sources = {path: copy for path, copy in copies.items() if path in sources}
    for path, (data, of_copy) in _examined_copies(root, copies_of_sources, target).items():
        items += [item._replace(path=copies[path]) for item in of_copy]
        if data != after[path] and copies[path] != path:
            differing.add(path)
    counts: dict[str, Counter[str]] = {}
    for item in items:
        counts.setdefault(item.path, Counter())[item.kind] += 1
    kernels = Counter(kernel.path for kernel in ported.kernels)
    files = tuple(
        SurveyedFile(
            file.path,
            kernels[file.path],
            len(ported.launches.get(file.path, ())),
            tuple(sorted(ported.libraries.get(file.path, ()))),
            tuple(sorted(counts.get(copies.get(file.path, file.path), Counter()).items())),
            copies.get(file.path, ""),
            file.path in differing,
        )
        for file in ported.files
    )
    items.sort(key=lambda item: item[:4])
    return NativeSurvey(target, files, tuple(items), ported.kernels, _command(root, files, ported))


def _examined_copies(
    root: Path, copies: Mapping[str, str], target: Target
) -> dict[str, tuple[bytes, list[ReviewItem]]]:
    """Return what is left to people in the ports of sources, as they are now, by their original."""
    real = Path(os.path.abspath(root))
    named = {os.path.normpath(f"{real.name}/{copy}"): path for path, copy in copies.items()}
    if not named:
        return {}
    examined = port_tree(real.parent, target, only=sorted(named), title=_EXAMINING)
    left: dict[str, list[ReviewItem]] = {}
    for item in examined.items:
        left.setdefault(item.path, []).append(item)
    return {named[file.path]: (file.before, left.get(file.path, [])) for file in examined.files}


def _port_of(root: Path, path: str, new_path: str, device: str) -> str:
    """Return the port of a file, where it is there: below the folder of the same name with the device behind it.

    A file below such a folder is a port itself.
    """
    parts = path.split("/")
    new_parts = new_path.split("/")
    for index in range(len(parts) - 1):
        original = parts[index].removesuffix(f"_{device}")
        if original != parts[index] and os.path.isdir(root.joinpath(*parts[:index], original)):
            return path
        candidate = "/".join((*parts[:index], f"{parts[index]}_{device}", *new_parts[index + 1 :]))
        if os.path.isfile(root / candidate):
            return candidate
    real = Path(os.path.abspath(root))
    if os.path.isfile(real.with_name(f"{real.name}_{device}") / new_path):
        return f"../{real.name}_{device}/{new_path}"
    return new_path if new_path != path and os.path.isfile(root / new_path) else ""


def _builds_for(root: Path, path: str, target: Target) -> bool:
    """Whether a build file names the target's switch, plugin or ported folders."""
    facts, backend = build_facts(target.backend), target.backend
    words = [facts.switch, extension_class(target), *facts.uses("package").values()]
    if path.rpartition("/")[2] == "MANIFEST.in":
        words = [f"_{backend.DEVICE_TYPE}", *(use for use in facts.uses("suffix").values())]
    try:
        text = read_regular(root / path, LARGEST_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return False
    return any(word and word in text for word in words)


def _command(root: Path, files: Iterable[SurveyedFile], ported: PortedTree) -> str:
    """Return what ports the files that are not ported yet."""
    left = [file.path for file in files if not file.copy]
    read_as_source = ported.source_paths
    sources = [path for path in left if path in read_as_source]
    if not sources:
        return ""
    folder = os.path.commonpath([path.rpartition("/")[0] or "." for path in sources]) if _share(sources) else ""
    words = ["torchferry", "port", os.path.normpath(os.path.join(root, folder)), "--target", str(ported.target)]
    if not folder and project_root(root) == Path(os.path.realpath(root)):
        words.append("--in-place")  # a port beside the project would lie outside of it
    if ported.kernels and build_facts(ported.target.backend).kernels != "port":
        words += ["--requests", "requests.md"]
    elif folder:
        for path in left:
            above = path.rpartition("/")[0]
            if path not in read_as_source and (not above or f"{folder}/".startswith(f"{above}/")) and above != folder:
                words += ["--build", os.path.normpath(os.path.join(root, path))]
    return " ".join(map(shlex.quote, words))


def _share(paths: Iterable[str]) -> bool:
    """Whether files lie in one folder below the root."""
    return len({path.split("/", 1)[0] if "/" in path else "" for path in paths} | {""}) == 2 and all(
        "/" in path for path in paths
    )


def file_line(file: SurveyedFile) -> Iterator[Message]:
    """Yield what there is to say of a file, in order of weight."""
    if file.kernels:
        yield say_plural("{count} kernel", "{count} kernels", count=file.kernels)
    if file.launches:
        yield say_plural("{count} launch", "{count} launches", count=file.launches)
    if file.libraries:
        yield say("calls {libraries}", libraries=", ".join(file.libraries))
    if file.kinds:
        yield say("to look at: {kinds}", kinds=", ".join(f"{kind} {count}" for kind, count in file.kinds))
    if file.differs:
        yield say("ported: {copy}, which differs from what a port would write now", copy=file.copy)
    elif file.copy:
        yield say("ported: {copy}", copy=file.copy)
