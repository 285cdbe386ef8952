"""`--help` in Chinese: what the commands say of themselves, and click's own words. No English run imports it."""

from __future__ import annotations

import copy
import gettext
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from torchferry.cli.help_text import message_of
from torchferry.core.messages import LOCALE, catalogue, display_width, say_plural, translatable

_CLICK = (
    translatable("Usage:"),
    translatable("Options"),
    translatable("Commands"),
    translatable("Show this message and exit."),
    translatable("Show the version and exit."),
    translatable("default: {default}"),
    translatable("required"),
    translatable("Error: {message}"),
    translatable("Try '{command} {option}' for help."),
    translatable("Invalid value: {message}"),
    translatable("Invalid value for {param_hint}: {message}"),
    translatable("Missing argument"),
    translatable("Missing option"),
    translatable("Missing command."),
    translatable("No such option {name!r}."),
    translatable("No such option: {name}"),
    translatable("No such command {name!r}."),
    translatable("Option {name!r} does not take a value."),
    translatable("{value!r} is not a valid {number_type}."),
    translatable("{value} is not in the range {range}."),
    translatable("{name} {filename!r} does not exist."),
    translatable("{name} {filename!r} is a file."),
    translatable("{name} {filename!r} is a directory."),
    translatable("{name} {filename!r} is not readable."),
)
"""What click says, in its versions; what is not here stays English."""

_CLICK_PLURALS = (
    say_plural("{value!r} is not {choice}.", "{value!r} is not one of {choices}.", count=2),
    say_plural("Did you mean {possibility}?", "(Did you mean one of: {possibilities}?)", count=2),
)
"""What click says of one thing or of several; its texts do not name the number."""

_OPTIONS, _SUBCOMMAND = translatable("[OPTIONS]"), translatable("COMMAND [ARGS]...")
"""What stands behind a command in its usage."""

_TYPES = (
    translatable("boolean"),
    translatable("float"),
    translatable("float range"),
    translatable("integer"),
    translatable("integer range"),
    translatable("text"),
)
"""Names of click's types, which it shows in place of a value; `[en|zh]` and names of our own stay."""

_TOKEN = re.compile(r"(?:[\x21-\x7e]+|.)[，。、；：）」”！？]*[ ]*")
"""What a line is not broken in: a word of letters, a Chinese character, and the punctuation behind it."""


@contextmanager
def click_in_chinese() -> Iterator[None]:
    """Let click speak Chinese: it asks `gettext`, which asks the environment; both are as before afterwards."""
    domain, language = gettext.textdomain(), os.environ.get("LANGUAGE")
    gettext.bindtextdomain("torchferry", str(LOCALE))
    gettext.textdomain("torchferry")
    os.environ["LANGUAGE"] = "zh"
    try:
        yield
    finally:
        gettext.textdomain(domain)
        if language is None:
            del os.environ["LANGUAGE"]
        else:
            os.environ["LANGUAGE"] = language


def in_chinese(command: click.Command) -> click.Command:
    """Return a copy of a command, and of those below it, whose help is Chinese: translated when it is asked for."""
    copied = copy.copy(command)
    copied.context_class = _Context
    copied.make_context = partial(_make_context, copied, copied.make_context)  # type: ignore[method-assign]
    copied.get_help = partial(_help, command)  # type: ignore[method-assign]
    copied.get_short_help_str = partial(_first_sentence, command)  # type: ignore[method-assign]
    if isinstance(command, click.Group) and isinstance(copied, click.Group):
        original = command.get_command

        def get_command(context: click.Context, name: str) -> click.Command | None:
            below = original(context, name)
            return below if below is None else in_chinese(below)

        copied.get_command = get_command  # type: ignore[assignment,method-assign]
    return copied


def _make_context(
    copied: click.Command, make_context: Callable[..., click.Context], *args: Any, **kwargs: Any
) -> click.Context:
    """Read the arguments of a command. Only now is it known that its options are needed in Chinese."""
    with click_in_chinese():
        _translate(copied)
        return make_context(*args, **kwargs)


def _help(command: click.Command, context: click.Context) -> str:
    shown = copy.copy(command)
    _translate(shown)
    shown.help = _chinese(inspect.cleandoc(command.help or ""))
    if isinstance(command, click.Group) and isinstance(context.command, click.Group):
        shown.get_command = context.command.get_command  # type: ignore[attr-defined]
    if "_help_option" in vars(command):
        shown._help_option = None  # click keeps the one that it made in the language of its first use
    return type(command).get_help(shown, context)


def _translate(copied: click.Command) -> None:
    """Give a copy of a command a Chinese usage line and Chinese options."""
    copied.params = [_parameter(parameter) for parameter in copied.params]
    if copied.options_metavar == _OPTIONS:
        copied.options_metavar = _chinese(_OPTIONS)
    if isinstance(copied, click.Group) and copied.subcommand_metavar == _SUBCOMMAND:
        copied.subcommand_metavar = _chinese(_SUBCOMMAND)


def _first_sentence(command: click.Command, limit: int = 45) -> str:
    """Return what a list of commands says of one, whole: click would cut it by words, of which Chinese has none."""
    return _chinese(inspect.cleandoc(command.help or "")).partition("\n\n")[0].partition("。")[0] + "。"


def _parameter(parameter: click.Parameter) -> click.Parameter:
    copied = copy.copy(parameter)
    if isinstance(copied, click.Option) and copied.help:
        copied.help = _chinese(copied.help)
    if copied.type.name in _TYPES:
        copied.type = copy.copy(copied.type)
        copied.type.name = _chinese(copied.type.name)
    return copied


def _chinese(text: str) -> str:
    message = message_of(text)
    if message is not None:
        return message.render("zh")
    # click's mark of lines that stay as they are is a control character, which catalogues spell out
    return catalogue("torchferry").gettext(text.replace("\b", "\\b")).replace("\\b", "\b") if text else ""


class _Formatter(click.HelpFormatter):
    """Lays out Chinese, whose characters take two columns and which is written without spaces."""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        with super().section(_chinese(name)):
            yield

    def write_heading(self, heading: str) -> None:
        self.write(f"{' ' * self.current_indent}{heading}：\n")

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, _chinese("Usage:") if prefix is None else prefix)

    def write_text(self, text: str) -> None:
        indent = " " * self.current_indent
        shown = []
        for paragraph in text.split("\n\n"):
            first, *others = paragraph.split("\n")
            lines = others if first == "\b" else _wrapped(paragraph, self.width - self.current_indent)
            shown.append("\n".join(indent + line for line in lines))
        self.write("\n\n".join(shown) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        second = min(max((display_width(term) for term, _ in rows), default=0), col_max) + col_spacing
        for term, text in rows:
            gap = second - display_width(term)
            begin = " " * self.current_indent
            below = "\n" + " " * (self.current_indent + second)
            lines = _wrapped(_chinese(text), max(self.width - second - 2, 10))
            self.write(begin + term)
            if lines:
                self.write((" " * gap if gap >= col_spacing else below) + below.join(lines))
            self.write("\n")


class _Context(click.Context):
    formatter_class = _Formatter


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines that a text takes."""
    lines, line = [], ""
    for token in _TOKEN.findall(" ".join(text.split())):
        if line and display_width(line) + display_width(token.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += token
    return [*lines, line.rstrip()] if line else lines
