"""The options of command lines that files declare, and what a command says.

`parser.add_argument("--use-flash", action="store_true")` makes `args.use_flash` false until somebody says
`--use-flash`. Which parser an option belongs to is told by `objects`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchferry.core.record import NamedTuple
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Program, Reachability
from torchferry.programs.syntax.place_context import is_under_main
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, assigned_value
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_OPTION_CALLS = frozenset({"add_argument", "option", "DEFINE_bool", "DEFINE_boolean", "DEFINE_string", "DEFINE_enum",
                           "DEFINE_integer", "add_flag"})  # fmt: skip
RECORDS = frozenset({"HParams", "EasyDict", "edict", "AttrDict", "ConfigDict", "Namespace", "SimpleNamespace", "Munch"})
"""What holds settings by the names of its arguments: `HParams(fp16_run=False)`."""

_NAMES = ("add_argument", "DEFINE_", "click", "add_flag", "add_subparsers")
_SIGNS = (("option", ".option"),)
"""The content of the text of a file that may declare an option: one of the names, or a name behind a sign."""


_YACS = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)+\Z")
"""A key of yacs, behind which its value stands: `MODEL.DEVICE cpu`."""

ALL_WORDS = "\0"
"""By what all words of a command are kept, among which a subcommand is looked for."""

OF_SHELL = re.compile(r"[$`]")
"""What a shell puts something in for."""


class Undetermined:
    """The value of a switch that nothing gives by itself."""

    def __reduce__(self) -> str:
        return "UNDETERMINED"  # there is one, also in what another process hands over


UNDETERMINED = Undetermined()
Value = object


class Switch(NamedTuple):
    """Something that decides by its value.

    Attributes:
        name: Its name in the code, such as `use_flash`.
        value: Its value when nothing is said; `UNDETERMINED` where it must be said.
        flag: How it is said, such as `--use-flash`.
        path: The file that declares it.
        line: The line.
        when_started: Whether it is declared only where its file is the one that is started.
        flags: All ways in which it is said, such as `-f` and `--fast`.
        action: What saying it does, as argparse names it; `bool` where any text is true.
        const: What saying it stores, where that is written down.
        variable: A variable of the environment that says it, as `envvar` of click does.
        is_short: Whether it may be said by the beginning of its name, as argparse takes it.
        sets: What else its own action stores, by the names; `*` for names that are computed.
    """

    name: str
    value: Value
    flag: str
    path: str
    line: int
    when_started: bool = False
    flags: tuple[str, ...] = ()
    action: str = ""
    const: Value = UNDETERMINED
    variable: str = ""
    is_short: bool = False
    sets: tuple[str, ...] = ()

    def parsed(self, text: str) -> Value:
        """Return what its value is where a command says it with a text."""
        if self.action in ("store_true", "bool"):
            return True
        if self.action == "store_false":
            return False
        if self.action == "own":
            return UNDETERMINED
        if self.action == "store_const":
            return self.const
        if self.action == "subcommand":
            names = self.const if isinstance(self.const, tuple) else ()
            chosen = [word for word in text.split("\0") if word in names]
            return chosen[0] if chosen else UNDETERMINED
        return UNDETERMINED if OF_SHELL.search(text) else read_scalar(text)


class SwitchIndex:
    """The options of a project's files, read once for all programs.

    Args:
        sources: The project's files.
        switches_by_file: The options of files in which they were looked for already, by the files.
    """

    def __init__(self, sources: Sources, switches_by_file: Mapping[str, dict[str, list[Switch]]] | None = None) -> None:
        self.sources = sources
        self._by_path = dict(switches_by_file or {})
        self._noted: dict[str, list[str]] = {}
        for path, switches in self._by_path.items():
            for name in switches:
                self._noted.setdefault(name, []).append(path)
        self._unread_files: frozenset[str] | None = None
        self._defining: dict[str, frozenset[str]] = {}

    @property
    def _unread(self) -> frozenset[str]:
        """The files that may declare an option, of those in which nobody looked for them."""
        if self._unread_files is None:
            text, paths = self.sources.text, self.sources.words.paths
            self._unread_files = frozenset(
                path for path in paths if path not in self._by_path and may_define(text(path))
            )
        return self._unread_files

    def defining(self, name: str) -> frozenset[str]:
        """Return the files that declare the option of a name, or may declare it, judged by their texts."""
        if name not in self._defining:
            may = self.sources.words.declaring(name, self._unread) if name.isidentifier() else self._unread
            self._defining[name] = may.union(self._noted.get(name, ()))
        return self._defining[name]

    def of(self, path: str) -> dict[str, list[Switch]]:
        """Return the options that a file declares, by their names."""
        if path not in self._by_path:
            loaded = self.sources.file(path) if may_define(self.sources.text(path)) else None
            self._by_path[path] = switches_of(loaded[0]) if loaded is not None else {}
        return self._by_path[path]


def may_define(text: str, names: bytes | None = None) -> bool:
    """Whether a file may define a switch, judged by its text.

    Args:
        text: The text.
        names: Its names in ASCII, each once, where they are known: they are a fifth of it.
    """
    words = text if names is None else names.decode("ascii")
    return any(name in words for name in _NAMES) or any(name in words and sign in text for name, sign in _SIGNS)


def switches_of(file: PythonFile) -> dict[str, list[Switch]]:
    """Return the switches that a file defines, by their names."""
    switches: dict[str, list[Switch]] = {}
    for switch in _defined_in(file):
        switches.setdefault(switch.name, []).append(switch)
    for name, value in _set_defaults(file):
        switches[name] = [switch._replace(value=value) for switch in switches.get(name, ())]
    return switches


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
    for callee in file.attributes.get("add_subparsers", ()):
        call = file.parents.get(callee)
        given = call.keywords if isinstance(call, ast.Call) else ()
        name = next((string_value(each.value) for each in given if each.arg == "dest"), None)
        if name is not None and call is not None:
            names = tuple(names_of_subcommands(file))
            yield Switch(name, UNDETERMINED, name, file.path, callee.lineno, False, (), "subcommand", names)


def names_of_subcommands(file: PythonFile) -> Iterator[str]:
    """Yield the subcommands that a file declares."""
    for callee in file.attributes.get("add_parser", ()):
        call = file.parents.get(callee)
        name = name_of_subcommand(call) if isinstance(call, ast.Call) and call.func is callee else None
        if name is not None:
            yield name


def name_of_subcommand(call: ast.Call) -> str | None:
    """Return the subcommand that a call declares; None for another call."""
    if last_name(call.func) != "add_parser":
        return None
    given = next((each.value for each in call.keywords if each.arg == "name"), call.args[0] if call.args else None)
    return string_value(given)


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
    texts = [value for argument in call.args for value in [string_value(argument)] if value]
    flags = [value.partition("/")[0] for value in texts]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    kind = last_name(call.func)
    if kind.startswith("DEFINE_"):
        flags = flags[:1]
    said_as = string_value(keywords.get("dest"))
    names = [said_as] if said_as else [_as_name(flag) for flag in flags if not re.match(r"-[^-]\Z", flag)]
    if not names and kind == "add_argument":
        names = [_as_name(flag) for flag in flags[:1]]
    flag = max((flag for flag in flags if flag.startswith("-")), key=len, default=f"--{names[0]}" if names else "")
    value: Value = UNDETERMINED
    action = string_value(keywords.get("action")) or ""
    own_action = last_name(keywords["action"]) if "action" in keywords and not action else ""
    is_open = "action" in keywords and not (action or own_action)  # what it does is computed
    is_own = is_open or (bool(own_action) and own_action != "BooleanOptionalAction" and kind == "add_argument")
    sets = tuple(_stored_by(file, own_action)) if is_own else ()
    if "default" in keywords:
        value = _literal(keywords["default"])
    elif action in ("store_true", "store_false"):
        value = action == "store_false"
    elif kind.startswith("DEFINE_") and len(call.args) > 1:
        value = _literal(call.args[1])
    elif kind == "option" and "is_flag" in keywords:
        value = False
    elif any(name.startswith("-") for name in flags) and "required" not in keywords and not is_open:
        value = None
    given = keywords.get("type")
    if isinstance(value, str) and given is not None:
        value = _converted(value, given)
    if given is not None and last_name(given) == "bool" and not action and kind in ("add_argument", "add_flag"):
        action = "bool"
    said_so = tuple(flag for flag in flags if flag.startswith("-"))
    const = _literal(keywords["const"]) if "const" in keywords else UNDETERMINED
    variable = string_value(keywords.get("envvar")) or ""
    when_started = is_under_main(file, call)
    action = "own" if is_own else action
    is_short = kind == "add_argument" and "allow_abbrev" not in file.source.text
    for name in dict.fromkeys(names):
        switch = Switch(name, value, flag, file.path, call.lineno, when_started, said_so, action, const, variable)
        yield switch._replace(is_short=is_short, sets=sets)


_NAMESPACES = frozenset({"namespace", "args", "ns", "options"})
"""What own actions call the options that they store in."""


def _stored_by(file: PythonFile, action: str) -> Iterator[str]:
    """Yield what a class of a file stores in the options, beside its own option; `*` where that is computed."""
    for call in (call for use in file.names.get("setattr", ()) for call in [file.parents.get(use)]):
        inside = file.enclosing_class(call) if isinstance(call, ast.Call) and len(call.args) == 3 else None
        if isinstance(call, ast.Call) and inside is not None and inside.name == action:
            if last_name(call.args[0]) != "self" and last_name(call.args[1]) != "dest":
                yield string_value(call.args[1]) or "*"
    for uses in file.attributes.values():
        for use in uses:
            is_stored = isinstance(use.ctx, ast.Store) and last_name(use.value) in _NAMESPACES
            inside = file.enclosing_class(use) if is_stored else None
            if inside is not None and inside.name == action:
                yield use.attr


def _converted(value: str, by: ast.expr) -> Value:
    """Return what argparse makes of a default that is a text."""
    name = last_name(by)
    if isinstance(by, ast.Attribute) and name in ("lower", "upper"):
        return value.lower() if name == "lower" else value.upper()
    if name in ("int", "float"):
        return read_scalar(value)
    return value if name in ("str", "Path", "open", "click") or isinstance(by, ast.Attribute) else UNDETERMINED


def _literal(node: ast.expr | None) -> Value:
    """Return the value of a literal, `UNDETERMINED` for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Call) and last_name(node.func) == "field":
        return next((_literal(keyword.value) for keyword in node.keywords if keyword.arg == "default"), UNDETERMINED)
    if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set)) and not getattr(
        node, "elts", getattr(node, "keys", 0)
    ):
        return ()
    return UNDETERMINED


