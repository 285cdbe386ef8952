"""A device or a collective backend on a command line: `--device cuda:0`, `--dist-backend nccl`, `DEVICE=cuda`.

The program's own code names the target's device after the migration, so the scripts that start it must too. An option
or a variable counts when its name says that it takes a device (`--device`, `--map-location`, `trainer.device=`) or a
backend, or where a program of the project uses it so, whatever it is called; what such a variable is compared with
changes with it, unless it is compared with the target's device too. A word that a program of Python is given before
any option, `python train.py cuda`, is likely one: read it first.

Why: The script passes a CUDA device to a migrated program, which then fails.

References:
- page migrating
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS
from torchferry.rules.distributed.composite_backend import one_backend_alone
from torchferry.rules.family import Portability, UnderRedirect
from torchferry.rules.shell.places import COMPARED, GIVEN, OPTION, POSITIONAL, ShellValue, places
from torchferry.rules.shell.program_options import takes
from torchferry.source.flow.trace import TraceResult
from torchferry.source.kinds import Kind
from torchferry.source.lexicon import COLLECTIVE_SPELLING, COMPOSITE_SPELLING, lexicon

_DEVICE = lazy_regex(r"\^?(?P<word>cuda)(?::(?:\d+|%[sd]|\*|\$\w+|\$\{[^{}]*\}|\$\([^()]*\)|\{[^{}]*\})?|\*)?\$?\Z")
"""A device as a command line spells it: `cuda`, `cuda:0`, `cuda:$RANK`, and the patterns `cuda*`, `^cuda`."""

_VARIABLE = lazy_regex(r"[\"']?\$\{?(?P<name>\w+)(?::?-[^{}]*)?\}?[\"']?\Z")
"""A value that a variable alone gives: `$CARD`, `${CARD:-cuda}`."""


class DeviceOption(Rule):
    """Finds options and variables of command lines whose value is a CUDA device or NCCL."""

    CODE = "SHL101"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.NOTHING
    PORTABILITY = Portability.DECIDES
    WORDS = ("cuda", "nccl", "NCCL")
    KINDS = (*JOB_KINDS, Kind.JSON)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each value, once."""
        by_start: dict[int, tuple[ShellValue, Edit]] = {}
        own = (context.target.backend.DEVICE_TYPE, context.target.backend.COLLECTIVE)
        branches: set[str] = set()  # variables that are compared with the target's device or library already
        spoken = [_as_read(context, place) for place in places(context)]
        handed = {match["name"]: role for each in spoken if (role := _role(each))
                  if (match := _VARIABLE.match(each.value)) is not None}  # fmt: skip
        for each in spoken:
            place = each._replace(role=each.role or handed.get(each.name, "")) if each.how is GIVEN else each
            if place.how is COMPARED and place.value.startswith(own):
                branches.add(place.name)
            edit = _edit(context, place)
            if edit is not None:
                by_start.setdefault(edit.start, (place, edit))
        given = {place.name for place, _ in by_start.values() if place.how not in (OPTION, COMPARED, POSITIONAL)}
        for start in sorted(by_start):
            place, edit = by_start[start]
            if place.how is COMPARED and place.name in branches:
                reason = say("there is already a branch for {target}", target=context.target.title)
                message = say("`{found}` is left as it is: {reason}", found=place.value, reason=reason)
                span = (place.start, place.start + len(place.value))
                yield self.finding(context, span, message, Grade.NOTE, effect=Effect.NOTHING)
            else:
                yield from self._report(context, place, edit, place.name in given)

    def _report(self, context: Context, place: ShellValue, edit: Edit, given: bool) -> Iterable[Finding]:
        backend = context.target.backend
        span = (place.start, place.start + len(place.value))
        at = edit.start - place.start
        use = place.value[:at] + edit.text + place.value[at + edit.end - edit.start :]
        values = {"name": place.name, "value": place.value, "target": context.target.title, "use": use}
        if place.how is COMPARED:
            message = say("variable `{name}` is compared with `{value}`; on {target} it is `{use}`", **values)
            yield self.finding(context, span, message, Grade.SAFE if given else Grade.UNSAFE, [edit])
            return
        if place.how is POSITIONAL:
            message = say(
                "`{text}` may be a device ({reason}); if it is, it must be `{device}` on {target}",
                text=place.value,
                reason=say("argument of `{name}`", name=place.name),
                device=use,
                target=context.target.title,
            )
            yield self.finding(context, span, message, Grade.UNSAFE, [edit], effect=Effect.UNKNOWN)
            return
        if COMPOSITE_SPELLING.match(place.value):
            if backend.COMPOSITE_COLLECTIVE is False:
                yield self.finding(context, span, one_backend_alone(context.target), Grade.MANUAL)
                return
            grade = Grade.SAFE if backend.COMPOSITE_COLLECTIVE is True else Grade.UNSAFE
        else:
            grade = Grade.SAFE
        if place.how is OPTION:
            message = say("option `{name}` is `{value}`; on {target} it is `{use}`", **values)
        else:
            message = say("variable `{name}` is set to `{value}`; on {target} it is `{use}`", **values)
        yield self.finding(context, span, message, grade, [edit])


def _as_read(context: Context, place: ShellValue) -> ShellValue:
    """Return an option whose name says nothing as the programs of the project read it: `--card cuda` is a device."""
    backend = context.target.backend
    kinds = (lexicon("device", backend.DEVICE_TYPE), lexicon("collective", backend.COLLECTIVE))
    if place.how is not OPTION or context.project is None or any(kind.names(place.name) for kind in kinds):
        return place
    for kind, spelling in zip(kinds, (_DEVICE, COLLECTIVE_SPELLING), strict=True):
        if spelling.match(place.value) or _VARIABLE.match(place.value):
            result = takes(context.project, kind, place.name)
            if result is not TraceResult.NO:
                return place._replace(role=kind.role, how=OPTION if result is TraceResult.YES else POSITIONAL)
    return place


def _role(place: ShellValue) -> str:
    """Return what an option takes, by its name or as programs read it: a device or a collective backend."""
    if place.how is not OPTION:
        return ""
    return place.role or next((role for role in ("device", "collective") if lexicon(role).names(place.name)), "")


def _edit(context: Context, place: ShellValue) -> Edit | None:
    """Return what to write at a place that names a CUDA device or NCCL; None for another one."""
    backend = context.target.backend
    is_device = place.role == "device" or lexicon("device").names(place.name)
    is_collective = place.role == "collective" or lexicon("collective").names(place.name)
    match = _DEVICE.match(place.value) if is_device else None
    if match is not None:
        at = place.start + match.start("word")
        return Edit(at, at + len(cuda.DEVICE_TYPE), backend.DEVICE_TYPE)
    if is_collective and COLLECTIVE_SPELLING.match(place.value):
        use = backend.COLLECTIVE.upper() if place.value.isupper() else backend.COLLECTIVE
        return Edit(place.start, place.start + len(place.value), use)
    if is_collective and COMPOSITE_SPELLING.match(place.value):
        at = place.start + place.value.index("cuda:nccl")
        return Edit(at, at + len("cuda:nccl"), f"{backend.DEVICE_TYPE}:{backend.COLLECTIVE}")
    return None
