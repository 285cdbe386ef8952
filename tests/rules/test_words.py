"""A file interests the rules of which it holds a word, whatever words share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.base import Options
from torchferry.rules.registry import rules
from torchferry.rules.words import RuleWords
from torchferry.source.kinds import Kind

TARGET = Target(registry.load("npu"))
OF_RULES = {rule.CODE: rule.words(TARGET, Options()) for rule in rules() if Kind.PYTHON in rule.KINDS}
WORDS = RuleWords()
for _rule in rules():
    for _word in OF_RULES.get(_rule.CODE, ()):
        WORDS.add(_word, _rule)
PARTS = st.sampled_from(sorted({word for words in OF_RULES.values() for word in words}))


@given(st.lists(st.tuples(PARTS, st.integers(0, 3)), max_size=8))
def test_the_rules_are_those_of_the_words_that_it_holds(parts: list[tuple[str, int]]) -> None:
    data = "".join(part[cut:] for part, cut in parts).encode("utf-8", "surrogatepass")
    wanted = {code for code, words in OF_RULES.items() if any(word.encode() in data for word in words)}
    assert {rule.CODE for rule in WORDS.rules_in(data)} == wanted
    assert {rule.CODE for rule in WORDS.rules()} == {code for code, words in OF_RULES.items() if words}


def test_a_large_text_is_searched_too() -> None:
    for word in ("optim", "torch.cuda", ".NaN"):
        data = b"# \xff\n" * 300_000 + word.encode()
        assert {rule.CODE for rule in WORDS.rules_in(data)} == {rule.CODE for rule in WORDS.rules_in(word.encode())}
        assert WORDS.rules_in(data)
