"""Every backend's list of operators is well formed and sourced, and a malformed one is refused with its file named."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.base import Backend
from torchferry.backends.cards import cards
from torchferry.backends.datafile import VENDORS
from torchferry.backends.operators import FALLBACKS, OperatorTable, load_operators
from torchferry.backends.unknown import UNKNOWN, Unknown
from torchferry.core import toml

TARGETS = [name for name in registry.built_in() if (VENDORS / name / "ops.toml").is_file()]
"""The targets whose operators are described; without a file everything is taken to be there."""

CITING = [(name, file) for file in ("ops.toml", "cards.toml") for name in registry.built_in()
          if (VENDORS / name / file).is_file()]  # fmt: skip

GOOD = """
    version = "1.2.0"
    torch = "2.7.0"
    source = "S"
    fallback = "warn"
    fallback_switch = "ACME_NO_CPU"
    fallback_switch_value = "1"
    fallback_switched = "error"
    [sources]
    S = "the imaginary plugin's source"
    [operators]
    registered = ["add.Tensor", "relu", "acme_fused"]
    autograd = ["softmax.int"]
    sparse = ["_coalesce", "add.Tensor"]
    nested = []
    [[forced_fallback]]
    card = "Acme X1"
    names = ["relu"]
    source = "S"
    [[forced_fallback]]
    card = "Acme X1"
    names = ["add.Tensor"]
    when = "alpha is not 1"
    source = "S"
    [[note]]
    names = ["torch.topk"]
    note = "not with sorted=False"
    note_zh = "不支持 sorted=False"
    source = "S"
