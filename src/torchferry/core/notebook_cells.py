"""What a cell of a notebook is called, where a kernel runs it from a file or a text of its own making.

IPython compiles each cell under a name such as `/tmp/ipykernel_4711/1234567.py` or `<ipython-input-3-0a1b2c>`, and
notes which input it was. Where the notebook is known, its own number of the cell is better: the editor names its file,
or the command that started the kernel (`jupyter nbconvert --execute`, papermill).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchferry.core.json_text import parsed_json
from torchferry.core.record import NamedTuple

_CELL = re.compile(r".*[\\/]ipykernel_\d+[\\/]-?\d+\.py|<ipython-input-(\d+)-[^>]*>")
_LARGEST = 1 << 26
"""Bytes of a notebook."""

_LARGEST_COMMAND = 1 << 16
_SESSION = "JPY_SESSION_NAME"
"""Set by Jupyter's server for its kernels: the path of the notebook, or a name."""


class RunNotebook(NamedTuple):
    """A notebook that this kernel may be running.

    Attributes:
        name: Its file's name.
        cells: The texts of its cells, empty for one that is no code.
    """

    name: str
    cells: tuple[str, ...]


def is_cell(file: str) -> bool:
    """Whether a file, as code names it, is a cell of a notebook, or an input of IPython's prompt."""
    return _CELL.fullmatch(file) is not None


def cell_name(file: str) -> str:
    """Return how people call a cell: `train.ipynb:cell 4`, or `cell In[3]` where nobody knows the notebook.

    What is no cell keeps its name, and so does one that no shell of this process knows.
    """
    if not file.startswith("<ipython") and "ipykernel_" not in file:  # most files, at each event
        return file
    name = _names.get(file)
    if name is None:
        name = _names[file] = _name(file)
    return name


_names: dict[str, str] = {}


def _name(file: str) -> str:
    match = _CELL.fullmatch(file)
    if match is None:
        return file
    shell = _shell()
    number = int(match[1]) if match[1] else _execution(shell, file)
    if number is None:
        return file
    place = _in_notebook(_text(shell, number), number)
    return f"cell In[{number}]" if place is None else place


def _shell() -> Any:
    """Return IPython's shell in this process; None where there is none."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if ask is None else ask()


def _execution(shell: Any, file: str) -> int | None:
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    number = numbers.get(file) if isinstance(numbers, dict) else None
    return number if isinstance(number, int) else None


def _text(shell: Any, number: int) -> str:
    """Return an input as it was typed; `In` has it with IPython's own commands replaced."""
    history = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    inputs = history if isinstance(history, list) else []
    return inputs[number] if number < len(inputs) and isinstance(inputs[number], str) else ""


def _in_notebook(text: str, number: int) -> str | None:
    """Return the name of the cell with this text: of several, of that which is the `number`th with code."""
    wanted = text.strip()
    if not wanted:
        return None
    for notebook in _notebooks():
        same = [place for place, cell in enumerate(notebook.cells, 1) if cell == wanted]
        if same:
            in_order = [place for place, cell in enumerate(notebook.cells, 1) if cell][number - 1 : number]
            chosen = in_order[0] if in_order and in_order[0] in same else same[0]
            return f"{notebook.name}:cell {chosen}"
    return None


_known: list[RunNotebook] | None = None


def _notebooks() -> list[RunNotebook]:
    """Return the notebooks that this kernel may be running, read once."""
    global _known  # noqa: PLW0603 - a process has one kernel
    if _known is None:
        _known = [notebook for path in _paths() if (notebook := _read(path)) is not None]
    return _known


def _paths() -> Iterator[Path]:
    """Yield the files that somebody names: the editor, Jupyter's server, or the command that started the kernel."""
    named = [str(getattr(_shell(), "user_ns", {}).get("__vsc_ipynb_file__", "")), os.environ.get(_SESSION, "")]
    yield from (Path(name) for name in named if name.endswith(".ipynb"))
    parent = Path("/proc", str(os.getppid()))
    with contextlib.suppress(OSError):
        with (parent / "cmdline").open("rb") as file:
            words = file.read(_LARGEST_COMMAND).decode("utf-8", "replace").split("\0")
        folder = (parent / "cwd").readlink()
        yield from (folder / word for word in words if word.endswith(".ipynb"))


def _read(path: Path) -> RunNotebook | None:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        cells = parsed_json(path.read_text(encoding="utf-8"))["cells"]
        return RunNotebook(path.name, tuple(_code(cell) for cell in cells))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _code(cell: Any) -> str:
    if cell.get("cell_type") != "code":
        return ""
    source = cell.get("source", "")
    return (source if isinstance(source, str) else "".join(map(str, source))).strip()
