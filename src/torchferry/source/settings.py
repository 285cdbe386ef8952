"""The settings in a configuration file, whatever its form: key path, value, and where the value stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.budget import DEEPEST, refuse_nesting, spend
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.initext import ini_settings
from torchferry.source.jsontext import JsonValue, NotJsonError, values
from torchferry.source.kinds import Kind
from torchferry.source.setting import Setting
from torchferry.source.tomltext import toml_settings
from torchferry.source.yamltext import yaml_settings

__all__ = ["Setting", "settings"]

_OWN = ("tool", "torchferry")
"""The table of our own settings in a pyproject.toml, which speaks of a project and is no part of it."""

_STRING = r"\"(?:[^\"\\\n]|\\[^\n])*\"?"
"""A string, or what an unclosed one leaves of its line: none of that is read again, whatever it holds."""

_COMMENT = lazy_regex(rf"{_STRING}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_LAST_COMMA = lazy_regex(rf"{_STRING}|,(?=\s*[\]}}])")


def settings(kind: Kind, text: str) -> Iterator[Setting]:
    """Yield the settings of a configuration file; of a damaged JSON file those before the damage."""
    for setting in _settings(kind, text):
        spend(len(setting.path))
        if len(setting.path) > DEEPEST:
            refuse_nesting()
        yield setting


def _settings(kind: Kind, text: str) -> Iterator[Setting]:
    if kind is Kind.JSON:
        yield from _json(text)
    elif kind in (Kind.TOML, Kind.PYPROJECT):
        yield from (setting for setting in toml_settings(text) if setting.path[:2] != _OWN)
    elif kind is Kind.INI:
        yield from ini_settings(text)
    else:
        yield from yaml_settings(text)


def _json(text: str) -> Iterator[Setting]:
    members: list[JsonValue] = []
    if not _read(text, members):
        members.clear()
        _read(_LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text)), members)
    for value in members:
        if value.is_string and text[value.start + 1 : value.end - 1] == value.value and "\n" not in value.value:
            path = tuple(part for part in value.path if isinstance(part, str))
            yield Setting(path, value.value, value.start + 1, value.end - 1)


def _read(text: str, into: list[JsonValue]) -> bool:
    """Read the values of a JSON text, or those before its damage; say whether it was whole."""
    try:
        into.extend(values(text))
    except NotJsonError:
        return False
    return True


def _blank(match: re.Match[str]) -> str:
    """Return spaces for a comment or a comma that only some readers of JSON allow, so that no offset changes."""
    literal = match.group()
    return literal if literal.startswith('"') else " " * len(literal)
