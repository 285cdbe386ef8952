"""The commands in the files of task runners: tox, nox, just, npm, and the tasks in `pyproject.toml`.

A view shows them at the places where they are in the file, as lines of a shell, with everything else blank.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.jsontext import NotJsonError, values
from torchferry.source.nodes import nodes_in
from torchferry.source.setting import Setting
from torchferry.source.tomltext import toml_settings

_COMMANDS = ("commands", "commands_pre", "commands_post")

_SECTION = lazy_regex(r"\[(?P<name>[^\]\n]*)\]")
_OF_TOX = lazy_regex(r"(?P<key>commands(?:_pre|_post)?)[ \t]*=")
_MARKS = lazy_regex(r"[ \t]*(?:[\w!,{}.-]{1,80}:[ \t]+)?(?:[-!@][ \t]+)*")
"""What precedes a command of tox: for which environments it is run, and what its failure means."""

_PUT_IN = lazy_regex(r"\{(?P<name>[^{}:\n]*)(?::(?P<rest>[^{}\n]*))?\}")
_FOLDERS = frozenset({"toxinidir", "tox_root", "toxworkdir", "/"})
_PYTHONS = frozenset({"envpython", "env_python", "basepython", "base_python"})

_LEGACY = lazy_regex(r"(?m)^[ \t]*legacy_tox_ini[ \t]*=[ \t]*(?P<quote>\"\"\"|''')")

_TASKS = (
    ("tool", "poe", "tasks"), ("tool", "pdm", "scripts"), ("tool", "taskipy", "tasks"), ("tool", "pixi", "tasks"),
    ("tool", "rye", "scripts"),
)  # fmt: skip
"""Tables whose strings are command lines."""

_NO_COMMANDS = frozenset({"help", "description", "cwd", "env", "env_file", "args", "depends-on", "deps", "inputs",
                          "outputs"})  # fmt: skip

_JUST_VARIABLE = lazy_regex(r"\{\{[ \t]*(?P<name>[A-Za-z_]\w*)[ \t]*\}\}")
_JUST_ASSIGNS = lazy_regex(r"(?:export[ \t]+)?[A-Za-z_][\w-]*[ \t]*:=")

_SESSION_RUNS = frozenset({"run", "run_always", "run_install"})
_PLAIN = lazy_regex(r"(?P<quote>[\"'])(?P<text>[^\"'\\\n]*)(?P=quote)\Z")

JUSTFILE = lazy_regex(r"(?:.*/)?(?:\.?[Jj]ustfile|[^/]+\.just)\Z")
_NAMED = lazy_regex(r"(?:.*/)?(?:tox\.ini|setup\.cfg|tox\.toml|pyproject\.toml|noxfile\.py|package\.json)\Z")


def has_tasks(path: str) -> bool:
    """Whether a file may be one of a task runner that is read here, judged by its name."""
    return _NAMED.match(path) is not None or JUSTFILE.match(path) is not None


def task_view(path: str, text: str) -> str:
    """Return the commands of a file for which `has_tasks` is true, as a text of the same length and lines."""
    view = _View(text)
    if JUSTFILE.match(path) is not None:
        _show_just(view)
    elif path.endswith(".py"):
        _show_nox(view)
    elif path.endswith(".json"):
        _show_npm(view)
    elif path.endswith(".toml"):
        _show_toml(view, path.rpartition("/")[2] == "tox.toml")
    else:
        _show_tox(view, 0, len(text))
    return view.text()


class _View:
    """A text of the length and the lines of another one in which only what was put there stands."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._shown = [char if char in "\r\n" else " " for char in source]

    def put(self, start: int, text: str) -> None:
        """Put a text at an offset, over what was there; lines stay."""
        self._shown[start : start + len(text)] = text

    def words(self, spans: Sequence[tuple[int, int]]) -> None:
        """Show the words of one command, which may be on several lines."""
        for start, end in spans:
            self.put(start, self.source[start:end])
        for (_, end), (start, _) in pairwise(spans):
            for at in range(end, start):
                if self.source[at] == "\n":
                    self.put(at - 1, "\\")
        if spans and spans[-1][1] < len(self.source) and self.source[spans[-1][1]] not in "\r\n":
            self.put(spans[-1][1], ";")

    def text(self) -> str:
        """Return the whole."""
        return "".join(self._shown)


# --- tox ---


def _show_tox(view: _View, start: int, end: int) -> None:
    """Show the commands of an INI file of tox, or of one that is inside of another file."""
    in_environment = in_commands = False
    at = start
    while at < end:
        line_end = view.source.find("\n", at)
        line_end = end if line_end < 0 or line_end > end else line_end
        line = view.source[at:line_end]
        section = _SECTION.match(line)
        key = _OF_TOX.match(line)
        if section is not None:
            in_environment, in_commands = section["name"].partition(":")[0] == "testenv", False
        elif key is not None and in_environment:
            in_commands = True
            _show_tox_line(view, at + key.end(), line_end)
        elif line.strip() and not line.startswith((" ", "\t")):
            in_commands = line.startswith("#") and in_commands
        elif in_commands and not line.lstrip().startswith("#"):
            _show_tox_line(view, at, line_end)
        at = line_end + 1


