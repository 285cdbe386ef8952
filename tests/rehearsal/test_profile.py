"""A profile says what the facts say, a user's file changes it, and a file that does not fit is one clear error."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backends.test_operators import TARGETS, acme
from torchferry.backends import registry
from torchferry.backends.cards import cards
from torchferry.backends.dtype_rules import DTYPE_RULES, DTYPES
from torchferry.backends.target import Target
from torchferry.core.errors import UsageError
from torchferry.rehearsal.profile import MOST_DEVICES, ROUNDINGS, Profile, make_profile


def target(name: str, version: str = "") -> Target:
    return Target(registry.load(name), version)


def profile(folder: Path, text: str, name: str = "musa", card: str = "") -> Profile:
    """Return the profile for a user's file with this text."""
    path = folder / "card.toml"
    path.write_text(text, encoding="utf-8")
    return make_profile(target(name), card, file=path)


@pytest.mark.parametrize(
    ("text", "says", "advises"),
    [
        ("memroy = 3", "unknown setting `memroy`", "did you mean `memory`?"),
        ("device = 3", "unknown setting `device`", "did you mean `devices`?"),
        ("nonsense = 3", "unknown setting `nonsense`", "known: "),
        ("[operators]\nmissing = []", "unknown setting `operators`", ""),
        ("memory = 0", "`memory` is 0; write a size such as", ""),
        ("memory = -5", "`memory` is -5; write a size such as", ""),
        ("memory = true", "`memory` is True; write a size such as", ""),
        ('memory = "64"', "`memory` is '64'; write a size such as", ""),
        ('memory = "64 gallons"', "`memory` is '64 gallons'; write a size such as", ""),
        ('memory = "-1GiB"', "`memory` is '-1GiB'; write a size such as", ""),
        ('memory = "٣GiB"', "`memory` is '٣GiB'; write a size such as", ""),
        (f'memory = "{"9" * 400}TB"', "write a size such as", ""),
        ("memory = 1.5", "`memory` is 1.5; write a size such as", ""),
        ("devices = 0", "`devices` is 0; write a number from 1 to 16", ""),
        ("devices = 17", "`devices` is 17; write a number from 1 to 16", ""),
        ('devices = "2"', "`devices` is '2'; write a number from 1 to 16", ""),
        ("devices = true", "`devices` is True; write a number from 1 to 16", ""),
        ("capability = 8", '`capability` is 8; write [8, 0] or "none"', ""),
        ("capability = [8, 0, 0]", '`capability` is [8, 0, 0]; write [8, 0] or "none"', ""),
        ("capability = [8, -1]", '`capability` is [8, -1]; write [8, 0] or "none"', ""),
        ('fallback = "cpu"', '`fallback` is \'cpu\'; write one of "error", "warn", "silent"', ""),
        ('fallback = ["error"]', "`fallback` is ['error']; write one of", ""),
        ('matmul_rounding = "bf16"', '`matmul_rounding` is \'bf16\'; write one of "", "tf32", "hf32"', ""),
        ('keeps_parameter_identity = "yes"', "`keeps_parameter_identity` is 'yes'; write true or false", ""),
        ("card = 80", "`card` is 80; write a name in quotes", ""),
        ('card = " "', "`card` is ' '; write a name in quotes", ""),
        ('extends = "S900000"', "unknown card `S900000`", ""),
        ('extends = "S400"', "unknown card `S400`", "did you mean `S4000`?"),
        ('missing = "add"', "`missing` is 'add'; write a list of operators such as", ""),
        ("missing = [3]", "`missing` is [3]; write a list of operators such as", ""),
        ('missing = ["torch.add()"]', "`missing` is 'torch.add()'; write a list of operators such as", ""),
        ("dtypes = 3", "`dtypes` is 3; write a table such as", ""),
        ('[dtypes]\nfloat46 = "missing"', "`dtypes.float46` is 'missing'; write a rule for", "did you mean `float64`"),
        ('[dtypes]\nfloat64 = "gone"', '`dtypes.float64` is \'gone\'; write one of "missing", "narrowed"', ""),
        ("[dtypes]\nfloat64 = 3", "`dtypes.float64` is 3; write one of", ""),
        ("properties = []", "`properties` is []; write a table such as", ""),
        ("[properties]\nname = true", "`properties.name` is True; write an integer or a string", ""),
        ("[properties.name]\na = 1", "`properties.name` is {'a': 1}; write an integer or a string", ""),
        ("memory 3", "is not TOML: ", ""),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, text: str, says: str, advises: str) -> None:
    with pytest.raises(UsageError) as caught:
        profile(tmp_path, text)
    message = caught.value.message.render("en")
    assert says in message
    if "unknown card" not in message:
        assert str(tmp_path / "card.toml") in message
    assert advises in (caught.value.advice.render("en") if caught.value.advice else "")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot be read"):
            make_profile(target("npu"), file=path)
    (tmp_path / "latin.toml").write_bytes(b'card = "caf\xe9"')
    with pytest.raises(UsageError, match="is not TOML"):
        make_profile(target("npu"), file=tmp_path / "latin.toml")


@pytest.mark.parametrize("devices", [-1, 17, 1000])
def test_too_many_devices(devices: int) -> None:
    with pytest.raises(UsageError, match="name 1 to 16"):
        make_profile(target("npu"), devices=devices)


def test_a_card_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="unknown card"):
        make_profile(target("npu"), "S4000")


