"""What decides a condition when nothing is said: options of the command line, settings and constants, by their name.

`parser.add_argument("--use-flash", action="store_true")` makes `args.use_flash` false until somebody says
`--use-flash`; a field `use_flash: bool = False` of a configuration class, or `use_flash: false` in the YAML files of
the project, says the same. Names are taken as they stand: who reads `args.use_flash` means the option of that name in
the files that the program reaches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from torchferry.backends.target import Target
from torchferry.core.record import NamedTuple
from torchferry.programs.sources import Sources
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.python import PythonFile

_OPTION_CALLS = frozenset({"add_argument", "option", "DEFINE_bool", "DEFINE_boolean", "DEFINE_string", "DEFINE_enum",
                           "DEFINE_integer", "add_flag"})  # fmt: skip
RECORDS = frozenset({"HParams", "EasyDict", "edict", "AttrDict", "ConfigDict", "Namespace", "SimpleNamespace", "Munch"})
"""What holds settings by the names of its arguments: `HParams(fp16_run=False)`."""

_NAMES = (*RECORDS, "add_argument", "DEFINE_", "dataclass", "BaseModel", "NamedTuple", "click")
_SIGNS = (("option", ".option"), ("bool", ": bool"), ("str", ": str"))
"""What stands in the text of a file that may define a switch: one of the names, or a name behind a sign."""


class Unsaid:
    """The value of a switch that nothing gives by itself."""

    def __reduce__(self) -> str:
        return "UNSAID"  # there is one, also in what another process hands over


UNSAID = Unsaid()
Value = object


class Switch(NamedTuple):
    """Something that decides by its value.

    Attributes:
        name: Its name in the code, such as `use_flash`.
        value: Its value when nothing is said; `UNSAID` where it must be said.
        flag: How it is said, such as `--use-flash`; the name itself for a setting.
        path: The file that defines it; empty for a setting.
        line: The line.
    """

    name: str
    value: Value
    flag: str
    path: str
    line: int


class Values(Protocol):
    """The values that keys have in settings files."""

    def get(self, name: str, /) -> set[str] | None:
        """Return the values of a key, or None where no file has it."""


class Settings:
    """What settings files say; only those that may hold a key are looked into for it.

    Args:
        texts: Their texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._values: dict[str, set[str]] = {}
        self._with_key: dict[str, list[str]] | None = None

    def get(self, name: str, /) -> set[str] | None:
        """Return the values of a key, or None where no file has it."""
        if name not in self._values:
            found = self._values[name] = set()
            for text in self._by_key().get(name, ()) if _KEY.match(name) is not None else ():
                found.update(_values_in(text, name))
        return self._values[name] or None

    def _by_key(self) -> dict[str, list[str]]:
        """Return the texts that may hold each key: those in which it stands before a colon."""
        if self._with_key is None:
            self._with_key = {}
            for text in self._texts:
                for reversed_key in set(_REVERSED_KEY.findall(text[::-1])):  # a search for the colon is the quickest
                    self._with_key.setdefault(reversed_key[::-1], []).append(text)
        return self._with_key


