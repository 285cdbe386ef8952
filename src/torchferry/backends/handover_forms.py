"""What a model zoo asks of who hands a model over, kept as a folder `handover/<form>/` of its vendor.

The folder has `form.toml` and the templates that it names; a template that it lacks is taken from
`data/common/handover/templates`. The form that belongs to no vendor is `data/common/handover/generic`. A file::

    [sources]
    RULES = "github.com/acme/zoo@123abc CONTRIBUTING.md"

    [form]
    title = "Acme Model Zoo"
    title_zh = "..."
    language = "zh"                     # of the README and the pull request: en, zh, or user for the user's own
    layout = "PyTorch/contrib/{domain}/{model}"     # the model's folder
    model = "{name}_for_PyTorch"        # what the folder is called, for a model called {name}; default: {name}
    domains = ["cv/classification", "nlp"]
    processes = 4                       # that one card is used by; default 1
    metrics = "train.ips"               # how the zoo calls samples a second; empty where it has no word for it
    source = "RULES"

    [licence]
    own = "own-header.txt"              # header of files of one's own, without comment signs
    changed = "Adapted to acme hardware"            # line of files of others that were changed; {year} is filled in
    source = "RULES"

    [logger]                            # only where the zoo has one
    module = "acme_log"                 # the file that is written beside the program, without .py
    import = "from acme_log import log"
    train = "log.train({epoch}, {step}, {loss}, {batch})"
    val = "log.val({epoch}, {step}, {loss}, {batch})"
    package = "acme_logger"             # what is imported, and
    requirement = "git+https://..."     # what is installed
    names = ["train.loss", "val.loss"]  # that are logged
    source = "RULES"

    [[parameter]]                       # of the script that starts the model
    name = "batch_size"
    flags = ["--batch_size", "--bs"]
    type = "int"                        # int, float, str or bool
    role = "batch_size"                 # of `roles.toml`; or `launch`, for torchrun
    help = "..."
    help_zh = "..."

    [[file]]                            # that is written
    template = "README.md"
    path = "README.md"                  # in the model's folder; {model_id} is filled in
    outside = false                     # beside the zoo's folders, as the text of the pull request
    header = false                      # whether it gets the header of one's own files
    when = ""                           # written only if: dockerfile, logger, addresses, distributed

    [[rule]]
    code = "AZ101"
    check = "folder"                    # of `handover/checks`; further keys are its options
    level = "required"                  # required, advice, or person (nobody but a person can judge it)
    text = "the model lies in ..."
    text_zh = "..."
    remedy = "..."
    remedy_zh = "..."
    source = "RULES"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.datafile import DATA, DataFile, data_directory
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

COMMON = DATA / "common" / "handover"
_TEMPLATES = COMMON / "templates"
_FORM = "form.toml"

LEVELS = ("required", "advice", "person")
TYPES = ("int", "float", "str", "bool")

_FORM_KEYS = frozenset(
    {"title", "title_zh", "language", "layout", "model", "domains", "processes", "metrics", "source"}
)
_LICENCE_KEYS = frozenset({"own", "changed", "source"})
_LOGGER_KEYS = frozenset({"module", "import", "train", "val", "begin", "package", "requirement", "names", "source"})
_PARAMETER_KEYS = frozenset({"name", "flags", "type", "role", "help", "help_zh"})
_FILE_KEYS = frozenset({"template", "path", "outside", "header", "when"})
_RULE_KEYS = ("code", "check", "level", "text", "text_zh", "remedy", "remedy_zh", "source")


class ZooParameter(NamedTuple):
    """An argument of the script that starts the model; the fields are those of `[[parameter]]`."""

    name: str
    flags: tuple[str, ...]
    type: str
    role: str
    help: Bilingual


class ZooLogger(NamedTuple):
    """How the zoo wants a run to be logged; the fields are those of `[logger]`."""

    module: str
    import_line: str
    train: str
    val: str
    package: str
    requirement: str
    names: tuple[str, ...]
    source: str
    begin: str = ""
    """A line that says that an epoch begins, for programs that have no number of it."""


class ZooFile(NamedTuple):
    """A file that is written from a template; the fields are those of `[[file]]`."""

    template: str
    path: str
    outside: bool
    header: bool
    when: str


class ZooRule(NamedTuple):
    """A rule of the zoo.

    Attributes:
        code: Its code.
        check: The kind of check.
        level: `required`, `advice` or `person`.
        text: What it asks for.
        remedy: What to do where it is broken.
        source: Where it is written.
        options: What the check is given.
    """

    code: str
    check: str
    level: str
    text: Bilingual
    remedy: Bilingual
    source: str
    options: Mapping[str, Any]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an option that is a list of texts, or one text."""
        value = self.options.get(key, ())
        return (value,) if isinstance(value, str) else tuple(map(str, value))


