"""An environment variable of CUDA in a script, a Makefile, a Dockerfile, a compose file or a `.env` file.

`export CUDA_VISIBLE_DEVICES=0,1`, `CUDA_VISIBLE_DEVICES=0 python train.py`, `${CUDA_VISIBLE_DEVICES:-0}`, `-e NAME=`,
`ENV NAME=`: the program on the target does not read it, and takes card 0 of everybody else. Text that is printed stays,
as do comments; a variable inside printed text is a variable. A value that hides every card is left to you, for under
the new name it would hide the target's; so is one that the target's variable refuses, such as cards out of order.
Where a file sets the target's variable itself, the one of CUDA stays.

Why: The program does not read the variable on the target and may use cards of other people.

References:
- table env
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, heredocs_of, is_of_service, prints_text
from torchferry.rules.environment.variables import VariableReplacement, replacement_of_any
from torchferry.source.dockerfile import docker_variables, instructions
from torchferry.source.inner_commands import TEXT_NAME
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings
from torchferry.source.shell import Command, Word
from torchferry.source.shell_variables import ShellVariables

_NAME = lazy_regex(
    r"(?<![A-Za-z0-9_])(?:TORCH_)?(?:CUDA|CUDNN|CUBLAS|NCCL|NVIDIA|PYTORCH_CUDA|PYTORCH_NO_CUDA)_[A-Z0-9_]+"
    r"|(?<![A-Za-z0-9_])DIFFUSERS_ATT(?:N_BACKEND|ENTION_TYPE)(?!\w)"
)
_DECLARES = frozenset(
    {
        "export", "unset", "declare", "readonly", "local", "typeset", "env", "set", "setenv", "printenv", "%env",
        "read", "mapfile", "readarray",
    }
)  # fmt: skip
_PASSES = frozenset({"-e", "--env", "-x", "-v", "-u", "-genv"})
_LISTED = lazy_regex(r"(?:--export=|--env=|--preserve-env=|.*,)\Z")
_HOLDS = lazy_regex(r"(?P<name>[A-Za-z_]\w*)(?:\+|[:?!]|::)?=[\"']?(?P<before>[^\"'\s]*)\Z")
"""How a word begins that gives a variable of the shell the text which is looked at: `arg="CUDA_VISIBLE_DEVICES=0"`."""
_ASSIGNS = lazy_regex(
    r"(?:[ \t]+(?:\+|[:?!]|::)?=[ \t]*|(?:\+|[:?!]|::)?=)(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|\"']*)"
)
_DIRECTIVE = lazy_regex(r"^#(?:SBATCH|PBS|BSUB|\$)[ \t][^\n]*", re.MULTILINE)
"""What a scheduler reads in a script: `#SBATCH --export=ALL,CUDA_VISIBLE_DEVICES=0`."""

_NEXT = lazy_regex(r",(?=[A-Za-z_])(?!(?:GPU|MIG)-)")
_SETTINGS = lazy_regex(r"[a-z]\w*:")
"""How a list of settings begins: `max_split_size_mb:128,backend:native`."""
_USED = lazy_regex(r"\$\{?(?P<name>" + _NAME.pattern + ")")
_LONGEST = 24
"""So many characters before a name are looked at to see what it is."""


class VariablePlace(NamedTuple):
    """Where a variable stands.

    Attributes:
        start: Where its name begins.
        end: Where its name ends.
        value: The value that it is given there; None where it is given none.
        is_kept: Whether what follows in the file has that value too, and not one command alone.
    """

    start: int
    end: int
    value: str | None = None
    is_kept: bool = False


class ShellEnvironment(Rule):
    """Finds environment variables of CUDA where commands are written."""

    CODE = "ENV102"
    EFFECT = Effect.WRONG
    ANSWERS = (say("use the target's variable"), say("leave the variable out"))
    NEEDS_COUNTERPART = True
    WORDS = ("CUDA_", "NCCL_", "NVIDIA_", "CUDNN_", "CUBLAS_", "DIFFUSERS_ATT")
    KINDS = (*JOB_KINDS, Kind.JSON, Kind.TOML, Kind.INI)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each place, once."""
        places: dict[int, VariablePlace] = {}
        named: dict[str, bool] = {}  # a name of the target's -> whether the file has it
        for place in self._places(context):
            if place.start not in places or places[place.start].value is None:
                places[place.start] = place
        texts = _texts(context, places)
        instead: dict[int, VariableReplacement] = {}
        for start in sorted(places):
            place = places[start]
            values = () if place.value is None else (place.value, *filter(str.strip, texts.get(start, ())))
            answer = replacement_of_any(context.target, context.text[start : place.end], values)
            if answer is not None:
                instead[start] = answer
        keeping = {
            context.text[start : places[start].end]
            for start, each in instead.items()
            if each.is_outside and places[start].is_kept
        }
        for start, each in instead.items():
            yield from self._report(context, places[start], each, named, keeping)

    def _report(
        self,
        context: Context,
        place: VariablePlace,
        instead: VariableReplacement,
        named: dict[str, bool],
        keeping: set[str],
    ) -> Iterable[Finding]:
        start, end, value, is_kept = place
        name = context.text[start:end]
        # what is read of a variable that keeps its name is read under that name
        group = name if instead.is_outside and is_kept else ""
        needs = () if value is not None else (name,)
        if instead.use not in named:
            named[instead.use] = re.search(rf"(?<!\w){re.escape(instead.use)}(?!\w)", context.text) is not None
        is_device_list = bool(instead.use) and name.endswith("_VISIBLE_DEVICES")
        if is_device_list and named[instead.use] and not (needs and name in keeping):
            reason = say("the file already names `{use}`", use=instead.use)
            message = say("`{found}` is left as it is: {reason}", found=name, reason=reason)
            yield self.finding(context, (start, end), message, Grade.NOTE, effect=Effect.NOTHING)
            return
        edits = [Edit(start, end, instead.use)] if instead.use else []
        effect = self.EFFECT if is_device_list else instead.effect
        span = (start, end)
        yield self.finding(
            context, span, instead.message, instead.grade, edits, effect=effect, group=group, needs=needs
        )

    def _places(self, context: Context) -> Iterator[VariablePlace]:
        text = context.text
        for command in () if context.kind in (Kind.INI, Kind.TOML) else commands_of(context):
            words = (*command.assignments, *command.words)
            for word, previous in zip(words, ("", *(word.text for word in words)), strict=False):
                for match in _NAME.finditer(text, word.start, word.end):
                    if self._is_variable(text, command, word, previous, match):
                        is_kept = command.program in _DECLARES if command.words else True
                        yield _place(text, match)._replace(is_kept=is_kept)
        for directive in _DIRECTIVE.finditer(text):  # comments to the shell
            for match in _NAME.finditer(text, *directive.span()):
                yield _place(text, match)
        for heredoc in heredocs_of(context):
            if heredoc.expands:
                yield from _used(text, heredoc.start, heredoc.end)
        if context.kind is Kind.DOCKERFILE:
            for instruction in instructions(text):
                if instruction.keyword in ("ENV", "ARG"):
                    for match in _NAME.finditer(text, instruction.start, instruction.end):
                        before = text[max(instruction.start, match.start() - _LONGEST) : match.start()].strip()
                        if not before or before[-1] in "\\${" or _ASSIGNS.match(text, match.end()):
                            place = _place(text, match)
                            if place.value is None and not before and instruction.keyword == "ENV":  # ENV NAME value
                                place = place._replace(value=text[match.end() : instruction.end].strip() or None)
                            yield place._replace(is_kept=True)
        elif context.kind is Kind.INI:
            yield from self._ini(context)
        elif context.kind in (Kind.COMPOSE, Kind.YAML, Kind.JSON, Kind.TOML) and not is_of_service(context.path):
            yield from self._yaml(context)

    def _is_variable(self, text: str, command: Command, word: Word, previous: str, match: re.Match[str]) -> bool:
        """Whether a name in a word of a command, behind the word `previous`, is a variable's and no text."""
        holds = _HOLDS.match(text[word.start : match.start()])
        if holds is not None and not TEXT_NAME.search(holds["name"]):
            if not holds["before"] and match.end() >= word.end - 1:
                return True  # the name alone: `name=CUDA_VISIBLE_DEVICES`, for `export "$name"`
            before = holds["before"]
        else:
            before = text[max(word.start, match.start() - _LONGEST) : match.start()]
        if before.endswith(("$", "${", "$(", "$${", "${!", "${#")):
            return True
        if before.endswith("[") and text.startswith("]", match.end()):
            return True  # `declare -A ENVS=([NAME]=0)`, `${ENVS[NAME]}`
        whole = match.end() >= word.end - 1
        if prints_text(command):
            return whole and previous == "-v"  # printf -v NAME
        if whole and command.program == "for":
            return word.start > command.words[min(2, len(command.words) - 1)].start
        listed = before.strip("\"'")
        if listed.endswith("env="):
            return True  # --env=NAME, sudo --preserve-env=NAME
        if listed not in ("", "-e", "--env=", "-D", "-x", "@", "-") and not _LISTED.match(listed):
            return False
        if _ASSIGNS.match(text, match.end(), len(text) if not previous else word.end):  # NAME=value, NAME ?= value
            return True
        return whole and (command.program in _DECLARES or previous in _PASSES)

    def _ini(self, context: Context) -> Iterator[VariablePlace]:
        """Yield the variables of `.env`, of tox, and those that supervisord sets: `environment=NAME="0",OTHER=1`."""
        text = context.text
        for setting in settings(context.kind, text):
            if _NAME.fullmatch(setting.key):
                at = text.rfind(setting.key, 0, setting.start)
                yield VariablePlace(at, at + len(setting.key), setting.value, is_kept=True)
            elif setting.key.lower() in ("env", "environment", "passenv", "pass_env"):
                for match in _NAME.finditer(text, setting.start, setting.end):
                    yield _place(text, match)

    def _yaml(self, context: Context) -> Iterator[VariablePlace]:
        text = context.text
        for setting in settings(context.kind, text):
            environment = any(key in _ENVIRONMENTS for key in setting.path[:-1])
            match = _NAME.match(setting.value)
            if setting.key in ("environment", "env") and match is not None:  # - NAME=value
                _, equals, value = setting.value[match.end() :].partition("=")
                yield VariablePlace(setting.start, setting.start + match.end(), value if equals else None)
            elif environment and setting.key == "name" and match is not None:  # - {name: NAME, value: value}
                yield VariablePlace(setting.start, setting.start + match.end())
            elif environment and _NAME.fullmatch(setting.key):
                at = text.rfind(setting.key, 0, setting.start)
                yield VariablePlace(at, at + len(setting.key), setting.value)
            yield from _used(text, setting.start, setting.end)


