"""A folder that is handed over, as the checks see it: the model's files, the record, the text of the pull request."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from torchferry.backends.handover_forms import HandoverForm, form_names, form_of
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_regular
from torchferry.core.folders import walk
from torchferry.core.messages import say
from torchferry.handover.arguments import imported_paths
from torchferry.handover.licences import decoded
from torchferry.handover.record import NAME, FileOrigin, HandoverRecord, read_record
from torchferry.source.project import Project
from torchferry.source.python import UnparsableError, parse
from torchferry.source.tree import NEVER_ENTERED, is_control_name

_MOST_FILES = 50_000
_MOST_MODELS = 5
_LARGEST_TEXT = 1 << 24
"""Bytes of a file whose text is looked at."""

PULL_REQUEST = "pull-request.md"


class HandedOver:
    """A hand-over that is checked.

    Attributes:
        root: The folder that was named.
        form: The form.
        folder: The model's folder below it; empty where the model's folder itself was named.
        model: What the model's folder is called.
        domain: Its domain; empty where there is none.
        is_placed: Whether the model's folder lies where the form's layout has it.
        record: The record of the hand-over; None where there is none.
        verdict: What the evidence says, as in a record.
        sizes: The model's regular files and their sizes in bytes, in order.
    """

    def __init__(self, root: Path, form_name: str = "", verdict: str = "") -> None:
        if not root.is_dir():
            raise UsageError(say("{path} is not a folder", path=root))
        read = read_record(root)
        self.root = root
        self.record: HandoverRecord | None = None if read is None else read[0]
        self.verdict = verdict or ("" if self.record is None else self.record.verdict)
        name = form_name or ("" if self.record is None else self.record.form)
        if not name:
            raise UsageError(
                say("no form is named, and {path} has no {name}", path=root, name=NAME),
                say("name it with --for; known: {names}", names=", ".join(form_names())),
            )
        self.form: HandoverForm = form_of(name)
        self.folder, self.domain, self.model, self.is_placed = self._found()
        self.sizes = dict(_files(root / self.folder))
        self._texts: dict[str, str | None] = {}
        self._trees: dict[str, ast.Module | None] = {}

    def _found(self) -> tuple[str, str, str, bool]:
        """Return the model's folder, its domain and name, and whether it lies as the layout says."""
        pattern = (
            re.escape(self.form.layout)
            .replace(r"\{domain\}", "(?P<domain>.+?)")
            .replace(r"\{model\}", "(?P<model>[^/]+)")
        )
        if self.record is not None:
            match = re.fullmatch(pattern, self.record.folder)
            place = self.root / self.record.folder
            if match is not None and os.path.isdir(place) and not os.path.islink(place):
                return self.record.folder, match.groupdict().get("domain") or "", match["model"], True
        own_name = self.root.resolve().name
        if "/" not in self.form.layout:
            return "", "", own_name, True
        absolute = os.path.abspath(self.root).replace(os.sep, "/")
        inside = re.search(rf"(?:^|/){pattern}\Z", absolute)
        if inside is not None:
            return "", inside.groupdict().get("domain") or "", inside["model"], True
        candidates = sorted(self._like_models(), key=lambda path: (path.count("/"), path))
        most = self.form.layout.count("/") + max((domain.count("/") for domain in self.form.domains), default=0)
        fitting = [(path, re.fullmatch(pattern, path)) for path in candidates if path.count("/") <= most]
        placed = [(path, match) for path, match in fitting if match is not None]
        outer = tuple(f"{path}/" for path, _ in placed)
        placed = [(path, match) for path, match in placed if not path.startswith(outer)]
        if len(placed) > 1:
            names = ", ".join(path for path, _ in placed[:_MOST_MODELS])
            raise UsageError(
                say("{path} has several models: {names}", path=self.root, names=names),
                say("name the folder of the one that is handed over"),
            )
        for path, match in placed:
            return path, match.groupdict().get("domain") or "", match["model"], True
        if candidates and candidates[0] != ".":
            return candidates[0], "", candidates[0].rpartition("/")[2], False
        return "", "", own_name, False

    def _like_models(self) -> Iterator[str]:
        """Yield the folders that have what a model's folder has."""
        telling = {"README.md", "requirements.txt", "run_scripts", "test"}
        for top, folders, names in walk(self.root):
            folders[:] = [name for name in folders if not is_control_name(name) and name not in NEVER_ENTERED]
            if len(telling.intersection((*names, *folders))) > 1:
                yield os.path.relpath(top, self.root).replace(os.sep, "/")

    def path_of(self, file: str) -> str:
        """Return the path of a file of the model as messages have it: from the folder that was named."""
        return f"{self.folder}/{file}" if self.folder else file

    def named(self, patterns: str) -> list[str]:
        """Return the model's files that fit one of the patterns `a|b`, in order."""
        return [path for path in self.sizes for pattern in patterns.split("|") if fnmatchcase(path, pattern)]

    def text(self, file: str) -> str | None:
        """Return the text of a file of the model, with LF; None where it is missing, too large or not decodable."""
        if file not in self._texts:
            self._texts[file] = self._read(self.root / self.path_of(file)) if file in self.sizes else None
        return self._texts[file]

    @staticmethod
    def _read(path: Path) -> str | None:
        try:
            source = decoded(read_regular(path, _LARGEST_TEXT), path.name)
        except OSError:
            return None
        return None if source is None else source.text.replace("\r\n", "\n").replace("\r", "\n")

    def tree(self, file: str) -> ast.Module | None:
        """Return a Python file of the model, parsed; None where it cannot be."""
        if file not in self._trees:
            text = self.text(file)
            try:
                self._trees[file] = None if text is None else parse(text)
            except UnparsableError:
                self._trees[file] = None
        return self._trees[file]

    @property
    def python(self) -> list[str]:
        """The model's Python files."""
        return [path for path in self.sizes if path.endswith(".py")]

    @cached_property
    def reached(self) -> list[str]:
        """The files of the program that is handed over: its own, and those that it imports; all where it is unknown."""
        if self.record is None or self.record.program not in self.sizes:
            return self.python
        return imported_paths(self.record.program, Project(self.root / self.folder, self.python))

    @cached_property
    def pull_request(self) -> str | None:
        """The text of the pull request, which lies beside the zoo's folders; None where there is none."""
        path = self.root / PULL_REQUEST
        return None if path.is_symlink() or not path.is_file() else self._read(path)

    def origin(self, file: str) -> FileOrigin | None:
        """Return whose a file is; None where nothing was recorded of it."""
        if self.record is None:
            return None
        recorded = f"{self.record.folder}/{file}"
        return next((each.origin for each in self.record.files if each.path == recorded), None)


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    count = 0
    for top, folders, names in walk(folder):
        folders[:] = sorted(name for name in folders if not is_control_name(name) and name not in NEVER_ENTERED)
        for name in sorted(names):
            full = os.path.join(top, name)
            status = os.lstat(full)
            if stat.S_ISREG(status.st_mode):
                count += 1
                if count > _MOST_FILES:
                    raise TorchferryError(
                        say("too many files in {root}: more than {count}", root=folder, count=_MOST_FILES)
                    )
                yield os.path.relpath(full, folder).replace(os.sep, "/"), status.st_size
