"""Classes that settings name, and a library or the project's own loader makes objects of.

`_target_: models.net.Net` (hydra), `target: models.net.Net` with a loader that calls `import_module`, `class_path:`
(Lightning's command line): no import says what a program reaches, its settings do.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.record import NamedTuple
from torchferry.rules.library.named_in_settings import names_in_tags
from torchferry.source.kinds import Kind, kind_of

_NAME = re.compile(
    r"(?:^|[:\[,{]|-)[ \t]*([\"']?)((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)\1[ \t\r]*(?=[,}\]#]|$)", re.MULTILINE
)
_QUOTED_NAME = re.compile(r"\"((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)\"")
_DOT = re.compile(r"\.(?<=\w\.)(?=[A-Za-z_])")
_COMMENT = re.compile(r"#(?:(?<=^#)|(?<=[ \t]#))[^\n]*", re.MULTILINE)
_FILE = re.compile(r"[\"']([\w./-]+\.(?:ya?ml|json))[\"']")
_HYDRA = "hydra.main("
_GIVEN = re.compile(r"\b(config_path|config_name)\s*=\s*")
_TEXT = re.compile(r"[\"']([^\"'\n]*)[\"']")
_LONGEST = 2_000
"""Characters of the arguments of `hydra.main`."""
_DEFAULTS = re.compile(r"^defaults:[ \t]*\r?\n(?P<items>(?:[ \t]*(?:-[^\n]*|#[^\n]*)?\r?(?:\n|\Z))+)", re.MULTILINE)
_DEFAULT = re.compile(
    r"^[ \t]*-[ \t]+(?:(?:optional|override)[ \t]+)*/?([\w/.@-]+)(?:[ \t]*:[ \t]*([\w/.-]+))?", re.MULTILINE
)

LIBRARIES = frozenset(
    {"hydra", "omegaconf", "lightning", "pytorch_lightning", "jsonargparse", "detectron2", "confection", "gin"}
)
"""Libraries that make objects of the classes which settings name."""

_MAKERS = ("instantiate(", "get_class(", "get_object(", "CLI(")
_OVERRIDE = re.compile(r"[\"'][+~]{0,2}[\w.@/]*\b_target_=((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)[\"']")
_SAID = re.compile(r"(?:[\"']_target_[\"'][ \t]*:|\b_target_[ \t]*=)[ \t]*[\"']((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)[\"']")
_MAKES = re.compile(r"\b(?:instantiate|get_class|get_object|LightningCLI|CLI)\(")

_READS_TAGS = re.compile(r"\b(?:unsafe_load|load)(?:_all)?\((?![^()\n]{0,200}(?:Safe|Base|Full)Loader)")

_BUILDS = re.compile(
    r"\b(?:Runner\.from_cfg|(?:RUNNERS|MODELS|DATASETS|DETECTORS|SEGMENTORS)\.build|init_(?:detector|model|segmentor)"
    r"|(?:Det|Seg|Pose|ImageClassification|Text|MMOCR)\w*Inferencer)\("
)
"""How programs of mmengine build what a configuration names."""

_LOADS = "LazyConfig.load("
"""How programs of detectron2 load settings that are Python."""

_LOADS_VARIABLES = "dotenv"
"""How programs load the variables in a `.env` file."""

REGISTERS = ".register_module("
"""What registers a class by its name with mmengine."""


class ComposedFile(NamedTuple):
    """A settings file that hydra takes in, and the keys below which it puts what the file says."""

    path: str
    package: str


FROM_ROOT = "//"
"""Stands before a path that is told from the project's root, as that of the file itself is."""

_HEADER = re.compile(r"(?:#[^\n]*\n|\s)*?#[ \t]*@package[ \t]+([\w.]+)")


