"""Write the documents that come from the code: rule pages, the targets and their tables, the command reference.

`--check` writes nothing and fails when one of them is stale.
"""

from __future__ import annotations

import difflib
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import click
from babel.messages.pofile import read_po

from torchferry.backends import cuda, registry
from torchferry.backends.cards import cards
from torchferry.backends.errors import COMMON, KnownError, errors_of, families_of
from torchferry.backends.tables import Row
from torchferry.backends.unknown import Unknown
from torchferry.cli import cli, speaking
from torchferry.cli.backend import specification
from torchferry.cli.chinese_help import click_in_chinese
from torchferry.core.messages import Bilingual
from torchferry.core.toml import loads
from torchferry.kernels.diagnostics import diagnostics, page_lines
from torchferry.kernels.review import ReviewKind
from torchferry.report.pages import page
from torchferry.rules.file.problems import FileProblem
from torchferry.rules.registry import family_name, family_title, rules

ROOT = Path(__file__).parent.parent
EXIT_CODES = ROOT / "tools" / "exit_codes.toml"
JUDGES = ROOT / "tools" / "judges.toml"
sys.path.insert(0, str(ROOT))

# the examples of the pages are cases of the tests
from terminal_image import scan_image, words_of  # noqa: E402

from tests.rules.fixture import Case, Output, fixture_of, load  # noqa: E402

TABLES = (
    "api",
    "env",
    "folk_variables",
    "tools",
    "packages",
    "libraries",
    "frameworks",
    "images",
    "triton",
    "versions",
)
HEADS = {
    "rules": "Rules",
    "targets": "Targets",
    "commands": "Commands",
    "name": "CUDA side",
    "status": "status",
    "use": "use",
    "note": "note",
    "source": "source",
    "library": "library",
    "asks": "asks",
    "before": "before torch.cuda",
    "after": "after torch.cuda",
    "mixed": "partly before torch.cuda, partly after",
    "only": "torch.cuda alone",
    "named": "when named",
    "never": "not torch.cuda",
    "kinds": "Files",
    "does": "What it does",
    "why": "Why is this bad?",
    "references": "References",
    "table": "What each target has, with a source for each row ({table}): {targets}",
    "example": "Example",
    "on": "On {targets}",
    "style": " with `{option}`",
    "with_unsafe": " with `--unsafe-fixes`",
    "colon": ":",
    "left": " the code stays as it is.",
    "safety": "Fix safety",
    "grades": "Findings of this rule can be",
    "grade safe": "a **safe fix**: `torchferry migrate` makes it",
    "grade unsafe": "a **fix to read**: likely right; read it, then let `migrate --unsafe-fixes` make it",
    "grade manual": "a **decision**: the message says what there is to choose from, and you choose",
    "grade note": "a **note**: the place stays as it is, and the message gives the reason",
    "see": "See also",
    "family": "All rules of this family",
    "tables": "What each target has in place of a CUDA name",
    "silence": "To silence it",
    "not silenced": "No setting silences it: nothing is known of the file",
    "facts": "Facts",
    "unknown": "UNKNOWN",
    "cards": "Cards",
    "card": "card",
    "aliases": "also called",
    "memory": "memory of a device as a program sees it, MiB",
    "devices": "devices of a card",
    "packages": "Packages",
    "plain": "torch code that follows the device that it is given; "
    "where a function of it chooses CUDA, the page of the target says so",
    "other": "frameworks other than torch; their programs are not judged",
    "engine": "frameworks other than torch that are imported only to compute with them: a program that reaches "
    "such an import is not judged",
    "host": "what does not touch a card: the same on every target",
    "errors": "Codes and messages of errors",
    "diagnostics": "What a port of CUDA C++ prints",
    "errors begin": "What `torchferry explain` knows of each, with its public source. `torchferry explain LOG` finds "
    "them in a log, and says which of them came first; `torchferry api CODE` shows one.",
    "messages": "messages without a code",
    "common": "torch, its launcher, NCCL, vLLM, Ray, Slurm, Kubernetes, the kernel",
    "entries": "entries",
    "cause": "Why, the likeliest first",
    "do": "What to do",
    "role consequence": "It says that this process waited for one that failed elsewhere: look there first.",
    "role general": "It says that something failed, with a hint at what: what stands before it says more.",
    "role echo": "Every failure makes the stack say it: what stands before it is the cause.",
    "where": "It is looked for in what is printed by: {places}.",
    "where log": "programs (logs)",
    "where machine": "the import of the plugin and its libraries",
    "where tool": "the vendor's tool",
    "where deploy": "a step of an installation",
    "made": "This page is written from the code; `make generated` makes it anew.",
    "progress": "A command that takes longer than a second says what it is doing and how far it is, in one line such "
    "as `examining files 312 of 1,204`, which is gone when it is done. The line is on standard error, and there only "
    "where that is a terminal: pipes, files, the logs of CI services and terminals with `TERM=dumb` get none of it. "
    "While a program of yours has the terminal, there is no such line.",
}
"""The words of the pages, by what they head; `tools/locale/docs.po` has their Chinese, with these names as context."""