_YAML = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "null": None, "none": None,
         "~": None, "": None}  # fmt: skip


def read_scalar(value: str) -> Value:
    """Return the value that a word means in YAML, or on a command line."""
    text = value.strip("\"',")
    if text.lower() in _YAML and text == value.strip(","):
        return _YAML[text.lower()]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def options_in(arguments: Iterable[str]) -> dict[str, str]:
    """Return the options that a command says, by their name: `--use-flash`, `--attn flash`, `model.attn=flash`.

    What has dots is there by its last word too, and all words by `ALL_WORDS`.
    """
    arguments = tuple(arguments)
    options: dict[str, str] = {ALL_WORDS: "\0".join(arguments)} if arguments else {}
    names: tuple[str, ...] = ()
    for word in arguments:
        if word.startswith("--") or "=" in word:
            key, equals, value = word.lstrip("-+~").partition("=")
            whole = key.replace("-", "_")
            names = tuple(dict.fromkeys((whole.rpartition(".")[2], whole)))
            options.update(dict.fromkeys(names, value if equals else "true"))
            if equals:
                names = ()
        elif _YACS.match(word):
            names = (word.rpartition(".")[2], word)
            options.update(dict.fromkeys(names, "true"))
        elif (len(word) == 2 and word[0] == "-" and word[1].isalpha()) or re.match(r"-[A-Za-z]{2}", word):
            names = (word,)
            options[word] = "true"
        elif names and not word.startswith("-"):
            options.update(dict.fromkeys(names, word))
            names = ()
    return options


