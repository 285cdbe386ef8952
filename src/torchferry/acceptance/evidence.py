"""`evidence/`: what was found, as JSON with a schema, a page for people, and the logs; written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from torchferry import __version__
from torchferry.acceptance.card_use import card_use, is_without_card
from torchferry.acceptance.gates import Gate, GateStatus
from torchferry.acceptance.runs import SAMPLE_STEP, AcceptanceRun
from torchferry.acceptance.situation import Situation
from torchferry.acceptance.units import hidden
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import LARGEST, open_regular, read_text
from torchferry.core.folders import files_below
from torchferry.core.json_text import json_text, parsed_json
from torchferry.core.messages import say
from torchferry.core.secrets import masked, masked_message, masked_text
from torchferry.core.shape import ShapeError, checked
from torchferry.core.staging import staged_folder
from torchferry.core.write_fence import require_in_roots
from torchferry.source.git import git, is_in_repository

SCHEMA = 1
KIND = "torchferry accept"
FILE = "evidence.json"
PAGE = "index.html"

_AGAIN = say("run `torchferry accept` again to write new evidence")


def verdict(gates: Sequence[Gate], partial: bool, without_card: bool = False) -> str:
    """Return `rejected`, `incomplete` or `accepted`.

    Nothing is accepted that did not run to its end, that used no accelerator, or of which neither a number nor an
    output was judged.
    """
    if any(gate.status is GateStatus.RED for gate in gates):
        return "rejected"
    green = {gate.stage for gate in gates if gate.status is GateStatus.GREEN}
    if partial or without_card or "runs" not in green or not green & {"numbers", "outputs"}:
        return "incomplete"
    return "accepted"


def without_secrets(gates: Sequence[Gate]) -> list[Gate]:
    """Return gates whose texts, which quote what programs printed, are masked."""
    return [
        replace(
            gate,
            measured=masked_message(gate.measured),
            wanted=masked_message(gate.wanted),
            reason=None if gate.reason is None else masked_message(gate.reason),
            needed=None if gate.needed is None else masked_message(gate.needed),
        )
        for gate in gates
    ]


def document(situation: Situation, gates: Sequence[Gate], stages: Sequence[str], partial: bool) -> dict[str, Any]:
    """Return what evidence.json holds, in English, without the list of files."""
    file, target, rehearsal = situation.file, situation.target, situation.rehearsal
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "torchferry": __version__,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "rehearsal": rehearsal is not None,
        "faults": [] if rehearsal is None else [fault.text() for fault in rehearsal.faults],
        "verdict": verdict(gates, partial, is_without_card(situation)),
        "accelerator": card_use(situation).value,
        "target": {
            "name": target.name,
            "version": target.version,
            "title": target.title.render("en"),
            "plugin": target.backend.PLUGIN,
            "card": _card(situation) if rehearsal is None else rehearsal.profile.card,
        },
        "project": _project(situation),
        "source": {key: masked(file.source.get(key, "")) for key in ("url", "commit", "licence", "priority")},
        "model": {key: file.model.get(key, "") for key in ("name", "variant")},
        "data": {key: file.data.get(key, "") for key in ("name", "split", "where")},
        "baseline": {
            "device": file.baseline.device,
            "date": file.baseline.date,
            "versions": dict(file.baseline.versions),
            "log": file.baseline.log,
            "metrics": [
                {
                    "name": metric.name,
                    "value": metric.value,
                    "unit": metric.unit,
                    "direction": metric.direction,
                    "tolerance": metric.tolerance,
                    "of": metric.of,
                }
                for metric in file.baseline.metrics
            ],
        },
        "versions": _versions(situation),
        "stages": list(stages),
        "runs": [_run(run) for run in situation.made],
        "metrics": situation.metrics,
        "migration": situation.migration,
        "gates": [_gate(gate) for gate in gates],
        "counts": {status.value: sum(gate.status is status for gate in gates) for status in GateStatus},
    }


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "stage": gate.stage,
        "gate": gate.name,
        "status": gate.status.value,
        "measured": gate.measured.render("en"),
        "wanted": gate.wanted.render("en"),
        "reason": "" if gate.reason is None else gate.reason.render("en"),
        "needed": "" if gate.needed is None else gate.needed.render("en"),
        "value": gate.value,
        "limit": gate.limit,
        "run": gate.run,
    }


def _run(run: AcceptanceRun) -> dict[str, Any]:
    times = run.step_seconds(1)
    process = run.stepped
    return {
        "name": run.name,
        "command": hidden(run.command),
        "folder": run.folder,
        "started": run.started,
        "seconds": round(run.seconds, 3),
        "exit_code": run.code,
        "log": f"logs/{run.log.name}",
        "dropped_bytes": run.dropped,
        "steps": 0 if process is None else process["steps"],
        "step_kind": "" if process is None else process["kind"],
        "seconds_per_step": sum(times) / len(times) if times else None,
        "peak_memory": run.peak,
    }


def _card(situation: Situation) -> str:
    """Return what the plugin calls the card that the target's run was on; empty where no step on it was seen."""
    named = {
        str(process["card"])
        for run in situation.made
        if run.name == situation.kind
        for process in run.processes
        if process.get("card") and process.get("device_type") == situation.target.backend.DEVICE_TYPE
    }
    return ", ".join(sorted(named))


