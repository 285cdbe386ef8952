"""The lists of requirements for a target: what needs CUDA is a comment with the reason, torch and the plugin fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from torchferry.backends import cuda
from torchferry.backends.tables import normalised
from torchferry.backends.target import Target
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.kit.lists import ListedRequirement, Lists, in_file
from torchferry.kit.needs import ImportedModule
from torchferry.kit.stack import Stack, stack
from torchferry.rules.dependencies.cuda_requirement import LIBRARY_WHEEL, known_package
from torchferry.rules.library.cuda_package import advice
from torchferry.source.kinds import Kind
from torchferry.source.requirements import included

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where torch's builds without CUDA are; PyPI has the CUDA build for x86-64."""

_INDEX = lazy_regex(
    r"[ \t]*(?:-i|-f|--index-url|--extra-index-url|--find-links)[ \t=]+(?![ \t=])\S*(?:/cu\d{2,3}\b|pytorch\.org/whl)"
)
_WHEEL = lazy_regex(r"(?:\A|/)torch-(\d+(?:\.\d+)*)(?:\+|%2[Bb]|-)[^/]*\.whl")
_INSTALLABLE = lazy_regex(r"[a-z0-9][a-z0-9_-]*\Z")
_WITH_TORCH = frozenset({"torchvision", "torchaudio"})
"""Distributions of which each release belongs to one release of torch, and asks for it itself."""

_BUILD = frozenset({"pytorch-cuda", "cudatoolkit", "cudnn", "pytorch-mutex"})


class RequirementChange(NamedTuple):
    """What became of one requirement.

    Attributes:
        place: Where it stood, as `file:line`; empty for one that was added.
        before: The requirement; empty for one that was added.
        after: What replaces it; empty where nothing does.
        reason: Why.
        decision: Whether a person has to look at it.
        stays: Whether the line stays as it is, with the reason above it.
    """

    place: str
    before: str
    after: str
    reason: Message
    decision: bool = False
    stays: bool = False


class TargetLists(NamedTuple):
    """The lists for a target.

    Attributes:
        main: The file to install.
        files: All files, with their texts.
        renamed: For each list of the project, the file that takes its place.
        changes: What became of the requirements that are not as they were.
        stack: The torch and the plugin.
        required: What is to be installed when all is done, as pip reads it, with its place.
    """

    main: str
    files: dict[str, str]
    renamed: dict[str, str]
    changes: tuple[RequirementChange, ...]
    stack: Stack
    required: tuple[tuple[str, str], ...]


def renamed(path: str, suffix: str) -> str:
    """Return what the list for the target is called."""
    pure = PurePosixPath(path)
    return str(pure.with_name(f"{pure.stem}{suffix}{pure.suffix}"))


def target_lists(
    lists: Lists,
    modules: tuple[ImportedModule, ...],
    target: Target,
    suffix: str,
    lang: str,
    extra: tuple[str, ...] = (),
) -> TargetLists:
    """Write the lists for a target.

    Args:
        lists: Those of the project.
        modules: What the code imports, from which a list is made where the project has none.
        target: The target.
        suffix: What the names of the new files end with, such as `_npu`.
        lang: Language of the comments.
        extra: What the migrated code needs beside torch and the plugin.
    """
    listed = lists.listed
    chosen = stack(target, [_torch_versions(item) for item in listed if item.name == "torch"])
    writer = _Writer(target, chosen, suffix, lang, extra)
    main = f"requirements{suffix}.txt"
    files: dict[str, str] = {}
    names: dict[str, str] = {}
    every = [*lists.main, *(path for path in lists.others if writer.would_change(path, lists.texts[path]))]
    for path in every:
        names[path] = main if path == "requirements.txt" else renamed(path, suffix)
    for path in every:
        files[names[path]] = writer.rewritten(path, lists.texts[path], names, top=path in lists.main[:1])
    if main not in files:
        if lists.main:
            inner = {other for path in lists.main for other, _ in included(path, lists.texts[path], False)}
            files[main] = writer.including([names[path] for path in lists.main if path not in inner])
        else:
            files[main] = writer.made_from(lists.declared or _from_imports(modules), declared=bool(lists.declared))
            if not lists.declared:
                files[main] += "".join(f"# {line}\n" for line in writer.other_imports(modules))
    return TargetLists(main, files, names, tuple(writer.changes), chosen, tuple(_required(writer, files, main)))


def _required(writer: _Writer, files: dict[str, str], main: str) -> Iterator[tuple[str, str]]:
    todo, seen = [main], set()
    while todo:
        path = todo.pop(0)
        if path in seen or path not in files:
            continue
        seen.add(path)
        todo += [other for other, _ in included(path, files[path])]
        for item in in_file(path, files[path]):
            yield item.text, item.place


