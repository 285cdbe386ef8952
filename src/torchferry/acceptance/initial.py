"""Writes a first accept file: what the project's files and the log of the CUDA run say, and the rest as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from torchferry.acceptance.acceptfile import NAME, SCHEMA, STYLES
from torchferry.acceptance.proposing import LEAST_VALUES, LoggedMetric, first_gates, proposed
from torchferry.acceptance.units import words
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.record import NamedTuple
from torchferry.core.secrets import masked
from torchferry.migration.beside import originals
from torchferry.migration.journal import readable_journals, suffixed
from torchferry.numerics.curves.reading import Wanted
from torchferry.numerics.curves.reading import read as read_curves
from torchferry.numerics.curves.records import lines
from torchferry.source.git import git, is_in_repository, shared_commit
from torchferry.source.kinds import Kind
from torchferry.source.markdown import command_view
from torchferry.source.project import Project
from torchferry.source.roles import Role, Roles
from torchferry.source.tree import list_files

_LICENCES = (
    ("MIT", "Permission is hereby granted, free of charge"),
    ("Apache-2.0", "Apache License"),
    ("AGPL-3.0", "GNU AFFERO GENERAL PUBLIC LICENSE"),
    ("LGPL-3.0", "GNU LESSER GENERAL PUBLIC LICENSE"),
    ("GPL-3.0", "GNU GENERAL PUBLIC LICENSE"),
    ("BSD-3-Clause", "Neither the name of"),
    ("BSD-2-Clause", "Redistribution and use in source and binary forms"),
)
"""A sentence of each licence, in the order in which they are looked for."""

_NAMED = re.compile(r"(?:LICEN[CS]E|COPYING)(?:\.\w+)?\Z", re.IGNORECASE)
_LIKELY = ("train", "main", "val", "eval", "test", "infer", "inference", "sample", "generate", "predict", "detect")
_STARTS = frozenset({"python", "python3", "torchrun", "accelerate", "deepspeed"})
_NOT_RUN = frozenset({"-m pip", "-m venv", "setup.py"})

_TORCH = re.compile(r"\b(?:torch|pytorch)[ =:-]{1,4}v?(\d+\.\d+(?:\.\d+)?(?:\+\w+)?)", re.IGNORECASE)
_CUDA = re.compile(r"\bcuda(?: (?:version|toolkit))?[ =:]{1,3}v?(\d{1,2}\.\d+)|\+cu(\d{3})\b", re.IGNORECASE)
_CARD = re.compile(r"\b((?:NVIDIA |Tesla |GeForce ){1,3}[\w -]{2,40}?)(?=[,)\n(;|\]]|$)", re.MULTILINE)
_DATE = re.compile(r"\b(20\d\d-[01]\d-[0-3]\d)\b")

_FAST = re.compile(
    r"(?:it|img|imgs|images|samples|tokens|frames|steps|fps|ips)(?:/s|/sec|_per_sec(?:ond)?)?\Z|throughput", re.I
)
_RATE = re.compile(r"\d\s?((?:it|img|imgs|images|samples|tokens|frames)/s(?:ec)?)\b")
"""A rate with its value in front of it."""

_MOST_METRICS = 12
"""Metrics that are written, the rest of them as comments."""
_MOST_LINES = 5000


class Facts(NamedTuple):
    """What a project and a log say of themselves; empty where they say nothing.

    `style` is that of its migration, `original` the program that the first one was written beside by `--suffix`.
    """

    name: str
    url: str
    commit: str
    licence: str
    programs: tuple[str, ...]
    readme: str
    documents: tuple[str, ...]
    commands: tuple[str, ...]
    style: str = ""
    original: str = ""


class LoggedRun(NamedTuple):
    """What the log of the CUDA run says; empty where it says nothing."""

    path: str
    metrics: tuple[LoggedMetric, ...]
    speed: str
    device: str
    date: str
    torch: str
    cuda: str


def facts(root: Path) -> Facts:
    """Return what the files of a project say."""
    entries = list_files(root).entries
    readme = next((name for name in ("README.md", "README.rst", "README.txt", "README") if (root / name).is_file()), "")
    text = _text(root / readme) if readme else ""
    python = [entry.path for entry in entries if entry.kind is Kind.PYTHON]
    roles = Roles.read(Project(root, python))
    programs = [
        name
        for name in python
        if roles.of(name) is Role.SCRIPT
        or ("/" not in name and _rank(name) < len(_LIKELY) and not (roles.tests(name) or roles.is_ours(name)))
    ]
    changed, styles = _migrated(root)
    programs = sorted(
        dict.fromkeys(programs), key=lambda name: (name not in changed, _rank(name), name.count("/"), name)
    )
    top = sorted(path.name for path in root.iterdir() if path.is_file())
    licence = next((name for name in top if _NAMED.match(name)), "")
    inside = is_in_repository(root)
    url = (git(root, "config", "--get", "remote.origin.url") or "").strip() if inside else ""
    commit = shared_commit(root) if inside else ""
    title = next((line.lstrip("# ").strip() for line in text.split("\n") if line.startswith("# ")), "")
    return Facts(
        title or root.resolve().name,
        masked(url),
        commit,
        _licence(_text(root / licence)) if licence else "",
        tuple(programs),
        readme,
        tuple(dict.fromkeys(filter(None, (readme, licence, *(name for name in top if _wanted(name, changed)))))),
        tuple(dict.fromkeys(_commands(text))),
        next((style for style in STYLES if style in styles), ""),
        _original(root, programs[0]) if programs else "",
    )


def _original(root: Path, program: str) -> str:
    """Return the program that a migration has written another one beside, which goes on for CUDA; empty for none."""
    journals = readable_journals(root)
    kept = originals(root, journals)
    return next((one for one in kept for each in journals if suffixed(one, each.suffix) == program), "")


def _wanted(name: str, changed: frozenset[str]) -> bool:
    """Whether a file of the project's folder is a document that the port has to keep: also those of `--kit`."""
    is_of_kit = name in changed and (name.endswith((".md", ".txt")) or (name.startswith("test_") and "setup" in name))
    return name == "requirements.txt" or is_of_kit


