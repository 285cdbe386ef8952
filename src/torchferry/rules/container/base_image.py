"""An image of CUDA that a container is built or started from: `FROM nvcr.io/nvidia/pytorch:22.10-py3`.

It brings CUDA, cuDNN and a torch built for them, and none of the vendor's toolkit. The vendor has images of its own;
their tags name the toolkit and often the card, so which one is yours to choose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Rule
from torchferry.rules.commands import commands_of
from torchferry.source.dockerfile import instructions
from torchferry.source.kinds import Kind
from torchferry.source.settings import settings

_IMAGE = re.compile(r"(?P<name>[a-z0-9][\w./-]*?(?::\d+/[\w./-]+?)?)(?::(?P<tag>[\w.${}-]+))?(?:@sha256:\w+)?\Z")
_FROM = re.compile(r"(?:--platform=\S+[ \t]+)?(?P<image>\S+)")
_DEFAULT = re.compile(r"\w+=(?P<image>[\"']?[\w./:@${}-]+)")


class BaseImage(Rule):
    """Finds images of CUDA."""

    CODE = "CNT101"
    CHINESE = """构建或启动容器所用的 CUDA 镜像：`FROM nvcr.io/nvidia/pytorch:22.10-py3`。

它带有 CUDA、cuDNN 和为其构建的 torch，却没有厂商的工具包。厂商有自己的镜像，标签含工具包版本，往往还含卡型号，
选哪一个由您决定。
"""
    WORDS = ("nvidia", "cuda", "pytorch/pytorch", "gpu")
    KINDS = (Kind.DOCKERFILE, Kind.COMPOSE, Kind.SHELL, Kind.MAKEFILE)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each image."""
        for start, end in sorted(set(self._images(context))):
            match = _IMAGE.match(context.text[start:end])
            if match is None:
                continue
            name = match["name"].removeprefix("docker.io/")
            known = name in cuda.groups("images")["base"].names
            if not known and not re.search(r"cuda|nvidia", match.group(), re.IGNORECASE):
                continue
            yield self._report(context, (start, end), name, match.group())

    def _report(self, context: Context, span: tuple[int, int], name: str, found: str) -> Finding:
        row = context.target.row("images", name)
        target = context.target.title
        if row.use:
            message = say("`{found}` is an image for CUDA; for {target} start from `{use}`", found=found, target=target,
                          use=row.use)  # fmt: skip
        else:
            message = say(
                "`{found}` is an image for CUDA; start from the image of {target}", found=found, target=target
            )
        return self.finding(context, span, noted(message, row.remark if row.use else None), Grade.MANUAL)

    def _images(self, context: Context) -> Iterator[tuple[int, int]]:
        text = context.text
        if context.kind is Kind.COMPOSE:
            for setting in settings(context.kind, text):
                if setting.key == "image" or (setting.key.isupper() and "args" in setting.path):
                    yield setting.start, setting.end
            return
        if context.kind is Kind.DOCKERFILE:
            for instruction in instructions(text):
                pattern = {"FROM": _FROM, "ARG": _DEFAULT}.get(instruction.keyword)
                match = pattern.match(text, instruction.start, instruction.end) if pattern is not None else None
                if match is not None:
                    yield match.span("image")
        for command in commands_of(context):
            names = [word.value for word in command.words]
            if {"docker", "podman", "nvidia-docker"} & set(names[:2]) and {"run", "pull"} & set(names):
                for word in command.words:
                    if "/" in word.text and not word.text.startswith(("-", "/", ".", "$", '"', "'")):
                        if _IMAGE.match(word.text) and "=" not in word.text:
                            yield word.start, word.end