CATALOGUE = ROOT / "tools" / "locale" / "docs.po"


@cache
def heads(lang: str) -> dict[str, str]:
    """Return the words of the pages in a language."""
    if lang == "en":
        return HEADS
    with CATALOGUE.open("rb") as file:
        chinese = read_po(file, locale=lang)
    return {str(entry.context): str(entry.string) for entry in chinese if entry.id}


def documents() -> Iterator[tuple[Path, str]]:
    """Yield the path and the content of every generated document."""
    yield ROOT / "docs" / "images" / "scan.svg", scan_image()
    for lang in ("en", "zh"):
        folder = ROOT / "docs" / lang
        yield folder / "rules.md", "\n".join(rule_index(lang)) + "\n"
        for rule in rules():
            yield folder / "rules" / f"{rule.CODE}.md", "\n".join(rule_page(rule.CODE, lang)) + "\n"
        yield folder / "targets.md", "\n".join(target_index(lang)) + "\n"
        for name in registry.built_in():
            yield folder / "targets" / f"{name}.md", "\n".join(target_page(name, lang)) + "\n"
        yield folder / "errors.md", "\n".join(error_index(lang)) + "\n"
        for family in error_families():
            yield folder / "errors" / f"{family.page}.md", "\n".join(error_page(family, lang)) + "\n"
        yield folder / "commands.md", "\n".join(commands(lang)) + "\n"
        yield folder / "diagnostics.md", "\n".join(diagnostic_index(lang)) + "\n"
        for kind in diagnostics():
            yield folder / "diagnostics" / f"{kind.number}.md", "\n".join(diagnostic_page(kind, lang)) + "\n"
        page = folder / "rehearsing.md"
        yield page, with_part(page.read_text(encoding="utf-8"), "judges", "\n".join(judges(lang)))


def rule_index(lang: str) -> Iterator[str]:
    """Yield the list of all rules."""
    words = heads(lang)
    yield f"# {words['rules']}\n\n{words['made']}"
    last = ""
    for rule in rules():
        if family_name(rule.CODE) != last:
            last = family_name(rule.CODE)
            yield f"\n## {last} {family_title(last).render(lang)}\n"
        found = page(rule.CODE, lang)
        yield f"- [{found.code}](rules/{found.code}.md) `{found.name}`: {found.title}"


LONGEST_EXAMPLE = 16
"""The most lines of a case that serves as the example of a page without being named one."""
LANGUAGES = {".py": "python", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}