@dataclass(frozen=True)
class HandoverForm:
    """What one model zoo asks for.

    Attributes:
        name: The form's name, as on the command line.
        folder: Its folder.
        backend: The vendor's backend; None for the form that belongs to none.
        title: What the zoo is called.
        language: Language of the README and the pull request: `en`, `zh`, or `user` for the user's own.
        layout: The model's folder, with `{domain}` and `{model}`.
        model: What the folder is called, with `{name}`.
        domains: The domains that the zoo has folders for.
        processes: Processes that use one card.
        metrics: How the zoo calls the speed of a run.
        source: Where this is written.
        own_header: The header of files of one's own, without comment signs; empty for none.
        changed_line: The line of changed files of others, with `{year}`; empty for none.
        logger: How runs are logged; None where the zoo asks for nothing.
        parameters: The arguments of the start script.
        files: What is written.
        rules: The rules.
    """

    name: str
    folder: Path
    backend: type[Backend] | None
    title: Bilingual
    language: str
    layout: str
    model: str
    domains: tuple[str, ...]
    processes: int
    metrics: str
    source: str
    own_header: str
    changed_line: str
    logger: ZooLogger | None
    parameters: tuple[ZooParameter, ...]
    files: tuple[ZooFile, ...]
    rules: tuple[ZooRule, ...]

    def template(self, name: str, lang: str) -> str:
        """Return the text of a template: the form's own, else the common one; `README.zh.md` is its Chinese."""
        stem, dot, suffix = name.rpartition(".")
        paths = [
            folder / file for folder in (self.folder, _TEMPLATES) for file in (f"{stem}.{lang}{dot}{suffix}", name)
        ]
        return next((path for path in paths if path.is_file()), paths[-1]).read_text(encoding="utf-8")


def form_names() -> list[str]:
    """Return the names of all forms."""
    return sorted(name for name, _, _ in _folders())


def forms_for(target: str) -> list[str]:
    """Return the names of the forms of a target's vendor; of the general form where it has none."""
    every = list(_folders())
    own = [name for name, _, backend in every if backend is not None and target in (backend.NAME, *backend.ALIASES)]
    return own or [name for name, _, backend in every if backend is None]


def form_of(name: str) -> HandoverForm:
    """Return a form.

    Raises:
        UsageError: there is none of this name.
        ValueError: its file is malformed.
    """
    for candidate, folder, backend in _folders():
        if candidate == name:
            return _read(folder, backend)
    raise unknown_name("form", name, form_names())


def roles() -> dict[str, tuple[str, ...]]:
    """Return, for each role of an argument, the flags and names that projects give it, the most usual first."""
    file = DataFile(COMMON / "roles.toml")
    table = file.table("roles")
    return {role: file.texts(table, role, "[roles]") for role in table}


def _folders() -> Iterator[tuple[str, Path, type[Backend] | None]]:
    for path in sorted(COMMON.glob(f"*/{_FORM}")):
        yield path.parent.name, path.parent, None
    for name in registry.names():
        try:
            backend = registry.load(name)
        except UsageError:  # `backend list` reports it
            continue
        for path in sorted((data_directory(backend) / "handover").glob(f"*/{_FORM}")):
            yield path.parent.name, path.parent, backend