UNKNOWN_IDENTITY = "whether moving a module keeps its Parameter objects"
OTHER_OPERATORS = "which operators this version of the plugin has (those of the nearest version are taken)"
UNKNOWN_OPERATORS = ("which operators are missing", "what happens with a missing operator")


@pytest.mark.parametrize(
    ("name", "card", "version", "shown", "devices", "memory", "capability", "fallback", "unknown"),
    [
        ("npu", "", "2.14.0", "Ascend 910B", 1, 64 << 30, None, "warn", ()),
        ("npu", "910b4", "2.14.0", "Ascend 910B4", 1, 32 << 30, None, "warn", ()),
        ("musa", "", "2.7.1", "MTT S4000", 1, 48 << 30, (2, 2), "error", ()),
        ("musa", "S80", "2.7.1", "MTT S80", 1, 16 << 30, (2, 1), "error", ()),
        (
            "gcu",
            "",
            "2.10.0",
            "Enflame S60",
            1,
            43878764544,
            (3, 0),
            "silent",
            ("operators that run on the CPU for some arguments only",),
        ),
        (
            "gcu",
            "L600",
            "2.10.0",
            "Enflame L600",
            1,
            0,
            None,
            "silent",
            ("the memory of a device", "the capability of a device"),
        ),
        (
            "sdaa",
            "",
            "",
            "TECO_AICARD_01",
            4,
            15296 << 20,
            None,
            "unknown",
            ("the capability of a device", *UNKNOWN_OPERATORS, UNKNOWN_IDENTITY),
        ),
        (
            "ptex",
            "",
            "",
            "Enflame T20",
            1,
            0,
            None,
            "unknown",
            ("the memory of a device", *UNKNOWN_OPERATORS, UNKNOWN_IDENTITY),
        ),
    ],
)
def test_what_the_facts_say(
    name: str,
    card: str,
    version: str,
    shown: str,
    devices: int,
    memory: int,
    capability: tuple[int, int] | None,
    fallback: str,
    unknown: tuple[str, ...],
) -> None:
    made = make_profile(target(name), card)
    assert (made.target, made.version, made.card) == (name, version, shown)
    assert (made.devices, made.memory, made.fallback) == (devices, memory, fallback)
    assert made.capability == capability
    assert made.capability_known == ("the capability of a device" not in unknown)
    assert made.unknown == unknown
    assert made.keeps_parameter_identity
    assert made.matmul_rounding == ""


def test_operators_come_with_the_versions_that_they_were_read_from() -> None:
    made = make_profile(target("npu", "2.9.0"))
    assert (made.version, made.operators_version, made.operators_torch) == ("2.9.0", "2.9.0", "2.9.0")
    assert made.registered is not None
    assert "add.Tensor" in made.registered
    newer = make_profile(target("npu", "2.13.0"))
    assert newer.registered is not None
    assert {"_fused_adam_", "gelu.out", "_fused_sgd_"} <= newer.registered - made.registered
    assert OTHER_OPERATORS not in (*made.unknown, *newer.unknown)
    assert OTHER_OPERATORS in make_profile(target("npu", "2.9.0.post5")).unknown
    assert OTHER_OPERATORS not in make_profile(target("musa", "2.1.0")).unknown
    assert OTHER_OPERATORS in make_profile(target("musa", "2.6.0")).unknown
    assert make_profile(target("sdaa")).registered is None
    assert "convolution_backward" in make_profile(target("gcu"), "S60").forced_fallback
    assert "scatter_reduce.two_out" not in make_profile(target("gcu"), "S60").forced_fallback


