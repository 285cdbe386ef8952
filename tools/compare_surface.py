"""Compare a simulated plugin with the vendor's own: what only one of them has, and what differs.

python tools/compare_surface.py npu --plugin torch_npu-2.9.0-....whl      the wheel, beside npu@2.9.0
python tools/compare_surface.py npu --surface 2.9.0.json                  what plugin_surface.py read elsewhere

The plugin runs on the simulated driver, both sides with the interpreter that `--python` names: it has the torch that
the wheel is for, and what torchferry needs. Differences that `vendors/TARGET/surface.toml` explains are counted, all
others are printed, and the exit code is 1 when there is one. `--list` prints what the plugin has and the rehearsal does
not do.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_directory
from torchferry.backends.operators import load_operators
from torchferry.backends.registrations import LISTS
from torchferry.backends.unknown import Unknown

READER = Path(__file__).with_name("plugin_surface.py")
NOT_REHEARSED, ABSENT = "not rehearsed", "absent"

KINDS = {
    "only-plugin": "only the plugin has it: a program that uses it is told that it would fail",
    "only-simulated": "only the simulated package has it",
    "differs": "it is another thing, or takes other arguments",
    "operator": "one of them registers it and the other does not",
    "error": "an operator that the plugin lacks ends otherwise",
}
"""What may differ, and what that means."""


@dataclass(frozen=True)
class Difference:
    """One thing in which the two differ.

    Attributes:
        kind: One of `KINDS`.
        name: Its path; a member of a class stands behind a colon.
        plugin: What the vendor's has.
        simulated: What the simulated package has.
    """

    kind: str
    name: str
    plugin: str = ""
    simulated: str = ""

    def __str__(self) -> str:
        return f"{self.kind:13} {self.name}  plugin: {self.plugin or '-'}; simulated: {self.simulated or '-'}"


@dataclass(frozen=True)
class Explanation:
    """Why some differences stay.

    Attributes:
        kind: One of `KINDS`.
        names: Patterns of names, as of files.
        reason: Why.
    """

    kind: str
    names: tuple[str, ...]
    reason: str

    def fits(self, difference: Difference) -> bool:
        """Whether this explains a difference."""
        return self.kind == difference.kind and any(fnmatch.fnmatchcase(difference.name, each) for each in self.names)


def explanations(backend: type[Backend]) -> list[Explanation]:
    """Return the table of a vendor's folder.

    Raises:
        ValueError: it is malformed.
    """
    path = data_directory(backend) / "surface.toml"
    if not path.is_file():
        return []
    file = DataFile(path)
    result = []
    for number, entry in enumerate(file.tables("explained"), 1):
        where = f"explained {number}"
        file.check_keys(entry, frozenset({"kind", "names", "reason"}), where)
        kind, reason = file.text(entry, "kind", where), file.text(entry, "reason", where)
        if kind not in KINDS or not reason:
            raise file.wrong(f"{where}: `kind` is one of {', '.join(KINDS)}, and `reason` says why")
        result.append(Explanation(kind, file.texts(entry, "names", where), reason))
    return result


def compared(plugin: Mapping[str, Any], simulated: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences of two surfaces, as `plugin_surface.py` writes them."""
    for name, of_plugin in sorted(plugin["names"].items()):
        of_simulated = simulated["names"].get(name, ABSENT)
        if of_simulated == ABSENT:
            yield Difference("only-plugin", name, of_plugin)
        elif not of_simulated.startswith(NOT_REHEARSED) and not alike(of_plugin, of_simulated):
            yield Difference("differs", name, of_plugin, of_simulated)
    for name, of_simulated in sorted(simulated["more"].items()):
        yield Difference("only-simulated", name, "", of_simulated)


_VARIADIC = re.compile(r"(\*\*?)\w+")
_OPAQUE = "(*, **)"


def alike(one: str, other: str) -> bool:
    """Whether two descriptions say the same as far as a program can tell.

    What compiled code takes cannot be read (`?`), names of variadic parameters mean nothing, and an attribute may be a
    property on one side. A plugin's own parameters that are all variadic hide what it takes.
    """
    kinds = {"property": "value"}
    (one_kind, _, one_rest), (other_kind, _, other_rest) = (text.partition(" ") for text in (one, other))
    if kinds.get(one_kind, one_kind) != kinds.get(other_kind, other_kind):
        return False
    first, second = (_VARIADIC.sub(r"\1", rest) for rest in (one_rest, other_rest))
    return "?" in {first, second} or first in {second, _OPAQUE}


