"""A requirement for a CUDA build of torch: `torch==2.1.0+cu118`, an index of CUDA wheels, `pytorch-cuda=11.8`.

It installs gigabytes of CUDA libraries, and some plugins do not load with it. The target needs the CPU build of the
torch version that its plugin requires.

Why: The CUDA build has no support for the card, and some plugins do not load with it.

References:
- table versions
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, is_of_service
from torchferry.rules.dependencies.listed import LIST_KINDS
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings

_CHANNEL = lazy_regex(r"nvidia(?:/.*)?\Z")
"""The conda channel of CUDA's libraries, and its labels."""

_CONDA = frozenset({"conda", "mamba", "micromamba"})

_COMMENTED = lazy_regex(r"(?:^|[ \t])#")

_BUILD = lazy_regex(
    r"(?P<pin>(?<![/\w-])torch(?:vision|audio)?[ \t]*==[ \t]*(?P<version>[\d.]+)\+cu\d+)"
    r"|(?P<index>https?://[^\s\"']{0,500}(?:/cu\d{2,3}\b|torch-[\d.]+\+cu\d+)[^\s\"']*)"
)


class CudaBuild(Rule):
    """Finds pins and package indices of torch's CUDA builds."""

    CODE = "DEP102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("install the CPU build of torch with the plugin"),)
    WORDS = ("+cu", "/cu1", "/cu9", "/cu2", "nvidia")
    KINDS = (*LIST_KINDS, *JOB_KINDS)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each, comments left out."""
        if context.kind in (Kind.YAML, Kind.COMPOSE) and is_of_service(context.path):
            return  # its machines are not the target
        builds = "+cu" in context.text or "/cu" in context.text
        for match in _BUILD.finditer(context.text) if builds else ():
            line = context.text.rfind("\n", 0, match.start()) + 1
            if _COMMENTED.search(context.text[line : match.start()]) is not None:
                continue
            span = match.span()
            if match["index"]:
                yield self._source(context, span)
                continue
            row = context.target.row("versions", f"torch=={match['version']}")
            message = say("`{found}` is a CUDA build", found=match["pin"])
            if row.use:
                message = say(
                    "`{found}` is a CUDA build; on {target} use the CPU build with `{plugin}`",
                    found=match["pin"],
                    target=context.target.title,
                    plugin=row.use,
                )
            yield self.finding(context, span, noted(message, row.remark or context.target.install), Grade.MANUAL)
        for span in _channels(context):
            yield self._source(context, span)

    def _source(self, context: Context, span: tuple[int, int]) -> Finding:
        message = say(
            "`{found}` has CUDA builds; on {target} {install}",
            found=context.text[span[0] : span[1]],
            target=context.target.title,
            install=context.target.install,
        )
        return self.finding(context, span, message, Grade.MANUAL)


def _channels(context: Context) -> Iterator[tuple[int, int]]:
    """Yield where conda is told to look in NVIDIA's channel."""
    if context.kind is Kind.CONDA:
        for setting in settings(context.kind, context.text):
            if setting.key == "channels" and _CHANNEL.match(setting.value):
                yield setting.start, setting.end
    for command in commands_of(context) if context.kind in JOB_KINDS else ():
        if _CONDA.isdisjoint(word.value.rpartition("/")[2] for word in command.words[:3]):
            continue
        for option, word in zip(command.words, command.words[1:], strict=False):
            if option.value in ("-c", "--channel") and _CHANNEL.match(word.text):
                yield word.start, word.end
