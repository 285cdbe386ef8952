"""Port the CUDA C++ of a tree to a target: which files, what each becomes, what is left for a person.

Nothing is written here: `PortedTree` has what is to be written, and `output.py` writes it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torchferry.backends import registry
from torchferry.backends.kernel_table import KernelTable, kernel_table
from torchferry.backends.target import Target
from torchferry.core.config import project_root
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_with_mode
from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.kernels.account import UNKNOWN, PortAccount, Unexplained, UnknownName, account_of
from torchferry.kernels.buildfiles import is_build_file, port_build_data
from torchferry.kernels.buildfiles.model import BuildSettings
from torchferry.kernels.device_code import Kernel, Launch
from torchferry.kernels.device_macros import DeviceMacro, uses_of
from torchferry.kernels.gates.result import GateResult
from torchferry.kernels.porting import PortedText, port_text
from torchferry.kernels.ptx import CallGraph, sentence
from torchferry.kernels.review import ReviewItem
from torchferry.kernels.rules import RuleSet, RuleVerdict, rule_set
from torchferry.kernels.tokens import SourceTokens, decode, encode, readable, words_of
from torchferry.kernels.words import WordJudge
from torchferry.source.kinds import HEADER_HEAD, Kind, is_bare_header, kind_of
from torchferry.source.tree import NEVER_ENTERED, is_build_output, is_control_name

_FOREIGN = frozenset({"hip", "rocm", "mlu", "mps", "xpu", "sycl", "ascend", "cambricon"})
"""Folders in which other makers' ports lie, beside those called like a target."""

_HALF = lazy_regex(rb"\b__half2?\b|\bcuda_(?:fp16|bf16)\.h")
_LONGEST_LINK = 1000
_LINK_TEXT = lazy_regex(rb"[\w./+-]+\.\w+\s*\Z")
"""What git writes in place of a link where links are switched off: the path that it points to."""

_HOST_SOURCES = (".cpp", ".cc", ".cxx", ".c")
_DEEPEST = 64
_PORTING = say("porting files")

_AT_ONCE = 128
"""Files whose words are judged together."""


class PortedFile(NamedTuple):
    """One file of the tree.

    Attributes:
        path: Where it was read, relative to the tree, with `/`.
        new_path: Where it is written, relative to the output.
        before: Its bytes.
        after: What is to be written.
        mode: Its permission bits.
        is_source: Whether it was read as C++.
        builds: Whether it says how the sources are built.
    """

    path: str
    new_path: str
    before: bytes
    after: bytes
    mode: int
    is_source: bool
    builds: bool = False


@dataclass(frozen=True)
class PortedTree:
    """A tree and what it becomes.

    Attributes:
        root: The folder that was read.
        target: The target.
        files: Those that are written, in order.
        items: What a person has to look at, in order of place.
        kernels: All kernels.
        launches: Where kernels are started, by file.
        changed: How many tokens were changed.
        guards: Macros of the project that a condition asks for and nothing in the tree defines, with their places.
        own_names: Other names of the project with CUDA in them, with how often each is used.
        rules: The user's rules, with what became of each.
        skipped: Files that were not read, with the reason.
        unread: Those of them, and folders, that the system refused to read.
        account: What became of the words of CUDA in code.
        links: Files that are links to others of the project, whose content they were ported with.
        libraries: The libraries of CUDA that are called, by file.
        ignored: Folders and files that were left out on demand, relative to the root, with `/`.
        gates: What the gates found that were asked for, the tokens first.
        further: By file, lines and kinds of further places like an item's, as of `PortedText`.
        edits: By file, what was written in it, with offsets in its bytes before.
    """

    root: Path
    target: Target
    files: tuple[PortedFile, ...]
    items: tuple[ReviewItem, ...]
    kernels: tuple[Kernel, ...]
    launches: dict[str, tuple[Launch, ...]]
    changed: int
    guards: dict[str, list[tuple[str, int]]]
    own_names: Counter[str]
    rules: RuleSet = field(default_factory=RuleSet)
    skipped: tuple[tuple[str, Message], ...] = ()
    libraries: dict[str, set[str]] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    gates: tuple[GateResult, ...] = ()
    further: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    account: PortAccount = field(default_factory=PortAccount)
    links: frozenset[str] = frozenset()
    edits: dict[str, list[Edit]] = field(default_factory=dict)

    @property
    def sources(self) -> int:
        """How many files were read as C++."""
        return len(self.source_paths)

    @property
    def source_paths(self) -> set[str]:
        """The files that were read as C++, relative to the root."""
        return {file.path for file in self.files if file.is_source}

    @property
    def by_hand(self) -> list[str]:
        """The files that cannot be right before somebody has acted."""
        from torchferry.kernels.review import kinds

        blocking = {name for name, kind in kinds().items() if kind.blocks}
        return sorted({item.path for item in self.items if item.kind in blocking})