def test_the_number_of_devices_is_the_argument_then_the_file_then_the_card(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text("devices = 3", encoding="utf-8")
    assert make_profile(target("sdaa"), devices=8, file=path).devices == 8
    assert make_profile(target("sdaa"), file=path).devices == 3
    assert make_profile(target("sdaa")).devices == 4


@pytest.mark.parametrize(
    ("size", "number"),
    [
        ("1", 1),
        ('"512B"', 512),
        ('"64GiB"', 64 << 30),
        ('"64 gib"', 64 << 30),
        ('"48 GB"', 48_000_000_000),
        ('"1.5 MiB"', 3 << 19),
        ('" 2TiB "', 2 << 40),
        ("68719476736", 64 << 30),
    ],
)
def test_sizes(tmp_path: Path, size: str, number: int) -> None:
    assert profile(tmp_path, f"memory = {size}").memory == number


def test_a_user_s_card_extends_another(tmp_path: Path) -> None:
    made = profile(
        tmp_path,
        """
        card = "S80 with half the memory"
        extends = "s80"
        memory = "8GiB"
        capability = [2, 2]
        missing = ["aten::sinc.out", "relu", "torchvision::nms"]
        fallback = "warn"
        keeps_parameter_identity = false
        matmul_rounding = "tf32"
        [dtypes]
        float64 = "missing"
        bfloat16 = "native"
        [properties]
        multi_processor_count = 16
        """,
    )
    base = make_profile(target("musa"), "S80")
    assert base.properties == {"name": "MTT S80"}
    assert made == dataclasses.replace(
        base,
        card="S80 with half the memory",
        memory=8 << 30,
        capability=(2, 2),
        missing_operators=frozenset({"sinc.out", "relu", "torchvision::nms"}),
        fallback="warn",
        keeps_parameter_identity=False,
        matmul_rounding="tf32",
        dtypes={"float64": "missing"},
        properties={"multi_processor_count": 16},
    )


def test_a_card_of_the_user_s_own_takes_nothing_from_another(tmp_path: Path) -> None:
    made = profile(tmp_path, 'card = "S9000"')
    assert (made.card, made.memory, made.capability_known) == ("S9000", 0, False)
    assert made.unknown == ("the memory of a device", "the capability of a device")
    assert made.property_names
    assert profile(tmp_path, 'card = "S9000"\nmemory = 1\ncapability = "none"').unknown == ()


@pytest.mark.parametrize("card", ["S80", ""])
def test_a_known_card_may_be_named_in_the_file_and_the_argument_comes_first(tmp_path: Path, card: str) -> None:
    made = profile(tmp_path, 'card = "mtt s5000"\nmemory = 1', card=card)
    assert made.card == ("MTT S80" if card else "MTT S5000")
    assert made.memory == 1


def test_what_the_user_says_is_no_longer_unknown(tmp_path: Path) -> None:
    made = profile(
        tmp_path,
        'memory = "32GB"\ncapability = "none"\nfallback = "error"\nkeeps_parameter_identity = true\n',
        "sdaa",
    )
    assert made.unknown == ("which operators are missing",)
    assert (made.capability, made.capability_known) == (None, True)


def test_a_vendor_without_any_data_is_rehearsed_as_far_as_it_goes(tmp_path: Path) -> None:
    made = make_profile(Target(acme(tmp_path, None)))
    assert (made.target, made.version, made.card, made.devices, made.memory) == ("acme", "", "Acme Cards", 1, 0)
    assert made.registered is None
    assert len(made.unknown) == 6
    assert Profile.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ("", True),
        ("sparse = []\nnested = []", True),
        ('sparse = ["add.Tensor"]\nsparse_compressed = []\nnested = []', False),
    ],
)
def test_layouts_that_nobody_knows_are_named_beside_a_known_list(tmp_path: Path, lists: str, told: bool) -> None:
    text = f"""version = "1"
torch = "2.13.0"
source = "S"
fallback = "error"
[sources]
S = "s"
[operators]
registered = ["add.Tensor"]
{lists}
"""
    made = make_profile(Target(acme(tmp_path, text, "ops.toml")))
    assert ("which operators are missing for sparse and nested tensors" in made.unknown) == told
    assert made.nested == (frozenset() if "nested" in lists else None)


@pytest.mark.parametrize("name", TARGETS)
def test_every_card_of_every_backend_goes_through_json(name: str) -> None:
    for card in cards(registry.load(name)):
        made = make_profile(target(name), card.name)
        assert Profile.from_json(made.to_json()) == made


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"target": "npu"}'])
def test_json_that_is_no_profile(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Profile.from_json(text)


NAMES = st.frozensets(st.text(max_size=20), max_size=5)
PROFILES = st.builds(
    Profile,
    target=st.text(),
    version=st.text(),
    card=st.text(),
    devices=st.integers(1, MOST_DEVICES),
    memory=st.integers(0, 2**63 - 1),
    capability=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
    capability_known=st.booleans(),
    property_names=st.lists(st.text()).map(tuple),
    properties=st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1) | st.text()),
    dtypes=st.dictionaries(st.sampled_from(DTYPES), st.sampled_from(DTYPE_RULES)),
    fallback=st.text(),
    missing_operators=NAMES,
    registered=st.none() | NAMES,
    sparse=st.none() | NAMES,
    sparse_compressed=st.none() | NAMES,
    nested=st.none() | NAMES,
    operators_version=st.text(),
    operators_torch=st.text(),
    forced_fallback=NAMES,
    keeps_parameter_identity=st.booleans(),
    matmul_rounding=st.sampled_from(ROUNDINGS),
    unknown=st.lists(st.text()).map(tuple),
)


@given(PROFILES)
def test_json_brings_back_an_equal_profile(made: Profile) -> None:
    again = Profile.from_json(made.to_json())
    assert again == made
    assert again.to_json() == made.to_json()