"""


def acme(folder: Path, text: str | None, name: str = "ops.toml") -> type[Backend]:
    """Return a backend of a user's own whose data file `name` is `text`."""
    if text is not None:
        (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")

    class Acme(Backend):
        NAME = "acme"
        TITLE = "Acme Cards"
        PLUGIN = "torch_acme"
        DEVICE_TYPE = "acme"
        COLLECTIVE = "accl"
        DATA_DIRECTORY = folder

    return Acme


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('source = "S"', 'source = "T"', "not in [sources]"),
        ('source = "S"', "", "not in [sources]"),
        ('    source = "S"\n    fallback', "    fallback", "not in [sources]"),
        ('S = "the imaginary plugin\'s source"', "S = 3", "[sources] maps"),
        ('fallback = "warn"', 'fallback = "cpu"', "none of error, warn, silent, unknown"),
        ('fallback = "warn"', "", "none of error, warn, silent, unknown"),
        ('fallback = "warn"', "fallback = 1", "not a text"),
        ('fallback_switched = "error"', "", "go together"),
        ('fallback_switch = "ACME_NO_CPU"', "", "go together"),
        ('fallback_switched = "error"', 'fallback_switched = "no"', "none of error"),
        ('torch = "2.7.0"', "", "needs `version` and `torch`"),
        ('"add.Tensor", "relu"', '"add.Tensor", "aten::relu"', "`aten::relu` is not an operator's name"),
        ('"add.Tensor", "relu"', '"relu", "relu"', "stands twice"),
        ('"add.Tensor", "relu"', '"relu", 3', "not a list of texts"),
        ("autograd", "autogard", "`autogard` is none of autograd, nested, registered, sparse, sparse_compressed"),
        ('card = "Acme X1"', "", "`card` and `names`"),
        ('names = ["relu"]', 'names = ["add.Tensor"]', "stands twice"),
        ("[[forced_fallback]]", "[forced_fallback]", ""),
        ("when =", "if =", "`if` is none of"),
        ('note_zh = "不支持 sorted=False"', "", "go together"),
        ("[operators]", "[operator]", "`operator` is none of"),
        ("[sources]", "[sources", "not TOML"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError, match=r"ops\.toml: ") as caught:
        load_operators(acme(tmp_path, GOOD.replace(old, new)))
    assert says in str(caught.value)


def test_a_note_stands_once(tmp_path: Path) -> None:
    again = GOOD + GOOD[GOOD.index("    [[note]]") :]
    with pytest.raises(ValueError, match="has a note already"):
        load_operators(acme(tmp_path, again))


def test_without_a_file_everything_is_unknown(tmp_path: Path) -> None:
    table = load_operators(acme(tmp_path, None))
    assert table == OperatorTable()
    assert table.registered is UNKNOWN
    assert table.fallback == "unknown"
    assert table.forced_on("Acme X1") == frozenset()


def test_a_user_s_backend_brings_its_own_file(tmp_path: Path) -> None:
    table = load_operators(acme(tmp_path, GOOD))
    assert (table.version, table.torch, table.fallback) == ("1.2.0", "2.7.0", "warn")
    assert table.source == "the imaginary plugin's source"
    assert (table.fallback_switch, table.fallback_switch_value) == ("ACME_NO_CPU", "1")
    assert table.fallback_switched == "error"
    assert table.registered == frozenset({"add.Tensor", "relu", "acme_fused"})
    assert table.autograd == frozenset({"softmax.int"})
    assert table.layouts == {
        "sparse": frozenset({"_coalesce", "add.Tensor"}),
        "sparse_compressed": UNKNOWN,
        "nested": frozenset(),
    }
    assert table.forced_on("Acme X1") == {"relu"}
    assert table.sometimes_forced_on("Acme X1") == {"add.Tensor": "alpha is not 1"}
    assert table.forced_on("Acme X2") == frozenset()
    assert table.notes["torch.topk"].render("zh") == "不支持 sorted=False"


def test_a_relative_inherits_the_nearest_file(tmp_path: Path) -> None:
    parent = acme(tmp_path, GOOD)

    class Relative(parent):  # type: ignore[misc, valid-type]
        NAME = "relative"
        DATA_DIRECTORY = tmp_path / "absent"

    assert load_operators(Relative) is load_operators(parent)


@pytest.mark.parametrize("target", TARGETS)
def test_every_backend_has_a_sound_file(target: str) -> None:
    backend = registry.load(target)
    table = load_operators(backend)
    assert table.source
    assert table.fallback in FALLBACKS
    assert isinstance(table.registered, Unknown) == (not table.version)
    assert table.forced_fallback.keys() <= {card.name for card in cards(backend)}
    if not isinstance(table.registered, Unknown):
        for names in table.forced_fallback.values():
            assert names.keys() <= table.registered


@pytest.mark.parametrize(("target", "file"), CITING)
def test_every_source_is_cited_and_every_citation_resolves(target: str, file: str) -> None:
    document = toml.load(VENDORS / target / file)
    entries = [document, document.get("plugin", {})]
    entries += [entry for value in document.values() if isinstance(value, list) for entry in value]
    cited = {key for entry in entries for key in entry.get("source", "").split()}
    assert cited == document["sources"].keys()


@pytest.mark.parametrize("target", TARGETS)
def test_lists_are_sorted_and_lines_are_short(target: str) -> None:
    path = VENDORS / target / "ops.toml"
    for names in toml.load(path).get("operators", {}).values():
        assert names == sorted(names)
    for line in path.read_text(encoding="utf-8").splitlines():
        assert len(line) <= 110 or not line.startswith("    "), line


@pytest.mark.parametrize(
    ("target", "fallback", "has", "lacks"),
    [
        ("gcu", "silent", "add.out", "native_batch_norm_backward"),
        ("musa", "error", "add.Tensor", "linalg_matrix_exp"),
        ("npu", "warn", "add.Tensor", "linalg_matrix_exp"),
    ],
)
def test_what_is_known_of_the_lists(target: str, fallback: str, has: str, lacks: str) -> None:
    table = load_operators(registry.load(target))
    assert table.fallback == fallback
    assert not isinstance(table.registered, Unknown)
    assert has in table.registered
    assert lacks not in table.registered


@pytest.mark.parametrize("target", ["ptex", "sdaa"])
def test_a_list_that_nobody_knows_stays_unknown(target: str) -> None:
    table = load_operators(registry.load(target))
    assert table.registered is UNKNOWN
    assert table.autograd is UNKNOWN
    assert table.fallback == "unknown"


@pytest.mark.parametrize(
    ("target", "layout", "has", "lacks"),
    [
        ("npu", "sparse", "_coalesce", "addmm"),
        ("npu", "sparse_compressed", "addmm", "addmm.out"),
        ("npu", "nested", "to_padded_tensor", "add.Tensor"),
        ("musa", "sparse", "_coalesce", "_to_dense"),
        ("musa", "sparse_compressed", "crow_indices", "_to_dense"),
        ("musa", "nested", "split_with_sizes", "_nested_tensor_size"),
        ("gcu", "sparse", "", "_coalesce"),
        ("gcu", "sparse_compressed", "", "values"),
        ("gcu", "nested", "", "values"),
    ],
)
def test_what_is_known_of_tensors_that_are_not_dense(target: str, layout: str, has: str, lacks: str) -> None:
    names = load_operators(registry.load(target)).layouts[layout]
    assert not isinstance(names, Unknown)
    assert has in names if has else not names
    assert lacks not in names


@pytest.mark.parametrize("target", ["ptex", "sdaa"])
def test_a_card_of_which_nothing_is_known_may_have_every_layout(target: str) -> None:
    assert set(load_operators(registry.load(target)).layouts.values()) == {UNKNOWN}


def test_what_a_card_sends_to_the_cpu() -> None:
    table = load_operators(registry.load("gcu"))
    assert "convolution_backward" in table.forced_on("Enflame S60")
    assert "convolution_backward" not in table.forced_on("Enflame L600")
    assert table.sometimes_forced_on("Enflame S60") == {"scatter_reduce.two_out": "reduce is `prod` or `mean`"}
    assert "scatter_reduce.two_out" in table.forced_on("Enflame L600")