_ENVIRONMENTS = frozenset({"environment", "env", "envs", "env_vars", "variables", "args"})


def _place(text: str, match: re.Match[str]) -> VariablePlace:
    """Return the place of a name with the value that is assigned to it."""
    assigned = _ASSIGNS.match(text, match.end())
    if assigned is None:
        return VariablePlace(match.start(), match.end())
    value = assigned["value"].strip("\"'")
    if not _SETTINGS.match(value):
        value = _NEXT.split(value, maxsplit=1)[0]  # NAME=0,OTHER=1
    return VariablePlace(match.start(), match.end(), value.strip())


def _start(command: Command) -> int:
    return (*command.assignments, *command.words)[0].start


def _texts(context: Context, places: dict[int, VariablePlace]) -> dict[int, tuple[str, ...]]:
    """Return what the values may be that are written with variables of the script: `gpus=1,0` is `$gpus` below it."""
    if context.kind not in (Kind.SHELL, Kind.MAKEFILE, Kind.DOCKERFILE):
        return {}
    waiting = sorted((place.start, place.value) for place in places.values() if place.value and "$" in place.value)
    if not waiting:
        return {}
    written = sorted(commands_of(context), key=_start)
    starts = [_start(command) for command in written]
    variables = ShellVariables(context.text, context.kind is Kind.MAKEFILE, written)
    of_image = deque(docker_variables(context.text) if context.kind is Kind.DOCKERFILE else ())
    texts: dict[int, tuple[str, ...]] = {}
    at = 0
    for start, value in waiting:
        while of_image and of_image[0][0] < start:
            _, name, text, is_seen = of_image.popleft()
            variables.set(name, text, exports=is_seen)
        while at + 1 < len(starts) and starts[at + 1] <= start:
            variables.read(written[at])
            at += 1
        texts[start] = tuple(variables.texts_of(value))
    return texts


def _used(text: str, start: int, end: int) -> Iterator[VariablePlace]:
    for match in _USED.finditer(text, start, end):
        yield VariablePlace(*match.span("name"))
