"""What the user asked for on the command line, and which project and files that means."""

from __future__ import annotations

import os
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.source.git import repository_of


class Choices(NamedTuple):
    """What the user asked for on the command line, before the settings file is read.

    Attributes:
        paths: Files and folders to look at; `-` alone for standard input.
        target: Target, as `NAME` or `NAME@VERSION`; empty for that of the settings file.
        select: Codes or families of rules to apply.
        ignore: Codes or families of rules to leave out.
        exclude: Patterns of paths to leave out.
        lang: Language of the output.
        jobs: How many processes may read files.
        seen: The report of a run.
        config_file: The settings file; None for the nearest one.
        isolated: Whether no settings file is read.
        stdin_filename: What standard input is called, where it is to be read.
        unsafe_fixes: Whether unsafe fixes are applied.
        rewrite_documents: Whether commands in README files are rewritten.
        style: `native`, `portable` or `shim`.
        device_module: What portable code imports.
        dtype: `auto` where portable code takes the best dtype of the device.
        status_line: Whether programs are to print the status of the device when they end.
        home: The project's folder, where the file that is read is a copy of standard input.
        copied_to: The folder that holds this copy.
        around: The folder of the project that the named files belong to, where paths are to be counted from it.
        path_profile: The shipped table of paths.
    """

    paths: tuple[Path, ...]
    target: str
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    exclude: tuple[str, ...]
    lang: str
    jobs: int
    seen: Path | None
    config_file: Path | None
    isolated: bool
    stdin_filename: Path | None
    unsafe_fixes: bool = False
    rewrite_documents: bool = False
    style: str = "native"
    device_module: str = "file"
    dtype: str = ""
    status_line: bool = False
    home: Path | None = None
    copied_to: Path | None = None
    around: Path | None = None
    path_profile: str = ""

    @property
    def root(self) -> Path:
        """The folder that paths are counted from; see `named_folder` for what is raised."""
        return self.around if self.around is not None else self.named_folder

    @property
    def named_folder(self) -> Path:
        """The one folder that is named, else the one around what is named.

        Raises:
            UsageError: the paths belong to different projects.
        """
        if self.copied_to is not None:
            return self.copied_to
        first = self.paths[0]
        if len(self.paths) == 1:
            return first if first.is_dir() else first.parent
        folders = [Path(os.path.abspath(path if path.is_dir() else path.parent)) for path in self.paths]
        around = Path(os.path.commonpath(folders))
        if around in (Path(around.anchor), Path.home()) or len({repository_of(folder) for folder in folders}) > 1:
            raise UsageError(
                say("{first} and {other} belong to different projects", first=first, other=self.paths[-1]),
                say("run the command once for each project"),
            )
        try:
            return Path(os.path.relpath(around))
        except ValueError:  # on another drive of Windows
            return Path(around)

    @property
    def only(self) -> tuple[str, ...]:
        """What to look at below the root; empty for everything."""
        names = self._names
        return () if "." in names else names

    @property
    def besides_root(self) -> tuple[str, ...]:
        """What is named besides the whole folder, such as a file that a `.gitignore` hides."""
        names = self._names
        return tuple(name for name in names if name != ".") if "." in names else ()

    @property
    def _names(self) -> tuple[str, ...]:
        root = self.root
        return tuple(os.path.relpath(path, root).replace(os.sep, "/") for path in self.paths)
