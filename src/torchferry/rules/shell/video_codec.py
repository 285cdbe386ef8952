"""A decoder, filter or encoder of NVIDIA in FFmpeg: `-hwaccel cuda`, `-c:v h264_nvenc`, `codec="h264_nvenc"`.

FFmpeg stops with an error where there is no NVIDIA card. The CPU decodes if no decoder is named, and `libx264` or
`libx265` encode there: slower, with options of their own, and with another picture at the same settings.

Why: FFmpeg stops with an error, so the program cannot read or write video.

References:
- table frameworks
- FFmpeg: libavcodec/allcodecs.c; ffmpeg-codecs documentation (libx264, libx265, libsvtav1); h264 and hevc are decoded
  on the CPU when no decoder is named
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, PythonContext, Rule
from torchferry.rules.commands import JOB_KINDS, commands_of, prints_text
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import string_value
from torchferry.source.kinds import Kind

_HWACCEL = "ffmpeg.hwaccel."


@lru_cache(maxsize=1)
def _rows() -> dict[str, str]:
    """Return the rows of `frameworks.toml` by the names that FFmpeg knows, but for those of `-hwaccel`."""
    names = cuda.groups("frameworks")["video"].names
    return {name.rpartition(".")[2]: name for name in names if not name.startswith(_HWACCEL)}


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    accelerators = "|".join(
        sorted(
            name.removeprefix(_HWACCEL)
            for name in cuda.groups("frameworks")["video"].names
            if name.startswith(_HWACCEL)
        )
    )
    return re.compile(
        rf"(?<![\w.-])(?:(?P<name>{'|'.join(sorted(_rows()))})(?![\w.-])|-hwaccel\s+(?P<hwaccel>{accelerators})(?!\w))"
    )


class VideoCodec(Rule):
    """Finds parts of FFmpeg that need an NVIDIA card."""

    CODE = "SHL106"
    EFFECT = Effect.RAISES
    WORDS = (
        "_nvenc",
        "nvenc_",
        "_cuvid",
        "hwaccel",
        "scale_npp",
        "scale_cuda",
        "overlay_cuda",
        "yadif_cuda",
        "hwupload_cuda",
    )
    KINDS = (Kind.PYTHON, *JOB_KINDS)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each in a command line."""
        seen: set[int] = set()
        for command in commands_of(context):
            if prints_text(command) or not command.words:
                continue
            for match in _pattern().finditer(context.text, command.words[0].start, command.words[-1].end):
                if match.start() not in seen:
                    seen.add(match.start())
                    yield self._report(context, match)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each in a string, or in two strings of a list beside each other."""
        for node in context.file.strings:
            value = str(node.value)
            if not any(word in value for word in self.WORDS) or is_text(context, node):
                continue
            if exemption_reason(context, node) is not None:
                continue
            if value == "-hwaccel":
                yield from self._of_list(context, node)
                continue
            start, end = context.file.literal_span(node)
            for match in _pattern().finditer(context.text, start, end):
                yield self._report(context, match)
        for keyword in context.file.keywords.get("hwaccel", ()):
            yield from self._accelerator(context, keyword.value)

    def _of_list(self, context: PythonContext, node: ast.Constant) -> Iterable[Finding]:
        items = context.file.parents.get(node)
        if isinstance(items, (ast.List, ast.Tuple)):
            following = items.elts[items.elts.index(node) + 1 :][:1]
            if following:
                yield from self._accelerator(context, following[0])

    def _accelerator(self, context: PythonContext, value: ast.expr) -> Iterable[Finding]:
        name = f"{_HWACCEL}{string_value(value)}"
        if name in cuda.groups("frameworks")["video"].names:
            row = context.target.row("frameworks", name)
            message = say(
                "`{name}` is FFmpeg's for NVIDIA cards; {target} has no counterpart",
                name=f"-hwaccel {string_value(value)}",
                target=context.target.title,
            )
            yield self.finding(context, context.file.span(value), noted(message, row.remark), Grade.MANUAL)

    def _report(self, context: Context, match: re.Match[str]) -> Finding:
        name = match["name"]
        row = context.target.row("frameworks", _rows()[name] if name else _HWACCEL + match["hwaccel"])
        if name and row.status in REWRITTEN and row.use:
            message = say(
                "`{name}` is FFmpeg's for NVIDIA cards; on {target} write `{use}`",
                name=name,
                target=context.target.title,
                use=row.use,
            )
            edit = Edit(*match.span("name"), row.use)
            return self.finding(context, match.span(), noted(message, row.remark), Grade.UNSAFE, [edit])
        message = say(
            "`{name}` is FFmpeg's for NVIDIA cards; {target} has no counterpart",
            name=match.group(),
            target=context.target.title,
        )
        return self.finding(context, match.span(), noted(message, row.remark), Grade.MANUAL)
