"""The cards of a backend: what one device of each looks like to a program."""

from __future__ import annotations

from dataclasses import replace

from torchferry.backends.base import Backend
from torchferry.backends.card_table import Card, card_key, described, plugin_of
from torchferry.backends.datafile import data_file
from torchferry.backends.dtype_rules import NATIVE
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.errors import unknown_name


def cards(backend: type[Backend]) -> tuple[Card, ...]:
    """Return the cards that are described, the default one first; without a `cards.toml`, those the backend names.

    Raises:
        ValueError: the file lacks a field, has one it should not have, or cites a source it does not name.
    """
    if data_file(backend, "cards.toml") is None:
        return tuple(_named_only(backend, name) for name in backend.CARDS)
    return tuple(_completed(card, backend) for card in described(backend))


def default_card(backend: type[Backend]) -> Card:
    """Return the card that is meant when a user names none."""
    described_cards = cards(backend)
    return described_cards[0] if described_cards else plain_card(backend)


def plain_card(backend: type[Backend], name: str = "") -> Card:
    """Return a card of which only what holds for every card of the plugin is known."""
    plugin = plugin_of(backend)
    return Card(
        name=name or backend.TITLE,
        devices_per_card=backend.DEVICES_PER_CARD,
        property_names=plugin.property_names,
        none_properties=plugin.none_properties,
        dtypes=dict(backend.DTYPES),
        keeps_parameter_identity=plugin.keeps_parameter_identity,
        source=plugin.source,
    )


def find_card(backend: type[Backend], text: str) -> Card:
    """Return the card called `text`: its name or an alias, in any case, with or without the family's name.

    Raises:
        UsageError: no card has this name; the nearest known one is suggested.
    """
    prefixes = plugin_of(backend).prefixes
    wanted = card_key(text, prefixes)
    described_cards = cards(backend)
    for card in described_cards:
        if wanted in {card_key(name, prefixes) for name in (card.name, *card.aliases)}:
            return card
    raise unknown_name("card", text, [name for card in described_cards for name in (card.name, *card.aliases)])


def _completed(card: Card, backend: type[Backend]) -> Card:
    """Return a card of the file with what the backend says of all its cards."""
    devices = card.devices_per_card
    return replace(
        card,
        devices_per_card=backend.DEVICES_PER_CARD if isinstance(devices, Unknown) else devices,
        dtypes={dtype: rule for dtype, rule in {**backend.DTYPES, **card.dtypes}.items() if rule != NATIVE},
    )


def _named_only(backend: type[Backend], name: str) -> Card:
    mebibytes = backend.CARD_MEMORY.get(name)
    return Card(
        name=name,
        memory=UNKNOWN if mebibytes is None else mebibytes << 20,
        devices_per_card=backend.DEVICES_PER_CARD,
        dtypes=dict(backend.DTYPES),
        source=backend.source_of("CARDS"),
    )