def _show_tox_line(view: _View, start: int, end: int) -> None:
    marks = _MARKS.match(view.source, start, end)
    start = marks.end() if marks is not None else start
    view.put(start, view.source[start:end])
    for match in _PUT_IN.finditer(view.source, start, end):
        name, width = match["name"], match.end() - match.start()
        if name in _PYTHONS:
            shown = "python"
        elif name in _FOLDERS or name == "posargs" or not name:
            shown = ""
        else:
            shown = "$" + "x" * (width - 1)
        if match["rest"] is not None and name in ("posargs", "env"):
            shown = match["rest"] if name == "posargs" else match["rest"].partition(":")[2]
        folder = name in _FOLDERS and view.source[match.end() : match.end() + 1] == "/"
        view.put(match.start(), (shown.rjust(width) if name in _FOLDERS else shown.ljust(width))[:width])
        if folder:
            view.put(match.end(), " ")


# --- TOML ---


def _show_toml(view: _View, is_of_tox: bool) -> None:
    legacy = _LEGACY.search(view.source)
    if legacy is not None:
        end = view.source.find(legacy["quote"], legacy.end())
        _show_tox(view, legacy.end(), end if end >= 0 else len(view.source))
    for path, group in groupby(toml_settings(view.source), key=lambda setting: setting.path):
        if path[-1:] and path[-1] in _COMMANDS and (is_of_tox or path[:2] == ("tool", "tox")):
            _show_lists(view, [*group])
        elif _is_task(path):
            _show_task(view, [*group])


def _is_task(path: tuple[str, ...]) -> bool:
    if any(part in _NO_COMMANDS for part in path[3:]):
        return False
    is_of_hatch = path[:3] == ("tool", "hatch", "envs") and path[4:5] == ("scripts",)
    return is_of_hatch or path[:3] in _TASKS


def _show_task(view: _View, items: Sequence[Setting]) -> None:
    """Show a task: a command line, several, or the words of one."""
    if len(items) > 1 and not any(re.search(r"\s", item.value) for item in items):
        view.words([(item.start, item.end) for item in items])
    else:
        for item in items:
            view.words([(item.start, item.end)])


def _show_lists(view: _View, items: Iterable[Setting]) -> None:
    """Show the commands of tox in TOML, each a list of words."""
    words: list[tuple[int, int]] = []
    for item in items:
        if words and "]" in view.source[words[-1][1] : item.start]:
            view.words(words)
            words = []
        words.append((item.start, item.end))
    view.words(words)


# --- just ---


def _show_just(view: _View) -> None:
    """Show the recipes of a justfile, and its variables as those of a Makefile."""
    at = 0
    for line in view.source.split("\n"):
        start = at + len(line) - len(line.lstrip())
        end = at + len(line)
        at = end + 1
        if start == end or view.source[start] == "#":
            continue
        is_recipe = line.startswith((" ", "\t"))
        if is_recipe:
            start += len(view.source[start:end]) - len(view.source[start:end].lstrip("@-"))
        elif _JUST_ASSIGNS.match(line) is None:
            continue
        view.put(start, view.source[start:end])
        for match in _JUST_VARIABLE.finditer(view.source, start, end):
            view.put(match.start(), f"$({match['name']})".ljust(match.end() - match.start()))


# --- npm ---


def _show_npm(view: _View) -> None:
    """Show the scripts of a `package.json`; where one holds escapes, what they represent, which is shorter."""
    try:
        for value in values(view.source, lambda keys: keys[:1] in ([], ["scripts"])):
            if value.is_string and value.path[:1] == ("scripts",) and "\n" not in value.value:
                view.put(value.start, f"{value.value};")
    except NotJsonError:
        return


# --- nox ---


def _show_nox(view: _View) -> None:
    """Show what `session.run("python", "train.py")` starts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(view.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    offset_of = _offsets(view.source)
    for call in nodes_in(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _SESSION_RUNS:
            view.words([*_literals(view.source, call.args, offset_of)])


def _literals(
    source: str, given: Iterable[ast.expr], offset_of: Callable[[int, int], int]
) -> Iterator[tuple[int, int]]:
    """Yield where the texts stand that a call is given one by one; one of several words keeps its quotes."""
    for argument in given:
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            continue
        start = offset_of(argument.lineno, argument.col_offset)
        end = offset_of(argument.end_lineno or argument.lineno, argument.end_col_offset or 0)
        plain = _PLAIN.match(source[start:end])
        if plain is not None:
            quote = 0 if " " in plain["text"] else 1
            yield start + quote, end - quote


def _offsets(source: str) -> Callable[[int, int], int]:
    """Return what tells the offset of a line and a column in bytes."""
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return lambda line, column: starts[line - 1] + len(lines[line - 1].encode()[:column].decode("utf-8", "replace"))
