"""The page of a rule, taken from the rule's own module."""

from __future__ import annotations

import inspect
import sys
from typing import NamedTuple

from torchferry.core.messages import catalogue
from torchferry.rules.base import Rule
from torchferry.rules.registry import rules, unknown_rule


class Page(NamedTuple):
    """What there is to say about a rule.

    Attributes:
        code: Its code.
        name: Its name, words joined by hyphens.
        title: What it finds, in a sentence.
        body: Why that matters and what to do; paragraphs separated by blank lines.
        rule: The rule.
    """

    code: str
    name: str
    title: str
    body: str
    rule: Rule


def page(code: str, lang: str) -> Page:
    """Return the page of a rule.

    Raises:
        UsageError: there is no rule of this code.
    """
    by_code = {rule.CODE: rule for rule in rules()}
    rule = by_code.get(code.upper())
    if rule is None:
        raise unknown_rule(code)
    module = type(rule).__module__
    text = inspect.cleandoc(sys.modules[module].__doc__ or "").strip()
    if lang == "zh":
        text = catalogue("rules").gettext(text) if text else ""
    title, _, body = text.partition("\n\n")
    name = module.rpartition(".")[2].replace("_", "-")
    return Page(rule.CODE, name, " ".join(title.split()), body.strip(), rule)