def _from_imports(modules: tuple[ImportedModule, ...]) -> tuple[ListedRequirement, ...]:
    needed = [module for module in modules if module.needed and module.distribution]
    names = {module.distribution: module.place for module in reversed(needed)}
    return (
        ListedRequirement("torch", "torch", "", "", 0),
        *(
            ListedRequirement(normalised(name), name, "", place.rpartition(":")[0], int(place.rpartition(":")[2]))
            for name, place in sorted(names.items())
            if normalised(name) != "torch"
        ),
    )


def _torch_versions(item: ListedRequirement) -> str:
    """Return which versions of torch a requirement allows; those of a wheel are its own."""
    wheel = _WHEEL.search(item.specifier)
    return f"=={wheel[1]}" if wheel is not None else item.specifier


class _Writer:
    """Writes lists, and notes what became of each requirement."""

    def __init__(self, target: Target, chosen: Stack, suffix: str, lang: str, extra: tuple[str, ...]) -> None:
        self.target = target
        self.stack = chosen
        self.suffix = suffix
        self.lang = lang
        self.extra = extra
        self.changes: list[RequirementChange] = []
        self._placed = False
        self.from_index = isinstance(target.backend.PIP_NAME, str)

    # --- whole lists ---

    def would_change(self, path: str, text: str) -> bool:
        """Whether a list has a line that the target needs otherwise."""
        return any(_INDEX.match(line) for line in text.splitlines()) or any(
            self._fate(item, frozenset()) is not None for item in in_file(path, text)
        )

    def rewritten(self, path: str, text: str, names: dict[str, str], top: bool) -> str:
        """Return a list of the project as the target needs it, line by line."""
        origin = say("For {target}, made from {files}.", target=self.target.title, files=path)
        lines = [f"# {self._say(origin)}"]
        if top:
            lines += self._first_lines(has_index=any(_INDEX.match(line) for line in text.splitlines()))
        items = {item.line: item for item in in_file(path, text)}
        parts = self._parts(items.values())
        removing = False  # whether the line goes on one that became a comment
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            if removing:
                removing = line.rstrip().endswith("\\")
                lines.append(f"# {line}")
                continue
            include = next(iter(included(path, line)), None)
            if include is not None and include[0] in names:
                (start, end), wanted = include[1], names[include[0]]
                lines.append(line[:start] + _relative(wanted, path) + line[end:])
                continue
            if _INDEX.match(line) is not None:
                lines += self._index_line(line, f"{path}:{number}")
                continue
            item = items.get(number)
            fate = self._fate(item, parts) if item is not None else None
            if item is None or fate is None:
                lines.append(line)
                continue
            self.changes.append(fate)
            removing = line.rstrip().endswith("\\")
            lines += self._comment(fate, line)
        if top and not self._placed:
            lines += self._torch_lines()
        return "\n".join(lines) + "\n"

    def including(self, files: list[str]) -> str:
        """Return a list that installs others."""
        lines = [f"# {self._say(say('For {target}.', target=self.target.title))}", *(f"-r {file}" for file in files)]
        return "\n".join(lines) + "\n"

    def made_from(self, listed: tuple[ListedRequirement, ...], declared: bool) -> str:
        """Return a list of what is elsewhere: in a build file, or in the imports of the code."""
        if declared:
            origin = say(
                "For {target}, made from {files}.",
                target=self.target.title,
                files=", ".join(dict.fromkeys(item.path for item in listed)),
            )
        else:
            origin = say(
                "For {target}, made from the imports of the code, without versions: no list of requirements was read.",
                target=self.target.title,
            )
        lines = [f"# {self._say(origin)}", *self._first_lines(False)]
        parts = self._parts(listed)
        for item in dict.fromkeys(listed):
            fate = self._fate(item, parts)
            if fate is None:
                lines.append(item.text)
                continue
            self.changes.append(fate)
            lines += self._comment(fate, item.text)
        if not self._placed:
            lines += self._torch_lines()
        return "\n".join(lines) + "\n"

    def other_imports(self, modules: tuple[ImportedModule, ...]) -> Iterator[str]:
        """Yield what is said of imports that the list leaves out: optional ones, and those that no table knows."""
        for module in modules:
            if not module.distribution:
                unknown = say(
                    "torchferry does not know which package provides `{module}`: add it", module=module.module
                )
                yield f"{self._say(unknown)}  ({module.place})"
            elif not module.needed:
                yield f"{module.distribution}  ({module.place})"

    # --- single lines ---

    def _say(self, message: Message) -> str:
        return message.render(self.lang).replace("\n", " ")

    def _first_lines(self, has_index: bool) -> Iterator[str]:
        """Yield where torch's builds without CUDA are, where the plugin takes them and the list does not say it."""
        if self.from_index and not has_index:
            yield f"--extra-index-url {CPU_INDEX}"

    def _index_line(self, line: str, place: str) -> Iterator[str]:
        """Yield what takes the place of an index with CUDA builds."""
        changed = _changed_index(line)
        if changed == line:
            yield line
            return
        if not self.from_index:
            reason = say("{target} does not take torch from this index", target=self.target.title)
            self.changes.append(RequirementChange(place, line.strip(), "", reason))
            yield f"# {self._say(reason)}"
            yield f"# {line}"
            return
        self.changes.append(
            RequirementChange(place, line.strip(), changed.strip(), say("the index of builds without CUDA"))
        )
        yield changed

    def _comment(self, fate: RequirementChange, line: str) -> Iterator[str]:
        """Yield the lines in place of one requirement."""
        name = normalised(fate.before.partition("=")[0].strip()) if fate.before else ""
        if name == "torch" or fate.after.startswith("torch=="):
            if self._placed:
                yield f"# {line}"
            else:
                yield from self._torch_lines()
            return
        yield f"# {self._say(fate.reason)}"
        if fate.stays:
            yield line
            return
        yield f"# {line}"
        if fate.after:
            yield fate.after

    def _torch_lines(self) -> Iterator[str]:
        """Yield torch and the plugin, and what the migrated code needs with them."""
        self._placed = True
        yield from self.extra
        if not self.stack.torch:
            yield f"# {self._say(self.stack.reason)}"
            yield f"# {self.target.install.render(self.lang)}"
            return
        yield f"# torch {self.stack.torch}: {self._say(self.stack.reason)}"
        if self.stack.note is not None:
            yield f"# {self.stack.note.render(self.lang)}"
        wanted = [f"torch=={self.stack.torch}", *self.stack.plugins]
        if self.from_index:
            yield from wanted
            return
        first = say(
            "these are not from PyPI, and pip must not replace them; first: {install}", install=self.target.install
        )
        yield f"# {self._say(first)}"
        yield from (f"# {line}" for line in wanted)

    # --- single requirements ---

    @staticmethod
    def _parts(items: Iterable[ListedRequirement]) -> frozenset[str]:
        """Return the names of what torch's CUDA build brought along, as a frozen environment lists it."""
        found = list(items)
        libraries = [item.name for item in found if LIBRARY_WHEEL.match(item.name)]
        if len(libraries) > 1:
            return frozenset(item.name for item in found if item.name == "triton" and item.specifier.startswith("=="))
        return frozenset()

    def _fate(self, item: ListedRequirement, parts: frozenset[str]) -> RequirementChange | None:
        """Return what becomes of a requirement; None where it stays as it is and nothing is to be said."""
        place = item.place if item.path else ""
        if item.name == "torch":
            after = f"torch=={self.stack.torch}" if self.stack.torch and self.from_index else ""
            return RequirementChange(place, item.text, after, self.stack.reason, self.stack.decision)
        if normalised(item.name) in {normalised(plugin.partition("==")[0]) for plugin in self.stack.plugins}:
            return RequirementChange(place, item.text, "", say("listed below torch, in the version that fits it"))
        loosened = self._with_torch(item, place) if item.name in _WITH_TORCH else None
        if loosened is not None:
            return loosened
        package = known_package(item.name, Kind.REQUIREMENTS)
        if LIBRARY_WHEEL.match(item.name) or item.name in parts or package in _BUILD:
            return RequirementChange(place, item.text, "", say("it belongs to torch's CUDA build"))
        if package is None or cuda.packages()[package].kind in ("torch", "plain", *cuda.OTHER_FRAMEWORKS):
            return None
        row = self.target.row("packages", package)
        if row.status == "same":
            return None
        reason = advice(self.target.title, item.name, row)
        if row.status in ("partial", "unknown"):
            return RequirementChange(place, item.text, item.text, reason, row.status == "unknown", True)
        if self.from_index and row.status in ("renamed", "equivalent") and _INSTALLABLE.match(row.use):
            return RequirementChange(place, item.text, row.use, reason)
        if cuda.packages()[package].kind == "framework" and row.status != "missing":
            return RequirementChange(place, item.text, item.text, reason, stays=True)
        return RequirementChange(place, item.text, "", reason, row.status == "missing")

    def _with_torch(self, item: ListedRequirement, place: str) -> RequirementChange | None:
        """Return what becomes of a library that is released with torch: pip finds the one that asks for this torch."""
        if not self.stack.torch or not item.specifier or item.specifier.startswith(">"):
            return None
        return RequirementChange(
            place,
            item.text,
            item.name,
            say("without a version, so that pip takes the one that fits torch {torch}", torch=self.stack.torch),
        )


def _changed_index(line: str) -> str:
    """Return an option that names an index of CUDA builds with that of the others; others as they are."""
    option, _, address = line.strip().replace("=", " ", 1).partition(" ")
    option = {"-i": "--extra-index-url", "--index-url": "--extra-index-url"}.get(option, option)  # PyPI has the plugin
    if "/cu" not in address and "torch_stable" not in address:
        return line
    return f"{option} {CPU_INDEX}"


def _relative(path: str, importer: str) -> str:
    """Return how a list names another one: relative to its own folder."""
    folder = importer.rpartition("/")[0]
    own, other = folder.split("/") if folder else [], path.split("/")
    while own and len(other) > 1 and own[0] == other[0]:
        own, other = own[1:], other[1:]
    return "/".join([*([".."] * len(own)), *other])
