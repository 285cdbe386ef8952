"""What shows that a verdict and a run disagree, in one archive that can be sent; no value of a variable is in it."""

from __future__ import annotations

import json
import os
import platform
import re
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from torchferry import __version__
from torchferry.cli.settings import RunSettings
from torchferry.cli.settling import Run
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.secrets import masked, masked_values, secrets_of_file, shown_path
from torchferry.programs.verdicts.judging import reached_files
from torchferry.report.json_format import program_object
from torchferry.rules.analysis import Analysis

_MOST_FILES = 2_000
_LARGEST_FILE = 1 << 20
"""Bytes of a file that is taken; a larger one is named."""

_LAST = 20_000
"""Characters of what a program printed last that are taken."""

_WHEN = (1980, 1, 1, 0, 0, 0)
_COPY = re.compile(r"(/[^\s\"']*?/torchferry-(?:scan|rehearsal)-\w+(?:/[^/\s\"']+)?)|/[^\s\"']*")
"""A path in a copy of the project; other paths are taken whole, so that none is looked through twice."""


def write_reproduction(file: Path, setting: RunSettings, analysis: Analysis, runs: Sequence[Run]) -> None:
    """Write verdicts, runs and the files that the programs reach.

    Raises:
        TorchferryError: it cannot be written.
    """
    shown = _Shown(setting.root)
    programs = {run.judged.program.title: run.judged.program for run in runs}
    paths = reached_files(analysis, setting.target, programs.values())
    left_out: list[str] = []
    reasons: dict[str, str] = {}
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, path in enumerate(paths):
                data = _content(setting.root / path) if number < _MOST_FILES else None
                secrets = secrets_of_file(path, data) if data is not None else []
                if data is None or secrets:
                    left_out.append(shown_path(path))
                    if secrets:
                        reasons[shown_path(path)] = f"line {secrets[0].line}: {secrets[0].reason.render('en')}"
                else:
                    archive.writestr(zipfile.ZipInfo(f"files/{path}", _WHEN), data)
            document = {
                "schema": 1,
                "torchferry": __version__,
                "target": str(setting.target),
                "python": platform.python_version(),
                "platform": f"{platform.system()} {platform.machine()}",
                "distributions": dict(_versions(runs)),
                "runs": [shown.run(run) for run in runs],
                "left_out": left_out,
                "reasons": reasons,
            }
            text = json.dumps(document, ensure_ascii=True, indent=1) + "\n"
            archive.writestr(zipfile.ZipInfo("reproduction.json", _WHEN), text)
    except OSError as error:
        raise TorchferryError(say("cannot write {path}: {error}", path=file, error=error.strerror)) from None


class _Shown:
    """Texts without what is nobody else's business: the user's folders, and what looks like a secret."""

    def __init__(self, root: Path) -> None:
        home = os.path.expanduser("~")
        self.places = [(os.path.realpath(root), "."), (str(root.absolute()), ".")]
        if len(home) > 1:
            self.places += [(os.path.realpath(home), "~"), (home, "~")]

    def text(self, text: str) -> str:
        text = _COPY.sub(lambda path: "." if path[1] else path[0], text)
        for place, sign in self.places:
            text = text.replace(place, sign)
        return masked(text)

    def run(self, run: Run) -> dict[str, Any]:
        settled = run.judged.settled
        assert settled is not None
        summary: dict[str, Any] = parsed_json(run.summary) if run.summary else {}
        summary.pop("command", None)  # as it is in `program`, one text
        document: dict[str, Any] = masked_values(
            self.all(
                {
                    "program": program_object(run.judged, "en"),
                    "static": program_object(settled.static, "en"),
                    "rehearsal": summary,
                    "printed": run.printed[-_LAST:],
                }
            )
        )
        return document

    def all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.all(inner) for key, inner in value.items()}
        return [self.all(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, _LARGEST_FILE)
    except OSError:
        return None


def _versions(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Yield the versions of torch and of the packages that verdicts speak of, as far as they are installed here."""
    names = {"torch", "numpy"}
    for run in runs:
        names |= {item.package for item in run.judged.unverified}
        names |= {item.what for item in (*run.judged.optional, *run.judged.blockers)}
    for name in sorted(names):
        try:
            installed = version(name)
        except (PackageNotFoundError, ValueError):
            installed = ""
        if installed:
            yield name, installed
