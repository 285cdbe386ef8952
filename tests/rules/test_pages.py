"""Every rule has a page: what it does, why the code that it finds is bad, and where the facts come from."""

from __future__ import annotations

import re
from pathlib import Path

from torchferry.backends import registry
from torchferry.core import toml
from torchferry.report.pages import page, parts
from torchferry.rules.registry import rules

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "torchferry"

DOCSTRING = """A title,
of two lines.

What it does.

More of it.

Why: A reason,
on two lines.

References:
- table api
- a source that is
  long
"""


def test_the_parts_of_a_docstring() -> None:
    text = parts(DOCSTRING)
    assert text.explanation == "A title,\nof two lines.\n\nWhat it does.\n\nMore of it."
    assert text.why == "A reason, on two lines."
    assert text.references == ("table api", "a source that is long")


def test_a_docstring_may_have_a_title_alone() -> None:
    assert parts("A title.") == ("A title.", "", ())


def test_every_rule_says_what_it_does_and_why() -> None:
    pages = [page(rule.CODE, "en") for rule in rules()]
    assert len(pages) > 100
    assert [found.code for found in pages if not found.body or not found.why or not found.references] == []
    assert [found.code for found in pages if "Why:" in found.body or "References:" in found.body] == []
    assert [found.code for found in pages if not found.why.endswith(".") or "  " in found.why] == []


def test_every_reason_has_its_chinese() -> None:
    reasons = {rule.CODE: page(rule.CODE, "zh").why for rule in rules()}
    assert [code for code, reason in reasons.items() if not re.search(r"[\u4e00-\u9fff]", reason)] == []


def cited() -> str:
    """What the tables name as their sources, as one text."""
    texts: list[str] = []
    for path in [*SOURCE.glob("backends/data/**/*.toml"), *SOURCE.glob("vendors/**/*.toml")]:
        texts.extend(toml.load(path).get("sources", {}).values())
    return "\n".join(texts)


def test_every_reference_leads_somewhere() -> None:
    sources = cited()
    wrong = []
    for rule in rules():
        for entry in page(rule.CODE, "en").references:
            kind, _, name = entry.partition(" ")
            if kind == "table":
                known = any(registry.load(target).table(name) for target in registry.built_in())
            elif kind == "page":
                known = all((ROOT / "docs" / lang / f"{name}.md").is_file() for lang in ("en", "zh"))
            else:
                known = entry in sources
            if not known:
                wrong.append(f"{rule.CODE}: {entry}")
    assert wrong == []