def rule_page(code: str, lang: str) -> Iterator[str]:
    """Yield the page of one rule: its text, an example from its fixture, and how sure its fixes are."""
    words = heads(lang)
    found = page(code, lang)
    cases = load(fixture_of(type(found.rule).__module__))
    yield f"# {found.code} {found.name}\n\n{found.title}\n"
    if found.body:
        yield f"## {words['does']}\n\n{found.body}\n"
    yield f"## {words['why']}\n\n{found.why}\n"
    yield from _example(cases, lang)
    grades = {expected.grade for case in cases for _, expected in case.findings}
    if grades:
        yield f"## {words['safety']}\n\n{words['grades']}{words['colon']}\n"
        yield from (f"- {words['grade ' + grade]}" for grade in ("safe", "unsafe", "manual", "note") if grade in grades)
        yield ""
    yield f"## {words['references']}\n"
    yield from (f"- {_reference(entry, lang)}" for entry in found.references)
    yield f"\n## {words['see']}\n"
    colon = ": " if words["colon"] == ":" else words["colon"]
    yield f"- {words['family']}{colon}[{words['rules']}](../rules.md)"
    yield f"- {words['tables']}{colon}[{words['targets']}](../targets.md)"
    yield f"- {words['kinds']}{colon}{', '.join(kind.value for kind in found.rule.KINDS)}"
    if isinstance(found.rule, FileProblem) and found.rule.LEAVES_VERDICT_OPEN:
        yield f"- {words['not silenced']}"
    else:
        yield f"- {words['silence']}{colon}`# torchferry: ignore[{found.code}] reason`"


def _reference(entry: str, lang: str) -> str:
    """Return an entry of a rule's references: a table of the targets, a page of the documentation, or a source."""
    kind, _, name = entry.partition(" ")
    if kind == "table":
        listed = [target for target in registry.built_in() if _table(target, name)]
        links = ", ".join(f"[{target}](../targets/{target}.md#{name})" for target in listed)
        return heads(lang)["table"].format(table=f"`{name}`", targets=links)
    if kind == "page":
        title = (ROOT / "docs" / lang / f"{name}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{title}](../{name}.md)"
    return entry


def _table(target: str, table: str) -> list[Row]:
    """Return the rows of a table that the page of a target shows."""
    return [row for row in registry.load(target).table(table) if table != "packages" or _is_shown(row)]


_OPTIONS = ("style", "dtype", "status-line")
"""Options of the migration that a case of a fixture may set."""


def _example(cases: list[Case], lang: str) -> Iterator[str]:
    """Yield the case that is named the example; else the first short one that is rewritten, else the first reported."""
    plain = [case for case in cases if not case.paths and {name for name, _ in case.disk} <= {"style"}]
    reported = [case for case in plain if case.findings]
    short = [case for case in reported if sum(text.count("\n") for _, text in case.files) <= LONGEST_EXAMPLE]
    rewritten = [case for case in short if any(output.text is not None for output in case.outputs)]
    named = [case for case in cases if case.example]
    case = next(iter((*named, *rewritten, *short)), None)
    if case is None:
        return
    words = heads(lang)
    yield f"## {words['example']}\n"
    for name, text in case.files:
        if name != "input.py":
            yield f"`{name}`{words['colon']}\n"
        yield f"```{LANGUAGES.get(PurePosixPath(name).suffix, 'text')}\n{text.rstrip()}\n```\n"
    before = case.main[1]
    chosen: dict[str, Output] = {}
    for output in case.outputs:  # what unsafe fixes make of it is shown where safe ones do nothing
        if output.target not in chosen or chosen[output.target].text is None:
            chosen[output.target] = output
    targets: dict[tuple[str | None, bool], list[str]] = {}
    for target, output in chosen.items():
        targets.setdefault((output.text, output.unsafe and output.text is not None), []).append(target)
    options = (f"--{name}" if value == "on" else f"--{name} {value}" for name, value in case.disk if name in _OPTIONS)
    style = "".join(words["style"].format(option=option) for option in options)
    for (after, unsafe), names in targets.items():
        line = words["on"].format(targets=", ".join(f"`{name}`" for name in names)) + style
        line += words["with_unsafe"] if unsafe else ""
        yield f"{line}{words['colon']}" + (words["left"] if after is None else "") + "\n"
        if after is not None:
            yield "```diff\n" + "\n".join(_changed(before, after)) + "\n```\n"


def _changed(before: str, after: str) -> Iterator[str]:
    """Yield the lines of a file with what was taken away and what was put in its place."""
    whole = len(before) + len(after)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=whole, lineterm="")
    yield from (line.rstrip() for number, line in enumerate(lines) if number >= 3)  # after names of files and position