def operator_differences(
    backend: type[Backend], surface: Mapping[str, Any], simulated: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield operators that the plugin registers and our list lacks, or the other way, or that are not served."""
    table = load_operators(backend, surface["version"])
    for field in LISTS:
        ours = getattr(table, field)
        ours = frozenset() if isinstance(ours, Unknown) else ours
        own = set(surface["registrations"].get(field) or ())
        yield from (Difference("operator", f"{field}:{name}", "registered") for name in sorted(own - ours))
        yield from (Difference("operator", f"{field}:{name}", "", "listed") for name in sorted(ours - own))
    for name in simulated.get("lost", ()):
        if name in (surface["registrations"].get("registered") or ()):
            yield Difference("operator", f"registered:{name}", "registered", "it fails or falls back")


def endings(plugin: Mapping[str, str], simulated: Mapping[str, str]) -> Iterator[Difference]:
    """Yield the operators that neither computes on the card, and that end differently."""
    for name in sorted(plugin.keys() & simulated.keys()):
        if plugin[name] != simulated[name]:
            yield Difference("error", name, plugin[name], simulated[name])


def report(differences: Iterable[Difference], table: Iterable[Explanation], say: Any = print) -> int:
    """Print what is not explained, and how much is; returns the number of what is not."""
    reasons: dict[str, int] = {}
    unexplained = []
    for difference in differences:
        reason = next((each.reason for each in table if each.fits(difference)), "")
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
        else:
            unexplained.append(difference)
    for difference in unexplained:
        say(difference)
    for reason, number in reasons.items():
        say(f"explained {number:4}: {reason}")
    for explanation in table:
        if explanation.reason not in reasons:  # it may be for another version, or hide what comes back
            say(f"explains nothing here: {explanation.kind} {' '.join(explanation.names)}")
    say(f"differences: {sum(reasons.values())} explained, {len(unexplained)} not")
    return len(unexplained)


def read(command: list[str], out: Path, **variables: str) -> dict[str, Any]:
    """Run a reader and return what it wrote.

    Raises:
        SystemExit: it wrote nothing.
    """
    path = os.pathsep.join([str(Path(__file__).parent.parent / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if not out.is_file():
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return result


def surfaces(arguments: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Any], list[Difference]]:
    """Return the surfaces of the plugin and of the simulated package, and how operators end that the plugin lacks."""
    python, target = arguments.python, arguments.target
    own, seen = folder / "plugin.json", folder / "simulated.json"
    if arguments.surface:
        own.write_bytes(arguments.surface.read_bytes())
        plugin = json.loads(own.read_text(encoding="utf-8"))
    else:
        command = [python, str(READER), "shipped", target, str(arguments.plugin), str(own)]
        plugin = read(command, own, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    version = plugin["version"]

    def rehearse(side: str, source: Path, out: Path, *options: str) -> dict[str, Any]:
        command = [python, "-m", "torchferry", "rehearse", *options, "--", python, str(READER)]
        return read([*command, side, target, str(source), str(out)], out)

    at_version = ("-t", f"{target}@{version}")
    simulated = rehearse("simulated", own, seen, *at_version)
    ended = []
    if arguments.plugin and arguments.endings:
        lacking = folder / "lacking.json"
        lacking.write_text(json.dumps(simulated["lost"]), encoding="utf-8")
        shipped = ("-t", target, "--plugin", str(arguments.plugin))
        of_plugin = rehearse("endings", lacking, folder / "plugin-ends.json", *shipped)
        of_simulated = rehearse("endings", lacking, folder / "simulated-ends.json", *at_version)
        ended = [*endings(of_plugin, of_simulated)]
        print(f"operators that the plugin lacks and that were called: {len(of_plugin.keys() & of_simulated.keys())}")
    else:
        print("no operator was called: how those end that the plugin lacks was not compared")
    return plugin, simulated, ended


def main() -> int:
    """Compare; returns 1 when something differs that is not explained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--plugin", type=Path, metavar="WHEEL")
    source.add_argument("--surface", type=Path, metavar="JSON")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that both sides run with")
    parser.add_argument("--no-endings", dest="endings", action="store_false", help="call no operator")
    parser.add_argument("--list", action="store_true", help="print what is not rehearsed")
    arguments = parser.parse_args()
    backend = registry.choose(arguments.target).backend
    with tempfile.TemporaryDirectory() as folder:
        plugin, simulated, ended = surfaces(arguments, Path(folder))
    not_done = [name for name, text in simulated["names"].items() if text.startswith(NOT_REHEARSED) and ":" not in name]
    if arguments.list:
        print(*sorted(not_done), sep="\n")
    print(
        f"{backend.PLUGIN} {plugin['version']}, torch {plugin['torch']}; simulated with torch {simulated['torch']}: "
        f"{len(plugin['names'])} names, {len(not_done)} of them not rehearsed"
    )
    differences = [*compared(plugin, simulated), *operator_differences(backend, plugin, simulated), *ended]
    return 1 if report(differences, explanations(backend)) else 0


if __name__ == "__main__":
    sys.exit(main())
