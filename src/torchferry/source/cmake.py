"""What CMake files build, read as text: targets with their sources, variables, options, and what they are linked to.

Nothing is run: a variable has what the file itself gives it, an `if` decides where an option of the file does, and
otherwise both of its branches are read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.kinds import Kind
from torchferry.source.native import code_of

_COMMAND = lazy_regex(r"(?m)^[ \t]{0,200}(?P<name>[A-Za-z_]\w{0,80})[ \t]{0,20}\(")
_PARENTHESIS = lazy_regex(r"[()]")
_WORD = lazy_regex(r"\"(?:[^\"\\]|\\.)*\"?|[^\s\"]+")
_REFERENCE = lazy_regex(r"\$\{(?P<name>[\w.-]{1,100})\}")
_OF_CUDA = lazy_regex(r"(?i)cuda|cublas|cudnn|cudart|nvinfer|tensorrt|nccl|cufft|curand|nvrtc")
_TARGETS = frozenset({
    "add_library", "add_executable", "cuda_add_library", "cuda_add_executable", "nanobind_add_module",
    "pybind11_add_module", "python_add_library", "python3_add_library",
})  # fmt: skip
_KINDS = frozenset({
    "ALIAS", "BEFORE", "EXCLUDE_FROM_ALL", "GLOBAL", "IMPORTED", "INTERFACE", "MODULE", "NO_EXTRAS", "OBJECT",
    "PRIVATE", "PUBLIC", "SHARED", "STABLE_ABI", "STATIC", "THIN_LTO", "WITH_SOABI",
})  # fmt: skip
"""Words among the sources of a target that are none."""

_HERE = frozenset({"CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR", "PROJECT_SOURCE_DIR", "CMAKE_SOURCE_DIR"})
_ON = frozenset({"ON", "TRUE", "YES", "1", "Y"})
_OFF = frozenset({"OFF", "FALSE", "NO", "0", "N"})
_MOST_WORDS = 5_000


def _commands(code: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a file: the name in small letters, and the content of the parentheses."""
    at = 0
    while (begin := _COMMAND.search(code, at)) is not None:
        depth, end = 1, len(code)
        for sign in _PARENTHESIS.finditer(code, begin.end()):
            depth += 1 if sign[0] == "(" else -1
            if not depth:
                end = sign.start()
                break
        yield begin["name"].lower(), code[begin.end() : end]
        at = end + 1


class CMakeTarget:
    """Something that a CMake file builds.

    Attributes:
        command: The command that declares it, in small letters.
        name: Its name.
        is_module: Whether it is made to be loaded.
        sources: Its sources, as far as they can be told.
        links: What it is linked to.
        is_open: Whether it has sources that cannot be told.
    """

    __slots__ = ("command", "is_module", "is_open", "links", "name", "names", "sources")

    def __init__(self, command: str, name: str) -> None:
        self.command = command
        self.name = name
        self.names = [name]
        self.is_module = command.endswith("module") or command.startswith("python")
        self.sources: list[str] = []
        self.links: list[str] = []
        self.is_open = False


