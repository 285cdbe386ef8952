"""How a target's software gets onto a server, kept as `deploy.toml` in the vendor's folder.

The file is the one place that knows a vendor's installation: what a person has to hand over, what is done in which
order, and how one sees that it is done; what messages mean is in `errors.toml` beside it. `torchferry deploy` makes a
playbook, a plan to read, a Dockerfile and manifests of it. Every table cites its sources::

    [sources]
    GUIDE = "Acme installation guide 3.0"

    [deployment]
    product = "Acme A1"                 # what is installed
    python = "3.8"                      # of the container; left out where it is not public
    architecture = "x86_64"             # of the hosts, as `uname -m` says it
    cards = "/dev/acme[0-9]*"           # nodes of the cards, a pattern of the shell
    module = "acme"                     # the kernel module; left out where none is known
    busy = "test -n ..."                # a command that ends with 0 when a process uses a card
    interpreter = "PYTHON=python3"      # bash that readies the container's shell for torch and sets $PYTHON
    source = "GUIDE"

    [[value]]                           # a setting; scripts see it as the variable $CONTAINER
    name = "container"
    default = "acme_training"           # without one it is UNKNOWN: the user is asked for it by its name
    choices = ["yes", "no"]             # what it may be; any text where this is left out
    pattern = "[A-Za-z0-9_.-]+"         # or what all of it must match
    split = true                        # it holds several words: scripts write $CONTAINER without quotes
    about = "name of the container"
    about_zh = "..."
    source = "GUIDE"

    [[file]]                            # what the bundle carries; $INSTALLER is its path, on host and in container
    name = "installer"
    kind = "file"                       # file, image, debs, rpms, wheels, folder; of the last four it is a folder
    example = "Acme_3.0.run"            # its usual name
    optional = true                     # steps that need it are left out where it is missing, and that is said
    packages = ["git"]                  # kind debs: what is fetched in the image; kind wheels: requirements for pip
    no_deps = ["torchvision==0.11.1"]   # kind wheels: fetched without what they need
    about = "the installer, from the vendor's support site"
    source = "GUIDE"

    [[step]]
    id = "driver"
    stage = "driver"                    # one of STAGES; steps run in the order of the file
    where = "host"                      # or "container"
    title = "install the driver"
    check = "lsmod | grep -q '^acme'"   # bash: ends with 0 when there is nothing to do; also judges afterwards
    run = '"$INSTALLER" --quiet'        # bash; without it the step only judges
    undo = '"$INSTALLER" --uninstall'   # bash: takes it back; without it `undo_note` says why there is no way back
    undo_note = "..."
    needs = ["installer"]               # files; the step is left out where an optional one is missing
    uses = ["image_tar"]                # files that it takes where they are there
    when = "CONTAINER=..."              # only where a value is this; without `=`, only where it is not empty
    timeout = 1800                      # seconds
    ok_rc = [0, 2]                      # what counts as success of `run`, before `check` judges
    verify_retries = 10                 # `check` may need time after `run`: so often, 6 seconds apart
    reboot = true                       # the host is restarted when the step changed something
    refuse_busy = true                  # nothing is done while a process uses a card
    source = "GUIDE"

    [container]                         # how a container sees the cards
    image = "acme/base:3.0"             # or the name of a value: "$IMAGE"
    privileged = true
    ipc = "host"
    network = "host"
    shm_size = "64g"
    devices = ["/dev/acme[0-9]*"]       # patterns: a container gets those nodes that its host has
    mounts = ["/usr/local/acme:/usr/local/acme:ro"]
    capabilities = ["SYS_PTRACE"]
    environment = ["ACME_VISIBLE_DEVICES=all"]
    runtime = "acme"
    source = "GUIDE"

    [kubernetes]
    resource = "acme.com/card"          # what the device plugin of the vendor calls a card
    plugin = "acme-device-plugin"
    source = "GUIDE"

A text may have its Chinese beside it, in a key that ends in `_zh`. Scripts see `$STATE`, a folder that stays on the
host or in the container, `$BUNDLE`, the folder of the files, and what `[deployment]` and `[container]` say:
`$ARCHITECTURE`, `$CARDS`, `$MODULE`, `$INTERPRETER`, `"${CONTAINER_FLAGS[@]}"`, `"${CONTAINER_DEVICES[@]}"`, and
`$CONTAINER_SPEC`, a hash of these and the image. `$PLUGIN` is the name of the plugin.

What holds for every vendor is in `backends/data/common/deploy.toml`: its steps come first in each stage; a row of the
vendor's with the same name replaces the shared one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from torchferry.backends.datafile import DATA, DataFile, DataOwner, data_file
from torchferry.backends.errors import ErrorMatch, KnownError, errors_of, first_match
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

STAGES = (
    "precheck",
    "driver",
    "firmware",
    "image",
    "container",
    "base",
    "framework",
    "plugin",
    "model",
    "dependencies",
    "repair",
    "verify",
    "sample",
)
"""Stages in the order in which they begin; a later one never comes before an earlier one."""

FILE_KINDS = ("file", "image", "debs", "rpms", "wheels", "folder")

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_STEP = re.compile(r"[a-z][a-z0-9-]*")
_RESERVED = frozenset({"state", "bundle", "path", "home", "ifs", "step", "shell", "user"})

_TABLES = frozenset({"sources", "deployment", "value", "file", "step", "container", "kubernetes"})
_DEPLOYMENT_KEYS = frozenset(
    {"product", "product_zh", "python", "architecture", "cards", "module", "busy", "interpreter", "source"},
)


class DeployValue(NamedTuple):
    """A setting of a deployment; the fields are those of `[[value]]`. `default` is None where it is UNKNOWN."""

    name: str
    default: str | None
    choices: tuple[str, ...]
    pattern: str
    split: bool
    about: Bilingual
    source: str

    @property
    def variable(self) -> str:
        """The variable that scripts see."""
        return self.name.upper()


class DeployFile(NamedTuple):
    """What a bundle carries; the fields are those of `[[file]]`."""

    name: str
    about: Bilingual
    source: str
    kind: str = "file"
    example: str = ""
    optional: bool = False
    packages: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The variable that scripts see."""
        return self.name.upper()

    @property
    def is_folder(self) -> bool:
        """Whether it has several files."""
        return self.kind in ("debs", "rpms", "wheels", "folder")


