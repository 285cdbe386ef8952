"""Run the commands of the stories, as the pages show them, and compare what they print with the pages.

    python tools/stories.py [NAME ...] [--write] [--repositories] [--language en|zh]

A story is `examples/NAME/` and a page `docs/<language>/stories/NAME.md`. The `console` blocks of a page run in order,
in one clean folder that begins as a git copy of the example; `$ ` begins a command, and a `\\` at the end of a line
continues it. Folder and exported variables last from one command to the next, as in a terminal. A line `...` stands
for any lines, and `...` in a line for any text. A comment directly before a block changes it:

    <!-- exit 1 -->                      its last command ends with 1; all others end with 0
    <!-- repository -->                  runs in the public repository that `tools/stories.toml` names
    <!-- card -->                        does not run: it needs the card
    <!-- skip without: NAME, ... -->     runs only where these modules can be imported; a name such as torch_npu-*.whl
                                         is that of a wheel which `make wheels` brings
    <!-- picture: NAME.svg -->           is also drawn, as a terminal, in `img/` beside the page
    <!-- picture: NAME.svg from FILE --> its last command writes FILE (SVG or PNG), which is kept there

A picture whose content changed is a difference as other output is; `tools/pictures.py` says what its content is.
With --write, changed output is written into the page, and changed pictures beside it; what `...` stood for stays out.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

sys.path.insert(0, str(Path(__file__).parent))
import pictures

ROOT = Path(__file__).parent.parent
LANGUAGES = ("en", "zh")
ANY = "..."
NEEDS_CARD = "needs the card"
NOT_FETCHED = "the public repository is for `make stories`"
_WIDTH = 100
_SECONDS = 900
_WHEELS = Path(sys.prefix) / "wheels"
_HOME = "/home/you"

_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"
_VARYING = (
    (re.compile(_DATE), "<date>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?"), "<time>"),
    (
        re.compile(r"(?<![\w.])\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|seconds?|min|minutes?|秒|毫秒|分钟)(?![a-zA-Z/])"),
        "<time>",
    ),
)
"""What differs from run to run; a line that has any of it may have other runs of blanks too, as columns move."""


_ONCE = re.compile(
    r"torchferry: (?:building the library of the simulated card|another process is building|built in"
    r"|正在构建模拟卡的库|另一个进程正在构建|构建用时) "
)
"""What the first command on a machine says, and no other: no page shows it."""


class Command(NamedTuple):
    """One command of a page.

    Attributes:
        text: As a shell takes it, with its continued lines.
        printed: The lines that the page shows behind it.
    """

    text: str
    printed: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """One `console` block of a page.

    Attributes:
        first: Number of the first line within the fences, from 0.
        last: Number of the line of the closing fence, from 0.
        commands: What it runs.
        code: Exit code that is demanded of the last command; of the others it is 0.
        where: `example`, `repository` or `card`.
        needs: Modules, and names of wheels, without which it is skipped.
        picture: Name of the picture that is made of it; may be empty.
        drawing: File that its last command writes as the picture; empty for a picture of the block itself.
        indent: What each of its lines begins with.
    """

    first: int
    last: int
    commands: tuple[Command, ...]
    code: int = 0
    where: str = "example"
    needs: tuple[str, ...] = ()
    picture: str = ""
    drawing: str = ""
    indent: str = ""


class PageError(Exception):
    """A page that cannot be run as it is written; the text says where and why."""


_FENCE = re.compile(r"^( *)```console\s*$")
_DIRECTIVE = re.compile(r"^ *<!-- (.*?) -->$")


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page.

    Raises:
        PageError: a block does not end or does not begin with a command, or a comment before it is not known.
    """
    found: list[Block] = []
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        end = next((n for n in range(number + 1, len(lines)) if lines[n].strip() == "```"), None)
        if end is None:
            raise PageError(f"line {number + 1}: the block does not end")
        options: dict[str, object] = {}
        above = number - 1
        while above >= 0 and (directive := _DIRECTIVE.match(lines[above])):
            options.update(_option(directive[1], above + 1))
            above -= 1
        indent = fence[1]
        body = [line.removeprefix(indent) for line in lines[number + 1 : end]]
        found.append(Block(number + 1, end, _commands(body, number + 2), indent=indent, **options))  # type: ignore[arg-type]
        number = end + 1
    return found


def _option(text: str, line: int) -> dict[str, object]:
    name, _, value = text.partition(":") if ":" in text else text.partition(" ")
    value = value.strip()
    if name == "exit" and value.isdigit():
        return {"code": int(value)}
    if name in ("repository", "card") and not value:
        return {"where": name}
    if name == "skip without" and value:
        return {"needs": tuple(part.strip() for part in value.split(","))}
    if name == "picture" and (parts := re.fullmatch(r"([\w-]+\.svg|[\w-]+\.png(?= ))(?: from (\S+))?", value)):
        return {"picture": parts[1], "drawing": parts[2] or ""}
    raise PageError(f"line {line}: `{text}` is not known")


