"""The table of a backend's cards, `cards.toml`: one record a card, of which the first one is the default::

[sources]
SRC = "the plugin's source"

[plugin]                                # what holds for every card of the plugin
prefixes = ["acme"]                     # words that a user may or may not write before a card's name
property_names = ["name", "total_memory"]
none_properties = ["major"]             # those of them that are there and always None
keeps_parameter_identity = true
devices_per_card = 1                    # absent: cards differ, or it is not known
source = "SRC"

[[card]]
name = "Acme X1"
aliases = ["X1", "X1 Pro"]
memory = 17179869184                    # bytes of one device, as a program sees them
tool_memory = 17716740096               # as the management tool shows them; absent: as `memory`
devices_per_card = 1                    # absent: as [plugin] says
capability = [2, 1]                     # or "none": the plugin answers None, or has no such function
properties = { name = "X1" }            # known values; what is absent is unknown
dtypes = { bfloat16 = "missing" }       # instead of the backend's; "native" takes its rule away
overflow = "saturates"                  # of float16, one of OVERFLOWS; absent: not known
source = "SRC"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.backends.dtype_rules import DTYPE_RULES, DTYPES, NATIVE
from torchferry.backends.unknown import UNKNOWN, Unknown

OVERFLOWS = ("inf", "saturates")
"""What becomes of a float16 result that is too large: infinity, or the largest number, where a nan becomes 0 too."""


@dataclass(frozen=True)
class Card:
    """One card, as the plugin shows it.

    Attributes:
        name: Full name.
        aliases: Short names that a user types.
        memory: Bytes of one device, as a program sees them.
        tool_memory: Bytes of one device, as the vendor's management tool shows them; a program may get fewer.
        devices_per_card: How many torch devices one card shows up as.
        capability: (major, minor) of `get_device_capability`; None where the plugin answers None
            or has no such function.
        property_names: Fields that `get_device_properties` has on this plugin.
        properties: Known values of such fields, beside those that `memory` and `capability` give. A field
            without a value is unknown.
        none_properties: Fields that the plugin has and never sets, so that they are None.
        dtypes: Rules for dtypes that differ from CUDA: the backend's, with the card's own in their place.
        keeps_parameter_identity: Whether `module.to(device)` keeps the Parameter objects, as it does on CUDA.
            Where it makes new ones, tied weights come apart and an optimizer made before trains nothing.
        source: Where the facts come from, in full.
        overflow: One of `OVERFLOWS`.
    """

    name: str
    aliases: tuple[str, ...] = ()
    memory: int | Unknown = UNKNOWN
    devices_per_card: int | Unknown = UNKNOWN
    capability: tuple[int, int] | None | Unknown = UNKNOWN
    property_names: tuple[str, ...] | Unknown = UNKNOWN
    none_properties: tuple[str, ...] = ()
    properties: Mapping[str, int | str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    keeps_parameter_identity: bool | Unknown = UNKNOWN
    source: str = ""
    tool_memory: int | Unknown = UNKNOWN
    overflow: str | Unknown = UNKNOWN


def described(backend: type[DataOwner]) -> tuple[Card, ...]:
    """Return the cards of the backend's `cards.toml`, each with what is there alone; without a file, none."""
    path = data_file(backend, "cards.toml")
    return () if path is None else _read(path)[1]


def card_key(text: str, prefixes: tuple[str, ...]) -> str:
    """Return `text` without what users spell differently: case, spaces, dashes, the family's name."""
    bare = re.sub(r"[\s_-]+", "", text.casefold())
    for prefix in prefixes:
        if bare.startswith(prefix) and bare != prefix:
            return bare[len(prefix) :]
    return bare


@dataclass(frozen=True)
class PluginFacts:
    """What holds for every card of a plugin; the fields mean what they mean in `Card`."""

    prefixes: tuple[str, ...] = ()
    property_names: tuple[str, ...] | Unknown = UNKNOWN
    none_properties: tuple[str, ...] = ()
    keeps_parameter_identity: bool | Unknown = UNKNOWN
    devices_per_card: int | Unknown = UNKNOWN
    source: str = ""


def plugin_of(backend: type[DataOwner]) -> PluginFacts:
    """Return what `[plugin]` of the backend's `cards.toml` says; without a file, nothing."""
    path = data_file(backend, "cards.toml")
    return PluginFacts() if path is None else _read(path)[0]


@lru_cache(maxsize=64)
def _read(path: Path) -> tuple[PluginFacts, tuple[Card, ...]]:
    file = DataFile(path)
    file.check_keys(file.document, frozenset({"sources", "plugin", "card"}), "top")
    plugin = _plugin(file)
    cards = tuple(_card(file, entry, plugin) for entry in file.tables("card"))
    if not cards:
        raise file.wrong("no [[card]]")
    keys = [key for card in cards for key in {card_key(name, plugin.prefixes) for name in (card.name, *card.aliases)}]
    for key in keys:
        if keys.count(key) > 1:
            raise file.wrong(f"two cards answer to `{key}`")
    return plugin, cards