def table_of(target: Target) -> KernelTable:
    """Return the target's table about kernels.

    Raises:
        UsageError: nothing is known about kernels of the target.
    """
    table = kernel_table(target.backend)
    if table is None:
        raise UsageError(
            say("torchferry has no table to port CUDA C++ to {target}", target=target.title),
            say("`torchferry scan` lists the project's CUDA code"),
        )
    return table


def is_source(path: str) -> bool:
    """Whether a file is C, C++ or CUDA, which is ported."""
    return kind_of(path) in (Kind.CPP, Kind.KERNEL)


def port_tree(
    root: Path,
    target: Target,
    *,
    ignore: Iterable[str] = (),
    rules: Mapping[str, str] | None = None,
    drop_default_map: bool = False,
    allow_unsafe: bool = False,
    skip: Iterable[Path] = (),
    build_style: str = "replace",
    only: Iterable[str] | None = None,
    title: Message = _PORTING,
) -> PortedTree:
    """Read a tree and port its C++.

    Args:
        root: The folder, or one file.
        target: Where to.
        ignore: Folders and files to leave out, each with all below it; relative to the tree or to the working folder.
        rules: The user's rules.
        drop_default_map: Whether the user's rules alone are applied; files get the target's suffixes all the same.
        allow_unsafe: Whether rules of the user are applied that change more than names.
        skip: Folders that are no part of the tree, such as the output.
        build_style: How build files of the tree itself are changed: one of `buildfiles.model.STYLES`.
        only: The files to read, relative to the tree, with files in the target's own kernel language; None for all
            files, of which such ones are copied.
        title: What a person who waits is shown.

    Raises:
        TorchferryError: the folder cannot be read.
        UsageError: a folder to be left out is not there, or nothing is known about the target's kernels.
    """
    table = table_of(target)
    chosen = rule_set(rules or {}, table, allow_unsafe, not drop_default_map)
    top = root if root.is_dir() else root.parent
    ignored = _ignored(top, ignore)
    listing = _Listing(top, ignored, {os.path.realpath(path) for path in skip})
    if only is not None:
        listing.paths += only
    elif root.is_dir():
        listing.walk("", 0)
    else:
        listing.add(root.name)
    judge = WordJudge(table, chosen.names, not drop_default_map, chosen.contexts)
    known = frozenset(_suffixes_of(listing.paths))
    limit = min((each.shared_memory for each in table.limits if each.shared_memory), default=None)
    ported: dict[str, PortedText] = {}
    names: set[str] = set()  # what the files declare
    files: list[PortedFile] = []
    items: list[ReviewItem] = list(_foreign(listing.paths, target))
    kernel_suffixes = tuple(row.use for row in table.suffixes.values()) if only is not None else ()
    for path, data, mode, source, words in _contents(listing, kernel_suffixes, judge, title):
        after, new_path = data, path
        if source:
            new_path = _new_path(path, table)
            if words is None:
                items.append(
                    ReviewItem(path, 1, 1, "unread", say("the file is binary, or in UTF-16: it is copied"), "")
                )
            else:
                done = port_text(path, decode(data), judge, known, limit, words, None, names)
                ported[path] = done
                after = encode(_with_texts(done.text, chosen.texts)) if done.replacements or chosen.texts else data
                if not data.isascii() and not _is_utf8(data):
                    items.append(ReviewItem(path, 1, 1, "encoding", say("the file is not UTF-8"), ""))
        files.append(PortedFile(path, new_path, data, after, mode, source, not source and is_build_file(path)))
    for path in listing.left:
        message = say("the file is a link out of the project, and was not read")
        items.append(ReviewItem(path, 1, 1, "not-read", message, ""))
    _with_macros(ported, files, judge, known, limit, names)
    if any(file.builds for file in files):
        half = has_half_in_host_code(files)
        settings = BuildSettings(target, build_style, {}, tuple(ignored), chosen.names, half)
        files = [file if not file.builds else _ported_build(file, settings, items) for file in files]
    declared = frozenset(names)
    items += _items_of(ported, declared)
    items += _kernel_sentences(ported)
    for rule in chosen.rules:
        if rule.verdict is RuleVerdict.UNSAFE:
            message = say("`{name}` -> `{use}`: {reason}", name=rule.name, use=rule.use, reason=rule.reason)
            items.append(ReviewItem("", 1, 1, "unsafe-rule", message, ""))
    items.sort(key=lambda item: item[:4])
    guards, own = _own_names(ported, declared)
    return PortedTree(
        top,
        target,
        tuple(files),
        tuple(items),
        tuple(kernel for done in ported.values() for kernel in done.kernels),
        {path: done.launches for path, done in ported.items() if done.launches},
        sum(len(done.replacements) for done in ported.values()),
        guards,
        own,
        chosen,
        tuple(listing.skipped),
        {path: done.libraries for path, done in ported.items() if done.libraries},
        tuple(sorted(ignored)),
        further={path: done.further for path, done in ported.items() if done.further},
        unread=tuple(listing.unread),
        links=frozenset(listing.links),
        account=account_of(_unknown_names(ported, declared), declared, guards, table),
        edits={path: done.replacements for path, done in ported.items() if done.replacements},
    )