def target_index(lang: str) -> Iterator[str]:
    """Yield the list of the targets."""
    words = heads(lang)
    yield f"# {words['targets']}\n\n{words['made']}\n"
    for name in registry.built_in():
        backend = registry.load(name)
        title = Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)
        yield f"- [{name}](targets/{name}.md): {title}, `{backend.PLUGIN}`"
    yield f"\n## {words['packages']}"
    for kind in ("plain", "other", "engine", "host"):
        known = (*cuda.packages().values(), *cuda.hosts().values())
        names = sorted(package.name for package in known if package.kind == kind)
        yield f"\n**{kind}** ({len(names)}): {words[kind]}.\n"
        yield from textwrap.wrap(", ".join(names), 118, break_on_hyphens=False)


def target_page(name: str, lang: str) -> Iterator[str]:
    """Yield what is known of one target."""
    words = heads(lang)
    backend = registry.load(name)
    yield f"# {name}: {Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)}\n\n{words['made']}\n"
    yield f"## {words['facts']}\n"
    for attribute in specification():
        value = getattr(backend, attribute, None)
        if attribute in ("NAME", "TITLE", "TITLE_ZH", "SOURCES", "DATA_DIRECTORY") or value in (None, "", (), {}):
            continue
        shown = words["unknown"] if isinstance(value, Unknown) else _value(value, lang)
        source = backend.source_of(attribute)
        yield f"- `{attribute}`: {shown}" + (f" ({source})" if source else "")
    yield from _cards(name, lang)
    for table in TABLES:
        rows = _table(name, table)
        if not rows:
            continue
        yield f"\n## {table}\n"
        name_of, use_of = ("library", "asks") if table == "libraries" else ("name", "use")
        yield f"| {words[name_of]} | {words['status']} | {words[use_of]} | {words['note']} | {words['source']} |"
        yield "|---|---|---|---|---|"
        sources = sorted({row.source for row in rows})
        for row in sorted(rows, key=lambda row: (row.name, row.since)):
            yield _row(row, sources, lang)
        yield ""
        for number, source in enumerate(sources, 1):
            yield f"{number}. {source}"


class FamilyPage(NamedTuple):
    """The entries of one page: a family of codes, or what has no code in a table."""

    owner: str
    name: str
    title: Bilingual | None
    entries: tuple[KnownError, ...]

    @property
    def page(self) -> str:
        """The name of the page."""
        return f"{self.owner}-{self.name}"


@cache
def diagnostic_index(lang: str) -> Iterator[str]:
    """Yield the list of the numbers that `port` prints."""
    words = heads(lang)
    yield f"# {words['diagnostics']}\n\n{words['made']}\n"
    yield from (
        f"- [{kind.number}](diagnostics/{kind.number}.md) `{kind.name}`{words['colon']} {kind.why.render(lang)}"
        for kind in diagnostics()
    )


def diagnostic_page(kind: ReviewKind, lang: str) -> Iterator[str]:
    """Yield the page of one of these numbers, as `torchferry rule` prints it."""
    words = heads(lang)
    yield f"# {kind.number} {kind.name}\n"
    yield from page_lines(kind, lang)
    colon = ": " if words["colon"] == ":" else words["colon"]
    yield f"\n## {words['see']}\n\n- {words['family']}{colon}[{words['diagnostics']}](../diagnostics.md)"


def error_families() -> tuple[FamilyPage, ...]:
    """Return the pages of errors: of each table its families, then what has no code."""
    pages = []
    for backend in (*(registry.load(name) for name in registry.built_in()), None):
        families = families_of(backend)
        own = [entry for entry in errors_of(backend) if backend is None or entry.owner == backend.NAME]
        for family in families:
            entries = tuple(entry for entry in own if family.has(entry))
            pages.append(FamilyPage(family.owner, family.name, family.title, entries))
        others = tuple(entry for entry in own if not any(family.has(entry) for family in families))
        if others:
            pages.append(FamilyPage(others[0].owner, "messages", None, others))
    return tuple(pages)


def error_index(lang: str) -> Iterator[str]:
    """Yield the list of the families of codes."""
    words = heads(lang)
    yield f"# {words['errors']}\n\n{words['made']}\n\n{words['errors begin']}"
    last = ""
    for family in error_families():
        if family.owner != last:
            last = family.owner
            yield f"\n## {_owner_title(last, lang)}\n"
        number = f"{len(family.entries)} {words['entries']}"
        yield f"- [{_family_title(family, lang)}](errors/{family.page}.md) ({number})"