def _joined_to(word: str, switch: Switch, options: Mapping[str, str]) -> tuple[Value] | None:
    """Return what a word says of an option that is said by its beginning, with its value, or with other letters."""
    if word.startswith("--"):
        begins = switch.is_short and any(flag.startswith(word) for flag in switch.flags if len(word) > 2)
        return (switch.parsed(options.get(_as_name(word), "true")),) if begins else None
    letters = {flag[1] for flag in switch.flags if re.match(r"-[A-Za-z]\Z", flag)}
    if word[1] in letters:
        takes_none = switch.action.startswith(("store_", "count", "own")) or switch.value is False
        return (switch.parsed("true" if takes_none else word[2:].removeprefix("=")),)
    return None if letters.isdisjoint(word[2:].partition("=")[0]) else (UNDETERMINED,)


def joined_words(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command that may say an option by its beginning, or several at once: `--fas`, `-vf`."""
    for word in arguments:
        name = word.partition("=")[0]
        if re.match(r"--[A-Za-z]", word):
            yield name
        elif re.match(r"-[A-Za-z][^\s]", word):
            yield word


def said_of(
    name: str, options: Mapping[str, str], switches: Sequence[Switch], joined: Sequence[str] = ()
) -> tuple[Value] | None:
    """Return what a command says of an option or a key; None where it says nothing.

    Args:
        name: The name in the code.
        options: What the command says, as `said` returns it.
        switches: The options of the name that the program declares.
        joined: Words that may say them by their beginning, or several of them.
    """
    for switch in switches:
        if switch.action == "subcommand":
            return (switch.parsed(options.get(ALL_WORDS, "")),)
        for flag in switch.flags:
            text = options.get(flag if re.match(r"-[^-]\Z", flag) else _as_name(flag), options.get(flag))
            if text is not None:
                return (switch.parsed(text),)
    for switch in switches:
        for word in joined:
            joined_value = _joined_to(word, switch, options)
            if joined_value is not None:
                return joined_value
    text = options.get(name)
    if text is not None:
        return (UNDETERMINED if OF_SHELL.search(text) else read_scalar(text),)
    return (False,) if "true" in (options.get(f"no_{name}"), options.get(f"no{name}")) else None


def adds_unread_words(arguments: Iterable[str]) -> bool:
    """Whether a command has words that nobody can read where options may stand: `$(cat options.txt)`."""
    before = ""
    for word in arguments:
        if word.startswith(("$(", "`")) and not (before.startswith("-") and "=" not in before):
            return True
        before = word
    return False


def commands_of_class(file: PythonFile, names: Names, owner: str) -> Iterator[ast.Call]:
    """Yield the calls that make commands of the methods of a class: `fire.Fire(Trainer)`, `fire.Fire(Trainer())`.

    Args:
        file: The file.
        names: Its names.
        owner: The name of the class; empty for the file itself, of which `fire.Fire()` takes the functions.
    """
    for callee in (*file.names.get("Fire", ()), *file.attributes.get("Fire", ())):
        call = file.parents.get(callee)
        if not isinstance(call, ast.Call) or call.func is not callee:
            continue
        given = [part for argument in call.args[:1] for part in nodes_in(argument) if isinstance(part, ast.Name)]
        values = [assigned_value(file, binding) for name in given for binding in names.bindings(name)]
        makers = {last_name(value.func) for value in values if isinstance(value, ast.Call)}
        if owner in makers.union(name.id for name in given) or not (owner or call.args):
            yield call


def is_word_said(option: str, arguments: Sequence[str]) -> bool:
    """Whether a command says a word, such as the name of a subcommand, or an option with its value: `--net fast`."""
    flag, _, value = option.rpartition(" ")
    return options_in(arguments).get(_as_name(flag)) == value if flag else value in arguments


Said = tuple[Reachability, str, str, None, tuple[str, ...]]
"""How a use is meant, as the fields of `Use` behind its place: need, choice, option, test, others."""


_PLAIN: Said = (Reachability.ALWAYS, "", "", None, ())


def subcommand(file: PythonFile, names: Names, use: ast.AST | None) -> Said:
    """Return how a function is meant where it is spoken of: by a subcommand, or in any case."""
    keyword = file.parents.get(use) if use is not None else None
    call = file.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "set_defaults":
        return _PLAIN
    parser: ast.expr | None = call.func.value
    if isinstance(parser, ast.Name):
        bindings = names.reaching_bindings(parser)
        parser = assigned_value(file, bindings[0]) if len(bindings) == 1 else None
    name = name_of_subcommand(parser) if isinstance(parser, ast.Call) else None
    if name is None:
        return _PLAIN
    return Reachability.OPTION, "", name, None, tuple(names_of_subcommands(file))


def need_of(option: str, others: Sequence[str], reachability: Reachability, program: Program) -> Reachability:
    """Return how surely a command means a use: by its option, by none where it says another one, else nobody knows.

    Args:
        option: What must be said for it; empty for nothing.
        others: All of which one must be said.
        reachability: How surely it is meant where the command says nothing of it.
        program: The program, with the commands that start it: one line may represent several.
    """
    starts = program.own_starts
    lines = [each.arguments for each in starts if each.place == starts[0].place] or [()]
    holding = [is_word_said(option, arguments) for arguments in lines]
    if any(holding):
        return Reachability.ALWAYS if all(holding) else Reachability.CHOSEN
    is_open = bool(others) and not all(any(is_word_said(each, arguments) for each in others) for arguments in lines)
    return Reachability.CHOSEN if is_open else reachability
