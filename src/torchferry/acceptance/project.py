"""The stages that look at the machine and the tree: environment, migration, syntax."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from torchferry.acceptance.gates import Gate, GateMaker
from torchferry.acceptance.situation import Situation, UnjudgedError
from torchferry.core import config, own_python
from torchferry.core.files import read_regular
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.subprocesses import run as run_tool
from torchferry.core.temporary import temporary_folder
from torchferry.migration.beside import originals
from torchferry.migration.journal import Journal, readable_journals
from torchferry.rehearsal import site
from torchferry.rehearsal.config import VARIABLE
from torchferry.source.git import git
from torchferry.source.kinds import Kind
from torchferry.source.tree import list_files

_SECONDS = 1800.0
_MOST_NAMED = 5


def environment(situation: Situation) -> list[Gate]:
    """Ask the doctor, on a rehearsal inside of it: what needs a card is skipped there, and says so."""
    judge = GateMaker("environment")
    report = _own(situation, "doctor", "-t", str(situation.target), inside=True)
    counts = report["counts"]
    measured = say(
        "checks of the doctor: {ok} ok, {failures} failed, {warnings} warned, {unknown} unknown, {skipped} skipped",
        ok=counts["ok"],
        failures=counts["failure"],
        warnings=counts["warning"],
        unknown=counts["unknown"],
        skipped=counts["skipped"],
    )
    failed = [result["check"] for result in report["results"] if result["status"] == "failure"]
    reason = say(
        "failed: {checks}; run `torchferry doctor -t {target}` to see how to fix them",
        target=situation.target,
        checks=", ".join(failed[:_MOST_NAMED]),
    )
    return [judge.held(report["ok"], "", measured, say("no check of the doctor fails"), reason)]


def migration(situation: Situation) -> list[Gate]:
    """Look at the tree: which files were changed, whether CUDA is left, whether old paths are."""
    judge = GateMaker("migration")
    terms = situation.file.migration
    report = _scanned(situation)
    journals = readable_journals(situation.file.root)
    beside = originals(situation.file.root, journals)  # these stay CUDA's
    found = [finding for finding in report["findings"] if finding["grade"] != "note" and finding["path"] not in beside]
    decided = [finding["decided_by"] for finding in report["findings"] if _stays_by_decision(finding)]
    left = [finding for finding in found if not finding["code"].startswith(terms.allow)]
    allowed = [finding for finding in found if finding not in left]
    changed, origin = _changed(situation, journals)
    situation.migration = {
        "style": terms.style,
        "residue": len(left),
        "allowed": len(allowed),
        "decided": len(decided),
        "changed_count": None if changed is None else len(changed),
        "files": [{"path": path} for path in changed or ()],
    }
    places_left = say_plural("{count} place", "{count} places", count=len(left))
    if beside:
        places_left = say(
            "{places}, not counting {originals} that stay for CUDA",
            places=places_left,
            originals=say_plural("{count} original", "{count} originals", count=len(beside)),
        )
    if allowed:
        places_left = say(
            "{places}, besides {count} that the accept file allows", places=places_left, count=len(allowed)
        )
    if decided:
        names = ", ".join(dict.fromkeys(decided))
        places_left = say(
            "{places}, besides {count} that stay by a decision of {names}",
            places=places_left,
            count=len(decided),
            names=names,
        )
    gates = [
        judge.held(
            not left,
            "residue",
            places_left,
            say("no place is left to be changed"),
            _such_as(situation, left),
            float(len(left)),
            0.0,
        )
    ]
    if changed is None:
        gates.append(judge.unjudged("files", origin))
    else:
        gates.append(judge.green("files", origin, say("the changed files are known")))
    settings = config.load(situation.file.root)
    if settings.paths or settings.path_profile:
        paths = [finding for finding in left if finding["about"] == "path"]
        gates.append(
            judge.held(
                not paths,
                "paths",
                say_plural("{count} old path", "{count} old paths", count=len(paths)),
                say("no path of the `paths` table is left"),
                _such_as(situation, paths),
                value=float(len(paths)),
                limit=0.0,
            )
        )
    else:
        gates.append(judge.unjudged("paths", say("torchferry.toml has no `paths` table")))
    return gates


def _stays_by_decision(finding: dict[str, Any]) -> bool:
    """Whether somebody has decided that a place stays as it is (`torchferry decide`)."""
    return finding["grade"] == "note" and bool(finding.get("decided_by"))


def _such_as(situation: Situation, findings: list[dict[str, Any]]) -> Message:
    """Return the first places of findings, and the command that lists all."""
    style = situation.file.migration.style
    command = f"torchferry scan . -t {situation.target}"
    if style != "native":
        command = f"torchferry migrate . -t {situation.target} --style {style} --check"
    places = [f"{finding['path']}:{finding['line']} {finding['code']}" for finding in findings[:_MOST_NAMED]]
    return say("such as {places}; `{command}` lists them", places=", ".join(places), command=command)


def _scanned(situation: Situation) -> dict[str, Any]:
    style = situation.file.migration.style
    left_out = [word for name in situation.ignored for word in ("--exclude", name)]
    if style == "native":
        return _own(situation, "scan", ".", "-t", str(situation.target), *left_out)
    return _own(situation, "migrate", ".", "-t", str(situation.target), "--style", style, "--check", *left_out)


def _changed(situation: Situation, journals: list[Journal]) -> tuple[list[str] | None, Message]:
    """Return the files that the migration changed and how that is known, or why it is not."""
    root = situation.file.root
    paths = sorted({change.path for journal in journals for change in journal.changes})
    if paths:
        return paths, say("{files}, by the journal of the migration", files=_counted(paths))
    commit = situation.file.source.get("commit", "")
    shown = (
        git(
            root,
            "diff",
            "--name-only",
            "-z",
            "--no-ext-diff",
            "--no-textconv",
            f"{commit}^{{commit}}",
            "--",
            ".",
            reads_contents=True,
        )
        if _is_hexadecimal(commit)
        else None
    )
    if shown is not None:
        paths = [path for path in shown.split("\0") if path]
        return paths, say("{files} since the source's commit {commit}", files=_counted(paths), commit=commit[:12])
    return None, say("there is no migration journal, and [source] has no `commit` that this repository knows")


def _counted(paths: list[str]) -> Message:
    return say_plural("{count} file changed", "{count} files changed", count=len(paths))


def _is_hexadecimal(text: str) -> bool:
    return 7 <= len(text) <= 64 and set(text.lower()) <= set("0123456789abcdef")


def syntax(situation: Situation) -> list[Gate]:
    """Compile every Python file of the tree, without running any."""
    judge = GateMaker("syntax")
    paths = python_files(situation)
    broken = [place for path in paths if (place := _broken(situation.file.root, path))]
    if not paths:
        raise UnjudgedError(say("the project has no Python file"))
    measured = say(
        "Python files that compile with Python {version}: {good} of {count}",
        good=len(paths) - len(broken),
        count=len(paths),
        version=".".join(map(str, sys.version_info[:2])),
    )
    reason = say("these do not compile: {names}", names=", ".join(broken[:_MOST_NAMED]))
    return [judge.held(not broken, "", measured, say("all compile"), reason, float(len(broken)), 0.0)]


def python_files(situation: Situation) -> list[str]:
    """Return the Python files of the tree, without the evidence."""
    entries = list_files(situation.file.root, situation.ignored).entries
    return [entry.path for entry in entries if entry.kind is Kind.PYTHON]


def _broken(root: Path, path: str) -> str:
    """Return where a Python file does not compile; empty where it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(read_regular(root / path), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OSError) as error:
        return f"{path}:{getattr(error, 'lineno', None) or 1}"
    return ""


def _own(situation: Situation, *words: str, inside: bool = False) -> dict[str, Any]:
    """Run a command of ours in the project and return its JSON; `inside`: in the rehearsal, where there is one.

    Raises:
        UnjudgedError: it could not do its work.
    """
    with temporary_folder("torchferry-accept-") as name:
        environment = {**os.environ, "TORCHFERRY_LANG": "en"}
        output = Path(name, "report.json")
        command = own_python.module_command("torchferry", *words, "-f", "json")
        if words[0] != "doctor":
            command += ["-o", str(output)]
        if inside and situation.rehearsal is not None:
            session = Path(name, "rehearsal")
            session.mkdir()
            site.fill(session, situation.rehearsal)
            environment |= {VARIABLE: str(session), "PYTHONPATH": site.search_path(session, situation.rehearsal)}
        done = run_tool(tuple(command), _SECONDS, environment, str(situation.file.root))
        try:
            report: dict[str, Any] = parsed_json(output.read_text("utf-8") if words[0] != "doctor" else done.out)
        except (OSError, ValueError):
            said = done.first_lines(1)
            raise UnjudgedError(
                say("`torchferry {command}` failed: {error}", command=words[0], error=said[0] if said else done.problem)
            ) from None
        return report
