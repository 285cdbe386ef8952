"""`torchferry.accept.toml`: what a migrated project has to keep, where that was measured, and what is run for it.

The file may come with a clone. It names commands, which are run as lists of arguments and shown before, and files that
are read; nothing in it says where something is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from torchferry.acceptance.gates import STAGES
from torchferry.acceptance.tables import CheckedFile, Choice, Shape, ValueKind
from torchferry.acceptance.units import duration, shell_word, size, words
from torchferry.core.errors import UsageError
from torchferry.core.messages import say

NAME = "torchferry.accept.toml"
SCHEMA = 1

AT_LEAST, AT_MOST, ABOUT = ">=", "<=", "±"
DIRECTIONS = (AT_LEAST, AT_MOST, ABOUT)
UNITS = ("", "%", "share")
RUNS = ("target", "rehearsal")
PRIORITIES = ("", "named", "official", "third-party", "personal")
"""Where a source comes from, the best first: the order that Tecorigin's adaptation guide names."""

STYLES = ("native", "portable", "shim")
KINDS = ("image", "array", "text")

DEFAULT_SECONDS = 3600.0
DEFAULT_GROWTH = 1 << 20
"""Bytes a step."""

DEFAULT_SHARE = 0.01
"""Of the peak, in 1000 steps."""


@dataclass(frozen=True)
class Metric:
    """A metric of the baseline.

    Attributes:
        name: As the log of the run has it.
        value: What the baseline reached.
        direction: `>=`, `<=` or `±`.
        tolerance: How much worse the target may be (`±`: how far away), in the metric's own unit.
        unit: `%`, `share`, or empty: of `value` and `tolerance`.
        log_unit: That of the values in the log; empty: found out.
        of: `last` or `best` of the log's values.
        runs: The runs that reach it.
        log: The file that has it, relative to the run's folder; empty: what the run prints.
        pattern: An expression with a group `value`, where the name alone does not find it.
    """

    name: str
    value: float
    direction: str
    tolerance: float = 0.0
    unit: str = ""
    log_unit: str = ""
    of: str = "last"
    runs: tuple[str, ...] = RUNS
    log: str = ""
    pattern: str = ""


@dataclass(frozen=True)
class Baseline:
    """What the CUDA run reached, and with what.

    Attributes:
        device: What it ran on.
        date: When.
        versions: Of torch and whatever else counts, by name.
        log: Its log, relative to the project.
        metrics: What it reached.
    """

    device: str = ""
    date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    log: str = ""
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class RunCommand:
    """A command of the file: its words, its folder relative to the project, and the seconds it may take."""

    words: tuple[str, ...]
    folder: str = "."
    seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True)
class MigrationTerms:
    """The style of the migration, and the codes of findings that may remain, each of which the file names."""

    style: str = "native"
    allow: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurveTerms:
    """How the run's curve is held against the baseline's log: as `torchferry compare curves` does."""

    metric: str = ""
    rule: str = ""
    rtol: float | None = None
    from_step: int | None = None
    partial: bool = False
    runs: tuple[str, ...] = RUNS
    log: str = ""


@dataclass(frozen=True)
class OutputTerms:
    """A folder of results that is held against a reference.

    Attributes:
        kind: `image`, `array` or `text`.
        folder, reference: Relative to the project.
        pattern: Which files of the reference count.
        rounding: Folder with the results of the baseline once more, computed with another rounding, relative to the
            project; empty for none. It says how far rounding alone brings images apart.
        psnr: Least peak signal-to-noise ratio in dB, of images; None: `DEFAULT_PSNR`, or what `rounding` says.
        ssim: Least structural similarity, of images.
        hash_distance: Most bits of 64 by which the perceptual hashes may differ, of images.
        rtol, atol: Of arrays; None: what `torch.testing.assert_close` allows for the dtype.
    """

    kind: str
    folder: str
    reference: str
    pattern: str = "*"
    rounding: str = ""
    psnr: float | None = None
    ssim: float = 0.9
    hash_distance: int = 8
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class MemoryTerms:
    """Most bytes of a device (0: no limit), and growth: bytes a step, and share of the peak in 1000 steps."""

    peak: float = 0.0
    growth_per_step: float = DEFAULT_GROWTH
    growth_per_1000_steps: float = DEFAULT_SHARE


@dataclass(frozen=True)
class SpeedTerms:
    """The metric of the logs that says how fast a run is, which way is better, and the least share of the baseline's.

    Without a metric, `seconds_per_step` is the baseline's, and the target's steps are timed.
    """

    metric: str = ""
    better: str = "higher"
    at_least: float = 0.0
    seconds_per_step: float = 0.0
    from_step: int = 10
    log: str = ""


