"""Which program of a project trains the model that is handed over, and whether all that it imports is."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.core.secrets import shown_path
from torchferry.core.write_fence import named as listed
from torchferry.handover.arguments import imported_paths, unlisted_imports
from torchferry.handover.project_files import ProjectFiles, fitting_folders
from torchferry.source.project import Project
from torchferry.source.roles import Role, Roles

_TRAINS_NOTHING = ("export.py", "hubconf.py")
_TRAINERS = frozenset({"fit", "train", "run"})
_MOST = 12
_MOST_PLACES = 20
_DEEPEST = 10_000
"""Imports that are followed from the program: all."""
_SAFE = re.compile(r"[\w./+-]+\Z")
"""Paths that are in generated programs and shell scripts."""


def choose_program(root: Path, files: ProjectFiles, named: str = "") -> str:
    """Return the program that is handed over.

    Args:
        root: The project's folder.
        files: Its files.
        named: What the user names; empty for the only one that trains.

    Raises:
        UsageError: the named file is none of the project's Python files, or several programs, or none, may be meant; or
            its name has characters that no generated script may hold.
    """
    program = _chosen(root, files, named)
    if not _SAFE.match(program):
        raise UsageError(
            say("the name `{name}` has characters that a start script cannot contain", name=repr(program)[1:-1]),
            say("rename the program; allowed: letters, digits, `_`, `.`, `+` and `-`"),
        )
    return program


def _chosen(root: Path, files: ProjectFiles, named: str) -> str:
    python = [file.path for file in files.files if file.path.endswith(".py")]
    if named:
        path = named.replace("\\", "/").removeprefix("./")
        if path not in python:
            raise _not_the_projects(files, named, path)
        return path
    project = Project(root, python)
    roles = Roles.read(project)
    programs = [
        path for path in python if roles.of(path) is Role.SCRIPT and path.rpartition("/")[2] not in _TRAINS_NOTHING
    ]
    training = [
        path for path in programs if path.rpartition("/")[2].startswith("train") or _goes_backward(project, path)
    ]
    candidates = training or [path for path in programs if _trains(project, path)] or programs
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise UsageError(
            say("no Python program was found in {root}", root=root), say("name the one that trains with --program")
        )
    raise UsageError(
        say("several programs may train the model: {names}", names=listed(candidates, _MOST)),
        say("name the one that trains with --program"),
    )


def _not_the_projects(files: ProjectFiles, named: str, path: str) -> UsageError:
    for left in files.left_out:
        if path.endswith(".py") and f"{path}/".startswith(f"{left.path}/"):
            return UsageError(
                say("{path} is not handed over: {reason}", path=named, reason=left.reason),
                say(
                    "hand it over with --include {path}; if git only does not track it, `git add {path}` is enough",
                    path=path,
                ),
            )
    return UsageError(
        say("{path} is not a Python file of the project", path=named),
        say("give the path of a Python file from the project's folder"),
    )


def require_whole_program(root: Path, files: ProjectFiles, program: str, exclude: tuple[str, ...] = ()) -> None:
    """Refuse a hand-over without a file that the program imports, unless the user leaves it out.

    Args:
        root: The project's folder.
        files: Its files.
        program: The program that is handed over.
        exclude: The user's patterns of files that are left out.

    Raises:
        TorchferryError: a file is left out for a secret in it, or since git does not track it; each is named,
            and never the secret.
    """
    python = {file.path for file in files.with_flagged.files if file.path.endswith(".py")}
    needed = _with_untracked(program, root, python)
    handed = {file.path for file in files.files}
    missing = [path for path in needed if path not in handed and not fitting_folders(path, exclude)]
    secret = [left for left in files.left_out if left.is_secret and left.path in missing]
    if secret:
        raise TorchferryError(
            say("the program needs files that contain secrets, so nothing was written: {places}", places=listed(
                (say("{place} ({reason})", place=left.place, reason=left.reason).render() for left in secret),
                _MOST_PLACES)),
            say("read the secret from an environment variable instead, or insist with --include {path}",
                path=shown_path(min(left.path for left in secret))),
        )  # fmt: skip
    if missing:
        raise TorchferryError(
            say("the program imports files that would not be handed over, so nothing was written: {places}",
                places=listed(map(shown_path, missing), _MOST_PLACES)),
            say("add them to git (`git add {path}`) or hand them over with --include {path}; leave out what the "
                "program does not need with --exclude", path=shown_path(min(missing))),
        )  # fmt: skip


def _with_untracked(program: str, root: Path, paths: set[str]) -> list[str]:
    """Return the files that a program needs, those that are on the disk alone too."""
    known = set(paths)
    while True:
        project = Project(root, known)
        needed = imported_paths(program, project, _DEEPEST)
        found = {place for path in needed for place in unlisted_imports(path, project) if os.path.isfile(root / place)}
        if found <= known:
            return needed
        known |= found


def _trains(project: Project, program: str) -> bool:
    """Whether a program, or what it imports from the project, goes backward or starts a trainer."""
    return any(_goes_backward(project, path) for path in imported_paths(program, project))


def _goes_backward(project: Project, path: str) -> bool:
    loaded = project.file(path)
    return loaded is not None and any(_called(loaded[0].tree))


def _called(tree: ast.Module) -> Iterator[bool]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            is_trainer = isinstance(owner, ast.Name) and "trainer" in owner.id.lower()
            yield node.func.attr == "backward" or (is_trainer and node.func.attr in _TRAINERS)


_DISTRIBUTED = re.compile(
    r"\b(?:init_process_group|init_distributed|DistributedDataParallel|FullyShardedDataParallel|fully_shard|DistributedSampler|"
    r"Accelerator|deepspeed|horovod|colossalai|megatron|mmengine|mmcv|lightning|pytorch_lightning|Trainer|Fabric|"
    r"init_dist|init_device_mesh|torch\.distributed|torchrun|LOCAL_RANK)\b"
)
"""What a program has that divides its training among several cards, by itself or through a library."""


def is_distributed(project: Project, program: str) -> bool:
    """Whether a program, or what it imports from the project, can be trained on several cards at once."""
    loaded = (project.file(path) for path in imported_paths(program, project))
    return any(file is not None and _DISTRIBUTED.search(file[0].source.text) is not None for file in loaded)


def starts_processes(project: Project, program: str) -> bool:
    """Whether a program, or what it imports from the project, starts processes of its own with `spawn`."""
    for path in imported_paths(program, project):
        loaded = project.file(path)
        if loaded is not None:
            file = loaded[0]
            if any(isinstance(file.parents.get(node), ast.Call) for node in file.attributes.get("spawn", ())):
                return True
    return False
