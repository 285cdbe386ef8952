"""What Python does with a program that imports in some form, beside its verdict: cupy is not there.

The programs are run here. A verdict that is good without a word where the program dies is wrong whatever else holds.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.programs.small import Files, judged, write
from tests.programs.test_forms import forms
from torchferry.programs.model import Verdict

STARTED = "import torch\nif __name__ == '__main__':\n    pass\n"
GOOD = {Verdict.READY, Verdict.FIXES, Verdict.WITHOUT}


def files_of(text: str) -> Files:
    """Return the files of one form."""
    main, *others = text.split("@@@ ")
    files = {"train.py": STARTED + main}
    for other in others:
        path, _, inner = other.partition("\n")
        files[path] = inner
    return files


@contextmanager
def started_in(folder: Path) -> Iterator[None]:
    """Let a folder be the one of a program that is started, without cupy; what it imports of its own goes again."""
    before, path, words = dict(sys.modules), os.getcwd(), sys.argv
    if not (folder / "cupy.py").exists():
        sys.modules["cupy"] = None  # type: ignore[assignment]
    sys.argv = ["train.py"]
    sys.path.insert(0, str(folder))
    search = list(sys.path)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(path)
        sys.argv = words
        sys.path[:] = [each for each in search[1:] if each in sys.path]
        own = {part.removesuffix(".py") for path in folder.rglob("*") for part in path.relative_to(folder).parts}
        for name in sys.modules.keys() - before.keys():
            if name.partition(".")[0] in own:  # what torch imported stays
                del sys.modules[name]
        sys.modules.pop("cupy", None)
        sys.path_importer_cache.clear()


def dies(text: str, folder: Path) -> bool:
    """Run a program, and return whether it ends since there is no cupy."""
    inside: dict[str, Any] = {"__name__": "__main__", "__file__": str(folder / "train.py")}
    with started_in(folder), redirect_stdout(io.StringIO()):
        try:
            exec(compile(text, "train.py", "exec"), inside)
        except ModuleNotFoundError as error:
            return "cupy" in str(error)
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "text"), [pytest.param(*each, id=each[0]) for each in forms("imports.txt")])
def test_no_good_verdict_contradicts_what_python_does(name: str, text: str, tmp_path: Path) -> None:
    files = files_of(text)
    write(tmp_path, files)
    is_dead = dies(files["train.py"], tmp_path)
    program = judged(tmp_path, files)["train.py"]
    is_said = bool(program.unresolved or program.unread) or program.verdict in (Verdict.MAY_NEED, Verdict.DECISIONS)
    if name.endswith("?"):
        assert not is_dead or is_said or program.verdict is Verdict.BLOCKED
    elif is_dead:
        assert program.verdict is Verdict.BLOCKED
    else:
        assert program.verdict in GOOD