@dataclass(frozen=True)
class LogTerms:
    """Expressions that a line of the run's log has to match, by what they look for."""

    log: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DocumentTerms:
    """Files that have to be there, the README, and the commands of it that are run in a clean folder."""

    required: tuple[str, ...] = ()
    readme: str = "README.md"
    commands: tuple[str, ...] = ()
    seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True)
class AcceptFile:
    """The whole file.

    Attributes:
        path: Where it is.
        source: `url`, `commit`, `licence`, `priority`, and the `reason` where neither the named nor an official source
            was taken.
        model: `name`, `variant`.
        data: `name`, `split`, `where`.
        baseline: What was measured before.
        runs: The commands by name: `baseline`, `target`, `rehearsal`.
        migration, curve, outputs, memory, speed, logs, documents: What the gates want; None: nothing was stated.
        left_out: Reasons for stages that are not to be judged.
    """

    path: Path
    source: Mapping[str, str]
    model: Mapping[str, str]
    data: Mapping[str, str]
    baseline: Baseline
    runs: Mapping[str, RunCommand]
    migration: MigrationTerms = MigrationTerms()
    curve: CurveTerms | None = None
    outputs: tuple[OutputTerms, ...] = ()
    memory: MemoryTerms = MemoryTerms()
    speed: SpeedTerms | None = None
    logs: LogTerms | None = None
    documents: DocumentTerms | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.path.parent


_TEXT, _NUMBER, _WHOLE = ValueKind.TEXT, ValueKind.NUMBER, ValueKind.WHOLE
_RUN = Shape({"command": ValueKind.COMMAND, "folder": ValueKind.INSIDE, "time-limit": ValueKind.DURATION}, ("command",))

_METRIC = Shape(
    {
        "name": _TEXT,
        "value": _NUMBER,
        "direction": Choice(DIRECTIONS),
        "tolerance": ValueKind.FILLED_NUMBER,
        "unit": Choice(UNITS),
        "log-unit": Choice(UNITS),
        "of": Choice(("last", "best")),
        "runs": Choice(RUNS, several=True),
        "log": ValueKind.INSIDE,
        "pattern": ValueKind.PATTERN,
    },
    ("name", "value", "direction"),
)

_GATES = Shape(
    {
        "migration": Shape({"style": Choice(STYLES), "allow": ValueKind.TEXTS}),
        "curve": Shape(
            {
                "metric": _TEXT,
                "rule": _TEXT,
                "rtol": _NUMBER,
                "from-step": _WHOLE,
                "partial": ValueKind.TRUTH,
                "runs": Choice(RUNS, several=True),
                "log": ValueKind.INSIDE,
            }
        ),
        "outputs": Shape(
            {
                "kind": Choice(KINDS),
                "folder": ValueKind.INSIDE,
                "reference": _TEXT,
                "pattern": _TEXT,
                "rounding": ValueKind.INSIDE,
                "psnr": _NUMBER,
                "ssim": _NUMBER,
                "hash-distance": _WHOLE,
                "rtol": _NUMBER,
                "atol": _NUMBER,
            },
            ("kind", "folder", "reference"),
            several=True,
        ),
        "memory": Shape({"peak": ValueKind.SIZE, "growth-per-step": ValueKind.SIZE, "growth-per-1000-steps": _NUMBER}),
        "speed": Shape(
            {
                "metric": _TEXT,
                "better": Choice(("higher", "lower")),
                "at-least": _NUMBER,
                "seconds-per-step": _NUMBER,
                "from-step": _WHOLE,
                "log": ValueKind.INSIDE,
            },
            ("at-least",),
        ),
        "logs": Shape({"log": ValueKind.INSIDE, "lines": ValueKind.PATTERNS}, ("lines",)),
        "documents": Shape(
            {
                "required": ValueKind.TEXTS,
                "readme": ValueKind.INSIDE,
                "commands": ValueKind.TEXTS,
                "time-limit": ValueKind.DURATION,
            }
        ),
        "not-judged": Shape(dict.fromkeys(STAGES, _TEXT)),
    }
)

_FILE = Shape(
    {
        "schema": _WHOLE,
        "source": Shape(
            {"url": _TEXT, "commit": _TEXT, "licence": _TEXT, "priority": Choice(PRIORITIES), "reason": _TEXT}
        ),
        "model": Shape({"name": _TEXT, "variant": _TEXT}),
        "data": Shape({"name": _TEXT, "split": _TEXT, "where": _TEXT}),
        "baseline": Shape(
            {
                "device": _TEXT,
                "date": ValueKind.DATE,
                "versions": ValueKind.NAMED_TEXTS,
                "log": _TEXT,
                "metrics": _METRIC.many(),
            }
        ),
        "runs": Shape(dict.fromkeys(("baseline", "target", "rehearsal"), _RUN)),
        "gates": _GATES,
    },
    ("schema",),
)