def error_page(family: FamilyPage, lang: str) -> Iterator[str]:
    """Yield the page of a family: each entry with its causes, what to do, and its source."""
    words = heads(lang)
    colon = ": " if words["colon"] == ":" else words["colon"]
    yield f"# {_owner_title(family.owner, lang)}{colon}{_family_title(family, lang)}\n\n{words['made']}\n"
    yield words["errors begin"]
    codes = Counter(entry.code for entry in family.entries)
    for entry in family.entries:
        meaning = _plain(entry.meaning.render(lang), entry)
        shared = entry.code and codes[entry.code] > 1
        yield f"\n## {f'{entry.code} ({entry.id})' if shared else entry.code or entry.id}\n"
        if meaning:
            yield f"{meaning}\n"
        if entry.role != "cause":
            yield f"*{words['role ' + entry.role]}*\n"
        yield f"**{words['cause']}**\n"
        yield from (f"{number}. {_plain(cause.render(lang), entry)}" for number, cause in enumerate(entry.causes, 1))
        yield f"\n**{words['do']}**\n"
        if entry.remedy.en:
            yield f"{_plain(entry.remedy.render(lang), entry)}\n"
        if entry.commands:
            yield "```bash\n" + "\n".join(_typed(command, entry) for command in entry.commands) + "\n```\n"
        if entry.where != ("log",):
            places = (", " if lang == "en" else "、").join(words[f"where {place}"] for place in entry.where)
            yield f"{words['where'].format(places=places)}\n"
        yield f"{words['source']}{colon}{entry.source.replace('<', '&lt;')}"


def _owner_title(owner: str, lang: str) -> str:
    if owner == COMMON:
        return heads(lang)["common"]
    backend = registry.load(owner)
    return f"{owner} ({Bilingual(backend.TITLE, backend.TITLE_ZH).render(lang)})"


def _family_title(family: FamilyPage, lang: str) -> str:
    return heads(lang)["messages"] if family.title is None else family.title.render(lang)


def _plain(text: str, entry: KnownError) -> str:
    """Return a text with words in the place of what a message names."""
    for name in entry.pattern.groupindex if entry.pattern is not None else ():
        text = text.replace("{" + name + "}", name.upper())
    return text.replace("<", "&lt;")


def _typed(command: str, entry: KnownError) -> str:
    for name in entry.pattern.groupindex if entry.pattern is not None else ():
        command = command.replace("{" + name + "}", name.upper())
    return command.replace("{python}", "python")


def _is_shown(row: Row) -> bool:
    """Whether a package is worth a row of a target's page: not what the list of all targets says already."""
    package = cuda.packages()[row.name]
    if package.kind in cuda.OTHER_FRAMEWORKS:
        return False
    return not (package.kind == "plain" and row.status == "same" and not row.note)


def _cards(name: str, lang: str) -> Iterator[str]:
    words = heads(lang)
    known = cards(registry.load(name))
    if not known:
        return
    yield f"\n## {words['cards']}\n"
    columns = ("card", "aliases", "memory", "devices", "source")
    yield "| " + " | ".join(words[column] for column in columns) + " |"
    yield "|---|---|---|---|---|"
    for card in known:
        memory = words["unknown"] if isinstance(card.memory, Unknown) else f"{card.memory >> 20:,}"
        devices = words["unknown"] if isinstance(card.devices_per_card, Unknown) else str(card.devices_per_card)
        yield "| " + " | ".join((card.name, ", ".join(card.aliases), memory, devices, card.source)) + " |"


def _row(row: Row, sources: list[str], lang: str) -> str:
    status = "UNKNOWN" if row.status == "unknown" else row.status
    span = ", ".join(filter(None, (row.since and f"≥{row.since}", row.until and f"<{row.until}")))
    note = row.remark.render(lang) if row.remark is not None else ""
    use = f"`{row.use}`" if row.use else ""
    if "order" in row.extra:
        use = f"{heads(lang)[row.extra['order']]}: {row.extra['asks']}"
    cells = (f"`{row.name}`" + (f" ({span})" if span else ""), status, use, note, str(sources.index(row.source) + 1))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(value: object, lang: str) -> str:
    if isinstance(value, Bilingual):
        return value.render(lang)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_value(item, lang)}" for key, item in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"`{value}`"