def _project(situation: Situation) -> dict[str, Any]:
    root = situation.file.root
    inside = is_in_repository(root)
    commit = (git(root, "rev-parse", "HEAD") or "").strip() if inside else ""
    status = (
        git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", reads_contents=True) if inside else ""
    )
    return {
        "name": root.resolve().name,
        "commit": commit,
        "changed": bool(status),
        "accept_file": situation.file.path.name,
        "accept_sha256": hashlib.sha256(situation.file.path.read_bytes()).hexdigest(),
    }


def _versions(situation: Situation) -> dict[str, str]:
    plugin = situation.target.backend.PLUGIN
    versions = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in ("torch", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    if situation.rehearsal is not None:
        versions[plugin] = f"{situation.rehearsal.profile.version} (simulated)"
    else:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[plugin] = metadata.version(plugin)
    return versions


# --- writing ---


@contextlib.contextmanager
def gathered(out: Path) -> Iterator[Path]:
    """Yield a new folder beside `out` in which evidence is gathered; at the end of the block it takes that place.

    Where the block ends with an error, nothing of it is left, and `out` is as it was. What a run left that was killed
    goes before the next one: whoever gathers holds a lock on the folder, which ends with the process.

    Raises:
        UsageError: `out` is there, and no evidence that we wrote.
        TorchferryError: the folder cannot be written.
    """

    def check() -> None:
        if is_link_or_other(out):
            raise UsageError(
                say("`{out}` exists and is not, or not only, evidence that torchferry wrote", out=out),
                say("name a folder that does not exist with -o, or remove this one yourself"),
            )

    require_in_roots(out)
    try:
        with staged_folder(out, check) as folder:
            yield folder
    except OSError as error:
        raise TorchferryError(
            say(
                "the evidence could not be written whole to {out}, so nothing was written: {error}",
                out=out,
                error=error.strerror or error,
            ),
            say("earlier evidence there is unchanged; make space, or name another folder with -o"),
        ) from None


def is_link_or_other(out: Path) -> bool:
    """Whether something is at a path that may not be replaced: anything but an empty folder or evidence of ours."""
    if out.is_symlink():
        return True
    if not out.exists():
        return False
    if not out.is_dir():
        return True
    if not any(out.iterdir()):
        return False
    try:
        found = parsed_json(read_text(out / FILE))
    except (OSError, ValueError, RecursionError):
        return True
    if not isinstance(found, dict) or found.get("kind") != KIND or (out / FILE).is_symlink():
        return True
    try:
        listed = {entry["path"] for entry in checked(found.get("files", []), [{"path": str}])} | {FILE}
    except ShapeError:
        return True
    return any(
        path.is_symlink() or (not path.is_dir() and path.relative_to(out).as_posix() not in listed)
        for path in files_below(out)
    )  # somebody put a file of their own there


def write(folder: Path, found: dict[str, Any], page: str, runs: Sequence[AcceptanceRun]) -> None:
    """Write the document, the page and the steps of the runs into the folder where evidence is gathered.

    Raises:
        OSError: something cannot be written.
    """
    for run in runs:
        rows = run.rows()
        if rows:
            steps = folder / "steps"
            steps.mkdir(exist_ok=True)
            keys = ("step", "seconds", "device_bytes", "process_bytes")
            text = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
            assert SAMPLE_STEP == 0
            (steps / f"{run.name}.jsonl").write_text(text, encoding="utf-8")
    found["masked"] = _mask_logs(folder / "logs")
    (folder / PAGE).write_bytes(page.encode("utf-8", "backslashreplace"))
    found["files"] = [
        {"path": path.relative_to(folder).as_posix(), "sha256": _digest(path), "bytes": path.stat().st_size}
        for path in sorted(files_below(folder))
        if path.is_file()
    ]
    (folder / FILE).write_text(as_text(found), encoding="utf-8")
    for path in (*files_below(folder), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # a full disk says so now, and not when the folder has its name
        finally:
            os.close(descriptor)


def _mask_logs(folder: Path) -> list[str]:
    """Mask the logs, which have been judged, and return the names of those that held secrets."""
    changed = []
    for path in sorted(files_below(folder)) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            before = path.read_bytes()
            after = masked_text(before)
            if after != before:
                path.write_bytes(after)
                changed.append(f"logs/{path.relative_to(folder).as_posix()}")
    return changed


def as_text(found: dict[str, Any]) -> str:
    """Return the document as JSON text that is valid UTF-8 and holds no NaN."""
    return json_text(_finite(found), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _by_parts(file)


def _by_parts(file: Any) -> str:
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


# --- reading ---


def read(folder: Path) -> dict[str, Any]:
    """Return the evidence in a folder, which may come from anybody.

    Raises:
        UsageError: there is none, it has another schema, or its files are not those that it lists.
    """
    try:
        found = parsed_json(read_text(folder / FILE, LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            say(
                "{path} is not evidence of `torchferry accept`: {error}",
                path=folder / FILE,
                error=getattr(error, "strerror", None) or error,
            ),
            say("name the folder that `torchferry accept` wrote"),
        ) from None
    if not isinstance(found, dict) or found.get("kind") != KIND or found.get("schema") != SCHEMA:
        raise UsageError(
            say("{path} is not evidence of this version of `torchferry accept`", path=folder / FILE), _AGAIN
        )
    for key, kind in (
        ("gates", list),
        ("runs", list),
        ("files", list),
        ("counts", dict),
        ("target", dict),
        ("source", dict),
        ("model", dict),
        ("data", dict),
        ("baseline", dict),
        ("versions", dict),
        ("metrics", list),
        ("verdict", str),
        ("date", str),
    ):
        if not isinstance(found.get(key), kind):
            raise UsageError(
                say("{path}: `{key}` is missing or has the wrong type", path=folder / FILE, key=key), _AGAIN
            )
    check_files(folder, found)
    return found


def check_files(folder: Path, found: dict[str, Any]) -> None:
    """Hold the files of evidence in a folder against the digests that it lists.

    Raises:
        UsageError: one is missing, another one, or outside the folder.
    """
    for entry in found["files"]:
        name = str(entry.get("path", "")) if isinstance(entry, dict) else ""
        parts = PurePosixPath(name)
        try:
            same = (
                bool(name)
                and not parts.is_absolute()
                and ".." not in parts.parts
                and not any((folder / part).is_symlink() for part in (parts, *parts.parents))
                and _digest(folder / name) == entry["sha256"]
            )
        except (OSError, KeyError):
            same = False
        if not same:
            raise UsageError(
                say("{path} is missing, or differs from the file that evidence.json lists", path=folder / name), _AGAIN
            )
