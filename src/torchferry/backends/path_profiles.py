"""Shipped tables of paths (`common/paths.toml`): where the folders of a platform lie on the target's machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from torchferry.backends.datafile import DATA, DataFile
from torchferry.core.errors import unknown_name

_KEYS = frozenset({"name", "source", "paths"})


@lru_cache(maxsize=1)
def path_profiles() -> Mapping[str, Mapping[str, str]]:
    """Return the shipped tables by their names.

    Raises:
        ValueError: the file is wrong, which is a mistake of torchferry's.
    """
    file = DataFile(DATA / "common" / "paths.toml")
    profiles: dict[str, Mapping[str, str]] = {}
    for table in file.tables("profile"):
        name = file.text(table, "name", "[[profile]]")
        where = f"[[profile]] {name}"
        file.check_keys(table, _KEYS, where)
        file.cited(table, where)
        paths = table.get("paths")
        if not name or name in profiles or not isinstance(paths, dict) or not paths:
            raise file.wrong(f"{where}: a profile has a name of its own and [profile.paths]")
        profiles[name] = {old: file.text(paths, old, where) for old in paths}
    return profiles


def profile_paths(name: str) -> Mapping[str, str]:
    """Return the shipped table called `name`.

    Raises:
        UsageError: there is none.
    """
    profiles = path_profiles()
    if name not in profiles:
        # translators: the kind of a name that is unknown, as in "unknown table of paths `x`"
        raise unknown_name("table of paths", name, profiles)
    return profiles[name]
