"""The torch and the plugin that a project gets on a target: one row of the vendor's table of versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from torchferry.backends.tables import Row, normalised, plugin_versions
from torchferry.backends.target import Target
from torchferry.core.messages import Bilingual, Message, say
from torchferry.core.record import NamedTuple
from torchferry.source.requirements import specifier_set


class Stack(NamedTuple):
    """A torch with what makes the device known to it.

    Attributes:
        torch: Version of torch, such as `2.7.1`; empty where the vendor's table has none.
        plugins: Distributions with their versions, such as `torch-npu==2.7.1.post8`.
        reason: Why these.
        decision: Whether a person has to agree, since the project requests another torch.
        note: What the table says about this pair.
    """

    torch: str
    plugins: tuple[str, ...]
    reason: Message
    decision: bool = False
    note: Bilingual | None = None

    @property
    def plugin_versions(self) -> tuple[str, ...]:
        """The versions of the plugins alone."""
        return tuple(plugin.partition("==")[2] for plugin in self.plugins)


def pairs(target: Target) -> Iterator[tuple[str, str]]:
    """Yield each torch with a version of the plugin that belongs to it, newest torch first."""
    for row in _rows(target):
        if normalised(row.use.partition("==")[0]) in _names(target):
            yield from ((_version_of(row), version) for version in plugin_versions(row))


def stack(target: Target, specifiers: Iterable[str]) -> Stack:
    """Choose the torch and the plugin.

    A version of the plugin that the user names decides. Otherwise it is the newest torch that the project allows; where
    the vendor has none of these, the nearest newer one, which a person has to agree to, and else the nearest older one.

    Args:
        target: The target; its version is that of the plugin, where the user named one.
        specifiers: What the project's lists ask of torch, such as `>=2.5.1` or `==2.4.1+cu121`.
    """
    rows = _rows(target)
    texts = tuple(specifiers)
    wanted = _specifiers(texts)
    if not rows:
        return Stack("", (), say("no versions of {target} are known", target=target.title), True)
    if target.version:
        named = [row for row in rows if _is_of(target, row, target.version)]
        if named:
            torch = _version_of(named[0])
            allowed = _allows(wanted, torch)
            reason = say("the torch of the named plugin version {version}", version=target.version)
            if not allowed:
                reason = say(
                    "the torch of the named plugin version {version}; the project asks for torch{wanted}",
                    version=target.version,
                    wanted=wanted,
                )
            return _of(rows, torch, reason, not allowed)._replace(plugins=_exactly(target, rows, torch))
    alternatives = [each for each in (_specifiers([text]) for text in dict.fromkeys(texts)) if str(each)]
    by_marker = [row for row in rows if any(_allows(each, _version_of(row)) for each in alternatives)]
    if len(alternatives) > 1 and by_marker and not any(_allows(wanted, _version_of(row)) for row in rows):
        torch = _version_of(by_marker[0])
        reason = say(
            "the project asks for several, `torch{wanted}`; {torch} is the newest of them that has a plugin",
            wanted=wanted,
            torch=torch,
        )
        return _of(rows, torch, reason, True)
    fitting = [row for row in rows if _allows(wanted, _version_of(row))]
    if fitting:
        torch = _version_of(fitting[0])
        if not str(wanted):
            return _of(rows, torch, say("the newest torch of which a plugin is known; the project names no version"))
        return _of(
            rows, torch, say("the newest torch with a plugin that the project's `torch{wanted}` allows", wanted=wanted)
        )
    asked = _numbers(wanted)
    newer = [row for row in reversed(rows) if asked is not None and Version(_version_of(row)) > asked]
    older = [row for row in rows if asked is not None and Version(_version_of(row)) <= asked]
    same = [row for row in (*newer, *older) if asked is not None and _torch(row).release[:2] == asked.release[:2]]
    nearest = _torch((same or newer or older or rows)[0])
    reason = say(
        "the project asks for `torch{wanted}`, for which no plugin is known; {nearest} is the nearest that has one",
        wanted=wanted,
        nearest=nearest,
    )
    return _of(rows, str(nearest), reason, True)


def _rows(target: Target) -> list[Row]:
    """Return the rows that somebody verified, newest torch first."""
    rows = [row for row in target.backend.table("versions") if row.use and row.status != "unknown"]
    return sorted(rows, key=_torch, reverse=True)


def _version_of(row: Row) -> str:
    return row.name.partition("==")[2]


def _torch(row: Row) -> Version:
    return Version(_version_of(row))


def _names(target: Target) -> set[str]:
    names = {normalised(target.backend.PLUGIN)}
    if isinstance(target.backend.PIP_NAME, str):
        names.add(normalised(target.backend.PIP_NAME))
    return names


def _is_of(target: Target, row: Row, version: str) -> bool:
    """Whether a row speaks of a version of the plugin, or of its release over another toolkit."""
    distribution, _, plugin = row.use.partition("==")
    if normalised(distribution) not in _names(target):
        return False
    return version in plugin_versions(row) or Version(version).release == Version(plugin).release


def _exactly(target: Target, rows: list[Row], torch: str) -> tuple[str, ...]:
    """Return the plugins for a torch, that of the target in the version which the user named."""
    return tuple(
        f"{plugin.partition('==')[0]}=={target.version}" if _is_of(target, row, target.version) else plugin
        for row in rows
        for plugin in [row.use]
        if _torch(row) == Version(torch)
    )


def _of(rows: list[Row], torch: str, reason: Message, decision: bool = False) -> Stack:
    chosen = [row for row in rows if _torch(row) == Version(torch)]
    return Stack(torch, tuple(row.use for row in chosen), reason, decision, chosen[0].remark)


def _specifiers(texts: Iterable[str]) -> SpecifierSet:
    """Return what all lists together ask; what cannot be read is left out."""
    found = SpecifierSet()
    for asked in filter(None, map(specifier_set, texts)):
        found &= asked
    return found


def _allows(wanted: SpecifierSet, version: str) -> bool:
    return wanted.contains(version, prereleases=True)


def _numbers(wanted: SpecifierSet) -> Version | None:
    """Return the version that some specifiers name first."""
    for specifier in sorted(wanted, key=lambda one: (one.operator != "==", one.operator != "~=", one.version)):
        try:
            return Version(specifier.version.rstrip(".*"))
        except InvalidVersion:  # noqa: PERF203 - few specifiers
            continue
    return None
