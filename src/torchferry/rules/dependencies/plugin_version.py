"""A plugin of the target that is pinned for another torch than its list or its command asks for.

Each version of a plugin is built for one torch. The target's table says for which; where a vendor numbers its plugin as
torch, the number itself says so. What a list includes with `-r` and `-c` counts too. A list that asks for several
versions of torch, for several machines, is right if one of them is the plugin's. A pair that nobody has verified, such
as one with a commit of torch, is to be tried on the card. A plugin without a version is left to the installer.

Why: The installer refuses the list, or the plugin does not load: its library is linked with another torch.

References:
- table versions
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchferry.backends.plugin_versions import distribution_of, distributions, minor, torch_of_plugin
from torchferry.backends.tables import Row, normalised
from torchferry.backends.target import Target
from torchferry.core.files import read_text
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Options, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, is_of_service, prints_text
from torchferry.rules.dependencies.listed import LIST_KINDS, requirements_of
from torchferry.source.kinds import Kind
from torchferry.source.requirements import Requirement, in_command, in_lines, included, specifier_set

_PINNED = lazy_regex(r"={0,3}[ \t]*v?(?P<version>\d[\w.!]*(?:\+[\w.]+)?)(?:=[\w.*]+)?[ \t]*\Z")
"""A version alone is Poetry's; what follows a second `=` is the build of conda."""
_START = lazy_regex(r"=[ \t]*\d")
"""One `=`, of conda: any version that begins so."""
_CARET = lazy_regex(r"(?P<sign>[\^~])[ \t]*v?(?P<version>\d[\w.]*)\Z")
"""Poetry's `^2.1`, below 3, and `~2.1`, below 2.2."""

_LARGEST = 300_000
"""Bytes of an included list that is read."""
_MOST_INCLUDED = 20
"""Lists that one list may include, by way of others too."""


class PluginVersion(Rule):
    """Finds pins of the plugin that no torch of the list belongs to."""

    CODE = "DEP107"
    EFFECT = Effect.RAISES
    ANSWERS = (say("pin the plugin of this torch"), say("pin the torch of this plugin"))
    KINDS = (*LIST_KINDS, *JOB_KINDS)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The names of the plugin, as files spell them."""
        names = distributions(target.backend)
        return tuple(dict.fromkeys(spelt for name in names for spelt in (name, name.replace("-", "_"))))

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each pin of the plugin that fits no torch of its list, or of its command."""
        if context.kind in (Kind.YAML, Kind.COMPOSE) and is_of_service(context.path):
            return  # its machines are not the target
        for listed in _lists(context):
            yield from self._of_list(context, listed)

    def _of_list(self, context: Context, listed: Sequence[Requirement]) -> Iterator[Finding]:
        backend = context.target.backend
        plugins = {normalised(name): name for name in distributions(backend)}
        pins = [(each, pin) for each in listed if each.name in plugins and (pin := _pinned(each.specifier))]
        if not pins:
            return
        lists = list(_included(context))
        further = [each for _, text in lists if text is not None for each in in_lines(text)]
        torches = [each.specifier for each in (*listed, *further) if each.name in ("torch", "pytorch")]
        asked = list(dict.fromkeys(text for text in torches if text))
        if context.kind in _WITH_EXTRAS and "" in torches:
            return  # another extra may ask for it without a version, which leaves it to the installer
        unread = [name for name, text in lists if text is None] if not asked else []
        for plugin, version in pins:
            rows = [row for row in backend.table("versions") if normalised(distribution_of(row)) == plugin.name]
            if asked:
                yield from self._judged(context, plugin, version, rows, asked)
            elif unread:
                yield self._unread(context, plugin, version, rows, unread)

    def _judged(
        self, context: Context, plugin: Requirement, version: str, rows: Sequence[Row], asked: Sequence[str]
    ) -> Iterator[Finding]:
        span = (plugin.start, plugin.line_end)
        values = {
            "plugin": f"{distribution_of(rows[0])}=={version}",
            "torch": " ".join(f"torch{_shown(each)}" for each in asked),
        }
        wanted = torch_of_plugin(rows, version)
        answers = [_allows(each, torch) for each in asked for torch in wanted]
        if True in answers:
            return
        if not wanted or None in answers:
            message = say(
                "nobody has verified `{plugin}` with `{torch}`: {answer}",
                answer=say("import both on the card's machine, or pin a pair that the vendor names"),
                **values,
            )
            yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
            return
        values["wanted"] = ", ".join(wanted) if len(wanted) <= _FEW else ".".join(map(str, minor(version)))
        verified = [row for row in rows if row.status != "unknown"]
        fitting = [row for row in verified if any(_allows(each, row.name.partition("==")[2]) for each in asked)]
        message = say(
            "`{plugin}` is built for torch {wanted}, and the list asks for `{torch}`, of which no plugin is known: "
            "{answer}",
            answer=self.ANSWERS[1],
            **values,
        )
        if fitting:
            message = say(
                "`{plugin}` is built for torch {wanted}, and the list asks for `{torch}`, whose plugin is `{fitting}`",
                fitting=fitting[0].use,
                **values,
            )
        yield self.finding(context, span, message, Grade.MANUAL)

    def _unread(
        self, context: Context, plugin: Requirement, version: str, rows: Sequence[Row], lists: Sequence[str]
    ) -> Finding:
        """Return the finding for a plugin whose torch only a list that was not read may name."""
        message = say(
            "`{plugin}` needs the torch it was built for, and this list includes `{lists}`, which {program} did not "
            "read: look which torch it asks for",
            plugin=f"{distribution_of(rows[0])}=={version}",
            lists=", ".join(_without_address(each) for each in lists),
            program="torchferry",
        )
        return self.finding(context, (plugin.start, plugin.line_end), message, Grade.MANUAL, effect=Effect.UNKNOWN)