def _read(folder: Path, backend: type[Backend] | None) -> HandoverForm:
    file = DataFile(folder / _FORM)
    form, licence = file.table("form"), file.table("licence")
    file.check_keys(form, _FORM_KEYS, "[form]")
    file.check_keys(licence, _LICENCE_KEYS, "[licence]")
    language = file.text(form, "language", "[form]", "en")
    layout = file.text(form, "layout", "[form]")
    processes = form.get("processes", 1)
    if language not in ("en", "zh", "user") or "{model}" not in layout or not isinstance(processes, int):
        raise file.wrong("[form]: `language` is en, zh or user, `layout` has {model}, `processes` is a number")
    own = file.text(licence, "own", "[licence]")
    if licence:
        file.cited(licence, "[licence]")
    return HandoverForm(
        name=folder.name,
        folder=folder,
        backend=backend,
        title=Bilingual(file.text(form, "title", "[form]"), file.text(form, "title_zh", "[form]")),
        language=language,
        layout=layout,
        model=file.text(form, "model", "[form]", "{name}"),
        domains=file.texts(form, "domains", "[form]"),
        processes=processes,
        metrics=file.text(form, "metrics", "[form]"),
        source=file.cited(form, "[form]"),
        own_header=(folder / own).read_text(encoding="utf-8").rstrip("\n") if own else "",
        changed_line=file.text(licence, "changed", "[licence]"),
        logger=_logger(file),
        parameters=tuple(_parameter(file, table) for table in file.tables("parameter")),
        files=tuple(_file(file, table) for table in file.tables("file")),
        rules=tuple(_rule(file, table) for table in file.tables("rule")),
    )


def _logger(file: DataFile) -> ZooLogger | None:
    table = file.table("logger")
    if not table:
        return None
    file.check_keys(table, _LOGGER_KEYS, "[logger]")
    module, line, train, val, package, requirement = (
        file.text(table, key, "[logger]") for key in ("module", "import", "train", "val", "package", "requirement")
    )
    names = file.texts(table, "names", "[logger]")
    begin = file.text(table, "begin", "[logger]", "")
    return ZooLogger(module, line, train, val, package, requirement, names, file.cited(table, "[logger]"), begin)


def _parameter(file: DataFile, table: dict[str, Any]) -> ZooParameter:
    where = f"[[parameter]] {table.get('name', '?')}"
    file.check_keys(table, _PARAMETER_KEYS, where)
    form = file.text(table, "type", where, "str")
    if form not in TYPES:
        raise file.wrong(f"{where}: `type` is one of {', '.join(TYPES)}")
    text = Bilingual(file.text(table, "help", where), file.text(table, "help_zh", where))
    name = file.text(table, "name", where)
    return ZooParameter(name, file.texts(table, "flags", where), form, file.text(table, "role", where, name), text)


def _file(file: DataFile, table: dict[str, Any]) -> ZooFile:
    where = f"[[file]] {table.get('path', '?')}"
    file.check_keys(table, _FILE_KEYS, where)
    return ZooFile(
        file.text(table, "template", where),
        file.text(table, "path", where),
        table.get("outside", False) is True,
        table.get("header", False) is True,
        file.text(table, "when", where),
    )


def _rule(file: DataFile, table: dict[str, Any]) -> ZooRule:
    where = f"[[rule]] {table.get('code', '?')}"
    code, check, level, text, text_zh, remedy, remedy_zh = (
        file.text(table, key, where, "required" if key == "level" else "") for key in _RULE_KEYS[:-1]
    )
    if not (code and check and text) or level not in LEVELS:
        raise file.wrong(f"{where}: `code`, `check` and `text` are needed, `level` is one of {', '.join(LEVELS)}")
    options = {key: value for key, value in table.items() if key not in _RULE_KEYS}
    return ZooRule(
        code, check, level, Bilingual(text, text_zh), Bilingual(remedy, remedy_zh), file.cited(table, where), options
    )
