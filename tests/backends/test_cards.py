"""Cards are found by the names that people type, agree with their backend, and a malformed file is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.test_operators import acme
from torchferry.backends import registry
from torchferry.backends.card_table import Card, described
from torchferry.backends.cards import cards, default_card, find_card, plain_card
from torchferry.backends.dtype_rules import DTYPE_RULES, DTYPES
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core.errors import UsageError

GOOD = """
    [sources]
    S = "the imaginary plugin's source"
    P = "its manual"
    [plugin]
    prefixes = ["acme"]
    property_names = ["name", "total_memory"]
    keeps_parameter_identity = true
    source = "P"
    [[card]]
    name = "Acme X1"
    aliases = ["X1 Pro"]
    memory = 17179869184
    devices_per_card = 2
    capability = [2, 1]
    properties = { name = "X-1" }
    dtypes = { bfloat16 = "missing" }
    keeps_parameter_identity = false
    source = "S P"
    [[card]]
    name = "Acme X2"
    capability = "none"
    source = "S"
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('source = "S P"', 'source = "S Q"', "source `S Q` is not in [sources]"),
        ('source = "S P"', "", "is not in [sources]"),
        ('source = "P"', "", "[plugin]: source"),
        ('name = "Acme X2"', "", "a card has a `name`"),
        ('name = "Acme X2"', 'name = "X1"', "two cards answer to `x1`"),
        ('aliases = ["X1 Pro"]', 'aliases = "X1 Pro"', "not a list of texts"),
        ("memory = 17179869184", "memory = 0", "not a number above 0"),
        ("memory = 17179869184", 'memory = "16GiB"', "not a number above 0"),
        ("devices_per_card = 2", "devices_per_card = true", "not a number above 0"),
        ("capability = [2, 1]", "capability = [2]", "not [major, minor]"),
        ("capability = [2, 1]", 'capability = "2.1"', "not [major, minor]"),
        ("capability = [2, 1]", "capability = [2, true]", "not [major, minor]"),
        ('name = "X-1"', "names = 1", "`names` is none of name, total_memory"),
        ('name = "X-1"', "name = 1.5", "maps a name to a number or a text"),
        ("bfloat16 =", "bfloat =", "`bfloat` is none of"),
        ('"missing"', '"absent"', "none of missing, narrowed, emulated, limited, native"),
        ("keeps_parameter_identity = false", "keeps_parameter_identity = 0", "not true or false"),
        ("devices_per_card", "devices_a_card", "`devices_a_card` is none of"),
        ("[plugin]", "[plugins]", "`plugins` is none of"),
        ("[[card]]", "[[cards]]", "`cards` is none of"),
        ("[sources]", "[sources", "not TOML"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=r"cards\.toml: ") as caught:
        cards(acme(tmp_path, GOOD.replace(old, new), "cards.toml"))
    assert says in str(caught.value)


def test_a_file_without_cards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \[\[card\]\]"):
        cards(acme(tmp_path, "[sources]\n", "cards.toml"))


def test_a_user_s_backend_brings_its_own_cards(tmp_path: Path) -> None:
    backend = acme(tmp_path, GOOD, "cards.toml")
    backend.DTYPES = {"bfloat16": "limited", "float64": "narrowed"}
    backend.DEVICES_PER_CARD = 4
    first, second = cards(backend)
    assert first == Card(
        name="Acme X1",
        aliases=("X1 Pro",),
        memory=16 << 30,
        devices_per_card=2,
        capability=(2, 1),
        property_names=("name", "total_memory"),
        properties={"name": "X-1"},
        dtypes={"bfloat16": "missing", "float64": "narrowed"},
        keeps_parameter_identity=False,
        source="the imaginary plugin's source; its manual",
    )
    assert second.capability is None
    assert second.memory is UNKNOWN
    assert second.devices_per_card == 4
    assert second.keeps_parameter_identity is True
    assert default_card(backend) == first
    plain = plain_card(backend, "Acme X9")
    assert (plain.name, plain.memory, plain.capability) == ("Acme X9", UNKNOWN, UNKNOWN)
    assert plain.property_names == ("name", "total_memory")
    assert plain.dtypes == backend.DTYPES


def test_native_takes_the_backend_s_rule_away(tmp_path: Path) -> None:
    backend = acme(tmp_path, GOOD.replace('"missing"', '"native"'), "cards.toml")
    backend.DTYPES = {"bfloat16": "limited"}
    assert cards(backend)[0].dtypes == {}
    assert cards(backend)[1].dtypes == {"bfloat16": "limited"}


