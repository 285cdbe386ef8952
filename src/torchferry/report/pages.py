"""The page of a rule, taken from the rule's own module.

The docstring of the module has a title, what the rule does, a paragraph that begins with `Why:`, and a list below
`References:`. An entry of the list is `table NAME`, a table of the targets; `page NAME`, a page of the documentation;
or a source, in the words of the table that cites it.
"""

from __future__ import annotations

import inspect
import re
import sys

from torchferry.core.messages import catalogue
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Rule
from torchferry.rules.registry import rules, unknown_rule

_WHY = "\n\nWhy: "
_REFERENCES = "\n\nReferences:\n"


class Text(NamedTuple):
    """The parts of a rule's docstring, in English.

    Attributes:
        explanation: The title, a blank line, and what the rule does.
        why: Why the code that it finds is bad on the target, in one paragraph.
        references: Where the facts come from.
    """

    explanation: str
    why: str
    references: tuple[str, ...]


class Page(NamedTuple):
    """What there is to say about a rule.

    Attributes:
        code: Its code.
        name: Its name, words joined by hyphens.
        title: What it finds, in a sentence.
        body: What it does; paragraphs separated by blank lines.
        why: Why the code that it finds is bad on the target, in one paragraph.
        references: Where the facts come from; see the head of this module.
        rule: The rule.
    """

    code: str
    name: str
    title: str
    body: str
    why: str
    references: tuple[str, ...]
    rule: Rule


def parts(docstring: str) -> Text:
    """Return the parts of a rule's docstring."""
    text, _, references = inspect.cleandoc(docstring).strip().partition(_REFERENCES)
    explanation, _, why = text.partition(_WHY)
    listed = [" ".join(entry.split()) for entry in re.split(r"^- ", references, flags=re.MULTILINE)[1:]]
    return Text(explanation.strip(), " ".join(why.split()), tuple(listed))


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
    text = parts(sys.modules[module].__doc__ or "")
    explanation, why = text.explanation, text.why
    if lang == "zh":
        translate = catalogue("rules").gettext
        explanation, why = (translate(words) if words else "" for words in (explanation, why))
    title, _, body = explanation.partition("\n\n")
    name = module.rpartition(".")[2].replace("_", "-")
    return Page(rule.CODE, name, " ".join(title.split()), body.strip(), why, text.references, rule)