class CMakeFile:
    """The targets of a CMake file.

    Args:
        path: The file.
        text: Its text.
        paths: The sources of the project.
        is_said: Says whether anything sets an option, `-DNAME=ON`.
    """

    def __init__(self, path: str, text: str, paths: Iterable[str], is_said: Callable[[str], bool]) -> None:
        self._folder = path.rpartition("/")[0]
        self._paths = paths
        self._is_said = is_said
        self._variables: dict[str, list[str]] = {name: ["."] for name in _HERE}
        self._options: dict[str, bool] = {}
        self._of_cuda: set[str] = set()
        self.targets: dict[str, CMakeTarget] = {}
        self._read(code_of(Kind.CMAKE, text))
        self._speaks_of_cuda = "cuda" in text.lower()

    def is_from_cuda(self, target: CMakeTarget) -> bool:
        """Whether CUDA is among what a target is made of, or linked to."""
        seen: set[str] = set()
        todo = [target]
        while todo:
            part = todo.pop()
            if part.name in seen:
                continue
            seen.add(part.name)
            if part.command.startswith("cuda_") or (part.is_open and self._speaks_of_cuda):
                return True
            if any(source.endswith(".cu") or source in self._of_cuda for source in part.sources):
                return True
            if any(_OF_CUDA.search(link) for link in part.links if link not in self.targets):
                return True
            todo += (self.targets[link] for link in part.links if link in self.targets)
        return False

    def _read(self, code: str) -> None:
        truths: list[bool | None] = []
        for name, rest in _commands(code):
            if name == "if":
                truths.append(self._holds(rest))
            elif name in ("else", "elseif") and truths:
                before = truths.pop()
                truths.append(None if before is None or (name == "elseif" and not before) else not before)
            elif name == "endif" and truths:
                truths.pop()
            elif False not in truths:
                self._take(name, _WORD.findall(rest)[:_MOST_WORDS])

    def _holds(self, condition: str) -> bool | None:
        """Return whether a condition holds, where an option of the file decides it; else None."""
        words = condition.split()
        negated = words[:1] == ["NOT"]
        held = self._options.get(words[-1]) if len(words) == 1 + negated else None
        return None if held is None else held is not negated

    def _take(self, command: str, words: list[str]) -> None:
        if command == "option" and words:
            value = words[-1].upper() if len(words) > 2 else "OFF"
            self._options[words[0]] = value in _ON or self._is_said(words[0])
        elif command == "project" and words:
            self._variables["PROJECT_NAME"] = self._variables["CMAKE_PROJECT_NAME"] = self._expanded(words[:1])
        elif command == "set" and words:
            self._set(words)
        elif command == "list" and len(words) > 1 and words[0] in ("APPEND", "PREPEND", "INSERT"):
            self._variables.setdefault(words[1], []).extend(self._expanded(words[2:]))
        elif command == "file" and len(words) > 2 and words[0] in ("GLOB", "GLOB_RECURSE"):
            self._variables[words[1]] = self._found(self._expanded(words[2:]), words[0] == "GLOB_RECURSE")
        elif command == "aux_source_directory" and len(words) > 1:
            self._variables[words[1]] = self._found([f"{each}/*" for each in self._expanded(words[:1])], False)
        elif command in _TARGETS and words:
            name = "".join(self._expanded(words[:1]))
            target = self.targets.setdefault(name, CMakeTarget(command, name))
            target.is_module = target.is_module or "MODULE" in words[1:3]
            self._add(target, words[1:])
        elif command in ("target_sources", "target_link_libraries", "cuda_add_cublas_to_target") and words:
            target = self.targets.get("".join(self._expanded(words[:1])), CMakeTarget("", ""))
            if command == "target_sources":
                self._add(target, words[1:])
            else:
                target.links += [*words[1:], *self._expanded(words[1:])] if len(words) > 1 else [command]
        elif command == "set_source_files_properties" and "LANGUAGE" in words and "CUDA" in words:
            self._of_cuda.update(map(self._placed, self._expanded(words[: words.index("PROPERTIES")])
                                     if "PROPERTIES" in words else ()))  # fmt: skip
        elif command == "set_target_properties" and "OUTPUT_NAME" in words[:-1]:
            target = self.targets.get("".join(self._expanded(words[:1])), CMakeTarget("", ""))
            target.names += self._expanded([words[words.index("OUTPUT_NAME") + 1]])

    def _set(self, words: list[str]) -> None:
        values = words[1:]
        if "CACHE" in values:
            values = values[: values.index("CACHE")]
        self._variables[words[0]] = self._expanded([word for word in values if word != "PARENT_SCOPE"])
        if len(values) == 1 and values[0].upper() in _ON | _OFF:
            self._options[words[0]] = values[0].upper() in _ON or self._is_said(words[0])

    def _add(self, target: CMakeTarget, words: list[str]) -> None:
        for word in self._expanded(words):
            if word in _KINDS:
                continue
            target.is_open = target.is_open or "$" in word
            target.sources.append(self._placed(word))

    def _placed(self, word: str) -> str:
        return posixpath.normpath(posixpath.join(self._folder, word))

    def _found(self, patterns: Iterable[str], is_deep: bool) -> list[str]:
        """Return the files of the project that patterns mean, told from the folder of the file."""
        files: dict[str, None] = {}
        for pattern in patterns:
            if "$" in pattern:
                return [pattern]  # nobody can tell which files these are
            placed = self._placed(pattern)
            for path in self._paths:
                folder = path.rpartition("/")[0] if is_deep else ""
                inside = is_deep and f"{folder}/".startswith(f"{posixpath.dirname(placed)}/".lstrip("./"))
                name = posixpath.basename(placed)
                in_folder = posixpath.dirname(path) == posixpath.dirname(placed)
                if (fnmatch(path, placed) and in_folder) or (inside and fnmatch(posixpath.basename(path), name)):
                    files[posixpath.relpath(path, self._folder or ".")] = None
        return list(files)

    def _expanded(self, words: Iterable[str], depth: int = 0) -> list[str]:
        """Return words with what represents their variables; what nobody can tell stays."""
        texts: list[str] = []
        for word in words:
            text = word.strip('"')
            whole = _REFERENCE.fullmatch(text)
            if whole is not None and whole["name"] in self._variables:
                texts += self._variables[whole["name"]]
            else:
                text = _REFERENCE.sub(self._value, text)
                texts += [each for each in text.split(";") if each]
            if len(texts) > _MOST_WORDS:
                return [*texts[:_MOST_WORDS], "$"]
        return texts

    def _value(self, match: re.Match[str]) -> str:
        return ";".join(self._variables.get(match["name"], [match[0]]))