def commands(lang: str) -> Iterator[str]:
    """Yield the command reference: what each command says of itself."""
    words = heads(lang)
    yield f"# {words['commands']}\n\n{words['made']}\n\n{words['progress']}\n"
    yield from exit_codes(lang)
    with _environment(TORCHFERRY_LANG=lang), click_in_chinese() if lang == "zh" else nullcontext():
        for name, shown in _helps(speaking(cli), None, "torchferry"):
            yield f"\n## {name}\n\n```text\n{shown.rstrip()}\n```"


def exit_codes(lang: str) -> Iterator[str]:
    """Yield the table of exit codes."""
    table = loads(EXIT_CODES.read_text(encoding="utf-8"))
    words = table["words"][lang]
    yield f"## {words['title']}\n\n{words['begin'].strip()}\n"
    yield f"| {' | '.join(words['heads'])} |\n|---|---|---|"
    for cause in table["cause"]:
        commands = words["comma"].join(f"`{entry}`" for entry in cause.get("in", ())) or words["all"]
        yield f"| {cause['code']} | {cause[lang]} | {commands} |"
    plain = words["comma"].join(f"`{entry}`" for entry in table["plain"])
    yield f"\n{words['plain']}{plain}"
    yield f"\n{words['exceptions']}\n"
    yield from (f"- {exception[lang]}" for exception in table["exception"])


def judges(lang: str) -> Iterator[str]:
    """Yield the table of what either plugin tells of the planted programs."""
    table = loads(JUDGES.read_text(encoding="utf-8"))
    words, suffix = table["words"][lang], "_zh" if lang == "zh" else ""
    yield f"{words['begin']}\n"
    yield f"| {' | '.join(words['heads'])} |\n|---|---|---|---|"
    for program in table["program"]:
        cells = [program[f"does{suffix}"], "`" + program["kind"] + "`"]
        for judge in ("simulated", "plugin"):
            word = "not_told" if not program[judge] else "told" if program[judge] == program["kind"] else "told_as"
            cells.append(words[word].format(kind=program[judge], reason=program.get(f"reason{suffix}", "")))
        yield f"| {' | '.join(cells)} |"


def with_part(page: str, name: str, part: str) -> str:
    """Return a page with another text between the two comments that hold a part of it.

    Raises:
        ValueError: the page has no such part.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"there is no part `{name}`")
    return f"{before}{begin}{part}\n{end}{after}"


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables, and put back what they were."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _helps(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    """Yield the full name and the help of a command, then those of the commands below it."""
    width = 78  # what a terminal of 80 columns is given, whatever this one has
    settings = {**command.context_settings, "terminal_width": width}
    context = command.context_class(command, parent, name.rpartition(" ")[2], **settings)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            if found is not None and not found.hidden:
                yield from _helps(found, context, f"{name} {verb}")


def _same(path: Path, text: str) -> bool:
    written = path.read_text(encoding="utf-8")
    return written == text or (path.suffix == ".svg" and words_of(written) == words_of(text))


def main() -> int:
    """Write the documents, or with `--check` compare them; returns the exit status."""
    check = "--check" in sys.argv[1:]
    wanted = dict(documents())
    known = {path for lang in ("en", "zh") for part in ("rules", "targets", "errors", "diagnostics")
             for path in (ROOT / "docs" / lang / part).glob("*.md")}  # fmt: skip
    stale = [path for path, text in wanted.items() if not path.is_file() or not _same(path, text)]
    stale += sorted(known - wanted.keys())
    if check:
        for path in stale:
            print(f"stale: {path.relative_to(ROOT)}; run `make generated`", file=sys.stderr)
        return 1 if stale else 0
    for path in known - wanted.keys():
        path.unlink()
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    print(f"{len(wanted)} documents, {len(stale)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
