"""A CUDA device in a configuration file: `device: cuda`, `"map_location": "cuda:0"`.

The program reads it and requests a device that the target does not have. A key counts if its name says that it
contains a device. Numbers and lists of numbers stay, because they are indices on every target. `device: CUDA` is a fix
to read: the code may compare it in small letters.

Why: The configuration still requests CUDA after the code was migrated, so the program fails at its start.

References:
- page configuration
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import is_of_service, words_of_options
from torchferry.rules.family import UnderRedirect
from torchferry.source.kinds import SETTINGS
from torchferry.source.lexicon import DEVICE_SPELLING, OTHER_DEVICES, lexicon
from torchferry.source.settings import Setting, settings

_KEY = lazy_regex(r"(?m)(?P<before>^[ \t]*\{?|[{,][ \t]*)([\"']?)(?P<key>[a-z]{2,8})\2[ \t]*:(?=[ \t\r\n{\[]|$)")

_IN_CAPITALS = lazy_regex(r"(?:CUDA|Cuda)(?::\d{1,3})?\Z")
"""A device that the code reads in small letters, or as the name of an enumeration."""

CONFIG_KINDS = SETTINGS
"""Kinds of file that hold a program's settings."""


def settings_of_program(context: Context) -> Iterator[Setting]:
    """Yield the settings of a configuration file, read once for all rules.

    None of one that a service reads, such as those in `.github/workflows`.
    """
    if context.settings is None:
        context.settings = () if is_of_service(context.path) else tuple(settings(context.kind, context.text))
    yield from context.settings


def _keys_of_cuda(text: str, own: str) -> Iterator[tuple[int, int]]:
    """Yield the keys of YAML and JSON that are CUDA's word beside the words of other devices."""
    by_place: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}
    for match in _KEY.finditer(text):
        before = match["before"]
        is_first = not before.strip() and (match.start() == 0 or text[match.start() - 1] == "\n")
        place = ("column", len(before)) if is_first else ("line", text.count("\n", 0, match.start()))
        if match["key"] in (cuda.DEVICE_TYPE, own) or match["key"] in OTHER_DEVICES:
            by_place.setdefault(place, {})[match["key"]] = match.span("key")
    for keys in by_place.values():
        if cuda.DEVICE_TYPE in keys and len(keys) > 1 and own not in keys:
            yield keys[cuda.DEVICE_TYPE]


class DeviceSetting(Rule):
    """Finds CUDA devices in configuration files."""

    CODE = "CFG101"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.NOTHING
    WORDS = ("cuda", "CUDA", "Cuda")
    KINDS = CONFIG_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each setting: safe where the key speaks of a device, else unsafe; and for keys."""
        device = context.target.backend.DEVICE_TYPE
        for start, end in () if is_of_service(context.path) else _keys_of_cuda(context.text, device):
            message = say(
                "`{text}` may be a device ({reason}); if it is, it must be `{device}` on {target}",
                text=context.text[start:end],
                reason=say("a key"),
                device=device,
                target=context.target.title,
            )
            edits = [Edit(start, end, device)]
            yield self.finding(context, (start, end), message, Grade.UNSAFE, edits, effect=Effect.UNKNOWN)
        for setting in settings_of_program(context):
            names_device = lexicon("device").names(setting.key)
            is_capital = names_device and _IN_CAPITALS.match(setting.value) is not None
            if not is_capital and not DEVICE_SPELLING.match(setting.value):
                continue
            if lexicon("device").names(words_of_options(context).get(setting.start, "")):
                continue  # SHL101
            word = device
            if is_capital:
                word = device.upper() if setting.value.isupper() else device.capitalize()
            message = say(
                "setting `{key}` is the device `{value}`; on {target} it is `{use}`",
                key=setting.key or "-",
                value=setting.value,
                target=context.target.title,
                use=word + setting.value[len(cuda.DEVICE_TYPE) :],
            )
            edit = Edit(setting.start, setting.start + len(cuda.DEVICE_TYPE), word)
            grade = Grade.SAFE if names_device and not is_capital else Grade.UNSAFE
            yield self.finding(context, (setting.start, setting.end), message, grade, [edit])
