"""Texts of a report made harmless for a page, in the page's language."""

from __future__ import annotations

import re
import shlex
from html import escape

from torchferry.core.finding import Location
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.report.decisions import Decisions
from torchferry.report.excerpts import ReadLines
from torchferry.report.model import Report

_CODE = lazy_regex(r"`([^`]+)`")

LONGEST = 1_000
"""Characters of a line of code that are shown; minified files have lines of a megabyte."""


class HtmlContext(NamedTuple):
    """What every part of a page is written from.

    Attributes:
        report: The report.
        decisions: Its decisions.
        lang: The language.
        asked: The paths, the target and the style, as a command takes them.
        read: Reads the code around a place.
    """

    report: Report
    decisions: Decisions
    lang: str
    asked: str
    read: ReadLines

    def text(self, message: Message) -> str:
        """Return a message as HTML."""
        return text(message.render(self.lang))

    def marked(self, message: Message) -> str:
        """Return a message as HTML, with the text between backquotes set as code."""
        return marked(message.render(self.lang))

    def title(self, message: Message) -> str:
        """Return the title of a part as HTML: without the colon that it has above lines of text."""
        return marked(message.render(self.lang).rstrip(":："))

    def show_command(self, decision: str) -> str:
        """Return the command that shows one decision whole; empty where none does, since `show` knows one style."""
        return f"torchferry show {shlex.quote(decision)} {self.asked}" if self.report.style == "native" else ""


class HtmlPart(NamedTuple):
    """One part of a page.

    Attributes:
        name: What its heading is referred to by.
        title: The heading, as HTML.
        body: What is below it, as HTML.
        has_findings: Whether findings are in it, which the filter shows and hides.
    """

    name: str
    title: str
    body: list[str]
    has_findings: bool = False

    @property
    def id(self) -> str:
        """The id of the heading; no decision has it, since theirs have no colon."""
        return f"part:{self.name}"


def text(value: str) -> str:
    """Return a text as HTML."""
    return escape(visible(value))


def lines(value: str) -> str:
    """Return a text of several lines as HTML."""
    return "\n".join(text(line) for line in value.split("\n"))


def clipped(line: str) -> str:
    """Return a line of code as HTML, of a very long one its beginning."""
    return text(line if len(line) <= LONGEST else line[:LONGEST] + " …")


def marked(value: str) -> str:
    """Return a message as HTML, with the text between backquotes set as code."""
    return _CODE.sub(r"<code>\1</code>", text(value))


def rule_link(code: str) -> str:
    """Return a link to the page of a rule."""
    return f'<a class="code" href="#{rule_id(code)}">{text(code)}</a>'


def place_html(place: Location) -> str:
    """Return a place as HTML: its text is that of every other form of the report."""
    return f'<span class="p">{text(place.path)}</span>{text(str(place).removeprefix(place.path))}'


def paragraphs(value: str) -> str:
    """Return a page as HTML: blank lines part paragraphs, lines that begin with a hyphen or are indented stay apart."""
    done: list[str] = []
    for block in re.split(r"\n\s*\n", value.strip()):
        is_list = any(line.startswith((" ", "- ", "* ")) for line in block.split("\n"))
        whole = "\n".join(map(marked, block.split("\n")))
        done.append(f'<p class="kept">{whole}</p>' if is_list else f"<p>{whole}</p>")
    return "".join(done)


def rule_id(code: str) -> str:
    """Return the id of the page of a rule; a decision may have the name of the rule itself."""
    return f"rule:{text(code)}"
