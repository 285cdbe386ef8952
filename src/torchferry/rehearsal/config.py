"""What a rehearsal is to be, as it travels from the command to every process that it starts.

The command writes one JSON file into a folder of the session, and an environment variable names that folder.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torchferry.backends import cuda
from torchferry.backends.operators import NAME
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say
from torchferry.core.system import require_linux
from torchferry.rehearsal.driver.plugin import UNSAID, Shipped, choose
from torchferry.rehearsal.faults import Fault, parse
from torchferry.rehearsal.profile import Profile, make_profile

VARIABLE = "TORCHFERRY_REHEARSAL"
"""Environment variable with the session's folder."""

_FILE = "rehearsal.json"
_GIVEN = "given.json"


@dataclass(frozen=True)
class Rehearsal:
    """One rehearsal.

    Attributes:
        target: Name and version of the target, as on the command line.
        profile: The card.
        faults: What goes wrong on purpose.
        shipped: The plugin as its vendor ships it, on a simulated driver; None for the simulated plugin.
        races: Whether races between streams, and of the host, are looked for.
    """

    target: str
    profile: Profile
    faults: tuple[Fault, ...] = ()
    shipped: Shipped | None = None
    races: bool = False

    def resolved(self) -> Target:
        """Return the target."""
        return Target.named(self.target)

    def write(self, folder: Path) -> None:
        """Write it into a session's folder."""
        document = {
            "target": self.target,
            "profile": parsed_json(self.profile.to_json()),
            "faults": [fault.as_dict() for fault in self.faults],
            "shipped": None if self.shipped is None else asdict(self.shipped),
            "races": self.races,
        }
        (folder / _FILE).write_text(json.dumps(document), encoding="utf-8")


def session_folder() -> Path:
    """Return the session's folder of this process.

    Raises:
        TorchferryError: there is no rehearsal to take part in.
    """
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        raise TorchferryError(
            say("this is the simulated plugin of torchferry, but no rehearsal is running"),
            say("start the program with `torchferry rehearse`, or install the vendor's plugin on the card's machine"),
        )
    return Path(folder)


def prepare(
    target: str,
    card: str,
    devices: int,
    file: Path | None,
    faults: tuple[str, ...],
    plugin: str = UNSAID,
    *,
    beside_card: bool = False,
    fallback: tuple[str, ...] = (),
    races: bool = False,
) -> Rehearsal:
    """Return the rehearsal that was asked for in words.

    A target without a version means the plugin for the torch of this environment.

    Args:
        target: Its name, with a version or without.
        card: Name of a card; empty for the usual one.
        devices: Number of devices; 0 for the usual one.
        file: The user's profile.
        faults: What goes wrong on purpose.
        plugin: As of `driver.plugin.choose`.
        beside_card: Whether a real card is hidden.
        fallback: Operators that run on the CPU.
        races: Whether races are looked for.

    Raises:
        UsageError: a target, card, setting, fault or plugin does not exist.
    """
    require_linux("torchferry rehearse")
    resolved = Target.requested(target)
    named = resolved.version if "@" in target else ""
    shipped = choose(resolved.backend, plugin, named, beside_card=beside_card)
    if shipped is not None:
        resolved = Target(resolved.backend, shipped.version)
    else:
        resolved = resolved.for_installed_torch()
    profile = make_profile(resolved, card, devices, file)
    if fallback:
        if shipped is not None:
            raise UsageError(
                say("--fallback has no effect on the vendor's own plugin, which decides itself what runs on the CPU"),
                say("use `--plugin simulated`, or call torchferry.ops.cpu_fallback in the program"),
            )
        profile = replace(profile, fallback_operators=frozenset(operator_name(each) for each in fallback))
    return Rehearsal(str(resolved), profile, tuple(parse(fault) for fault in faults), shipped, races)


def operator_name(text: str) -> str:
    """Return an operator of the command line without `aten::`: `tril.out` of `op=aten.tril.out`.

    Raises:
        UsageError: it is none of aten.
    """
    name = text.strip().removeprefix("op=")
    for prefix in ("aten::", "aten."):
        name = name.removeprefix(prefix)
    if NAME.fullmatch(name) is None:
        raise UsageError(
            say("--fallback: `{name}` is not an operator of aten", name=text),
            say("write it as {example}", example="aten::tril.out"),
        )
    return name


def read(folder: Path) -> Rehearsal:
    """Return the rehearsal of a session's folder.

    Raises:
        TorchferryError: there is no such file, or it is damaged.
    """
    try:
        document = parsed_json((folder / _FILE).read_text(encoding="utf-8"))
        profile = Profile.from_json(json.dumps(document["profile"]))
        faults = tuple(Fault(**fault) for fault in document["faults"])
        shipped = document.get("shipped")
        shipped = None if shipped is None else Shipped(**shipped)
        return Rehearsal(document["target"], profile, faults, shipped, document.get("races") is True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TorchferryError(
            say(
                "{variable} names {folder}, which contains no rehearsal: {error}",
                variable=VARIABLE,
                folder=folder,
                error=error,
            ),
            say("start the command with `torchferry rehearse`"),
        ) from None


def keep_given(folder: Path) -> None:
    """Write down which of CUDA's devices the command is given, to tell a choice of the program's own from it."""
    (folder / _GIVEN).write_text(json.dumps(os.environ.get(cuda.VISIBLE_DEVICES)), encoding="utf-8")


def given(folder: Path) -> object:
    """Return which of CUDA's devices the command was given; None where the variable was not set.

    Raises:
        OSError, ValueError: the file is not there, or damaged.
    """
    return parsed_json((folder / _GIVEN).read_text(encoding="utf-8"))


def note_verdict(tool: str) -> None:
    """Tell the rehearsal around this process, if any, that a tool found something in a program that ended well.

    The exit code of a tool is then not taken for a failure of the program.
    """
    folder = os.environ.get(VARIABLE, "")
    if folder:
        try:
            (Path(folder) / f"verdict-{os.getpid()}.json").write_text(json.dumps(tool), encoding="utf-8")
        except OSError:
            return  # the tool's own output has its verdict


def verdicts(folder: Path) -> tuple[str, ...]:
    """Return the tools that found something in a program that ended well."""
    return tuple(sorted({_text(path) for path in folder.glob("verdict-*.json")} - {""}))


def _text(path: Path) -> str:
    try:
        return str(parsed_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ""