class DeployStep(NamedTuple):
    """One step; the fields are those of `[[step]]`, `when` as name and value (both empty: always; None: any text)."""

    id: str
    stage: str
    title: Bilingual
    check: str
    where: str = "host"
    run: str = ""
    undo: str = ""
    undo_note: Bilingual = Bilingual("")
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    when: tuple[str, str | None] = ("", "")
    timeout: int = 600
    ok_rc: tuple[int, ...] = (0,)
    verify_retries: int = 0
    reboot: bool = False
    refuse_busy: bool = False
    source: str = ""

    @property
    def in_container(self) -> bool:
        """Whether it runs inside of the container."""
        return self.where == "container"


class ContainerNeeds(NamedTuple):
    """How a container sees the cards; the fields are those of `[container]`."""

    image: str = ""
    privileged: bool = False
    ipc: str = ""
    network: str = ""
    shm_size: str = ""
    devices: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    runtime: str = ""
    source: str = ""


class KubernetesNeeds(NamedTuple):
    """What the vendor's device plugin calls a card; empty where it is not public."""

    resource: str = ""
    plugin: str = ""
    source: str = ""


Row = TypeVar("Row", DeployValue, DeployFile)
Needs = TypeVar("Needs", ContainerNeeds, KubernetesNeeds)


class Deployment(NamedTuple):
    """All that is known of a target's installation; the fields are the tables of the module's text."""

    product: Bilingual
    python: str
    architecture: str
    cards: str
    module: str
    busy: str
    interpreter: str
    source: str
    values: tuple[DeployValue, ...]
    files: tuple[DeployFile, ...]
    steps: tuple[DeployStep, ...]
    errors: tuple[KnownError, ...]
    container: ContainerNeeds
    kubernetes: KubernetesNeeds

    def explained(self, step: str, output: str) -> ErrorMatch | None:
        """Return what the output of a step means; None where no entry of the target's tables knows it."""
        match = first_match(self.errors, output, ("deploy", "machine"), step)
        if match is not None:
            return match
        return first_match([entry for entry in self.errors if entry.role == "cause"], output, ("log",), step)

    def value(self, name: str) -> DeployValue | None:
        """Return the setting of this name."""
        return next((value for value in self.values if value.name == name), None)

    def file(self, name: str) -> DeployFile | None:
        """Return the file of this name."""
        return next((file for file in self.files if file.name == name), None)


def deployment(backend: type[DataOwner]) -> Deployment | None:
    """Return how a backend's software is installed; None where nothing is written down.

    Raises:
        ValueError: the file is malformed.
    """
    path = data_file(backend, "deploy.toml")
    return None if path is None else _load(path)._replace(errors=errors_of(backend))


@lru_cache(maxsize=8)
def _load(path: Path) -> Deployment:
    file, common = DataFile(path), DataFile(DATA / "common" / "deploy.toml")
    file.check_keys(file.document, _TABLES, "top")
    head = file.table("deployment")
    file.check_keys(head, _DEPLOYMENT_KEYS, "[deployment]")
    values = _merged(_rows(common, "value", _value), _rows(file, "value", _value))
    files = _merged(_rows(common, "file", _file), _rows(file, "file", _file))
    if {value.name for value in values} & {row.name for row in files}:
        raise file.wrong("a value and a file have one name")
    own, shared = (
        tuple(_step(which, table, values, files) for table in which.tables("step")) for which in (file, common)
    )
    _check_order(file, own)
    replaced = {step.id for step in own}
    steps = sorted(
        [*(step for step in shared if step.id not in replaced), *own], key=lambda step: STAGES.index(step.stage)
    )
    return Deployment(
        file.bilingual(head, "product", "[deployment]"),
        file.text(head, "python", "[deployment]"),
        file.text(head, "architecture", "[deployment]"),
        file.text(head, "cards", "[deployment]"),
        file.text(head, "module", "[deployment]"),
        _script(file, head, "busy", "[deployment]"),
        _script(file, head, "interpreter", "[deployment]"),
        file.cited(head, "[deployment]"),
        values,
        files,
        tuple(steps),
        (),
        _needs(file, "container", ContainerNeeds),
        _needs(file, "kubernetes", KubernetesNeeds),
    )