class SettingsFiles:
    """The settings files of a project, read when a program needs them.

    Args:
        root: The project's folder.
        paths: The YAML, JSON and TOML files, and those that have a setting on a line.
    """

    def __init__(self, root: Path, paths: Iterable[str] = ()) -> None:
        self._root = root
        listed = frozenset(paths)
        self._in_lines = sorted(path for path in listed if kind_of(path) is Kind.INI)
        self.documents = listed.difference(self._in_lines)
        self.paths = frozenset(path for path in self.documents if not path.endswith(".toml"))
        self._texts: dict[str, str] = {}
        self._dotted: dict[str, tuple[str, ...]] = {}
        self._given: dict[tuple[str, str], bool] = {}

    def text(self, path: str) -> str:
        """Return the text of a settings file; empty when it cannot be read."""
        if path not in self._texts:
            try:
                data = read_regular(self._root / path, LARGEST_SETTINGS)
            except OSError:
                data = b""
            self._texts[path] = data.decode("utf-8", "replace")
        return self._texts[path]

    def names(self, paths: Iterable[str] | None = None) -> Iterator[str]:
        """Yield the dotted names in some settings files, in all when none are given, each once."""
        seen: set[str] = set()
        for path in sorted(self.paths) if paths is None else paths:
            for name in self.dotted_in(path):
                if name not in seen:
                    seen.add(name)
                    yield name

    def dotted_in(self, path: str) -> tuple[str, ...]:
        """Return the dotted names in a settings file, each as often as it is there."""
        if path not in self._dotted:
            text = self.text(path)
            # JSON quotes each value, and what else has dots in it is prose: large files hold examples to learn from
            is_json = path.endswith(".json")
            self._dotted[path] = tuple(_QUOTED_NAME.findall(text) if is_json else dotted_names(text))
        return self._dotted[path]

    def tagged(self) -> Iterator[str]:
        """Yield the names by which tags of PyYAML call what Python has, in all settings files."""
        for path in sorted(self.paths):
            yield from (tag[1] for tag in names_in_tags(self.text(path)))

    def of_program(self, path: str, text: str, arguments: Iterable[str]) -> tuple[str, ...]:
        """Return the settings files that a program is started with, or that it names itself.

        Args:
            path: The program's file.
            text: Its text.
            arguments: What follows it in the command that starts it.
        """
        words = [word for argument in arguments for word in (argument, argument.partition("=")[2]) if word]
        files = [existing for word in words for existing in [self._existing(word, path)] if existing is not None]
        hydra = _hydra_arguments(text)
        if hydra is not None:
            files += (inner.path for inner in self._composed(hydra, path, words))
        if not any(map(self.dotted_in, files)):  # they say nothing of classes
            files += (
                existing
                for word in _FILE.findall(text)
                for existing in [self._existing(word, path)]
                if existing is not None
            )
        return tuple(dict.fromkeys(files))

    def in_lines(self, text: str, arguments: Iterable[str]) -> Iterator[str]:
        """Yield the files with a setting on a line that a program names, or is started with.

        Args:
            text: The text of the program's file.
            arguments: What follows it in the command that starts it.
        """
        words = tuple(arguments)
        for path in self._in_lines:
            name = path.rpartition("/")[2]
            is_loaded = name.startswith(".env") and _LOADS_VARIABLES in text
            if is_loaded or name in text or any(word.endswith(name) for word in words):
                yield path

    def may_give(self, owner: str, parameter: str) -> bool:
        """Whether a settings file that names a class or function, by a dotted name, may give it a parameter."""
        if (owner, parameter) not in self._given:
            naming = self._naming(re.compile(rf"\.{re.escape(owner)}\b"), owner)
            self._given[owner, parameter] = any(map(_sets(parameter).search, naming))
        return self._given[owner, parameter]

    def may_choose(self, paths: Iterable[str], owner: str, parameter: str) -> bool:
        """Whether one of some settings files that has a name as a value may give a parameter to what it means.

        Code may look it up by that name, `getattr(nets, cfg.name)(**cfg.args)`, and call it with what else is said.
        """
        chosen = re.compile(rf"(?m)[:,\[-][ \t]*[\"']?{re.escape(owner)}[\"']?[ \t\r]*(?:[,\]}}#]|$)")
        texts = (text for text in map(self.text, paths) if owner in text and parameter in text)
        return any(chosen.search(text) and _sets(parameter).search(text) for text in texts)

    def names_class(self, name: str) -> bool:
        """Whether a settings file names a class, by itself or at the end of a dotted name."""
        if (name, "") not in self._given:
            self._given[name, ""] = any(self._naming(re.compile(rf"\b{re.escape(name)}\b"), name))
        return self._given[name, ""]

    def _naming(self, name: re.Pattern[str], word: str) -> Iterator[str]:
        """Yield the texts of the settings files that hold a name."""
        texts = map(self.text, sorted(self.paths))
        return (text for text in texts if word in text and name.search(text) is not None)

    def alternatives(self, path: str, text: str) -> Iterator[tuple[str, str]]:
        """Yield the settings files that hydra takes in when a command says so, each with what the command says.

        Args:
            path: The program's file.
            text: Its text.
        """
        hydra = _hydra_arguments(text)
        if hydra is None:
            return
        root = self._hydra_root(hydra, path)
        for file in sorted(self.paths):
            group, slash, value = file.removeprefix(f"{root}/").rpartition("/")
            if slash and (root == "." or file.startswith(f"{root}/")):
                yield file, f"{group}={value.removesuffix('.yaml').removesuffix('.yml')}"

    def _existing(self, word: str, path: str) -> str | None:
        if not word.endswith((".yaml", ".yml", ".json")):
            return None
        for folder in ("", path.rpartition("/")[0]):
            path_of_word = posixpath.normpath(f"{folder}/{word}" if folder else word.lstrip("/"))
            if path_of_word in self.paths:
                return path_of_word
        # in the folder of a package that hydra looks in, or where the command is run in another folder
        inner = posixpath.normpath(word)
        ending = [each for each in self.paths if each.endswith(f"/{inner}")] if "/" in inner else []
        return ending[0] if len(ending) == 1 else None

    def composed(self, path: str, text: str, arguments: Iterable[str]) -> tuple[ComposedFile, ...]:
        """Return the settings files that hydra puts together for a program, the primary one first.

        The arguments are those of `of_program`.
        """
        hydra = _hydra_arguments(text)
        words = [*arguments]
        return () if hydra is None else tuple(self._composed(hydra, path, words))

    def opened(self, word: str, path: str) -> str | None:
        """Return the settings file that a program opens by a name: from its own folder, or that of the project."""
        if word.startswith(FROM_ROOT):
            path_of_word = posixpath.normpath(word.removeprefix(FROM_ROOT).lstrip("/"))
            return path_of_word if path_of_word in self.documents else None
        for folder in ("", path.rpartition("/")[0]):
            path_of_word = posixpath.normpath(posixpath.join(folder, word))
            if path_of_word in self.documents:
                return path_of_word
        return None

    def _hydra_root(self, given: dict[str, str], path: str) -> str:
        """Return the folder of hydra's settings: beside the program, or in a package, as `files("pkg")` says it."""
        expression = given.get("config_path", "")
        texts = _TEXT.findall(expression)
        if "files(" in expression and texts:
            wanted = posixpath.normpath("/".join((texts[0].replace(".", "/"), *texts[1:])))
            for file in sorted(self.paths):
                before, separator, _ = f"/{file}".partition(f"/{wanted}/")
                if separator:
                    return f"{before}/{wanted}".lstrip("/")
        folder = _text_of(expression) or ("/".join(texts) if "__file__" in expression else "")
        return posixpath.normpath(f"{path.rpartition('/')[0] or '.'}/{folder}")

    def _composed(self, given: dict[str, str], path: str, words: list[str]) -> Iterator[ComposedFile]:
        """Yield the files that hydra puts together: the primary one, and for each group the one that is chosen."""
        root = self._hydra_root(given, path)
        chosen = dict(word.lstrip("+~").partition("=")[::2] for word in words if "=" in word)
        name = _text_of(given.get("config_name", ""))
        named = next((word for option, word in pairwise(words) if option in _PRIMARY), name)
        todo = deque([(named, ""), *((f"{group}/{value}", _package(group)) for group, value in chosen.items())])
        seen: set[str] = set()
        while todo:
            item, package = todo.popleft()
            inner = posixpath.normpath(item.lstrip("/")).removesuffix(".yaml").removesuffix(".yml")
            file = next(
                (f for f in (f"{root}/{inner}.yaml", f"{root}/{inner}.yml") if f.removeprefix("./") in self.paths), ""
            )
            file = file.removeprefix("./")
            if not file or file in seen:
                continue
            seen.add(file)
            text = self.text(file)
            header = _HEADER.match(text)
            if header is not None:
                package = {"_global_": "", "_group_": _package(inner.rpartition("/")[0])}.get(header[1], header[1])
            yield ComposedFile(file, package)
            folder = inner.rpartition("/")[0]
            for defaults in _DEFAULTS.finditer(text):
                for group, value in _DEFAULT.findall(defaults["items"]):
                    group, at, place = group.partition("@")
                    item = f"{group}/{chosen.get(group, value)}" if value else group
                    place = "" if place == "_global_" else place if at else _package(group if value else "")
                    below = ".".join(part for part in (package, place) if part)
                    todo += [(item, place), (f"{folder}/{item}", below)] if folder else [(item, below)]