def _contents(
    listing: _Listing, kernel_suffixes: tuple[str, ...], judge: WordJudge, title: Message
) -> Iterator[tuple[str, bytes, int, bool, set[bytes] | None]]:
    """Yield each file that can be read: its path, bytes and mode, whether it is C++, and its words if that is text.

    The words of some files are judged at once, which costs less than file by file.
    """
    with doing(title, len(listing.paths)) as work:
        for begin in range(0, len(listing.paths), _AT_ONCE):
            group = []
            for path in listing.paths[begin : begin + _AT_ONCE]:
                data, mode = listing.read(path)
                if data is None:
                    work.add()
                    continue
                source = is_source(path) or path.endswith(kernel_suffixes) or is_bare_header(path, data[:HEADER_HEAD])
                words = words_of(data) if source and b"\0" not in data[:4096] else None
                group.append((path, data, mode, source, words))
            judge.learn(set().union(*(words for *_, words in group if words is not None)))
            for file in group:
                yield file
                work.add()


def _with_macros(
    ported: dict[str, PortedText],
    files: Iterable[PortedFile],
    judge: WordJudge,
    known: frozenset[str],
    limit: int | None,
    declared: set[str],
) -> None:
    """Read the files again that use a macro of the tree which represents a kernel or a launch.

    What is renamed stays the same: a macro says only what is a kernel, and where one is started.
    """
    macros = {macro.name: macro for done in ported.values() for macro in done.macros}
    if not macros:
        return
    naming = [file for file in files if file.path in ported and any(name.encode() in file.before for name in macros)]
    used: dict[str, DeviceMacro] = {}
    for file in naming:
        source = SourceTokens(decode(file.before))
        used |= {use.macro.name: use.macro for use in uses_of(source, source.code, macros)}
    for file in naming if used else ():
        ported[file.path] = port_text(file.path, decode(file.before), judge, known, limit, None, used, declared)


def _ported_build(file: PortedFile, settings: BuildSettings, items: list[ReviewItem]) -> PortedFile:
    """Return a build file of the tree as it is for the target, and add what is left to people."""
    if file.path.endswith((".py", ".pyw")) and b"cpp_extension" not in file.before:
        return file._replace(builds=False)
    after, left = port_build_data(file.path, file.before, settings)
    items += left
    return file._replace(after=after)


