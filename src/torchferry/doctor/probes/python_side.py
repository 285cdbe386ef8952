"""Says what this Python has: torch, plugins, distributions, libraries that load. Runs on Python 3.8 and later.

Argument: JSON with `modules` (names to look for), `import` (a module to import, or empty), `libraries` (names or paths
to load) and `rehearsed`, for a simulated device, which is to end as it likes. Prints one line of JSON. Looking for
modules imports none; libraries are loaded in this process, so a library that crashes is the parent's to report.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import platform
import sys
import traceback
from importlib import metadata
from typing import Any


def main() -> None:
    """Look, and print."""
    question = json.loads(sys.argv[1])
    if not getattr(sys.flags, "safe_path", False):  # with PYTHONSAFEPATH it is not there
        del sys.path[0]  # the folder of this file; the user's programs have theirs there
    stream = os.dup(1)
    os.dup2(2, 1)  # a banner of the plugin's must not stand in our answer
    answer = {
        "executable": sys.executable,
        "version": platform.python_version(),
        "prefix": sys.prefix,
        "virtual": sys.prefix != sys.base_prefix,
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "modules": {name: where(name) for name in question["modules"]},
        "distributions": distributions(),
        "entry_points": entry_points(),
        "torch": torch_version(),
        "libraries": {name: load(name) for name in question["libraries"]},
        "import": attempt(question["import"]) if question["import"] else None,
    }
    os.write(stream, json.dumps(answer).encode() + b"\n")
    if not question["rehearsed"]:
        os._exit(0)  # a plugin's end may hang or crash, and nothing of ours is left to do


def where(name: Any) -> Any:
    """Return where a module lies; None when there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or []), "")


def distributions() -> Any:
    """Return the installed distributions and their versions; the first on the path wins, as for imports."""
    found: dict[str, str] = {}
    for item in metadata.distributions():
        name = (item.metadata["Name"] or "").lower().replace("_", "-")
        if name:
            found.setdefault(name, item.version)
    return found


def entry_points() -> Any:
    """Return the plugins that torch would load by itself."""
    points: Any = metadata.entry_points()
    chosen = points.select(group="torch.backends") if hasattr(points, "select") else points.get("torch.backends", [])
    return {point.name: point.value for point in chosen}


def torch_version() -> Any:
    """Return version and CUDA of torch from its file `version.py`, without importing torch."""
    found = where("torch")
    if not found:
        return None
    values: dict[str, Any] = {}
    try:
        with open(os.path.join(os.path.dirname(found), "version.py"), encoding="utf-8") as stream:
            exec(stream.read(), values)  # noqa: S102 - torch's own file, which importing torch executes too
    except Exception as error:
        return {"error": str(error)}
    return {"version": str(values.get("__version__")), "cuda": values.get("cuda"), "hip": values.get("hip")}


def load(name: Any) -> Any:
    """Load a library; return an empty text, or the loader's complaint."""
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return str(error)
    return ""


def attempt(name: Any) -> Any:
    """Import torch, then a module; return its version, the error, and whether torch and NumPy understand each other."""
    try:
        importlib.import_module("torch")
        module = importlib.import_module(name)
    except BaseException as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        return {"error": text[-4000:], "version": "", "numpy": ""}
    return {"error": "", "version": str(getattr(module, "__version__", "")), "numpy": numpy_error()}


def numpy_error() -> Any:
    """Give a tensor to NumPy; return the error, or an empty text where it works or NumPy is not there."""
    try:
        torch = importlib.import_module("torch")
        importlib.import_module("numpy")
    except ImportError:
        return ""
    try:
        torch.zeros(1, device="cpu").numpy()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return ""


if __name__ == "__main__":
    main()