def _migrated(root: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that migrations of this tree wrote, and the names that their journals have for the target."""
    readable = readable_journals(root)
    paths = frozenset(change.path for journal in readable for change in journal.changes)
    return paths, frozenset(journal.target for journal in readable)


def _text(path: Path) -> str:
    try:
        return read_text(path, LARGEST_SETTINGS, errors="replace")
    except OSError:
        return ""


def _rank(name: str) -> int:
    """Return how likely a file is what a user starts: 0 is likeliest."""
    stem = name.rpartition("/")[2].removesuffix(".py").lower()
    return next((number for number, word in enumerate(_LIKELY) if stem.startswith(word)), len(_LIKELY))


def _licence(text: str) -> str:
    return next((name for name, sentence in _LICENCES if sentence in text), "")


def _commands(text: str) -> Iterator[str]:
    """Yield the commands of a README that start Python, and that can be run without a shell."""
    for line in command_view(text).replace("\\\n", " ").split("\n"):
        command = " ".join(line.partition(" #")[0].split())
        try:
            split = words(command)
        except ValueError:
            continue
        if split[0] in _STARTS and not any(part in command for part in _NOT_RUN) and "..." not in command:
            yield command


def logged(path: Path, shown: str) -> LoggedRun:
    """Return what the log of the CUDA run says; `shown` is its path as the accept file is to have it.

    Raises:
        TorchferryError: it cannot be read.
    """
    log = read_curves(path, Wanted(every=True))
    speed = next(
        (points.metric for ranks in log.points.values() for points in ranks.values() if _FAST.search(points.metric)),
        "",
    )
    rates = _RATE.findall("\n".join(line.text for line, _ in zip(lines(path), range(_MOST_LINES), strict=False)))
    speed = speed or (rates[0] if rates else "")
    head = "\n".join(line.text for line, _ in zip(lines(path), range(400), strict=False))
    card, when, torch, cuda = _CARD.search(head), _DATE.search(head), _TORCH.search(head), _CUDA.search(head)
    return LoggedRun(
        shown,
        proposed(path)[:_MOST_METRICS],
        speed,
        "" if card is None else card[1].strip(),
        "" if when is None else when[1],
        "" if torch is None else torch[1],
        "" if cuda is None else cuda[1] or f"{cuda[2][:2]}.{cuda[2][2]}",
    )


def text(found: Facts, log: LoggedRun | None) -> str:
    """Return the file; what nobody knows stays empty or in a comment."""
    program = found.programs[0] if found.programs else ""
    parts = [
        f"# {NAME}: what this project keeps on another accelerator. `torchferry accept` judges it.",
        "# Complete what is empty; docs: accepting.md. Unknown keys are errors.",
        f"schema = {SCHEMA}",
        "",
        "[source]",
        f"url = {_toml(found.url)}",
        "# the one that was migrated, before the commits of the migration",
        f"commit = {_toml(found.commit)}",
        f"licence = {_toml(found.licence)}",
        '# "named" (by whoever asked for it), "official", "third-party" or "personal"',
        "# in this order; of the last two the next line says why no official source was taken",
        'priority = ""',
        '# reason = "the authors publish no code"',
        "",
        "[model]",
        f"name = {_toml(found.name)}",
        "# the exact one: ResNet50, not ResNet",
        'variant = ""',
        "",
        "[data]",
        'name = ""',
        'split = ""',
        'where = ""',
        "",
        *_baseline(log),
        "",
        "# Commands are lists of words, or strings without shell syntax. `folder` is relative to this file.",
    ]
    if program:
        parts += [
            "# what `accept --baseline` runs, with CUDA or on the CPU, to see that its figures are reproduced",
            "[runs.baseline]",
            f"command = {_toml(['python', found.original or program])}",
            'time-limit = "2h"',
            "",
        ]
        parts += ["[runs.target]", f"command = {_toml(['python', program])}", 'time-limit = "2h"']
    else:
        parts += ["# [runs.target]", '# command = ["python", "train.py"]', '# time-limit = "2h"']
    parts += [
        "# other programs: " + ", ".join(found.programs[1:6]) if found.programs[1:] else "",
        "# what `accept --rehearse` runs instead, on this machine's CPU: fewer steps, at least 200 for the memory gate",
        "# [runs.rehearsal]",
        f"# command = {_toml(['python', program or 'train.py', '--steps', '250'])}",
        '# time-limit = "30 min"',
        "",
        *(
            ("[gates.migration]", f"style = {_toml(found.style)}")
            if found.style
            else ("# [gates.migration]", '# style = "native"   # or "portable", "shim"')
        ),
        "",
        "# [gates.curve]      # against `log` of the baseline, as `torchferry compare curves` does",
        '# metric = "loss"',
        '# rule = "relative"',
        "",
        "# [[gates.outputs]]  # image, array or text",
        '# kind = "image"',
        '# folder = "outputs"',
        '# reference = "reference"',
        '# rounding = "outputs/rounding"',
        "# ssim = 0.9",
        "",
        "# no growth: less than both of these",
        "[gates.memory]",
        '# peak = "30 GiB"',
        'growth-per-step = "1 MiB"',
        "growth-per-1000-steps = 0.01   # of the peak",
        "",
        *_speed(log),
        "# expressions that a line of the log has to match",
        "# [gates.logs]",
        "# lines = { loss = 'loss[ =:]+\\d', throughput = '\\d (it|images|samples|tokens)/s' }",
        "",
        "[gates.documents]",
        f"required = {_toml(list(found.documents))}",
    ]
    if found.readme:
        parts.append(f"readme = {_toml(found.readme)}")
    if found.commands:
        parts.append("# commands of the README that are run in a clean copy; uncomment those that can be")
        parts += ["# commands = [", *(f"#   {_toml(command)}," for command in found.commands[:10]), "# ]"]
    parts += [
        "",
        "# stages that are not to be judged, each with its reason",
        "# [gates.not-judged]",
        '# outputs = "..."',
    ]
    return "\n".join(parts) + "\n"


def _baseline(log: LoggedRun | None) -> Iterator[str]:
    yield "[baseline]"
    yield "# a figure counts only with the device, the versions and the date of its run: none of them may stay empty"
    if log is None:
        yield '# device = "NVIDIA A100"'
        yield "# date = 2026-01-31"
        yield '# versions = { torch = "2.1.0", cuda = "12.1" }'
        yield '# log = "cuda.log"'
        yield "# [[baseline.metrics]]"
        yield '# name = "mIoU"'
        yield "# value = 84.96"
        yield '# unit = "%"'
        yield '# direction = ">="   # or "<=", "±"'
        yield "# tolerance = 0.5"
        return
    versions = {"torch": log.torch, "cuda": log.cuda}
    named = ", ".join(f"{name} = {_toml(value)}" for name, value in versions.items() if value)
    yield f"device = {_toml(log.device)}"
    yield f"date = {log.date}" if log.date else 'date = ""'
    yield f"versions = {{ {named} }}" if named else "versions = {}"
    yield f"log = {_toml(log.path)}"
    count = first_gates(log.metrics)
    if not log.metrics:
        yield "# The log has no metric that is known. Name yours, with `pattern` where no name finds it:"
        yield "# [[baseline.metrics]]"
        yield '# name = "..."'
        yield "# value = 0.0"
        yield '# direction = ">="'
        yield "# tolerance = 0.0"
    for number, metric in enumerate(log.metrics):
        mark = "" if number < count else "# "
        yield f"{mark}[[baseline.metrics]]"
        yield f"{mark}name = {_toml(metric.name)}"
        yield f"{mark}value = {metric.last!r}   # the last; the best is {metric.best!r}"
        if metric.unit:
            yield f'{mark}unit = "{metric.unit}"'
            yield f'{mark}log-unit = "{metric.unit}"'
        yield f'{mark}direction = "{"<=" if metric.less else ">="}"'
        if metric.pattern:
            yield f"{mark}pattern = {_toml(metric.pattern)}"
        if metric.tolerance is not None:
            yield f"{mark}# twice the range of its last values; the difference of two runs on CUDA says it better"
            yield f"{mark}tolerance = {metric.tolerance!r}"
        elif metric.values < LEAST_VALUES:
            yield f"{mark}# fill in how much worse it may be: the difference of two runs on CUDA, or what the"
            yield f"{mark}# project asks for; {metric.values} of {LEAST_VALUES} values that would tell their spread"
            yield f'{mark}tolerance = ""'
        else:
            yield f"{mark}# fill in how much worse it may be: its last values do not differ, so they say nothing of it"
            yield f'{mark}tolerance = ""'


def _speed(log: LoggedRun | None) -> Iterator[str]:
    yield "# [gates.speed]      # never judged on a rehearsal"
    yield f"# metric = {_toml(log.speed if log is not None and log.speed else 'images/s')}"
    yield "# at-least = 0.8     # of the baseline's"
    yield ""


def _toml(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    cleaned = "".join(letter if letter.isprintable() else " " for letter in value)
    return json.dumps(cleaned, ensure_ascii=False)