def _rows(file: DataFile, key: str, read: Callable[[DataFile, dict[str, Any]], Row]) -> dict[str, Row]:
    """Read the rows of a kind by their names, of which each is there once."""
    tables = file.tables(key)
    rows = {_name(file, table, f"[[{key}]]"): read(file, table) for table in tables}
    if len(rows) < len(tables):
        raise file.wrong(f"two [[{key}]] have one name")
    return rows


def _merged(shared: dict[str, Row], own: dict[str, Row]) -> tuple[Row, ...]:
    """Return the rows of both files; the vendor's is in the shared one's place."""
    return tuple({**shared, **own}.values())


def _value(file: DataFile, table: dict[str, Any]) -> DeployValue:
    name = _name(file, table, "[[value]]")
    where = f"[[value]] {name}"
    default = file.text(table, "default", where) if "default" in table else None
    value = file.record(DeployValue, table, where, default=default)
    pattern = _pattern(file, value.pattern or ".*", where)
    if default is not None and (not pattern.fullmatch(default) or default not in (value.choices or (default,))):
        raise file.wrong(f"{where}: the default is none of what it may be")
    return value


def _file(file: DataFile, table: dict[str, Any]) -> DeployFile:
    where = f"[[file]] {_name(file, table, '[[file]]')}"
    row = file.record(DeployFile, table, where)
    if row.kind not in FILE_KINDS:
        raise file.wrong(f"{where}: `kind` is one of {', '.join(FILE_KINDS)}")
    return row


def _step(
    file: DataFile, table: dict[str, Any], values: tuple[DeployValue, ...], files: tuple[DeployFile, ...]
) -> DeployStep:
    where = f"[[step]] {file.text(table, 'id', '[[step]]')}"
    when = file.text(table, "when", where)
    setting, equals, wanted = when.partition("=")
    only = (setting.lower(), wanted if equals or not when else None)
    scripts = {key: _script(file, table, key, where) for key in ("check", "run", "undo")}
    step = file.record(DeployStep, table, where, when=only, **scripts)
    if not _STEP.fullmatch(step.id):
        raise file.wrong(f"{where}: `id` is made of small letters, digits and -")
    if step.stage not in STAGES or step.where not in ("host", "container"):
        raise file.wrong(f"{where}: `stage` is one of {', '.join(STAGES)}, `where` is host or container")
    if lacking := sorted({*step.needs, *step.uses} - {row.name for row in files}):
        raise file.wrong(f"{where}: no [[file]] {', '.join(lacking)}")
    if when and setting.lower() not in {value.name for value in values}:
        raise file.wrong(f"{where}: `when` names no [[value]]")
    if any(code > 255 for code in step.ok_rc):
        raise file.wrong(f"{where}: `ok_rc` is a list of exit codes")
    if max(step.timeout, step.verify_retries) > 86400:
        raise file.wrong(f"{where}: a day is the longest")
    if not step.check or not step.title.en:
        raise file.wrong(f"{where}: `check` and `title` are needed")
    return step


def _needs(file: DataFile, key: str, kind: type[Needs]) -> Needs:
    """Read a table that need not be there."""
    table = file.table(key)
    return file.record(kind, table, f"[{key}]") if table else kind()


def _pattern(file: DataFile, text: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE | re.MULTILINE)
    except re.error as error:
        raise file.wrong(f"{where}: no regular expression: {error}") from error


def _check_order(file: DataFile, steps: tuple[DeployStep, ...]) -> None:
    """Check that no two steps have one name, and that the stages come in their order."""
    if len({step.id for step in steps}) < len(steps):
        raise file.wrong("two steps have one `id`")
    stages = [STAGES.index(step.stage) for step in steps]
    for step, before, stage in zip(steps[1:], stages, stages[1:], strict=False):
        if stage < before:
            raise file.wrong(f"[[step]] {step.id}: stage {step.stage} comes before {STAGES[before]}")


def _name(file: DataFile, table: dict[str, Any], where: str) -> str:
    name = file.text(table, "name", where)
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise file.wrong(f"{where}: `{name}` is no name for a variable of a script")
    return name


def _script(file: DataFile, table: dict[str, Any], key: str, where: str) -> str:
    text = file.text(table, key, where).strip("\n")
    if "\0" in text:
        raise file.wrong(f"{where}: `{key}` is no script")
    return text