class Switchboard:
    """The switches of a project's files, read once for all programs.

    Args:
        sources: The project's files.
        settings: Returns what the project's settings files say: for each key the values that it has.
        known: The switches of files in which they were looked for already, by the files.
    """

    def __init__(
        self,
        sources: Sources,
        settings: Callable[[], Values],
        known: Mapping[str, dict[str, list[Switch]]] | None = None,
    ) -> None:
        self.sources = sources
        self._read_settings = settings
        self._settings: Values | None = None
        self._by_path = dict(known or {})
        self._noted: dict[str, list[str]] = {}
        for path, switches in self._by_path.items():
            for name in switches:
                self._noted.setdefault(name, []).append(path)
        self._unread_files: frozenset[str] | None = None
        self._defining: dict[str, frozenset[str]] = {}
        self._recording: frozenset[str] | None = None

    @property
    def _unread(self) -> frozenset[str]:
        """The files that may define a switch, of those in which nobody looked for them."""
        if self._unread_files is None:
            text, paths = self.sources.text, self.sources.words.paths
            self._unread_files = frozenset(
                path for path in paths if path not in self._by_path and may_define(text(path))
            )
        return self._unread_files

    @property
    def settings(self) -> Values:
        """What the settings files say."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    def defining(self, name: str) -> frozenset[str]:
        """Return the files that define the switch of a name, or may define it, judged by their texts."""
        if name not in self._defining:
            words = self.sources.words
            may = self._unread
            if name.isidentifier():
                may = words.declaring(name, self._unread) | self._with_records().intersection(words.holding(name))
            self._defining[name] = may.union(self._noted.get(name, ()))
        return self._defining[name]

    def _with_records(self) -> frozenset[str]:
        """Return the files that may keep settings in a record, of those in which nobody looked for switches."""
        if self._recording is None:
            calling = (path for record in RECORDS for path in self.sources.words.as_call(record))
            self._recording = self._unread.intersection(calling)
        return self._recording

    def of(self, path: str) -> dict[str, list[Switch]]:
        """Return the switches that a file defines, by their names."""
        if path not in self._by_path:
            loaded = self.sources.file(path) if may_define(self.sources.text(path)) else None
            self._by_path[path] = switches_of(loaded[0]) if loaded is not None else {}
        return self._by_path[path]


class Switches:
    """The switches that one program reaches, by name.

    Args:
        board: The switches of the project.
        paths: The files that the program reaches, its own first.
        target: Where it is to run; None where packages are not asked for.
    """

    def __init__(self, board: Switchboard, paths: Iterable[str], target: Target | None = None) -> None:
        self._board = board
        self._target = target
        self._paths = tuple(paths)
        self._by_name: dict[str, list[Switch]] = {}

    def is_there(self, module: str) -> bool | None:
        """Whether the target has a package, by the name of its module; None where no table speaks of it."""
        found = self._target.package_of_module(module) if self._target is not None else None
        if found is None or found[1].status == "unknown":
            return None
        # what has another in its place is itself not there, but for what comes with torch
        return found[1].status in ("same", "partial") or (found[1].status != "missing" and found[0].kind == "torch")

    def get(self, name: str) -> Switch | None:
        """Return the switch of a name, or None when there is none; `UNSAID` when several say different things."""
        if name not in self._by_name:
            found: list[Switch] = []
            self._by_name[name] = found
            defining = self._board.defining(name)
            for path in self._paths if defining else ():
                if path in defining and (not found or found[0].path != self._paths[0]):  # the program's own win
                    found += self._board.of(path).get(name, ())
        found = self._by_name[name]
        values = self._board.settings.get(name) if found or name not in _COMMON else None
        if values is not None:
            value = _read(next(iter(values))) if len(values) == 1 else UNSAID
            if not found:
                return Switch(name, value, name, "", 0)
            if found[0].value is UNSAID:
                return found[0]._replace(value=value)
            return found[0] if value is not UNSAID and value == found[0].value else found[0]._replace(value=UNSAID)
        if not found:
            return None
        alike = all(type(other.value) is type(found[0].value) and other.value == found[0].value for other in found)
        return found[0] if alike else found[0]._replace(value=UNSAID)


_COMMON = frozenset({"name", "type", "path", "size", "shape", "model", "data", "value", "key", "mode", "id"})
"""Keys that settings files use for many things: what one says is nothing about an attribute of that name."""


def may_define(text: str, names: bytes | None = None) -> bool:
    """Whether a file may define a switch, judged by its text.

    Args:
        text: The text.
        names: Its names in ASCII, each once, where they are known: they are a fifth of it.
    """
    said = text if names is None else names.decode("ascii")
    return any(name in said for name in _NAMES) or any(name in said and sign in text for name, sign in _SIGNS)


def switches_of(file: PythonFile) -> dict[str, list[Switch]]:
    """Return the switches that a file defines, by their names."""
    found: dict[str, list[Switch]] = {}
    for switch in _defined_in(file):
        found.setdefault(switch.name, []).append(switch)
    for name, value in _set_defaults(file):
        found[name] = [switch._replace(value=value) for switch in found.get(name, ())]
    return found


def _defined_in(file: PythonFile) -> Iterator[Switch]:
    """Yield the switches that a file defines, with their first defaults."""
    seen: set[ast.AST] = set()
    are_declared = any(name in file.attributes or name in file.names for name in _OPTION_CALLS)
    for constant in file.strings if are_declared else ():
        call = file.parents.get(constant)
        if isinstance(call, ast.keyword) and call.arg == "dest":
            call = file.parents.get(call)
        if not isinstance(call, ast.Call) or call in seen or last_name(call.func) not in _OPTION_CALLS:
            continue
        seen.add(call)
        yield from _of_call(file, call)
    for record in sorted(RECORDS):
        for callee in (*file.names.get(record, ()), *file.attributes.get(record, ())):
            call = file.parents.get(callee)
            if not isinstance(call, ast.Call) or call.func is not callee:
                continue
            for keyword in call.keywords:
                if keyword.arg is not None and _literal(keyword.value) is not UNSAID:
                    yield Switch(keyword.arg, _literal(keyword.value), keyword.arg, file.path, call.lineno)
    for owner in file.classes:
        for statement in owner.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                yield Switch(name, _literal(statement.value), f"--{name}", file.path, statement.lineno)


def _set_defaults(file: PythonFile) -> Iterator[tuple[str, Value]]:
    """Yield what `parser.set_defaults(...)` says."""
    for callee in file.attributes.get("set_defaults", ()):
        call = file.parents.get(callee)
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg is not None:
                yield keyword.arg, _literal(keyword.value)


def _as_name(flag: str) -> str:
    return flag.partition("/")[0].lstrip("-").replace("-", "_")


def _of_call(file: PythonFile, call: ast.Call) -> Iterator[Switch]:
    """Yield the option that a call declares, by each of its long names."""
    flags = [value.partition("/")[0] for argument in call.args for value in [string_value(argument)] if value]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    kind = last_name(call.func)
    if kind.startswith("DEFINE_"):
        flags = flags[:1]
    said_as = string_value(keywords.get("dest"))
    names = [said_as] if said_as else [_as_name(flag) for flag in flags if not re.match(r"-[^-]\Z", flag)]
    flag = max((flag for flag in flags if flag.startswith("-")), key=len, default=f"--{names[0]}" if names else "")
    value: Value = UNSAID
    action = string_value(keywords.get("action")) or ""
    if "default" in keywords:
        value = _literal(keywords["default"])
    elif action in ("store_true", "store_false"):
        value = action == "store_false"
    elif kind.startswith("DEFINE_") and len(call.args) > 1:
        value = _literal(call.args[1])
    elif kind == "option" and "is_flag" in keywords:
        value = False
    elif any(name.startswith("-") for name in flags) and "required" not in keywords:
        value = None
    for name in dict.fromkeys(names):
        yield Switch(name, value, flag, file.path, call.lineno)


def _literal(node: ast.expr | None) -> Value:
    """Return the value of a literal, `UNSAID` for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call) and last_name(node.func) == "field":
        return next((_literal(keyword.value) for keyword in node.keywords if keyword.arg == "default"), UNSAID)
    if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set)) and not getattr(
        node, "elts", getattr(node, "keys", 0)
    ):
        return ()
    return UNSAID


