"""What decides a condition when nothing is said: options of the command line, settings and constants, by their name.

`parser.add_argument("--use-flash", action="store_true")` makes `args.use_flash` false until somebody says
`--use-flash`; a field `use_flash: bool = False` of a configuration class, or `use_flash: false` in the YAML files of the
project, says the same. Names are taken as they stand: who reads `args.use_flash` means the option of that name in the
files that the program reaches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from torchferry.programs.sources import Sources
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.python import PythonFile

_OPTION_CALLS = frozenset({"add_argument", "option", "DEFINE_bool", "DEFINE_boolean", "DEFINE_string", "DEFINE_enum",
                           "DEFINE_integer", "add_flag"})  # fmt: skip
_WORDS = ("add_argument", ".option", "DEFINE_", "dataclass", "BaseModel", ": bool", "NamedTuple", ": str", "click")


class Unsaid:
    """The value of a switch that nothing gives by itself."""


UNSAID = Unsaid()
Value = object


class Switch(NamedTuple):
    """Something that decides by its value.

    Attributes:
        name: Its name in the code, such as `use_flash`.
        value: Its value when nothing is said; `UNSAID` where it must be said.
        flag: How it is said, such as `--use-flash`; the name itself for a setting.
        place: Where it stands, as `file:line`.
    """

    name: str
    value: Value
    flag: str
    place: str


class Switches:
    """The switches in some files, by name.

    Args:
        sources: The project's files.
        paths: The files that a program reaches, its own first.
        settings: Returns what the project's settings files say: for each key the values that it has.
    """

    def __init__(self, sources: Sources, paths: Iterable[str], settings: Callable[[], dict[str, set[str]]]) -> None:
        self._sources = sources
        self._paths = tuple(paths)
        self._settings = settings
        self._by_name: dict[str, Switch | None] = {}

    def get(self, name: str) -> Switch | None:
        """Return the switch of a name, or None when there is none, or several that say different things."""
        if name not in self._by_name:
            self._by_name[name] = self._find(name)
        return self._by_name[name]

    def _find(self, name: str) -> Switch | None:
        found: list[Switch] = []
        for path in self._paths:
            text = self._sources.text(path)
            if (name not in text and name.replace("_", "-") not in text) or not any(word in text for word in _WORDS):
                continue
            found += _switches_of(self._sources, path, name)
            if found and path == self._paths[0]:
                break  # the program's own
        values = self._settings().get(name)
        if values is not None:
            value = _read(next(iter(values))) if len(values) == 1 else UNSAID
            if not found or found[0].value is UNSAID:
                return Switch(name, value, name, "")
            if value is UNSAID or value != found[0].value:
                return found[0]._replace(value=UNSAID)
        if not found or any(type(other.value) is not type(found[0].value) or other.value != found[0].value
                            for other in found):  # fmt: skip
            return found[0]._replace(value=UNSAID) if found else None
        return found[0]


_CACHE_KEY = "switches"


def _switches_of(sources: Sources, path: str, name: str) -> list[Switch]:
    """Return the switches of a name that a file defines."""
    loaded = sources.file(path)
    if loaded is None:
        return []
    file, _ = loaded
    found = []
    for constant in file.strings:
        if _as_name(str(constant.value)) != name:
            continue
        call = file.parents.get(constant)
        if isinstance(call, ast.Call) and last_name(call.func) in _OPTION_CALLS and constant in call.args:
            switch = _of_call(file, call, name)
            if switch is not None:
                found.append(switch)
    for binding in file.names.get(name, ()):
        statement = file.parents.get(binding)
        if (
            isinstance(statement, ast.AnnAssign)
            and statement.target is binding
            and isinstance(file.parents.get(statement), ast.ClassDef)
        ):
            value = _literal(statement.value)
            found.append(Switch(name, value, f"--{name}", f"{path}:{statement.lineno}"))
    for keyword in file.keywords.get("dest", ()):
        if string_value(keyword.value) == name:
            call = file.parents.get(keyword)
            if isinstance(call, ast.Call):
                switch = _of_call(file, call, name)
                if switch is not None:
                    found.append(switch)
    return found


def _as_name(flag: str) -> str:
    return flag.partition("/")[0].lstrip("-").replace("-", "_")


def _of_call(file: PythonFile, call: ast.Call, name: str) -> Switch | None:
    flags = [value for argument in call.args for value in [string_value(argument)] if value]
    flag = max((flag.partition("/")[0] for flag in flags if flag.startswith("-")), key=len, default=f"--{name}")
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    place = f"{file.path}:{call.lineno}"
    action = string_value(keywords.get("action")) or ""
    if action == "store_true":
        return Switch(name, False, flag, place)
    if action == "store_false":
        return Switch(name, True, flag, place)
    default: Value = UNSAID
    if "default" in keywords:
        default = _literal(keywords["default"])
    elif last_name(call.func).startswith("DEFINE_") and len(call.args) > 1:
        default = _literal(call.args[1])
    elif last_name(call.func) == "option" and "is_flag" in keywords:
        default = False
    elif flag.startswith("-") and "required" not in keywords:
        default = None
    return Switch(name, default, flag, place)


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


def settings_of(texts: Iterable[str]) -> dict[str, set[str]]:
    """Return what settings files say: for each key, at whatever depth, the values that it has in them."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for key, value in _SETTING.findall(text):
            found.setdefault(key, set()).add(value.strip())
    return found


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


def iter_names(node: ast.expr) -> Iterator[str]:
    """Yield the names that an expression reads: of attributes the last, of items the key."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Name, ast.Attribute)):
            yield last_name(inner)