def has_half_in_host_code(files: Iterable[PortedFile]) -> bool:
    """Whether C++ that the host's compiler takes uses CUDA's half types."""
    return any(file.path.endswith(_HOST_SOURCES) and _HALF.search(file.before) is not None for file in files)


def _items_of(ported: Mapping[str, PortedText], declared: Container[str]) -> Iterable[ReviewItem]:
    """Yield the items of all files, and the names that nothing in the tree explains."""
    for path, done in ported.items():
        yield from done.items
        for each in _left(done, declared):
            yield each.item(path)


def _kernel_sentences(ported: Mapping[str, PortedText]) -> Iterable[ReviewItem]:
    """Yield one item for each kernel whose body, or what it calls, is written in PTX."""
    functions = [each for done in ported.values() for each in done.functions]
    if not any(each.uses for each in functions):
        return
    calls = CallGraph(functions)
    for path, done in ported.items():
        by_name = {each.name: each for each in done.functions}
        for kernel in done.kernels:
            own = by_name.get(kernel.name)
            message = sentence(kernel.name, calls.reached(own)) if own is not None else None
            if message is not None:
                yield ReviewItem(path, kernel.line, 1, "ptx-kernel", message, readable(kernel.signature)[:160])


def _left(done: PortedText, declared: Container[str]) -> Iterable[Unexplained]:
    """Yield what stays unexplained of a file: no file declares it, and no condition asks the build for it."""
    for each in done.unexplained.values():
        if each.declared_as not in declared and not (each.kind == "unknown-name" and each.name in done.guards):
            yield each


def _unknown_names(ported: Mapping[str, PortedText], declared: Container[str]) -> Iterable[UnknownName]:
    """Yield the places of the names that were not understood."""
    for path, done in ported.items():
        for each in _left(done, declared):
            if each.kind == UNKNOWN:
                yield from (UnknownName(each.name, path, line, column) for line, column in each.places())


def _own_names(
    ported: Mapping[str, PortedText], declared: frozenset[str]
) -> tuple[dict[str, list[tuple[str, int]]], Counter[str]]:
    """Return the project's guards with their places, and its other names with their counts."""
    guards: dict[str, list[tuple[str, int]]] = {}
    own: Counter[str] = Counter()
    for path, done in ported.items():
        own.update(done.own)
        for name, lines in done.guards.items():
            if name not in declared:
                guards.setdefault(name, []).extend((path, line) for line in lines)
    for name in guards:
        own.pop(name, None)
    return guards, own


def accelerators() -> frozenset[str]:
    """Return how folders with ports to accelerators are called."""
    return frozenset(registry.built_in()) | _FOREIGN


def _foreign(paths: Iterable[str], target: Target) -> Iterable[ReviewItem]:
    """Yield one item for each folder that is called like another accelerator."""
    names = accelerators() - {target.name, target.backend.DEVICE_TYPE}
    reported: set[str] = set()
    for path in paths:
        parts = path.split("/")[:-1]
        for index, part in enumerate(parts):
            folder = "/".join(parts[: index + 1])
            if part.lower() in names:
                if folder not in reported:
                    reported.add(folder)
                    message = say("the folder `{folder}` has the name of another accelerator", folder=folder)
                    yield ReviewItem(path, 1, 1, "other-port", message, "")
                break


def _new_path(path: str, table: KernelTable) -> str:
    stem, _, suffix = path.rpartition(".")
    row = table.suffixes.get(f".{suffix}")
    return f"{stem}{row.use}" if row is not None and stem else path


def _suffixes_of(paths: Iterable[str]) -> Iterable[str]:
    """Yield each path, and each end of it at a folder with `/` in front, by which a header may be included."""
    for path in paths:
        yield path
        at = len(path)
        while (at := path.rfind("/", 0, at)) >= 0:
            yield path[at:]
        yield f"/{path}"