def _sets(key: str) -> re.Pattern[str]:
    """Return what finds a key that a settings file gives a value."""
    return re.compile(rf"(?m)(?:^[ \t-]*|[{{,][ \t]*)[\"']?{re.escape(key)}[\"']?[ \t]*:")


def _package(group: str) -> str:
    """Return where hydra puts what a file of a group says."""
    return group.strip("/").replace("/", ".")


def dotted_names(text: str) -> Iterator[str]:
    """Yield the dotted names in a text; only the context of a dot between two letters, up to commas, is read."""
    end = 0
    for dot in _DOT.finditer(text):
        if dot.start() < end:
            continue
        start, end = text.rfind("\n", 0, dot.start()) + 1, text.find("\n", dot.end())
        end = end if end >= 0 else len(text)
        line, done = _COMMENT.sub("", text[start:end]), 0
        for inner in _DOT.finditer(line):
            if inner.start() >= done:
                first, done = max(line.rfind(",", 0, inner.start()), 0), line.find(",", inner.end()) + 1 or len(line)
                for _, name in _NAME.findall(line[first:done]):
                    yield name


_PRIMARY = frozenset({"--config-name", "-cn"})


def _hydra_arguments(text: str) -> dict[str, str] | None:
    """Return the expressions that a program gives `hydra.main` for its settings; None where it has no such."""
    at = text.find(_HYDRA)
    if at < 0:
        return None
    parts, depth, start = [], 1, at + len(_HYDRA)
    for end in range(start, min(start + _LONGEST, len(text))):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if depth == 0 or (depth == 1 and text[end] == ","):
            parts.append(text[start:end])
            start = end + 1
        if depth == 0:
            break
    given = ((_GIVEN.search(part), part) for part in parts)
    return {match[1]: part[match.end() :].strip() for match, part in given if match is not None}