_WITH_EXTRAS = (Kind.PYPROJECT, Kind.SETUP_CFG)


def _lists(context: Context) -> Iterator[list[Requirement]]:
    """Yield what is installed at once: a file that lists requirements, or each command that installs some."""
    if context.kind in LIST_KINDS:
        yield list(requirements_of(context))
        return
    for command in commands_of(context):
        if not prints_text(command):
            yield list(in_command(command))


_FEW = 3
"""As many versions of torch are named one by one."""


def _pinned(specifier: str) -> str:
    """Return the version that a requirement pins, also by the name of a wheel; empty for none."""
    from packaging.version import Version  # imported late: few lists have the plugin

    match = _PINNED.match(specifier.strip("() "))
    version = _of_wheel(specifier) if match is None else match["version"].rstrip(".")
    try:
        return version if version and Version(version) else ""
    except ValueError:  # also a number of more digits than Python reads
        return ""


def _shown(specifier: str) -> str:
    """Return a requirement as a message has it: of a wheel the version alone, since an address may hold a password."""
    if "@" not in specifier and "/" not in specifier and ".whl" not in specifier:
        return specifier
    version = _of_wheel(specifier)
    return f"=={version}" if version else ""


def _without_address(path: str) -> str:
    """Return the name of a list; of an address the end alone, since it may hold a password."""
    return path.partition("#")[0].partition("?")[0].rpartition("/")[2] if "://" in path else path


def _of_wheel(specifier: str) -> str:
    """Return the version in the name of a wheel, which a path or an address may lead to; empty for none."""
    name = specifier.partition("#")[0].partition("?")[0].rpartition("/")[2].strip()
    parts = name.removesuffix(".whl").split("-")
    return parts[1].replace("%2B", "+") if name.endswith(".whl") and len(parts) >= _PARTS_OF_WHEEL else ""


_PARTS_OF_WHEEL = 5
"""Name, version, Python, ABI and platform (PEP 427)."""


def _allows(asked: str, version: str) -> bool | None:
    """Whether a requirement of torch takes a version; None where it cannot be read, such as a commit of git."""
    from packaging.version import Version  # imported late, as above

    if _START.match(asked):
        asked = "==" + asked.lstrip("= \t").partition("=")[0].rstrip(".*") + ".*"
    pin = _pinned(asked).partition("+")[0]
    if pin:
        return Version(pin) == Version(version)
    caret = _CARET.match(asked)
    if caret is not None and (first := _pinned(caret["version"])):
        numbers = Version(first).release[: 1 if caret["sign"] == "^" else 2]
        return Version(version) >= Version(first) and Version(version).release[: len(numbers)] == numbers
    allowed = specifier_set(asked)
    return allowed.contains(version, prereleases=True) if allowed is not None else None


def _included(context: Context) -> Iterable[tuple[str, str | None]]:
    if context.kind is not Kind.REQUIREMENTS or context.project is None:
        return ()
    return included_lists(context.project.root, context.path, context.text)


def included_lists(root: Path, path: str, text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each list that a requirements file includes, by way of others too, with its text.

    The text is None where the list was not read: an address, a file outside of the project, missing, too large, behind
    a link, or behind too many others.

    Args:
        root: The project's folder.
        path: The requirements file, relative to it.
        text: Its text.
    """
    waiting = [(path, text)]
    seen = {path}
    while waiting:
        for inner, _ in included(*waiting.pop()):
            if inner in seen:
                continue
            seen.add(inner)
            included_text = _text_of(root, inner) if len(seen) <= _MOST_INCLUDED else None
            yield inner, included_text
            if included_text is not None:
                waiting.append((inner, included_text))


def _text_of(root: Path, path: str) -> str | None:
    if "://" in path or path.startswith("../") or os.path.isabs(path):
        return None
    try:
        if os.path.realpath(root / path) != os.path.join(os.path.realpath(root), *path.split("/")):
            return None
        return read_text(root / path, _LARGEST, errors="replace")
    except (OSError, ValueError):  # a name that no file can have is one
        return None
