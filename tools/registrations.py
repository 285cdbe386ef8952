"""Write which operators each version of a plugin registers, from what `tools/plugin_surface.py` read of its wheels.

python tools/registrations.py TARGET SURFACE.json ...    put these versions into vendors/TARGET/registrations.toml
python tools/registrations.py TARGET --check             the file is as this program writes it
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends import registry
from torchferry.backends.datafile import data_directory
from torchferry.backends.registrations import LISTS, Registrations, registrations
from torchferry.core import toml

_HEAD = """\
# Which operators each version of {plugin} registers, as tools/registrations.py wrote it: what importing the wheel adds to
# torch's dispatcher. Names are without `aten::`; operators of the plugin's own that it defines into that namespace are
# among them. Registered does not mean correct for every dtype.
"""

_WIDTH = 110


def rendered(
    plugin: str, sources: Mapping[str, str], torch: Mapping[str, str], lists: Mapping[str, Mapping[str, frozenset[str]]]
) -> str:
    """Return the text of the file: names in groups of the versions that have them."""
    read = sorted(torch, key=Version)
    having: dict[tuple[str, str], list[str]] = {}
    for version in read:
        for key in LISTS:
            for name in lists[version].get(key, ()):
                having.setdefault((key, name), []).append(version)
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for (key, name), versions in having.items():
        groups.setdefault(tuple(versions), {}).setdefault(key, []).append(name)
    lines = [_HEAD.format(plugin=plugin), f'source = "{" ".join(sources)}"', "", "[sources]"]
    lines += [f"{key} = {json.dumps(text)}" for key, text in sources.items()]
    lines += ["", "[torch]", *(f'"{version}" = "{torch[version]}"' for version in read)]
    for versions, names in sorted(groups.items(), key=lambda item: (-len(item[0]), [read.index(v) for v in item[0]])):
        lines += ["", "[[operators]]", f'versions = "{"" if len(versions) == len(read) else " ".join(versions)}"']
        for key in LISTS:
            if key in names:
                text = ", ".join(f'"{name}"' for name in sorted(names[key]))
                wrapped = textwrap.wrap(text, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
                lines += [f"{key} = [", *(f"    {line}" for line in wrapped[:-1]), f"    {wrapped[-1]},", "]"]
    return "\n".join(lines) + "\n"


def _kept(known: Registrations | None) -> dict[str, dict[str, frozenset[str]]]:
    return {} if known is None else {version: known.of(version) for version in known.torch}


def main() -> int:
    """Write or check the file of a target."""
    backend = registry.choose(sys.argv[1]).backend
    path = data_directory(backend) / "registrations.toml"
    known = registrations(backend)
    lists, torch = _kept(known), dict(known.torch) if known is not None else {}
    sources = toml.load(path)["sources"] if path.is_file() else {"REG": f"{backend.PLUGIN} wheels of these versions"}
    for name in sys.argv[2:]:
        if name == "--check":
            continue
        surface = json.loads(Path(name).read_text(encoding="utf-8"))
        torch[surface["version"]] = surface["torch"]
        lists[surface["version"]] = {key: frozenset(names or ()) for key, names in surface["registrations"].items()}
    text = rendered(backend.PLUGIN, sources, torch, lists)
    if "--check" in sys.argv:
        same = path.read_text(encoding="utf-8") == text
        print(f"{path.name} of {backend.NAME} is {'as it is written' if same else 'not as it is written'}")
        return 0 if same else 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