def _text_of(expression: str) -> str:
    """Return the text that an expression is; empty for any other expression."""
    match = _TEXT.fullmatch(expression)
    return match[1] if match is not None else ""


def made_in(text: str) -> int:
    """Return the line on which a file hands settings to a library that makes objects of what they name, or 0."""
    match = _MAKES.search(text) if any(maker in text for maker in _MAKERS) else None
    return text.count("\n", 0, match.start()) + 1 if match is not None else 0


def overridden_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the classes that a file puts in place of those in the settings, with the line of each.

    hydra composes settings with overrides such as `"++model._target_=models.net.Net"`.
    """
    for match in _OVERRIDE.finditer(text) if "_target_=" in text else ():
        yield match[1], text.count("\n", 0, match.start()) + 1


def said_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the classes that a file names in settings of its own, with the line of each: `{"_target_": "nets.Net"}`."""
    for match in _SAID.finditer(text) if "_target_" in text else ():
        yield match[1], text.count("\n", 0, match.start()) + 1


def tags_read_in(text: str) -> int:
    """Return the line on which a file reads YAML whose tags may make objects of classes, or 0."""
    match = _READS_TAGS.search(text)
    return text.count("\n", 0, match.start()) + 1 if match is not None else 0


def built_in(text: str) -> int:
    """Return the line on which a program of mmengine builds what a configuration names, or 0."""
    match = _BUILDS.search(text) if "mmengine" in text or "mmcv" in text else None
    return text.count("\n", 0, match.start()) + 1 if match is not None else 0


def loaded_in(text: str) -> int:
    """Return the line on which a program of detectron2 loads settings that are Python, or 0."""
    at = text.find(_LOADS)
    return text.count("\n", 0, at) + 1 if at >= 0 else 0