_OF_ALL = ("property_names", "keeps_parameter_identity", "devices_per_card")


def _plugin(file: DataFile) -> PluginFacts:
    table = file.table("plugin")
    if not table:
        return PluginFacts()
    where = "[plugin]"
    file.check_keys(table, frozenset({"prefixes", "none_properties", *_OF_ALL, "source"}), where)
    names = file.texts(table, "property_names", where)
    none = file.texts(table, "none_properties", where)
    if not set(none) <= set(names):
        raise file.wrong(f"{where}: `none_properties` has names that `property_names` lacks")
    return PluginFacts(
        prefixes=tuple(card_key(prefix, ()) for prefix in file.texts(table, "prefixes", where)),
        property_names=names if "property_names" in table else UNKNOWN,
        none_properties=none,
        keeps_parameter_identity=_flag(file, table, "keeps_parameter_identity", where),
        devices_per_card=_count(file, table, "devices_per_card", where),
        source=file.cited(table, where) if "source" in table or table.keys() - {"prefixes"} else "",
    )


_CARD = frozenset(
    {
        "name",
        "aliases",
        "memory",
        "tool_memory",
        "devices_per_card",
        "capability",
        "properties",
        "dtypes",
        "overflow",
        "source",
    }
)


def _card(file: DataFile, entry: dict[str, Any], plugin: PluginFacts) -> Card:
    where = f"[[card]] {entry.get('name', '')}"
    file.check_keys(entry, _CARD | {"keeps_parameter_identity"}, where)
    name = file.text(entry, "name", where)
    if not name:
        raise file.wrong(f"{where}: a card has a `name`")
    own = _flag(file, entry, "keeps_parameter_identity", where)
    return Card(
        name=name,
        aliases=file.texts(entry, "aliases", where),
        memory=_count(file, entry, "memory", where),
        devices_per_card=_count(file, entry, "devices_per_card", where),
        capability=_capability(file, entry, where),
        property_names=plugin.property_names,
        none_properties=plugin.none_properties,
        properties=_properties(file, entry, plugin, where),
        dtypes=_dtypes(file, entry, where),
        keeps_parameter_identity=plugin.keeps_parameter_identity if isinstance(own, Unknown) else own,
        source=file.cited(entry, where),
        tool_memory=_count(file, entry, "tool_memory", where),
        overflow=_overflow(file, entry, where),
    )


def _flag(file: DataFile, table: dict[str, Any], key: str, where: str) -> bool | Unknown:
    value = table.get(key, UNKNOWN)
    if not isinstance(value, (bool, Unknown)):
        raise file.wrong(f"{where}: `{key}` is {value!r}, not true or false")
    return value


def _count(file: DataFile, entry: dict[str, Any], key: str, where: str) -> int | Unknown:
    value = entry.get(key, UNKNOWN)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise file.wrong(f"{where}: `{key}` is {value!r}, not a number above 0")
    return value


def _overflow(file: DataFile, entry: dict[str, Any], where: str) -> str | Unknown:
    value = entry.get("overflow", UNKNOWN)
    if not isinstance(value, Unknown) and value not in OVERFLOWS:
        raise file.wrong(f"{where}: `overflow` is {value!r}, none of {', '.join(OVERFLOWS)}")
    return value  # type: ignore[no-any-return]


def _capability(file: DataFile, entry: dict[str, Any], where: str) -> tuple[int, int] | None | Unknown:
    value = entry.get("capability", UNKNOWN)
    if isinstance(value, Unknown):
        return value
    if value == "none":
        return None
    if isinstance(value, list) and len(value) == 2 and all(type(part) is int and part >= 0 for part in value):
        return value[0], value[1]
    raise file.wrong(f'{where}: `capability` is {value!r}, not [major, minor] or "none"')


def _properties(file: DataFile, entry: dict[str, Any], plugin: PluginFacts, where: str) -> dict[str, int | str]:
    value = entry.get("properties", {})
    if not isinstance(value, dict) or not all(type(item) in (int, str) for item in value.values()):
        raise file.wrong(f"{where}: `properties` maps a name to a number or a text")
    if not isinstance(plugin.property_names, Unknown):
        file.check_keys(value, frozenset(plugin.property_names), f"{where}: properties")
    return value


def _dtypes(file: DataFile, entry: dict[str, Any], where: str) -> dict[str, str]:
    own = entry.get("dtypes", {})
    if not isinstance(own, dict):
        raise file.wrong(f"{where}: `dtypes` maps a dtype to a rule")
    file.check_keys(own, frozenset(DTYPES), f"{where}: dtypes")
    for dtype, rule in own.items():
        if rule not in (*DTYPE_RULES, NATIVE):
            raise file.wrong(f"{where}: the rule for {dtype} is {rule!r}, none of {', '.join((*DTYPE_RULES, NATIVE))}")
    return own