def _commands(body: list[str], line: int) -> tuple[Command, ...]:
    made: list[tuple[list[str], list[str]]] = []
    continued = False
    for offset, text in enumerate(body):
        if continued:
            made[-1][0].append(text)
        elif text.startswith("$ "):
            made.append(([text[2:]], []))
        elif made:
            made[-1][1].append(text)
            continue
        else:
            raise PageError(f"line {line + offset}: a block begins with a command")
        continued = text.endswith("\\")
    if continued or not made:
        raise PageError(f"line {line}: the block has no whole command")
    return tuple(Command("\n".join(command), tuple(printed)) for command, printed in made)


def same(shown: str, printed: str) -> bool:
    """Return whether a printed line is what a page shows, but for what differs from run to run."""
    shown, printed = normal(shown), normal(printed)
    if shown == printed:
        return True
    if ANY not in shown:
        return False
    return re.fullmatch(".*".join(map(re.escape, shown.split(ANY))), printed) is not None


@cache
def normal(line: str) -> str:
    """Return a line without what differs from run to run."""
    plain = line.rstrip()
    for pattern, word in _VARYING:
        plain = pattern.sub(word, plain)
    return plain if plain == line.rstrip() else re.sub(r"(?<=\S) {2,}", " ", plain)


def matches(shown: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Return whether lines are what a page shows; a line `...` stands for any number of them."""
    reachable = {0}  # how many printed lines the shown ones so far may stand for
    for line in shown:
        if line.strip() == ANY:
            reachable = set(range(min(reachable), len(printed) + 1))
        else:
            reachable = {n + 1 for n in reachable if n < len(printed) and same(line, printed[n])}
        if not reachable:
            return False
    return len(printed) in reachable


def merged(shown: tuple[str, ...], printed: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a page should show: what is the same stays as it is shown, and `...` goes on to stand for others."""
    if matches(shown, printed):
        return shown
    result: list[str] = []
    before = (-1, -1)
    for here in (*_common(shown, printed), (len(shown), len(printed))):
        old, new = shown[before[0] + 1 : here[0]], printed[before[1] + 1 : here[1]]
        marks = [number for number, line in enumerate(old) if line.strip() == ANY]
        if marks and len(new) > (kept := len(old) - len(marks)):
            head = marks[0]
            tail = kept - head
            new = (*new[:head], old[marks[0]], *new[len(new) - tail :])
        result += new
        if here[0] < len(shown):
            result.append(shown[here[0]])
        before = here
    return tuple(result)


def _common(shown: tuple[str, ...], printed: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the positions of a longest common subsequence of lines that are the same."""
    lengths = [[0] * (len(printed) + 1) for _ in range(len(shown) + 1)]
    alike = [[line.strip() != ANY and same(line, other) for other in printed] for line in shown]
    for i in range(len(shown) - 1, -1, -1):
        for j in range(len(printed) - 1, -1, -1):
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if alike[i][j] else max(lengths[i + 1][j], lengths[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(shown) and j < len(printed):
        if alike[i][j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


class Terminal:
    """Runs commands one after the other; folder and exported variables last."""

    def __init__(self, base: Path, folder: Path, language: str, programs: Path | None = None) -> None:
        self.base = base
        self.folder = folder
        self.state = base / f".terminal-{folder.name}"
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TORCHFERRY_", "PYTHON", "PYTEST_", "GIT_", "COV_"))
            and name
            not in ("VIRTUAL_ENV", "LC_ALL", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")  # `make test` hands its own on
        }
        self.environment = {
            **inherited,
            "PATH": os.pathsep.join(
                [
                    *([str(programs)] if programs else []),
                    str(Path(sys.executable).parent),
                    os.environ.get("PATH", os.defpath),
                ]
            ),
            "TORCHFERRY_LANG": language,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_COLOR": "1",
            "COLUMNS": str(_WIDTH),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "XDG_STATE_HOME": str(base / ".state"),
            "PET_MASTER_PORT": str(_free_port()),
            **_GIT,
            # `pip download` of a vendor's wheel takes the one that `make wheels` brought
            "PIP_FIND_LINKS": str(_WHEELS),
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        if "TORCHFERRY_CACHE" in os.environ:
            self.environment["TORCHFERRY_CACHE"] = os.environ["TORCHFERRY_CACHE"]

    def run(self, command: str) -> tuple[tuple[str, ...], int]:
        """Return the lines that a command prints, standard error among them, and its exit code."""
        state = shlex.quote(str(self.state))
        keep = f'{{ export -p; echo cd "$(printf %q "$PWD")"; }} >{state}'
        script = f"[ ! -e {state} ] || . {state}\n{command}\n__code=$?\n{keep}\nexit $__code\n"
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PageError(f"`{command}` did not end within {_SECONDS} seconds") from error
        text = done.stdout.decode("utf-8", "replace")
        for place, word in (
            (str(self.base), _HOME),
            (sys.prefix, f"{_HOME}/venv"),
            (str(ROOT), f"{_HOME}/torchferry"),
            (str(Path.home()), "~"),
        ):
            text = re.sub(rf"{re.escape(place)}(?![\w-])", word.replace("\\", r"\\"), text)
        lines = [line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")]
        lines = [line for line in lines if not _ONCE.match(line)]
        while lines and not lines[-1]:
            lines.pop()
        return tuple(lines), done.returncode


_WHO = {"NAME": "you", "EMAIL": "you@example.org", "DATE": "2026-01-01T00:00:00Z"}
_GIT = {
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _WHO.items()},
    "GIT_CONFIG_GLOBAL": os.devnull,
}
"""Who commits: nobody's own settings are read."""


def _free_port() -> int:
    """Return a port for the ranks of this page, as other pages may run at the same time."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class Outcome:
    """What became of a page.

    Attributes:
        text: The page as it should be.
        differences: Unified diffs and wrong exit codes, one an item; empty if the page is right.
        pictures: Pictures that changed, by name.
        skipped: Why blocks were not run.
        seconds: Processor time of its commands.
    """

    text: str
    differences: list[str] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0


def page_path(name: str, language: str) -> Path:
    """Return where the page of a story is."""
    return ROOT / "docs" / language / "stories" / f"{name}.md"


_REHEARSAL = re.compile(r"\btorchferry (?:rehearse|profile|accept)\b")


def stories() -> list[str]:
    """Return the names of the stories that have an English page."""
    return sorted(path.stem for path in (ROOT / "docs" / "en" / "stories").glob("*.md"))


def run_page(
    name: str,
    language: str,
    *,
    repositories: bool = False,
    rehearsals: bool = True,
    programs: Path | None = None,
) -> Outcome:
    """Run the blocks of a page and compare what they print with it.

    Args:
        name: Of the story.
        language: `en` or `zh`.
        repositories: Whether blocks of the public repository run too.
        rehearsals: Whether to go on behind the last block before the first rehearsal: what comes before it, mostly the
            examination and the migration, takes a twentieth of the time.
        programs: A folder of programs that stand before those of this environment, such as a `torchferry` of a test.

    Raises:
        PageError: the page cannot be run as it is written.
    """
    place = page_path(name, language)
    text = place.read_text(encoding="utf-8")
    lines = text.splitlines()
    outcome = Outcome(text)
    before = _processor_seconds()
    with tempfile.TemporaryDirectory(prefix="story-") as made:
        base = Path(made).resolve()
        terminals: dict[str, Terminal] = {}
        replaced: list[tuple[Block, list[str]]] = []
        for block in blocks(text):
            if not rehearsals and any(_REHEARSAL.search(command.text) for command in block.commands):
                break
            reason = _why_not(block, repositories)
            if not reason and block.where not in terminals:
                try:
                    folder = (_copy if block.where == "example" else _checkout)(name, base)
                except _NotThereError as error:
                    reason = str(error)
                else:
                    terminals[block.where] = Terminal(base, folder, language, programs)
            if reason:
                outcome.skipped.append(f"{place.name}:{block.first}: {reason}")
                continue
            shown = _run_block(block, terminals[block.where], f"{place.relative_to(ROOT)}:{block.first}", outcome)
            replaced.append((block, shown))
            if block.picture:
                _picture(block, shown, terminals[block.where], place.parent / "img" / block.picture, outcome)
    for block, shown in reversed(replaced):
        lines[block.first : block.last] = [f"{block.indent}{line}".rstrip() for line in shown]
    outcome.text = "\n".join(lines) + "\n"
    if outcome.text != text:
        relative = str(place.relative_to(ROOT))
        found = difflib.unified_diff(text.splitlines(), lines, relative, "what it prints now", lineterm="")
        outcome.differences.append("\n".join(found))
    outcome.seconds = _processor_seconds() - before
    return outcome


def _run_block(block: Block, terminal: Terminal, where: str, outcome: Outcome) -> list[str]:
    shown: list[str] = []
    for number, command in enumerate(block.commands):
        printed, code = terminal.run(command.text)
        wanted = block.code if number == len(block.commands) - 1 else 0
        if code != wanted:
            said = textwrap.indent("\n".join(printed[-40:]), "    ")
            outcome.differences.append(f"{where}: `{command.text}` ended with {code}, not {wanted}\n{said}")
        first, *others = command.text.split("\n")
        shown += [f"$ {first}", *others, *merged(command.printed, printed)]
    return shown


def _picture(block: Block, shown: list[str], terminal: Terminal, place: Path, outcome: Outcome) -> None:
    """Compare the picture of a block with the one that is kept."""
    if not block.drawing:
        drawn = pictures.terminal(shown, block.picture)
    elif (made := terminal.folder / block.drawing).is_file():
        drawn = made.read_bytes()
    else:
        outcome.differences.append(f"{place.name}: {block.drawing} was not written")
        return
    kept = place.read_bytes() if place.is_file() else b""
    problem = "is not there"
    if kept:
        problem = pictures.difference(block.picture, kept, drawn, of_a_terminal=not block.drawing)
    if problem:
        outcome.differences.append(f"{place.name}: {problem}")
        outcome.pictures[block.picture] = drawn


def _why_not(block: Block, repositories: bool) -> str:
    if block.where == "card":
        return NEEDS_CARD
    if block.where == "repository" and not repositories:
        return NOT_FETCHED
    wheels = [name for name in block.needs if name.endswith(".whl") and not any(_WHEELS.glob(name))]
    if wheels:
        return f"{', '.join(wheels)} is not in {_WHEELS.name}/ of the environment (`make wheels`)"
    modules = [name for name in block.needs if not name.endswith(".whl")]
    lacking = [module for module in modules if find_spec(module) is None]
    return f"{', '.join(lacking)} cannot be imported" if lacking else ""


class _NotThereError(Exception):
    """A public repository cannot be had here."""


def _git(*arguments: str, folder: Path) -> None:
    environment = {**os.environ, **_GIT, "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise _NotThereError(f"git {arguments[0]}: {done.stderr.strip()[-200:]}")


def _copy(name: str, base: Path) -> Path:
    """Copy the example into a clean folder and commit it there."""
    folder = base / name
    leave = shutil.ignore_patterns("__pycache__", "build")
    shutil.copytree(ROOT / "examples" / name, folder, ignore=leave)
    _git("init", "--quiet", "--initial-branch=main", folder=folder)
    _git("add", "--all", folder=folder)
    _git("commit", "--quiet", "-m", name, folder=folder)
    return folder


def _checkout(name: str, base: Path) -> Path:
    """Check out the public repository of a story, from the mirror folder TORCHFERRY_CORPUS or from its address.

    Raises:
        _NotThereError: neither has it.
    """
    described = tomllib.loads((ROOT / "tools" / "stories.toml").read_text(encoding="utf-8"))[name]
    url, commit = str(described["url"]), str(described["commit"])
    owner, repository = url.removesuffix(".git").rstrip("/").split("/")[-2:]
    corpus = Path(os.environ.get("TORCHFERRY_CORPUS") or os.devnull)
    sources = [str(path) for path in (corpus / f"{owner}+{repository}", corpus / f"{owner}+{repository}" / "repo")]
    folder = base / f"{repository}-public" / repository
    folder.mkdir(parents=True)
    _git("init", "--quiet", folder=folder)
    problems = []
    for source in [*(source for source in sources if Path(source).is_dir()), url]:
        problem = _fetch(source, commit, folder)
        if not problem:
            return folder
        problems.append(problem)
    shutil.rmtree(folder)
    said = "; ".join(problems)
    raise _NotThereError(f"{owner}/{repository} cannot be had here: {said}")


def _fetch(source: str, commit: str, folder: Path) -> str:
    """Fetch and check out one commit; return the problem, if there is one."""
    try:
        _git("fetch", "--quiet", "--depth", "1", source, commit, folder=folder)
        _git("checkout", "--quiet", "FETCH_HEAD", folder=folder)
    except _NotThereError as error:
        return str(error)
    return ""


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run the stories that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="write what is printed now into the pages")
    parser.add_argument("--repositories", action="store_true", help="run the blocks of the public repositories too")
    parser.add_argument("--language", choices=LANGUAGES, action="append")
    options = parser.parse_args()
    red = []
    for name in options.names or stories():
        for language in options.language or LANGUAGES:
            outcome = run_page(name, language, repositories=options.repositories)
            print(
                f"{name} ({language}): {'red' if outcome.differences else 'green'}, {outcome.seconds:.1f} CPU s",
                flush=True,
            )
            for line in outcome.skipped:
                print(f"  skipped {line}")
            for line in outcome.differences:
                print(textwrap.indent(line, "  "))
            if outcome.differences:
                red.append(f"{name} ({language})")
            if options.write:
                page_path(name, language).write_text(outcome.text, encoding="utf-8")
                _keep(outcome.pictures, page_path(name, language).parent / "img")
    if red:
        sys.exit(f"red: {', '.join(red)}")


def _keep(drawn: dict[str, bytes], folder: Path) -> None:
    for name, picture in drawn.items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(picture)


if __name__ == "__main__":
    main()