_SETTING = re.compile(r"^[ \t]*(?:-[ \t]+)?[\"']?([A-Za-z_]\w*)[\"']?[ \t]*:[ \t]+([^#\r\n]*)", re.MULTILINE)


_FLOW_SETTING = re.compile(
    r"[{,]\s*(?:\"([A-Za-z_]\w*)\"[ \t]*:|'?([A-Za-z_]\w*)'?[ \t]*:(?=[ \t]))[ \t]*([^,}\]\r\n#{\[]*)"
)
"""A key behind a brace or a comma, as JSON and the short form of YAML have them on one line."""


def settings_of(texts: Iterable[str]) -> dict[str, set[str]]:
    """Return what settings files say: for each key, at whatever depth, the values that it has in them."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for key, value in _SETTING.findall(text):
            found.setdefault(key, set()).add(value.strip().rstrip(","))
        for quoted, plain, value in _FLOW_SETTING.findall(text) if "{" in text else ():
            if value.strip():
                found.setdefault(quoted or plain, set()).add(value.strip())
    return found


_KEY = re.compile(r"[A-Za-z_]\w*\Z")
_SETTING_VALUE = re.compile(r"[\"']?[ \t]*:[ \t]+([^#\r\n]*)")
_QUOTED_VALUE = re.compile(r"\"[ \t]*:[ \t]*([^,}\]\r\n#{\[]*)")
_FLOW_VALUE = re.compile(r"'?[ \t]*:(?=[ \t])[ \t]*([^,}\]\r\n#{\[]*)")
_BEFORE_SETTING = re.compile(r"[ \t]*(?:-[ \t]+)?[\"']?\Z")


def _values_in(text: str, name: str) -> Iterator[str]:
    """Yield the values of one key, as `settings_of` finds them for all."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if text[end : end + 1] in _BEHIND_KEY:
            setting = _SETTING_VALUE.match(text, end)
            if setting is not None and _BEFORE_SETTING.match(text[text.rfind("\n", 0, at) + 1 : at]) is not None:
                yield setting[1].strip().rstrip(",")
            quote = text[at - 1 : at] if at else ""
            start = at - 1 if quote in ("'", '"') else at
            before = start - 1
            while before >= 0 and text[before].isspace():
                before -= 1
            if before >= 0 and text[before] in "{," and "{" in text:
                value = (_QUOTED_VALUE if quote == '"' else _FLOW_VALUE).match(text, end)
                if value is not None and value[1].strip():
                    yield value[1].strip()
        at = text.find(name, end)


_REVERSED_KEY = re.compile(r":[ \t]*[\"']?(\w+)")
"""A key and the colon behind it, read from the end of a text to its beginning."""

_BEHIND_KEY = frozenset("\"' \t:")

_YAML = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "null": None, "none": None,
         "~": None, "": None}  # fmt: skip


def _read(value: str) -> Value:
    text = value.strip("\"',")
    if text.lower() in _YAML and text == value.strip(","):
        return _YAML[text.lower()]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def said(arguments: Iterable[str]) -> dict[str, str]:
    """Return the options that a command says, by their name: `--use-flash`, `--attn flash`, `model.attn=flash`."""
    found: dict[str, str] = {}
    name = ""
    for word in arguments:
        if word.startswith("--") or "=" in word:
            key, equals, value = word.lstrip("-+~").partition("=")
            name = key.rpartition(".")[2].replace("-", "_")
            found[name] = value if equals else "true"
            if equals:
                name = ""
        elif name and not word.startswith("-"):
            found[name] = word
            name = ""
    return found


def said_value(text: str) -> Value:
    """Return the value that a word of the command line means."""
    return _read(text)