def test_without_a_file_the_cards_that_the_backend_names_are_there(tmp_path: Path) -> None:
    backend = acme(tmp_path, None)
    assert cards(backend) == ()
    assert default_card(backend).name == "Acme Cards"
    backend.CARDS = ("X1", "X2")
    backend.CARD_MEMORY = {"X1": 1024}
    assert [(card.name, card.memory) for card in cards(backend)] == [("X1", 1 << 30), ("X2", UNKNOWN)]
    assert find_card(backend, "x2").name == "X2"


@pytest.mark.parametrize(
    ("target", "text", "near"),
    [
        ("musa", "S400", "S4000"),
        ("musa", "", ""),
        ("npu", "Ascend", ""),
        ("gcu", "S6O", "S60"),
        ("ptex", "T200", "T20"),
        ("sdaa", "T101", "T1"),
    ],
)
def test_an_unknown_card_is_an_error_that_names_the_nearest(target: str, text: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_card(registry.load(target), text)
    assert caught.value.message.render("en") == f"unknown card `{text}`"
    assert caught.value.advice is not None
    advice = caught.value.advice.render("en")
    assert advice.startswith(f"did you mean `{near}" if near else ("known: ", "did you mean"))


@pytest.mark.parametrize(
    ("target", "text", "name"),
    [
        ("npu", "910B", "Ascend 910B"),
        ("npu", "Ascend910B", "Ascend 910B"),
        ("npu", "ascend-910b3", "Ascend 910B3"),
        ("npu", "Huawei 910B4", "Ascend 910B4"),
        ("musa", "s80", "MTT S80"),
        ("musa", "MTT-S4000", "MTT S4000"),
        ("musa", " mtt s5000 ", "MTT S5000"),
        ("gcu", "s60", "Enflame S60"),
        ("gcu", "enflame_l600", "Enflame L600"),
        ("ptex", "t20", "Enflame T20"),
        ("ptex", "云燧 i20", "Enflame i20"),
        ("sdaa", "teco_aicard_01", "TECO_AICARD_01"),
        ("sdaa", "T110", "TECO_AICARD_01"),
    ],
)
def test_cards_answer_to_what_people_type(target: str, text: str, name: str) -> None:
    assert find_card(registry.load(target), text).name == name


@pytest.mark.parametrize("target", [name for name in registry.built_in() if described(registry.load(name))])
def test_cards_agree_with_their_backend(target: str) -> None:
    backend = registry.load(target)
    assert default_card(backend) == cards(backend)[0]
    for name in backend.CARDS:
        find_card(backend, name)
    for card in cards(backend):
        # The plugin may show a program less than the vendor's tool shows of the card, and never more.
        if not isinstance(card.memory, Unknown) and not isinstance(card.tool_memory, Unknown):
            assert 0.8 * card.tool_memory <= card.memory < card.tool_memory
        assert card.source
        assert card.dtypes.keys() <= set(DTYPES)
        assert set(card.dtypes.values()) <= set(DTYPE_RULES)


@pytest.mark.parametrize(
    ("target", "card", "memory", "devices", "capability", "identity"),
    [
        ("npu", "910B", 64 << 30, 1, None, True),
        ("npu", "910B4", 32 << 30, 1, None, True),
        ("musa", "S80", 16 << 30, 1, (2, 1), True),
        ("musa", "S4000", 48 << 30, 1, (2, 2), True),
        ("musa", "S5000", 80 << 30, 1, (3, 1), True),
        ("gcu", "S60", 43878764544, 1, (3, 0), True),
        ("gcu", "L600", UNKNOWN, 1, UNKNOWN, True),
        ("sdaa", "T100", 15296 << 20, 4, UNKNOWN, UNKNOWN),
        ("ptex", "T20", UNKNOWN, 1, None, UNKNOWN),
        ("ptex", "i20", 16 << 30, 1, None, UNKNOWN),
    ],
)
def test_what_is_known_of_the_cards(
    target: str, card: str, memory: object, devices: object, capability: object, identity: object
) -> None:
    found = find_card(registry.load(target), card)
    assert (found.memory, found.devices_per_card) == (memory, devices)
    assert (found.capability, found.keeps_parameter_identity) == (capability, identity)


@pytest.mark.parametrize(
    ("target", "card", "dtype", "rule"),
    [
        ("musa", "S80", "bfloat16", "missing"),
        ("musa", "S4000", "bfloat16", None),
        ("musa", "S80", "float64", "limited"),
        ("gcu", "S60", "int64", "narrowed"),
        ("gcu", "S60", "complex128", "narrowed"),
        ("npu", "910B", "bfloat16", None),
        ("npu", "910B", "float64", "limited"),
        ("sdaa", "T100", "bfloat16", "emulated"),
        ("ptex", "T20", "float64", "narrowed"),
    ],
)
def test_what_is_known_of_the_dtypes(target: str, card: str, dtype: str, rule: str | None) -> None:
    assert find_card(registry.load(target), card).dtypes.get(dtype) == rule
