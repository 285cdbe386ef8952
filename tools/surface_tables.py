"""Write what each version of a plugin contains and registers, from what `tools/plugin_surface.py` read of its wheels.

python tools/surface_tables.py TARGET SURFACE.json ...   put these versions into the two files in vendors/TARGET
python tools/surface_tables.py TARGET --check            the files are as this program writes them

`contents.toml` has modules and public names, `registrations.toml` has operators. What they have of other versions
stays.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.contents import Presence, contents
from torchferry.backends.datafile import data_directory
from torchferry.backends.registrations import LISTS, registrations
from torchferry.core import toml

_REGISTRATIONS = """\
# Which operators each version of {plugin} registers with torch's dispatcher, as tools/surface_tables.py wrote it, or
# tools/source_operators.py where no wheel is public. Names are without `aten::`; operators of the plugin's own that it
# defines into that namespace are among them. Registered does not mean correct for every dtype.
"""

_CONTENTS = """\
# Modules and public names of {plugin}, by version, as tools/surface_tables.py wrote it: what the package has, whether
# it is rehearsed or not. Left out are the compilers' own parts, what is below a private module, and what the modules
# import from elsewhere.
"""

_WIDTH = 120

_COMPILERS = re.compile(r"\.dynamo\.torchair\.|\._inductor\.|\._[^.]+\.")
"""Modules that are left out."""

_PRESENCE = {"module": Presence.MODULE, "value": Presence.VALUE}


def grouped(having: Iterable[tuple[Any, Iterable[str]]], read: list[str]) -> list[tuple[str, list[Any]]]:
    """Return things in groups of the versions that have them: the versions as text, empty for all, and the things."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for thing, versions in having:
        groups.setdefault(tuple(sorted(versions, key=read.index)), []).append(thing)
    order = sorted(groups.items(), key=lambda item: (-len(item[0]), [read.index(version) for version in item[0]]))
    return [("" if len(versions) == len(read) else " ".join(versions), things) for versions, things in order]