def read(path: Path) -> AcceptFile:
    """Read an accept file.

    Raises:
        UsageError: it cannot be read, is not TOML, has a key that does not exist, a value that does not fit, or a
            baseline of which nobody can say where it was measured; the message has the line.
    """
    reader = CheckedFile(path)
    document = reader.checked(_FILE)
    if document["schema"] != SCHEMA:
        raise reader.error(
            "schema",
            say("schema {number} is not known; this torchferry reads {own}", number=document["schema"], own=SCHEMA),
            say("write the file for schema {own}, or upgrade torchferry", own=SCHEMA),
        )
    gates = document.get("gates", {})
    return AcceptFile(
        path=path,
        source=document.get("source", {}),
        model=document.get("model", {}),
        data=document.get("data", {}),
        baseline=_baseline(reader, document.get("baseline", {})),
        runs={name: _run(table) for name, table in document.get("runs", {}).items()},
        migration=_terms(MigrationTerms, gates.get("migration", {})),
        curve=_terms(CurveTerms, gates["curve"]) if "curve" in gates else None,
        outputs=tuple(_terms(OutputTerms, table) for table in gates.get("outputs", ())),
        memory=_memory(gates.get("memory", {})),
        speed=_terms(SpeedTerms, gates["speed"]) if "speed" in gates else None,
        logs=_terms(LogTerms, gates["logs"]) if "logs" in gates else None,
        documents=_documents(reader, gates["documents"]) if "documents" in gates else None,
        left_out=gates.get("not-judged", {}),
    )


def _terms(kind: Any, table: Mapping[str, Any]) -> Any:
    """Return a record of a table whose keys are the record's, with `-` for `_`."""
    values = {key.replace("-", "_"): tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return kind(**values)


def _run(table: Mapping[str, Any]) -> RunCommand:
    limit = table.get("time-limit")
    return RunCommand(
        words(table["command"]), table.get("folder", "."), DEFAULT_SECONDS if limit is None else duration(str(limit))
    )


def _memory(table: Mapping[str, Any]) -> MemoryTerms:
    sizes = {key: size(str(value)) for key, value in table.items() if key != "growth-per-1000-steps"}
    return MemoryTerms(
        sizes.get("peak", 0.0),
        sizes.get("growth-per-step", DEFAULT_GROWTH),
        table.get("growth-per-1000-steps", DEFAULT_SHARE),
    )


def _documents(reader: CheckedFile, table: Mapping[str, Any]) -> DocumentTerms:
    for number, text in enumerate(table.get("commands", ()), 1):
        unfit = shell_word(text)
        if unfit is not None:
            raise reader.error(
                "gates.documents.commands",
                say("command {number} cannot be run without a shell: {error}", number=number, error=unfit),
                say("write one command without shell syntax such as `|` or `>`, or put it in a script"),
            )
    values = {key: value for key, value in table.items() if key != "time-limit"}
    limit = table.get("time-limit")
    terms: DocumentTerms = _terms(DocumentTerms, values)
    return terms if limit is None else DocumentTerms(terms.required, terms.readme, terms.commands, duration(str(limit)))


def _baseline(reader: CheckedFile, table: Mapping[str, Any]) -> Baseline:
    metrics = tuple(_terms(Metric, entry) for entry in table.get("metrics", ()))
    for number, metric in enumerate(metrics):
        if metric.direction == ABOUT and metric.tolerance <= 0:
            raise reader.error(
                f"baseline.metrics[{number}]",
                say("`{name}`: the direction ± needs a `tolerance` above 0", name=metric.name),
            )
        if metric.tolerance < 0:
            raise reader.error(
                f"baseline.metrics[{number}]", say("`{name}`: `tolerance` must not be below 0", name=metric.name)
            )
    versions = {name: str(value) for name, value in table.get("versions", {}).items()}
    if metrics:
        for key, missing in (
            ("versions", not versions or not all(map(str.strip, versions.values()))),
            ("device", not table.get("device", "").strip()),
            ("date", not table.get("date")),
        ):
            if missing:
                raise UsageError(
                    reader.placed("baseline", say("[baseline] has metrics but no `{key}`", key=key)),
                    say(
                        "add the device, date and versions of the run that the metrics come from: {example}",
                        example='device = "...", date = 2026-01-31, versions = { torch = "2.1.0", cuda = "12.1" }',
                    ),
                )
    when = table.get("date", "")
    return Baseline(
        table.get("device", ""),
        when.isoformat()[:10] if isinstance(when, date) else str(when),
        versions,
        table.get("log", ""),
        metrics,
    )
