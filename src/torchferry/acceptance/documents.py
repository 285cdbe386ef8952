"""The documents stage: files that have to be there, and commands of the README, run in a clean folder."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path

from torchferry.acceptance.acceptfile import DocumentTerms, RunCommand
from torchferry.acceptance.gates import Gate, GateMaker
from torchferry.acceptance.run_end import end_of
from torchferry.acceptance.situation import Situation, UnjudgedError
from torchferry.acceptance.units import words
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.messages import say
from torchferry.core.secrets import masked
from torchferry.core.temporary import temporary_folder
from torchferry.migration.copy import write_copy
from torchferry.source.git import git, is_in_repository
from torchferry.source.tree import NEVER_ENTERED


def documents(situation: Situation) -> list[Gate]:
    """Look for the documents, and do what the README says."""
    terms = situation.file.documents
    if terms is None:
        raise UnjudgedError(say("the accept file has no [gates.documents]"))
    judge = GateMaker("documents")
    root = situation.file.root
    gates = [_provenance(situation, judge), *(_present(judge, root, name) for name in terms.required)]
    if terms.commands:
        gates += _commands(situation, terms, judge)
    else:
        gates.append(
            judge.unjudged("commands", say("[gates.documents] in the accept file has no `commands` of the README"))
        )
    return gates


def _provenance(situation: Situation, judge: GateMaker) -> Gate:
    """Return whether the file says what was migrated: source, variant and data, as Tecorigin's guide asks first."""
    file = situation.file
    tables = (
        ("source", file.source, ("url", "commit", "licence", "priority")),
        ("model", file.model, ("name", "variant")),
        ("data", file.data, ("name",)),
    )
    missing = [f"{name}.{key}" for name, table, keys in tables for key in keys if not table.get(key)]
    if missing:
        return judge.unjudged("source", say("missing or empty in the accept file: {names}", names=", ".join(missing)))
    priority = file.source["priority"]
    if priority in ("third-party", "personal") and not file.source.get("reason"):
        return judge.unjudged(
            "source",
            say(
                "the source is {priority}: an official one comes first; say in `source.reason` why it was not taken",
                priority=priority,
            ),
        )
    measured = say(
        "{url}, {variant}, {data}",
        url=masked(file.source["url"]),
        variant=file.model["variant"],
        data=file.data["name"],
    )
    return judge.green("source", measured, say("source, variant and data are stated"))


def _present(judge: GateMaker, root: Path, name: str) -> Gate:
    wanted = say("there, and not empty")
    try:
        status = os.stat(root / name)
        good = (stat.S_ISDIR(status.st_mode) and any((root / name).iterdir())) or (
            stat.S_ISREG(status.st_mode) and status.st_size > 0
        )
        measured = say("there") if good else say("empty")
    except OSError:
        good, measured = False, say("missing")
    return judge.held(good, name, measured, wanted)


def _commands(situation: Situation, terms: DocumentTerms, judge: GateMaker) -> list[Gate]:
    root = situation.file.root
    try:
        text = read_text(root / terms.readme, LARGEST_SETTINGS, errors="replace")
    except OSError:
        return [judge.red("commands", say("there is no {path}", path=terms.readme), say("a README with the commands"))]
    gates: list[Gate] = []
    with temporary_folder("torchferry-accept-") as name:
        folder = Path(os.path.realpath(name)) / (root.resolve().name or "project")
        clean_copy(root, folder, situation.ignored)
        for number, command in enumerate(terms.commands, 1):
            part = f"command-{number}"
            wanted = say("`{command}` ends with 0 in a clean copy", command=command)
            if not _has(text, command):
                reason = say("{readme} does not have this command", readme=terms.readme)
                gates.append(judge.red(part, say("-"), wanted, reason))
                continue
            run = situation.run(
                f"document-{number}", RunCommand(words(command), ".", terms.seconds), folder, watched=False
            )
            measured = say("exit code {code}", code="-" if run.code is None else run.code)
            gates.append(judge.held(run.ended_well, part, measured, wanted, end_of(run)))
    return gates


def _has(text: str, command: str) -> bool:
    """Whether a README has a command, and not only the beginning or the end of another one."""
    wanted = re.compile(rf"(?<![\w./=-]){re.escape(_plain(command))}(?=\s*(?:$|[`'\"&|;#<>),.:]))")
    return any(wanted.search(_plain(line)) for line in text.replace("\\\n", " ").split("\n"))


def _plain(text: str) -> str:
    """Return a line with any white space as one space."""
    return " ".join(text.split())


def clean_copy(root: Path, folder: Path, without: tuple[str, ...]) -> None:
    """Make what somebody gets who clones the project: what git tracks; without git, all but our own and environments.

    Links are copied as links.

    Raises:
        TorchferryError: it cannot be written.
    """
    tracked = git(root, "ls-files", "-z", "--cached", "--", ".") if is_in_repository(root) else None
    if not tracked:
        write_copy(root, folder, (), NEVER_ENTERED | set(without))
        return
    folder.mkdir(parents=True)
    for name in tracked.split("\0"):
        source, goal = root / name, folder / name
        if not name or not (source.is_symlink() or source.is_file()):
            continue
        goal.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            goal.symlink_to(os.readlink(source))
        else:
            shutil.copy2(source, goal, follow_symlinks=False)