def listed(key: str, names: Iterable[str]) -> list[str]:
    """Return the lines of a list of names."""
    text = ", ".join(f'"{name}"' for name in sorted(names))
    lines = textwrap.wrap(text, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    if len(lines) == 1 and len(key) + len(text) + 5 <= _WIDTH:
        return [f"{key} = [{text}]"]
    return [f"{key} = [", *(f"    {line}" for line in lines[:-1]), f"    {lines[-1]},", "]"]


@dataclass
class Operators:
    """What versions register: for each version its torch, and its lists."""

    torch: dict[str, str] = field(default_factory=dict)
    lists: dict[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def rendered(self, plugin: str, sources: Mapping[str, str], read_from: str) -> str:
        """Return the text of `registrations.toml`."""
        read = sorted(self.torch, key=Version)
        having: dict[tuple[str, str], list[str]] = {}
        for version in read:
            for key in LISTS:
                for name in self.lists[version].get(key, ()):
                    having.setdefault((key, name), []).append(version)
        lines = [_REGISTRATIONS.format(plugin=plugin), f'source = "{" ".join(sources)}"']
        lines += [f'read_from = "{read_from}"', "", "[sources]"]
        lines += [f"{key} = {json.dumps(text)}" for key, text in sources.items()]
        lines += ["", "[torch]", *(f'"{version}" = "{self.torch[version]}"' for version in read)]
        for versions, things in grouped(having.items(), read):
            lines += ["", "[[operators]]", f'versions = "{versions}"']
            for key in LISTS:
                names = [name for each, name in things if each == key]
                lines += listed(key, names) if names else []
        return "\n".join(lines) + "\n"


@dataclass
class Packages:
    """What stands at each path of a plugin's packages, with the versions that have it."""

    versions: list[str]
    incomplete: list[str]
    source: str
    by_path: dict[str, tuple[Presence, set[str]]] = field(default_factory=dict)

    def add(self, path: str, presence: Presence, version: str) -> None:
        """Note that a version has something; what is called in one version counts as called."""
        before, having = self.by_path.get(path, (presence, set()))
        self.by_path[path] = (before if before is Presence.CALLABLE else presence, having | {version})

    def read(self, surface: dict[str, Any], shown: str, home: str) -> None:
        """Take up a version."""
        version = surface["version"]
        if version not in self.versions:
            self.versions.append(version)
        for path in surface["recorded"]:
            if not _COMPILERS.search(path):
                self.add(path, Presence.MODULE, version)
        for path, text in surface["names"].items():
            if ":" not in path and not _COMPILERS.search(path):
                at = home + path[len(shown) :] if f"{path}.".startswith(f"{shown}.") else path
                self.add(at, _PRESENCE.get(text, Presence.CALLABLE), version)

    def rendered(self, plugin: str) -> str:
        """Return the text of `contents.toml`."""
        read = sorted(self.versions, key=Version)
        text = ", ".join(f'"{version}"' for version in read)
        lines = [_CONTENTS.format(plugin=plugin), "versions = ["]
        lines += [f"    {line}" for line in textwrap.wrap(text + ",", _WIDTH - 4)]
        lines += ["]", f"incomplete = {json.dumps(self.incomplete)}", f"source = {json.dumps(self.source)}"]
        modules = [(path, having) for path, (kind, having) in self.by_path.items() if kind is Presence.MODULE]
        for versions, names in grouped(modules, read):
            lines += ["", "[[modules]]", f'versions = "{versions}"', *listed("names", names)]
        owners: dict[str, list[tuple[tuple[str, Presence], set[str]]]] = {}
        for path, (kind, having) in self.by_path.items():
            if kind is not Presence.MODULE:
                owner, _, name = path.rpartition(".")
                owners.setdefault(owner, []).append(((name, kind), having))
        for owner, entries in sorted(owners.items()):
            for versions, things in grouped(entries, read):
                lines += ["", "[[contents]]", f'module = "{owner}"', f'versions = "{versions}"']
                for key, wanted in (("callables", Presence.CALLABLE), ("values", Presence.VALUE)):
                    names = [name for name, kind in things if kind is wanted]
                    lines += listed(key, names) if names else []
        return "\n".join(lines) + "\n"


def known_operators(backend: type[Backend]) -> Operators:
    """Return what the file of a backend has."""
    known = registrations(backend)
    if known is None:
        return Operators()
    return Operators(dict(known.torch), {version: known.of(version) for version in known.torch})


def known_packages(backend: type[Backend]) -> Packages:
    """Return what the file of a backend has."""
    known = contents(backend)
    if known is None:
        return Packages([], [], f"{backend.PLUGIN} wheels of these versions")
    by_path = {path: (kind, set(having)) for path, (kind, having) in known.by_path.items()}
    return Packages(list(known.versions), sorted(known.incomplete, key=Version), known.source, by_path)


def main() -> int:
    """Write or check the files of a target."""
    backend = registry.choose(sys.argv[1]).backend
    folder = data_directory(backend)
    operators, packages = known_operators(backend), known_packages(backend)
    path = folder / "registrations.toml"
    sources = toml.load(path)["sources"] if path.is_file() else {"REG": f"{backend.PLUGIN} wheels of these versions"}
    for name in [name for name in sys.argv[2:] if name != "--check"]:
        surface = json.loads(Path(name).read_text(encoding="utf-8"))
        if surface["registrations"]:
            version = surface["version"]
            operators.torch[version] = surface["torch"]
            operators.lists[version] = {key: frozenset(names or ()) for key, names in surface["registrations"].items()}
        packages.read(surface, backend.NAMESPACE, backend.IMPORT_NAMESPACE)
    texts = {"contents.toml": packages.rendered(backend.PLUGIN)}
    if operators.torch:
        texts["registrations.toml"] = operators.rendered(
            backend.PLUGIN, sources, toml.load(path)["read_from"] if path.is_file() else "wheels"
        )
    differing = [file for file, text in texts.items() if (folder / file).read_text(encoding="utf-8") != text]
    if "--check" not in sys.argv:
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    elif differing:
        print(f"not as tools/surface_tables.py writes it: {', '.join(differing)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