def _with_texts(text: str, texts: Mapping[str, str]) -> str:
    """Replace texts of unsafe rules in code and in the names of headers."""
    if not any(name in text for name in texts):
        return text
    from torchferry.kernels.tokens import TokenKind

    source = SourceTokens(text)
    pieces: list[str] = []
    at = 0
    for token in (*(each for each in source.opaque if each.kind is not TokenKind.HEADER), None):
        code = text[at : token.start if token else len(text)]
        for name in sorted(texts, key=len, reverse=True):
            code = code.replace(name, texts[name])
        pieces.append(code)
        if token:
            pieces.append(text[token.start : token.end])
            at = token.end
    return "".join(pieces)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _ignored(top: Path, ignore: Iterable[str]) -> frozenset[str]:
    """Return what is to be left out, relative to the tree."""
    left_out = set()
    real_top = os.path.realpath(top)
    for name in ignore:
        candidates = (os.path.join(real_top, name), os.path.realpath(name))
        path = next((each for each in candidates if os.path.lexists(each)), None)
        relative = os.path.relpath(path, real_top) if path is not None else ".."
        if relative.split(os.sep)[0] == "..":
            raise UsageError(
                say("`{name}` is not in {root}", name=name, root=top),
                say("name a file or folder of the tree, relative to it"),
            )
        left_out.add(relative.replace(os.sep, "/"))
    return frozenset(left_out)


class _Listing:
    """The files of the tree: every regular one, without what version control and tools keep."""

    def __init__(self, top: Path, ignore: frozenset[str], skip: set[str]) -> None:
        self.top = os.fspath(top)
        self.ignore = ignore
        self.skip = skip
        self.paths: list[str] = []
        self.skipped: list[tuple[str, Message]] = []
        self.unread: list[str] = []
        self.links: dict[str, str] = {}  # by path, the file of the project that is read in its place
        self.left: list[str] = []  # links to sources that are not read
        self._inside: str | None = None

    def add(self, path: str) -> None:
        self.paths.append(path)

    def walk(self, folder: str, depth: int) -> None:
        try:
            with os.scandir(os.path.join(self.top, folder)) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if not folder:
                raise TorchferryError(say("cannot read {path}: {error}", path=self.top, error=error.strerror)) from None
            self._cannot_read(folder, error)
            return
        if folder and is_build_output(folder, {entry.name for entry in ordered}):
            self.skipped.append((folder, say("is a folder that a build wrote")))
            return
        for entry in ordered:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if path in self.ignore or is_control_name(entry.name):
                continue
            if entry.is_symlink():
                self._link(path, entry)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name in NEVER_ENTERED or (self.skip and os.path.realpath(entry.path) in self.skip):
                    continue
                if depth < _DEEPEST:
                    self.walk(path, depth + 1)
                else:
                    self.skipped.append((path, say("is nested too deeply")))
            elif entry.is_file(follow_symlinks=False):
                self.paths.append(path)
            else:
                self.skipped.append((path, say("is a pipe, a socket or a device")))

    def _link(self, path: str, entry: os.DirEntry[str]) -> None:
        """Note a link: what it points to in the project is read, and nothing outside of it."""
        end = os.path.realpath(entry.path)
        builds = is_source(path) or entry.name in ("setup.py", "CMakeLists.txt")
        if builds and os.path.isfile(end) and self._is_inside(end):
            self.links[path] = end
            self.paths.append(path)
            return
        if builds:
            self.left.append(path)
        self.skipped.append((path, say("is a link")))

    def _is_inside(self, end: str) -> bool:
        """Whether the end of a link is in the project, or without one in the tree itself."""
        if self._inside is None:
            project = project_root(Path(self.top))
            self._inside = os.path.realpath(self.top if project is None else project)
        return end.startswith(self._inside.rstrip(os.sep) + os.sep)

    def read(self, path: str) -> tuple[bytes | None, int]:
        full = self.links.get(path) or os.path.join(self.top, path)
        try:
            data, mode = read_with_mode(full)
            if path not in self.links and len(data) < _LONGEST_LINK and _LINK_TEXT.match(data) and is_source(path):
                end = os.path.realpath(os.path.join(os.path.dirname(full), os.fsdecode(data.strip())))
                if os.path.isfile(end) and self._is_inside(end):
                    self.links[path] = end
                    return read_with_mode(end)[0], mode
            return data, mode
        except OSError as error:
            self._cannot_read(path, error)
            return None, 0

    def _cannot_read(self, path: str, error: OSError) -> None:
        self.unread.append(path)
        self.skipped.append((path, say("cannot be read: {error}", error=error.strerror)))
