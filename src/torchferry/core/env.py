"""Every environment variable that torchferry reads, in one place; `messages.py` reads TORCHFERRY_LANG."""

from __future__ import annotations

import os
import re
from pathlib import Path

from torchferry.core.messages import say

VARIABLES = {
    "TORCHFERRY_LANG": "language of messages and reports: `en` or `zh`; default: that of the locale",
    "TORCHFERRY_JOBS": "number of processes that read files; default: the number of processors",
    "TORCHFERRY_CACHE": "cache folder; default: `torchferry` in XDG_CACHE_HOME or ~/.cache",
    "TORCHFERRY_NO_CACHE": "1, true, yes or on: `scan` examines everything again and keeps nothing",
    "TORCHFERRY_WRITE_ROOTS": "folders in which torchferry may change files, as a JSON list; default: no limit",
    "TORCHFERRY_SHIM": "1, true, yes or on: `import torch` redirects torch.cuda to the accelerator that is installed",
    "TORCHFERRY_SHIM_TARGET": "target of the redirect, or `auto` (default)",
    "PREFERRED_DEVICE": "device for DeviceManager, such as `cuda:1` or `cpu`; default: the first one available",
    "PREFERRED_DEVICE_FALLBACK": "for a missing device: `warn`, `error`, `allow`, `cpu`; see DeviceManager(fallback=)",
    "TORCHFERRY_TRACEBACK": "1, true, yes or on: an internal error shows its whole traceback",
    "FORCE_COLOR": "when set, colours are printed also where no terminal is; 0: nowhere (https://force-color.org)",
    "NO_COLOR": "when set, no colour is printed, whatever else is set (https://no-color.org)",
}
"""Name and meaning; printed by `torchferry --help`."""


def check_language() -> None:
    """Check `TORCHFERRY_LANG`; programs that only import torchferry go on in English where it is wrong.

    Raises:
        UsageError: it names a language that torchferry does not speak.
    """
    value = os.environ.get("TORCHFERRY_LANG", "")
    if value and not re.fullmatch(r"\s*(?:en|zh)(?:[-_.@].*)?", value, re.IGNORECASE):
        raise _wrong_value("TORCHFERRY_LANG", value, "en", "zh")


def jobs() -> int:
    """Return how many processes may read files: `TORCHFERRY_JOBS`, else what this process may use.

    Raises:
        UsageError: it is not a number above 0.
    """
    value = os.environ.get("TORCHFERRY_JOBS", "")
    if value:
        if not (value.isascii() and value.isdigit() and len(value) < 10 and 0 < int(value) <= _MOST_JOBS):
            raise _wrong_value("TORCHFERRY_JOBS", value, f"1 - {_MOST_JOBS}")
        return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_MOST_JOBS = 4096


def _wrong_value(variable: str, value: str, *allowed: str) -> Exception:
    from torchferry.core.errors import UsageError  # imported late: most values are right

    return UsageError(
        say("`{variable}={value}` is not a valid value", variable=variable, value=value[:80]),
        say("allowed: {values}; or unset it", values=", ".join(allowed)),
    )


NO_CACHE = "TORCHFERRY_NO_CACHE"
TRACEBACK = "TORCHFERRY_TRACEBACK"


def scans_anew() -> bool:
    """Return whether `TORCHFERRY_NO_CACHE` asks for scans that look nothing up; any other value is no."""
    return os.environ.get(NO_CACHE, "").strip().lower() in _YES


def shows_traceback() -> bool:
    """Return whether `TORCHFERRY_TRACEBACK` requests the traceback of an internal error; any other value is no."""
    return os.environ.get(TRACEBACK, "").strip().lower() in _YES


SHIM = "TORCHFERRY_SHIM"
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def shim_asked() -> bool:
    """Return whether `TORCHFERRY_SHIM` requests the redirect of torch.cuda.

    Raises:
        UsageError: it says neither yes nor no.
    """
    value = os.environ.get(SHIM, "").strip()
    if value.lower() in {"", *_NO}:
        return False
    if value.lower() in _YES:
        return True
    from torchferry.core.errors import UsageError  # imported late: most values are right

    raise UsageError(
        say("`{variable}={value}` is neither yes nor no", variable=SHIM, value=value),
        say("yes: {yes}; no: {no}, or nothing", yes=", ".join(_YES), no=", ".join(_NO)),
    )


def shim_target() -> str:
    """Return where the redirect of torch.cuda goes: `TORCHFERRY_SHIM_TARGET`, else `auto`."""
    return os.environ.get("TORCHFERRY_SHIM_TARGET", "") or "auto"


SITES = "TORCHFERRY_SHIM_SITES"
"""Set by `torchferry run --report` for its processes: the folder in which they leave what went through the redirect."""


def sites_folder() -> Path | None:
    """Return where processes leave which of their lines went through the redirect, or None."""
    named = os.environ.get(SITES, "")
    return Path(named) if named else None


WRITE_ROOTS = "TORCHFERRY_WRITE_ROOTS"
"""Set by `torchferry mcp` for the commands that it runs."""


def write_roots() -> tuple[str, ...] | None:
    """Return the real paths of the folders in which files may be changed; None where there is no limit.

    Raises:
        UsageError: the variable is no list of absolute paths.
    """
    value = os.environ.get(WRITE_ROOTS)
    if not value:
        return None
    from torchferry.core.json_text import parsed_json  # imported late: few commands are limited

    try:
        folders = parsed_json(value)
    except ValueError:
        folders = None
    if not isinstance(folders, list) or not all(isinstance(each, str) and os.path.isabs(each) for each in folders):
        raise _wrong_value(WRITE_ROOTS, value, '["/folder", ...]')
    return tuple(map(os.path.realpath, folders))


PROGRESS = "TORCHFERRY_PROGRESS"
"""Set by `torchferry mcp` for the commands that it runs: the file for the line of `core/progress.py`."""


def progress_file() -> Path | None:
    """Return where the line goes that says how far a command is, in place of a terminal; None for nowhere else."""
    named = os.environ.get(PROGRESS, "")
    return Path(named) if os.path.isabs(named) else None


def cache_folder() -> Path:
    """Return where built things are kept: `TORCHFERRY_CACHE`, else `torchferry` in the user's cache."""
    named = os.environ.get("TORCHFERRY_CACHE", "")
    if named:
        return Path(named).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path("~/.cache").expanduser()) / "torchferry"


def state_folder() -> Path | None:
    """Return where what belongs to the user alone is kept: `torchferry` in XDG_STATE_HOME or ~/.local/state.

    None for a user without a home folder. A relative path is ignored, as its standard says.
    """
    named = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "torchferry"
    home = os.path.expanduser("~")
    return Path(home) / ".local" / "state" / "torchferry" if os.path.isabs(home) else None
