"""Settings that switch on something that CUDA has, wherever they stand; shared by the rules of each kind."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import ClassVar

from torchferry.backends import cuda
from torchferry.backends.cuda import CudaSetting
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import Message, noted
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.rules.commands import COMMAND_KINDS, commands_of, prints_text
from torchferry.rules.config.declared import declared_settings
from torchferry.rules.config.device_setting import CONFIG_KINDS, settings_of_program
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value
from torchferry.source.kinds import Kind
from torchferry.source.shell import Command

_ON = frozenset({"true", "yes", "on", "1"})
_OFF = {"true": "false", "True": "False", "TRUE": "FALSE", "yes": "no", "Yes": "No", "on": "off", "On": "Off", "1": "0"}
_PLAIN_YES = frozenset({"true", "True", "TRUE"})


class _SettingPlace(NamedTuple):
    """A setting that asks for something, with the span of its value and the value as it is written."""

    name: str
    switch: CudaSetting
    start: int
    end: int
    written: str
    value: str


class SwitchRule(Rule):
    """Finds the settings of one role."""

    ROLE: ClassVar[str] = ""
    KINDS: ClassVar[tuple[Kind, ...]] = (Kind.PYTHON, *CONFIG_KINDS, *COMMAND_KINDS)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The names of the settings."""
        keys = {key for switch in self._switches() for key in switch.keys}
        return tuple(sorted(keys | {key.replace("_", "-") for key in keys}))

    def _switches(self) -> list[CudaSetting]:
        return [switch for switch in cuda.switches() if switch.role == self.ROLE]

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each setting of a Python file that asks for it."""
        for switch in self._switches():
            if switch.modules and not any(context.names.references(module) for module in switch.modules):
                continue
            seen: set[int] = set()
            for declared in declared_settings(context, switch.keys):
                value = declared.value
                if not isinstance(value, ast.Constant) or not _asks(switch, value.value):
                    continue
                if not self.is_meant(context, declared.name, declared.in_call, value):
                    continue
                start, end = context.file.span(value)
                if start in seen or exemption_reason(context, value) is not None:
                    continue
                seen.add(start)
                text = string_value(value)
                if text is not None:
                    start, end = start + 1, end - 1
                    if context.text[start:end] != text:
                        continue
                yield from self._report(
                    context, _SettingPlace(declared.name, switch, start, end, context.text[start:end], str(value.value))
                )

    def is_meant(self, context: PythonContext, name: str, in_call: bool, value: ast.Constant) -> bool:
        """Whether a setting of a Python file is one of the role, as far as its name leaves that open."""
        return True

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting of a configuration file, or option of a command, that asks for it."""
        places = self._settings(context) if context.kind in CONFIG_KINDS else self._options(context)
        for place in places:
            yield from self._report(context, place)

    def _settings(self, context: Context) -> Iterator[_SettingPlace]:
        for setting in settings_of_program(context):
            key = setting.key.replace("-", "_")
            for switch in self._switches():
                if key in switch.keys and _asks_text(switch, setting.value):
                    yield _SettingPlace(setting.key, switch, setting.start, setting.end, setting.value, setting.value)

    def _options(self, context: Context) -> Iterator[_SettingPlace]:
        for command in commands_of(context):
            if prints_text(command) or not any(word.text.startswith("-") or "=" in word.text for word in command.words):
                continue
            for name, value, start, end in _options_of(command):
                for switch in self._switches():
                    if name in switch.keys and (_asks_text(switch, value) or (switch.on and not value)):
                        yield _SettingPlace(name, switch, start, end, value, value or "true")

    # --- what is said ---

    def _report(self, context: Context, place: _SettingPlace) -> Iterable[Finding]:
        row = self.row(context.target, place.switch)
        if row.status == "same" and not row.note:
            return
        use = row.use if row.status in REWRITTEN and row.use in place.switch.takes else ""
        grade, message = self.judged(context.target, place.name, place.value, row)
        edits = []
        if use and place.written and grade is Grade.UNSAFE:
            edits = [Edit(place.start, place.end, use)]
        elif (
            grade is Grade.UNSAFE
            and place.written in _OFF
            and (place.written in _PLAIN_YES or context.kind is not Kind.PYTHON)
        ):
            edits = [Edit(place.start, place.end, _OFF[place.written])]
        if grade in (Grade.SAFE, Grade.UNSAFE) and not edits:
            grade = Grade.MANUAL
        effect = self.EFFECT
        if row.status == "unknown" or grade is Grade.NOTE:
            effect = Effect.NOTHING if row.status == "same" else Effect.UNKNOWN
        span = (place.start, place.end)
        yield self.finding(context, span, noted(message, row.remark), grade, edits, effect=effect)

    def row(self, target: Target, switch: CudaSetting) -> Row:
        """Return what the target has in the place of what a setting asks for."""
        return target.api(switch.row) if switch.table == "api" else target.row(switch.table, switch.row)

    def judged(self, target: Target, name: str, value: str, row: Row) -> tuple[Grade, Message]:
        """Return how sure what is written is, and what is said."""
        raise NotImplementedError


def plain(name: str, value: str, target: Target) -> dict[str, object]:
    """Return what every message of these rules names."""
    return {"name": name, "value": value, "target": target.title}


def _asks(switch: CudaSetting, value: object) -> bool:
    return (switch.on and value is True) or (isinstance(value, str) and value in switch.values)


def _asks_text(switch: CudaSetting, value: str) -> bool:
    return (switch.on and value.lower() in _ON) or value in switch.values


def _options_of(command: Command) -> Iterator[tuple[str, str, int, int]]:
    """Yield the options of a command: name, value (empty for none), and the span of the value or of the option."""
    words = command.words
    for index, word in enumerate(words):
        before, equals, value = word.text.partition("=")
        name = before.lstrip("-+").replace("-", "_").rpartition(".")[2]
        if equals:
            stripped = value.strip("\"'")
            at = word.start + len(before) + 1 + value.find(stripped)
            yield name, stripped, at, at + len(stripped)
        elif word.text.startswith("--"):
            following = words[index + 1] if index + 1 < len(words) else None
            if following is None or following.text.startswith("-"):
                yield name, "", word.start, word.end
            else:
                stripped = following.text.strip("\"'")
                at = following.start + following.text.find(stripped)
                if stripped.lower() in _ON or not stripped.startswith(("$", "/")):
                    yield name, stripped, at, at + len(stripped)
