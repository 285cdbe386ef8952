"""Which line of a running program is the user's own: neither Python's, nor an installed package's, nor torchferry's."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from types import FrameType

from torchferry.core.notebook_cells import cell_name, is_cell
from torchferry.core.record import NamedTuple


class UserLine(NamedTuple):
    """The innermost line that is the user's own; line 0 where there is none. Of a cell, `file` is what it is called."""

    file: str
    line: int


NOWHERE = UserLine("", 0)

_TYPED_IN = frozenset({"<string>", "<stdin>"})
"""What `python -c` and the prompt call their code; so do libraries that make code of text, in modules of theirs."""

_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
"""In the path of every installed package, also those of another environment on PYTHONPATH."""

_OWN = str(Path(__file__).parent.parent) + os.sep


class UserLines:
    """Finds the user's own line in a stack."""

    def __init__(self) -> None:
        self._libraries = _library_folders()
        self._is_library: dict[str, bool] = {}

    def of(self, frame: FrameType | None) -> UserLine:
        """Return the innermost line at or above `frame` that is the user's own, or else the innermost of a library."""
        first: UserLine | None = None
        while frame is not None:
            name = frame.f_code.co_filename
            if not self.in_library(name) or (name in _TYPED_IN and frame.f_globals.get("__name__") == "__main__"):
                return UserLine(cell_name(name), frame.f_lineno)
            if first is None and not name.startswith((_OWN, "<")):
                first = UserLine(name, frame.f_lineno)
            frame = frame.f_back
        return first or NOWHERE

    def add_library(self, folder: str) -> None:
        """Say that files in a folder are not the user's own."""
        self._libraries = (*self._libraries, folder.rstrip(os.sep) + os.sep)
        self._is_library.clear()

    def in_library(self, name: str) -> bool:
        """Whether a file, as code names it, is not the user's own."""
        library = self._is_library.get(name)
        if library is None:
            library = name.startswith(self._libraries) or any(part in name for part in _INSTALLED)
            library = self._is_library[name] = library and not is_cell(name)
        return library


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], *site.getsitepackages()}
    if "torch" in sys.modules:  # it may lie elsewhere, on PYTHONPATH say
        folders.add(str(Path(str(sys.modules["torch"].__file__)).parent))
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    return (*sorted(folder.rstrip(os.sep) + os.sep for folder in folders), _OWN, "<")
